"""Files of make-believe cards: the examples, every key, and errors with file and key."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from agent.cards import links_between
from cardwise.agent.inventory import inventory
from cardwise.agent.probe import Found, FoundCard, Level
from cardwise.agent.sharing import Sharing
from cardwise.agent.simulated_file import (
    CARD_KEYS,
    FAILURE_KEYS,
    LINK_KEYS,
    Failure,
    Script,
    made_uuid,
    read_script,
)
from cardwise.wire.errors import WireError

EXAMPLES = Path(__file__).parents[2] / "examples" / "agent"
CARD = "{model: NVIDIA A40, memoryMib: 46068}"
TWO = "cards: [{model: NVIDIA A40, memoryMib: 46068, count: 2, uuid: [GPU-0, GPU-1]}]"


def read(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "cards.yaml"
    path.write_text(text)
    return read_script(path, "n")


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(WireError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(str(tmp_path / "cards.yaml"), "FILE")


def test_the_examples_are_read_and_registered() -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        script = read_script(path, "gpu-0")
        got = inventory(Found(cards=script.cards, links=script.links), Sharing(unified_memory_mib=98304))
        assert [each.found.index for each in got.cards] == [n for n, card in enumerate(script.cards) if not card.mig]
        assert not any("links" in warning for warning in got.warnings)


def test_the_examples_show_every_key() -> None:
    shown = "\n".join(path.read_text() for path in EXAMPLES.glob("*.yaml"))
    keys = (*CARD_KEYS, *LINK_KEYS, *FAILURE_KEYS)
    assert [key for key in keys if f"{key}:" not in shown] == []


def test_every_node_has_cards_of_its_own_that_stay_the_same() -> None:
    path = EXAMPLES / "eight-a100.yaml"
    one, again, other = (read_script(path, node) for node in ("a", "a", "b"))
    assert one == again
    uuids = [card.uuid for script in (one, other) for card in script.cards]
    assert len(set(uuids)) == 16
    assert one.cards[3].uuid == made_uuid("a", 3)


def test_groups_are_numbered_through(tmp_path: Path) -> None:
    other = "{model: B, memoryMib: unified, numa: none, mig: true}"
    text = f"cards: [{{model: A, memoryMib: 1, count: 2, numa: [0, 1]}}, {other}]"
    cards = read(tmp_path, text).cards
    assert [(card.index, card.minor, card.pci, card.model) for card in cards] == [
        (0, 0, "0000:10:00.0", "A"),
        (1, 1, "0000:11:00.0", "A"),
        (2, 2, "0000:12:00.0", "B"),
    ]
    assert [(card.memory_mib, card.numa, card.mig) for card in cards] == [
        (1, 0, False),
        (1, 1, False),
        (None, None, True),
    ]


def test_what_is_said_of_each_card_is_read(tmp_path: Path) -> None:
    text = (
        "cards: [{model: A, memoryMib: 1, count: 2, uuid: GPU-x, pci: ['00000000:3B:00.0', '0000:0a:00.0'], numa: -1}]"
    )
    cards = read(tmp_path, text).cards
    assert [(card.uuid, card.pci, card.numa) for card in cards] == [
        ("GPU-x", "0000:3b:00.0", -1),
        ("GPU-x", "0000:0a:00.0", -1),
    ]


def test_an_empty_file_is_a_node_without_cards(tmp_path: Path) -> None:
    assert read(tmp_path, "") == read(tmp_path, "cards: []\nlinks:\n") == Script()


SYS, NODE, PIX = Level.CROSS_CPU, Level.SAME_CPU, Level.SINGLE_SWITCH
NONE = (None, 0)
LINKS = {
    "left out: by NUMA node": ("", [[NONE, (NODE, 0)], [(NODE, 0), NONE]], 0),
    "none": ("{nvlink: none}", [[NONE, (NODE, 0)], [(NODE, 0), NONE]], 0),
    "pairs": ("{nvlink: pairs}", [[NONE, (NODE, 4)], [(NODE, 4), NONE]], 0),
    "pairs by count": ("{nvlink: pairs, count: 2}", [[NONE, (NODE, 2)], [(NODE, 2), NONE]], 0),
    "all": ("{nvlink: all}", [[NONE, (NODE, 0)], [(NODE, 0), NONE]], 12),
    "a matrix": ("{matrix: [X NV2, NV2 X]}", [[NONE, (None, 2)], [(None, 2), NONE]], 0),
    "a matrix of paths": ("{matrix: [X PIX, PIX X]}", [[NONE, (PIX, 0)], [(PIX, 0), NONE]], 0),
    "a matrix of both, one side sees more": ("{matrix: [X NV4+SYS, SYS X]}", [[NONE, (SYS, 4)], [(SYS, 0), NONE]], 0),
}


@pytest.mark.parametrize(("text", "rows", "to_switch"), LINKS.values(), ids=LINKS)
def test_links(tmp_path: Path, text: str, rows: list[list[tuple[Level | None, int]]], to_switch: int) -> None:
    script = read(tmp_path, f"{TWO}\nlinks: {text}")
    assert script.links == links_between(rows)
    assert [card.switch_links for card in script.cards] == [to_switch] * 2


def test_pairs_are_neighbours_and_numa_nodes_part_cards(tmp_path: Path) -> None:
    text = "cards: [{model: A, memoryMib: 1, count: 4, numa: [0, 0, 0, 1]}]\nlinks: {nvlink: pairs, count: 1}"
    script = read(tmp_path, text)
    links = {(link.uuid, link.peer): link for link in script.links}
    seen = [links[script.cards[0].uuid, card.uuid] for card in script.cards[1:]]
    assert [(link.level, link.nvlinks) for link in seen] == [(NODE, 1), (NODE, 0), (SYS, 0)]


FAILURES = {
    "a card": ("{atSeconds: 5, card: 1}", Failure(start_seconds=5, cards=(1,), why="it failed")),
    "with a code": (
        "{atSeconds: 0.5, card: 0, xid: 79, forSeconds: 2}",
        Failure(start_seconds=0.5, end_seconds=2.5, cards=(0,), why="the driver reported XID 79", xid=79),
    ),
    "all cards": ("{atSeconds: 5, card: all, why: hot}", Failure(start_seconds=5, cards=(0, 1), why="hot")),
    "the library": (
        "{atSeconds: 5, probe: gone, forSeconds: 0}",
        Failure(start_seconds=5, end_seconds=5, cards=(), why="gone"),
    ),
}


@pytest.mark.parametrize(("text", "failure"), FAILURES.values(), ids=FAILURES)
def test_failures(tmp_path: Path, text: str, failure: Failure) -> None:
    assert read(tmp_path, f"{TWO}\nfailures: [{text}]").failures == (failure,)
    assert not failure.covers(failure.start_seconds - 0.1)
    assert failure.covers(failure.start_seconds) is (failure.end_seconds > failure.start_seconds)
    assert failure.covers(10**9) is (failure.end_seconds == inf)


WORDS = "must be one of PSB, PIX, PXB, PHB, NODE, SYS, NV and a number, or both such as NV4+NODE"
REFUSALS = {
    "no YAML": ("cards: [", "FILE, line 2: while parsing a node"),
    "a key twice": ("cards: []\ncards: []", "FILE, line 2: key cards stands twice, must be YAML in which"),
    "two documents": ("--- {}\n--- {}", "FILE is 2 documents, must be one"),
    "a list": ("[]", "FILE is a list, must be a mapping"),
    "an unknown key": (
        "card: []",
        "FILE: card is no known key (did you mean cards?), must be one of cards, links, failures",
    ),
    "a card that is none": ("cards: [a40]", "FILE: cards[0] is the text a40, must be a mapping"),
    "no model": ("cards: [{memoryMib: 1}]", "FILE: cards[0].model is left out, must be given"),
    "a model that is a number": (
        "cards: [{model: 40, memoryMib: 1}]",
        "FILE: cards[0].model is 40, must be a text of one line",
    ),
    "no memory": (f"cards: [{CARD}, {{model: a}}]", "FILE: cards[1].memoryMib is left out, must be given"),
    "negative memory": (
        "cards: [{model: a, memoryMib: -1}]",
        "FILE: cards[0].memoryMib is -1, must be a whole number, 0 to 2147483647, or unified (the host's memory)",
    ),
    "no card at all": (
        "cards: [{model: a, memoryMib: 1, count: 0}]",
        "FILE: cards[0].count is 0, must be a whole number, 1 to 64",
    ),
    "too many cards": (
        "cards: [{model: a, memoryMib: 1, count: 60}, {model: b, memoryMib: 1, count: 5}]",
        "FILE: cards holds more than 64 cards, must hold at most so many",
    ),
    "a list of another length": (
        "cards: [{model: a, memoryMib: 1, count: 3, numa: [0, 1]}]",
        "FILE: cards[0].numa is 2 values, must be 3, one for each card, or one value for all",
    ),
    "a NUMA node": (
        "cards: [{model: a, memoryMib: 1, count: 2, numa: [0, N/A]}]",
        "FILE: cards[0].numa[1] is the text N/A, must be a whole number, -1 to 1024, or none",
    ),
    "a bus id": (
        "cards: [{model: a, memoryMib: 1, pci: 3b}]",
        "FILE: cards[0].pci is the text 3b, must be a PCI bus id such as 0000:3b:00.0",
    ),
    "MIG as a word": (
        "cards: [{model: a, memoryMib: 1, mig: Yes}]",
        "FILE: cards[0].mig is the text Yes, must be true or false",
    ),
    "an unknown kind of links": (
        f"{TWO}\nlinks: {{nvlink: some}}",
        "FILE: links.nvlink is the text some, must be one of none, all, pairs",
    ),
    "too many NVLinks": (
        f"{TWO}\nlinks: {{nvlink: all, count: 19}}",
        "FILE: links.count is 19, must be a whole number, 1 to 18",
    ),
    "a count of nothing": (
        f"{TWO}\nlinks: {{count: 2}}",
        "FILE: links.count is 2, must be left out where nvlink is none",
    ),
    "a matrix and more": (
        f"{TWO}\nlinks: {{nvlink: all, matrix: []}}",
        "FILE: links has matrix and other keys, must have matrix alone",
    ),
    "a matrix of too few rows": (
        f"{TWO}\nlinks: {{matrix: [X SYS]}}",
        "FILE: links.matrix is 1 rows, must be 2, one for each card",
    ),
    "a row that is too short": (
        f"{TWO}\nlinks: {{matrix: [X SYS, X]}}",
        "FILE: links.matrix[1] is X, must be 2 words, one for each card",
    ),
    "an unknown word": (f"{TWO}\nlinks: {{matrix: [X NVX, SYS X]}}", f"FILE: links.matrix[0], word 2 is NVX, {WORDS}"),
    "X between two cards": (f"{TWO}\nlinks: {{matrix: [X X, X X]}}", f"FILE: links.matrix[0], word 2 is X, {WORDS}"),
    "nothing after the plus": (
        f"{TWO}\nlinks: {{matrix: [X NV2+, SYS X]}}",
        f"FILE: links.matrix[0], word 2 is NV2+, {WORDS}",
    ),
    "NV alone": (f"{TWO}\nlinks: {{matrix: [X NV, SYS X]}}", f"FILE: links.matrix[0], word 2 is NV, {WORDS}"),
    "a failure at no time": (
        f"{TWO}\nfailures: [{{card: 1}}]",
        "FILE: failures[0].atSeconds is left out, must be given",
    ),
    "a failure before the start": (
        f"{TWO}\nfailures: [{{card: 1, atSeconds: -1}}]",
        "FILE: failures[0].atSeconds is -1, must be a number, 0 to 1e+09",
    ),
    "a failure of nothing": (
        f"{TWO}\nfailures: [{{atSeconds: 1}}]",
        "FILE: failures[0] has neither of card and probe, must have one of them",
    ),
    "a failure of both": (
        f"{TWO}\nfailures: [{{atSeconds: 1, card: 1, probe: x}}]",
        "FILE: failures[0] has both of card and probe, must have one of them",
    ),
    "a failure of no card here": (
        f"{TWO}\nfailures: [{{atSeconds: 1, card: 2}}]",
        "FILE: failures[0].card is 2, must be a card's number, 0 to 1, or all",
    ),
    "a code that is none": (
        f"{TWO}\nfailures: [{{atSeconds: 1, card: 1, xid: -1}}]",
        "FILE: failures[0].xid is -1, must be a whole number, 0 to 65536",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_refused_with_file_and_key(tmp_path: Path, text: str, sentence: str) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith(f"simulated cards {sentence}")
    assert told.isprintable()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WireError, match=r"simulated cards .*gone\.yaml cannot be read: No such file or directory"):
        read_script(tmp_path / "gone.yaml", "n")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(WireError, match=r"simulated cards .*x\.yaml is no UTF-8 text"):
        read_script(path, "n")


def test_a_card_of_the_file_is_a_found_card(tmp_path: Path) -> None:
    (card,) = read(tmp_path, f"cards: [{CARD}]").cards
    assert card == FoundCard(
        uuid=made_uuid("n", 0), index=0, model="NVIDIA A40", memory_mib=46068, numa=0, pci="0000:10:00.0", minor=0
    )
