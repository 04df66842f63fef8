"""What a node registers: HAMi's values, odd cards left out with a sentence, and no write where nothing changed."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from agent.cards import found, found_card, links_between
from cardwise.agent.inventory import change, inventory, model_name, wanted
from cardwise.agent.probe import Found, FoundCard, Level
from cardwise.agent.sharing import Sharing
from cardwise.core.model import MOST, Card
from cardwise.wire import names
from cardwise.wire.families import NVIDIA

GOLDEN = Path(__file__).parent.parent / "golden" / "agent"


def cards(*given: FoundCard, **sharing: Any) -> list[Card]:
    return [each.card for each in inventory(found(*given), Sharing(**sharing)).cards]


def warnings(*given: FoundCard, **sharing: Any) -> tuple[str, ...]:
    return inventory(found(*given), Sharing(**sharing)).warnings


MODELS = {
    "begins with NVIDIA": ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
    "of an old driver": ("Tesla V100-PCIE-32GB", "NVIDIA-Tesla V100-PCIE-32GB"),
    "GeForce of an old driver": ("GeForce RTX 2080 Ti", "NVIDIA-GeForce RTX 2080 Ti"),
    "in small letters": ("nvidia T4", "NVIDIA-nvidia T4"),
    "without a blank": ("NVIDIAX", "NVIDIAX"),
    "virtual": ("GRID V100D-32Q", "NVIDIA-GRID V100D-32Q"),
    "two blanks": ("NVIDIA  A40", "NVIDIA  A40"),
    "a comma": ("NVIDIA A40, 48GB", "NVIDIA A40 48GB"),
    "all separators": ("Tesla:a;b,c", "NVIDIA-Tesla a b c"),
    "a line break": ("NVIDIA A40\n", "NVIDIA A40"),
}


@pytest.mark.parametrize(("raw", "registered"), MODELS.values(), ids=MODELS)
def test_models_are_named_as_hami_names_them(raw: str, registered: str) -> None:
    assert model_name(raw) == registered
    assert [card.model for card in cards(found_card(model=raw))] == [registered]


MEMORY = {
    "as found": (46068, {}, 46068),
    "scaled, as seen on nodes": (143771, {"memory_scaling": Fraction("1.8")}, 258787),
    "scaled downwards": (100, {"memory_scaling": Fraction("0.999")}, 99),
    "scaled without an error of binary fractions": (100, {"memory_scaling": Fraction("1.15")}, 115),
    "the host's": (None, {"unified_memory_mib": 65536}, 65536),
    "the host's, scaled": (None, {"unified_memory_mib": 1000, "memory_scaling": Fraction(2)}, 2000),
    "its own comes first": (46068, {"unified_memory_mib": 65536}, 46068),
    "none told": (0, {"unified_memory_mib": 65536}, 65536),
}


@pytest.mark.parametrize(("memory_mib", "sharing", "registered"), MEMORY.values(), ids=MEMORY)
def test_memory(memory_mib: int | None, sharing: dict[str, Any], registered: int) -> None:
    assert [card.memory_mib for card in cards(found_card(memory_mib=memory_mib), **sharing)] == [registered]


def test_slots_cores_and_mode() -> None:
    (card,) = cards(found_card(), slots_per_card=4, cores_scaling=Fraction("1.15"))
    assert (card.slots, card.cores_percent, card.mode, card.partitioned) == (4, 115, "hami-core", False)


def test_a_card_with_a_fault_is_registered_as_unhealthy() -> None:
    assert [card.healthy for card in cards(found_card(0, fault="XID 79"), found_card(1))] == [False, True]


LEFT_OUT = {
    "by number": (found_card(1), {"leave_out": frozenset((1,))}, ""),
    "by UUID": (found_card(1), {"leave_out": frozenset(("GPU-1",))}, ""),
    "asked for, and odd": (found_card(1, memory_mib=-1), {"leave_out": frozenset((1,))}, ""),
    "MIG": (found_card(1, mig=True), {}, "is in MIG mode, in which it cannot be shared by slots"),
    "the host's memory": (
        found_card(1, memory_mib=None),
        {},
        "has no memory of its own, and unifiedMemoryMib does not say how much of the host's it may use",
    ),
    "negative memory": (found_card(1, memory_mib=-5), {}, "tells of -5 MiB of memory"),
    "memory beyond all": (
        found_card(1, memory_mib=MOST),
        {"memory_scaling": Fraction(2)},
        f"has {2 * MOST} MiB of memory after scaling, must be 1 to {MOST}",
    ),
    "memory scaled away": (
        found_card(1, memory_mib=1),
        {"memory_scaling": Fraction("0.5")},
        f"has 0 MiB of memory after scaling, must be 1 to {MOST}",
    ),
    "no model": (found_card(1, model=" , "), {}, "tells no model"),
}


@pytest.mark.parametrize(("odd", "sharing", "why"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_card_that_cannot_be_registered_is_left_out_alone(odd: FoundCard, sharing: dict[str, Any], why: str) -> None:
    got = inventory(found(found_card(0, memory_mib=100), odd, found_card(2, memory_mib=100)), Sharing(**sharing))
    assert [each.card.uuid for each in got.cards] == ["GPU-0", "GPU-2"]
    assert [(each.found, each.why) for each in got.left_out] == [(odd, why)]
    assert got.warnings == ((f"card 1 (GPU-1) {why}: it is left out",) if why else ())
    assert got.card("GPU-0") is got.cards[0]
    assert got.card("GPU-1") is None


def test_the_first_of_two_cards_with_one_uuid_counts() -> None:
    given = (found_card(0, uuid="GPU-a"), found_card(1, uuid="GPU-b"), found_card(2, uuid="GPU-a"))
    assert [card.index for card in cards(*given)] == [0, 1]
    assert warnings(*given) == ("card 2 (GPU-a) has the UUID of card 0: it is left out",)


BAD_UUIDS = {
    "empty": ("", "json", "(empty)"),
    "a comma": ("GPU-a,b", "json", "GPU-a,b"),
    "a colon": ("GPU-a:b", "text", "GPU-a:b"),
    "a bracket, in the text form": ("[GPU-a", "text", "[GPU-a"),
}


@pytest.mark.parametrize(("uuid", "form", "shown"), BAD_UUIDS.values(), ids=BAD_UUIDS)
def test_a_uuid_that_no_register_can_hold_is_said(uuid: str, form: str, shown: str) -> None:
    given = (found_card(0), found_card(1, uuid=uuid))
    assert [card.uuid for card in cards(*given, register_format=form)] == ["GPU-0"]
    (sentence,) = warnings(*given, register_format=form)
    assert sentence.startswith(f"card 1 ({shown}) cannot be registered (register, card 1 of 1: id is {shown}, must be")


def test_a_number_below_zero_is_said() -> None:
    given = (replace(found_card(0), index=-1), found_card(1))
    assert [card.index for card in cards(*given)] == [1]
    assert warnings(*given) == (f"card -1 (GPU-0) has the number -1, must be 0 to {MOST}: it is left out",)


NUMA = {
    "told of all": ([0, 1], [0, 1], ()),
    "told of none": ([None, None], [0, 0], ("no NUMA node is told of 2 of 2 cards (0, 1): registered as on node 0",)),
    "told of some": ([1, None], [1, 0], ("no NUMA node is told of 1 of 2 cards (1): registered as on node 0",)),
    "below zero": ([1, -1], [1, 0], ("no NUMA node is told of 1 of 2 cards (1): registered as on node 0",)),
    "a single card": ([None], [0], ()),
}


@pytest.mark.parametrize(("told", "registered", "sentences"), NUMA.values(), ids=NUMA)
def test_numa_nodes(told: list[int | None], registered: list[int], sentences: tuple[str, ...]) -> None:
    given = [found_card(n, numa=numa) for n, numa in enumerate(told)]
    assert [card.numa for card in cards(*given)] == registered
    assert warnings(*given) == sentences


def test_a_model_that_had_to_be_changed_is_said() -> None:
    assert warnings(found_card(model="Tesla T4, 16GB")) == (
        "card 0 (GPU-0) has the model Tesla T4, 16GB: registered as NVIDIA-Tesla T4 16GB",
    )


def test_what_the_probe_said_is_passed_on() -> None:
    told = Found(cards=(found_card(0),), warnings=("card 1 does not answer",))
    assert inventory(told, Sharing()).warnings == ("card 1 does not answer",)


ORDERS = {
    "by bus id": ([(0, "0000:3b:00.0"), (1, "0000:0a:00.0")], [1, 0]),
    "the domain comes first": ([(0, "0001:00:00.0"), (1, "0000:ff:00.0")], [1, 0]),
    "by number where the bus id is one": ([(5, "0000:3b:00.0"), (2, "0000:3b:00.0")], [2, 5]),
    "without a bus id last": ([(0, ""), (1, "0000:3b:00.0")], [1, 0]),
}


@pytest.mark.parametrize(("given", "order"), ORDERS.values(), ids=ORDERS)
def test_cards_are_in_the_order_of_their_bus_ids(given: list[tuple[int, str]], order: list[int]) -> None:
    assert [card.index for card in cards(*(found_card(index, pci=pci) for index, pci in given))] == order


V100 = found_card(0, uuid="GPU-00552014", model="Tesla V100-PCIE-32GB", memory_mib=32768)
H20 = found_card(1, uuid="GPU-5d1c", model="NVIDIA H20-3e", memory_mib=143771, numa=1, fault="XID 79")
SCALED = Sharing(memory_scaling=Fraction("1.8"))
TEXTS = {
    "two-cards.json": SCALED,
    "two-cards.txt": replace(SCALED, register_format="text"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_register_is_the_golden_text(name: str) -> None:
    got = wanted(inventory(found(H20, V100), TEXTS[name]), version="1.2.3")
    assert got[NVIDIA.register_key] == (GOLDEN / name).read_text().rstrip("\n")
    assert got[names.NODE_AGENT] == "1.2.3"


def test_the_link_scores_are_the_golden_text() -> None:
    four = [(None, 0), (Level.SAME_CPU, 2), (Level.CROSS_CPU, 0), (Level.CROSS_CPU, 0)]
    rows = [four, [four[1], *four[:1], *four[2:]], [*four[2:], *four[:2]], [*four[2:], four[1], four[0]]]
    told = found(*map(found_card, range(4)), links=links_between(rows))
    text = wanted(inventory(told, Sharing()), version="1")[NVIDIA.links_key]
    assert text == (GOLDEN / "links.json").read_text().rstrip("\n")


def test_a_node_without_cards_says_so() -> None:
    empty = inventory(Found(), Sharing())
    assert wanted(empty, version="1") == {NVIDIA.register_key: "[]", NVIDIA.links_key: "[]", names.NODE_AGENT: "1"}
    text = inventory(Found(), Sharing(register_format="text"))
    assert wanted(text, version="1")[NVIDIA.register_key] == ":"


def test_an_empty_version_would_mark_the_node_as_hamis() -> None:
    with pytest.raises(ValueError, match="version is empty"):
        wanted(inventory(Found(), Sharing()), version="")


WANTED = {"a": "1", "b": "2"}
CHANGES: dict[str, tuple[dict[str, str] | None, dict[str, str] | None]] = {
    "all there": ({"a": "1", "b": "2", "other": "x"}, None),
    "nothing there": (None, {"a": "1", "b": "2"}),
    "one is missing": ({"a": "1"}, {"b": "2"}),
    "one differs": ({"a": "0", "b": "2", "hami.io/node-handshake": "Requesting_x"}, {"a": "1"}),
    "one is empty": ({"a": "", "b": "2"}, {"a": "1"}),
}


@pytest.mark.parametrize(("has", "patched"), CHANGES.values(), ids=CHANGES)
def test_only_what_differs_is_written_and_nothing_is_taken_away(
    has: dict[str, str] | None, patched: dict[str, str] | None
) -> None:
    expected = None if patched is None else {"metadata": {"annotations": patched}}
    assert change(has, WANTED) == expected
