"""A pod's assignment: entries in every shape ever written, put onto the containers that are meant, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.family import Family
from cardwise.core.model import CardAllocation, ContainerKind
from cardwise.wire.assignment import Entry, align, decode_assignment, encode_assignment
from cardwise.wire.errors import WireError
from cardwise.wire.families import HYGON, NVIDIA
from mutations import attempt, broken

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
ONES = "GPU-11111111-2222-3333-4444-555555555555"
FIRST, SECOND = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76", "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4"
MOST = 2**31 - 1


def given_card(uuid: str, memory_mib: int = 500, cores_percent: int = 3, family: Family = NVIDIA) -> CardAllocation:
    return CardAllocation(family=family.name, uuid=uuid, index=-1, memory_mib=memory_mib, cores_percent=cores_percent)


def refusal(text: str) -> str:
    with pytest.raises(WireError) as caught:
        decode_assignment(text, NVIDIA)
    return str(caught.value)


ONE = (given_card("UUID1", 1000, 30),)
TEXTS: dict[str, tuple[str, tuple[Entry, ...]]] = {
    "nothing": ("", ()),
    "blank": (" \n", ()),
    "one container, already served": (";", ((),)),
    "several containers, already served": (";;", ((), ())),
    "no card between the colons": (":::;", ((),)),
    "one card": ("UUID1,Type1,1000,30:;", (ONE,)),
    "one card, real model": ("UUID1,NVIDIA-NVIDIA A100-PCIE-40GB,1000,30:;", (ONE,)),
    "two containers on one card": ("UUID1,Type1,1000,30:;UUID1,Type1,1000,30:;", (ONE, ONE)),
    "two cards": ("UUID1,Type1,1000,30:UUID2,Type1,1000,30:;", ((*ONE, given_card("UUID2", 1000, 30)),)),
    "two containers": (f"{FIRST},NVIDIA,500,3:;{SECOND},NVIDIA,500,3:;", ((given_card(FIRST),), (given_card(SECOND),))),
    "two containers of the first releases": (
        "GPU-0fc3...,NVIDIA,3000,0:;GPU-0fc3...,NVIDIA,5000,0:;",
        ((given_card("GPU-0fc3...", 3000, 0),), (given_card("GPU-0fc3...", 5000, 0),)),
    ),
    "no semicolon at the end": (f"{ONES},NVIDIA,3000,0:", ((given_card(ONES, 3000, 0),),)),
    "fewer entries than containers": (f"{ONES},NVIDIA,4000,50:;", ((given_card(ONES, 4000, 50),),)),
    "for another node": ("GPU-a...,NVIDIA,4096,0:;", ((given_card("GPU-a...", 4096, 0),),)),
    "empty entries in front": (";;UUID1,NVIDIA,1000,30:;", ((), (), ONE)),
    "empty entries in the middle and at the end": (
        "UUID1,NVIDIA,1000,30:;;UUID1,NVIDIA,1000,30:;;",
        (ONE, (), ONE, ()),
    ),
    "empty device of an early release": ("UUID1,NVIDIA,1000,30:;,,0,0:;", (ONE, ())),
    "nothing asked of the card": ("GPU-zero,NVIDIA,0,0:", ((given_card("GPU-zero", 0, 0),),)),
    "more than four fields": ("UUID1,NVIDIA,1000,30,extra1,extra2:;", (ONE,)),
    "blanks around": ("\n UUID1,NVIDIA,1000,30: ; \n", (ONE,)),
    "a partition in the UUID": (f"{FIRST}[7-9],NVIDIA,500,3:;", ((given_card(f"{FIRST}[7-9]"),),)),
    "the most there can be": (f"UUID1,NVIDIA,{MOST},{MOST}:;", ((given_card("UUID1", MOST, MOST),),)),
}


@pytest.mark.parametrize(("text", "entries"), TEXTS.values(), ids=TEXTS)
def test_every_text_ever_written_is_read(text: str, entries: tuple[Entry, ...]) -> None:
    assert decode_assignment(text, NVIDIA) == entries


WHOLE = f"must be a whole number, 0 to {MOST}"
FOUR_FIELDS = "must be UUID, type, MiB and cores, with ',' between them"
FAULTS = {
    "three fields": ("uuid,type,100:;", f"entry 1 of 1, card 1 is uuid,type,100, {FOUR_FIELDS}"),
    "two fields": ("GPU-1,NVIDIA:;", f"entry 1 of 1, card 1 is GPU-1,NVIDIA, {FOUR_FIELDS}"),
    "one field": ("malformed_annotation:;", f"entry 1 of 1, card 1 is malformed_annotation, {FOUR_FIELDS}"),
    "garbage": ("garbage", f"entry 1 of 1, card 1 is garbage, {FOUR_FIELDS}"),
    "garbage after a card": ("GPU-1,NVIDIA,1000,10:x:;", f"entry 1 of 1, card 2 is x, {FOUR_FIELDS}"),
    "garbage before a card": ("x:GPU-1,NVIDIA,1000,10:;", f"entry 1 of 1, card 1 is x, {FOUR_FIELDS}"),
    "only a comma": (",", f"entry 1 of 1, card 1 is ,, {FOUR_FIELDS}"),
    "no UUID": (",NVIDIA,500,10:;", "entry 1 of 1, card 1: UUID is (empty), must be a card's UUID"),
    "UUID on two lines": ("GPU\n1,NVIDIA,500,10:;", "entry 1 of 1, card 1: UUID is GPU\\n1, must be a card's UUID"),
    "no type": ("GPU-1,,500,10:;", "entry 1 of 1, card 1: type is (empty), must be the vendor's word or a model"),
    "empty device that holds memory": (",,500,0:;", "entry 1 of 1, card 1: type is (empty), must be the vendor's word"),
    "negative memory": ("GPU-1,NVIDIA,-500,10:;", f"entry 1 of 1, card 1: memory is -500, {WHOLE}"),
    "negative cores": ("GPU-1,NVIDIA,500,10:;GPU-2,NVIDIA,500,-1:;", f"entry 2 of 2, card 1: cores is -1, {WHOLE}"),
    "negative in the second card": ("GPU-1,A,1,0:GPU-2,A,-100,0:;", f"entry 1 of 1, card 2: memory is -100, {WHOLE}"),
    "memory is no number": ("GPU-1,NVIDIA,invalid,10:;", f"entry 1 of 1, card 1: memory is invalid, {WHOLE}"),
    "cores are no number": ("GPU-1,NVIDIA,500,invalid:;", f"entry 1 of 1, card 1: cores is invalid, {WHOLE}"),
    "no memory": ("GPU-1,NVIDIA,,10:;", f"entry 1 of 1, card 1: memory is (empty), {WHOLE}"),
    "too much memory": ("GPU-1,NVIDIA,2147483648,10:;", f"entry 1 of 1, card 1: memory is 2147483648, {WHOLE}"),
    "far too many cores": (f"GPU-1,A,1,{'9' * 26}:;", f"entry 1 of 1, card 1: cores is {'9' * 26}, {WHOLE}"),
    "too long to read": (f"GPU-1,A,{'9' * 9999},1:;", f"entry 1 of 1, card 1: memory is {'9' * 77}..., {WHOLE}"),
}


@pytest.mark.parametrize(("text", "says"), FAULTS.values(), ids=FAULTS)
def test_a_text_that_cannot_be_meant_is_refused_with_entry_card_and_field(text: str, says: str) -> None:
    assert refusal(text).startswith(f"assignment, {says}")


def test_the_cards_are_of_the_family_whose_key_holds_the_text() -> None:
    text = "DCU-1,DCU,1000,30:;"
    entries = ((given_card("DCU-1", 1000, 30, HYGON),),)
    assert decode_assignment(text, HYGON) == entries
    assert encode_assignment(entries, HYGON) == text


WRITTEN: dict[str, tuple[tuple[Entry, ...], str]] = {
    "no container": ((), ""),
    "no card": (((),), ";"),
    "one card": ((ONE,), "UUID1,NVIDIA,1000,30:;"),
    "two cards": (((*ONE, given_card("UUID2", 1000, 30)),), "UUID1,NVIDIA,1000,30:UUID2,NVIDIA,1000,30:;"),
    "two containers": ((ONE, ONE), "UUID1,NVIDIA,1000,30:;UUID1,NVIDIA,1000,30:;"),
    "only the last container": (((), (), ONE), ";;UUID1,NVIDIA,1000,30:;"),
}


@pytest.mark.parametrize(("entries", "text"), WRITTEN.values(), ids=WRITTEN)
def test_every_container_has_its_segment(entries: tuple[Entry, ...], text: str) -> None:
    assert encode_assignment(entries, NVIDIA) == text


UNWRITABLE = {
    "comma in the UUID": (given_card("GPU,1"), "card GPU,1: UUID is GPU,1, must be a card's UUID"),
    "semicolon in the UUID": (given_card("GPU;1"), "card GPU;1: UUID is GPU;1, must be a card's UUID"),
    "no UUID": (given_card(""), "card \\(empty\\): UUID is \\(empty\\), must be a card's UUID"),
    "negative memory": (given_card("GPU-1", -1), f"card GPU-1: memory is -1, {WHOLE}"),
    "too many cores": (given_card("GPU-1", 1, 2**31), f"card GPU-1: cores is 2147483648, {WHOLE}"),
    "another family": (given_card("DCU-1", family=HYGON), "card DCU-1: family is hygon, must be nvidia"),
}


@pytest.mark.parametrize(("card", "says"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_could_not_be_read_back_is_not_written(card: CardAllocation, says: str) -> None:
    with pytest.raises(WireError, match=f"^assignment, entry 2 of 2, {says}"):
        encode_assignment([ONE, [card]], NVIDIA)


A, B, C = ((given_card(f"GPU-{name}"),) for name in "abc")
ALIGNED: dict[str, tuple[list[Entry], list[tuple[ContainerKind, bool]], list[Entry]]] = {
    "nothing on nothing": ([], [], []),
    "as many entries as containers": ([A, B], [(INIT, True), (APP, True)], [A, B]),
    "empty entries keep positions": ([(), A], [(APP, False), (APP, True)], [(), A]),
    "positions win over who asks": ([A, ()], [(APP, False), (APP, True)], [A, ()]),
    "two init containers that ask for nothing": ([A], [(INIT, False), (INIT, False), (APP, True)], [(), (), A]),
    "an app container that asks for nothing in front": ([A], [(APP, False), (APP, True)], [(), A]),
    "one that asks for nothing at the end": ([A], [(APP, True), (APP, False)], [A, ()]),
    "app containers first": ([A, B], [(INIT, True), (APP, True), (APP, True)], [(), A, B]),
    "init containers where the numbers match only then": (
        [A, B, C],
        [(INIT, True), (INIT, False), (SIDECAR, True), (APP, True)],
        [A, (), B, C],
    ),
    "more entries than containers": ([A, (), ()], [(APP, True), (APP, False)], [A, ()]),
    "fewer entries than containers, one of them empty": (
        [(), A],
        [(INIT, False), (APP, False), (APP, True)],
        [(), (), A],
    ),
    "only an init container asks": ([A], [(INIT, True), (APP, False)], [A, ()]),
    "no entry and nobody asks": ([], [(APP, False), (APP, False)], [(), ()]),
    "empty entries and nobody asks": ([(), ()], [(APP, False)], [()]),
}


@pytest.mark.parametrize(("entries", "containers", "expected"), ALIGNED.values(), ids=ALIGNED)
def test_entries_find_their_containers(
    entries: list[Entry], containers: list[tuple[ContainerKind, bool]], expected: list[Entry]
) -> None:
    kinds, asks = [kind for kind, _ in containers], [ask for _, ask in containers]
    assert align(entries, kinds, asks) == tuple(expected)


@pytest.mark.parametrize(
    "entries", [[], [A], [A, B, C, A], [A, (), ()]], ids=["none", "one", "too many", "too few with cards"]
)
def test_entries_that_fit_no_containers_are_refused_with_the_numbers(entries: list[Entry]) -> None:
    filled = sum(map(bool, entries))
    with pytest.raises(WireError) as caught:
        align(entries, [INIT, SIDECAR, APP, APP, APP], [False, True, False, True, True])
    assert str(caught.value) == (
        f"assignment: {len(entries)} entries, {filled} of them with cards, must be 5 (the containers), "
        "or 2 with cards (the app containers that ask), or 3 with cards (all that ask)"
    )


uuids = st.text(st.characters(codec="utf-8", exclude_characters=",:;", exclude_categories=["C", "Z"]), min_size=1)
cards = st.builds(given_card, uuids, st.integers(0, MOST), st.integers(0, MOST))
assignments = st.lists(st.lists(cards, max_size=3).map(tuple), max_size=4).map(tuple)


@given(assignments)
def test_an_assignment_that_was_written_is_given_back(entries: tuple[Entry, ...]) -> None:
    assert decode_assignment(encode_assignment(entries, NVIDIA), NVIDIA) == entries


@given(assignments)
def test_an_assignment_of_every_container_stays_where_it_was_written(entries: tuple[Entry, ...]) -> None:
    read = decode_assignment(encode_assignment(entries, NVIDIA), NVIDIA)
    assert align(read, [APP] * len(entries), [bool(entry) for entry in entries]) == entries


@given(assignments, st.integers(0, 3))
def test_entries_without_cards_may_be_left_out_or_stand_anywhere_else(entries: tuple[Entry, ...], more: int) -> None:
    kinds, asks = [APP] * len(entries), [bool(entry) for entry in entries]
    shifted: tuple[Entry, ...] = ((),) * (len(entries) + more - sum(asks)) + tuple(entry for entry in entries if entry)
    aligned = align(shifted, kinds, asks)
    assert aligned == (entries if more else shifted)


@given(broken([text for text, _ in TEXTS.values() if text]))
def test_any_text_is_an_assignment_that_can_be_written_again_or_a_wire_error(text: str) -> None:
    entries = attempt(lambda: decode_assignment(text, NVIDIA))
    if isinstance(entries, WireError):
        assert str(entries).startswith("assignment, entry ")
        return
    assert decode_assignment(encode_assignment(entries, NVIDIA), NVIDIA) == entries
