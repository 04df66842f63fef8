"""What NVML says of cards and links, and what is made of answers that it does not give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.fake_nvml import CONSTANTS, LOST, NOT_SUPPORTED, UNKNOWN, Gpu, Machine
from cardwise.agent.linkscores import link_scores
from cardwise.agent.nvml_session import Session
from cardwise.agent.probe import Found, FoundCard, Level, Link

A, B, C = "00000000:3B:00.0", "00000000:5E:00.0", "00010000:01:00.0"


def machine(*gpus: Gpu, **others: Any) -> Machine:
    return Machine(gpus=list(gpus), **others)


def find(given: Machine, sysfs: Path = Path("/nowhere")) -> Found:
    return Session(given.module(), sysfs=sysfs).find()


def test_a_card_is_found_as_nvml_tells_of_it(tmp_path: Path) -> None:
    device = tmp_path / "bus" / "pci" / "devices" / "0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    told = find(machine(Gpu("GPU-a", "Tesla T4", 15360, A, minor=2, mig=1)), tmp_path)
    card = FoundCard(
        uuid="GPU-a", index=0, model="Tesla T4", memory_mib=15360, numa=1, pci="0000:3b:00.0", minor=2, mig=True
    )
    assert told == Found(cards=(card,))


ODD = {
    "unified memory": (Gpu("GPU-a", memory_mib=None), "memory_mib", None),
    "no device file": (Gpu("GPU-a", minor=None), "minor", None),
    "no MIG": (Gpu("GPU-a", mig=None), "mig", False),
    "MIG off": (Gpu("GPU-a", mig=0), "mig", False),
}


@pytest.mark.parametrize(("gpu", "field", "value"), ODD.values(), ids=ODD)
def test_what_a_card_does_not_support_is_not_told(gpu: Gpu, field: str, value: object) -> None:
    (card,) = find(machine(gpu)).cards
    assert getattr(card, field) is value
    assert card.fault == ""


NUMA = {
    "a node": ("1\n", 1),
    "node 0": ("0\n", 0),
    "none": ("-1\n", None),
    "no number": ("x", None),
    "empty": ("", None),
}


@pytest.mark.parametrize(("text", "numa"), NUMA.values(), ids=NUMA)
def test_numa_nodes_come_from_sysfs(tmp_path: Path, text: str, numa: int | None) -> None:
    device = tmp_path / "bus" / "pci" / "devices" / "10000:01:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(text)
    assert [card.numa for card in find(machine(Gpu("GPU-a", bus=C), Gpu("GPU-b", bus=A)), tmp_path).cards] == [
        numa,
        None,
    ]


UNREAD = {
    "the handle": {"handle": LOST},
    "the UUID": {"uuid": UNKNOWN},
    "the name": {"name": UNKNOWN},
    "the memory": {"memory": LOST},
    "the bus id": {"pci": 0, "bus": UNKNOWN},
    "the MIG mode": {"mig": UNKNOWN},
}


@pytest.mark.parametrize("errors", UNREAD.values(), ids=UNREAD)
def test_a_card_that_does_not_answer_does_not_hide_the_others(errors: dict[str, int]) -> None:
    told = find(machine(Gpu("GPU-a"), Gpu("GPU-b", errors=errors), Gpu("GPU-c")))
    assert [(card.uuid, card.index) for card in told.cards] == [("GPU-a", 0), ("GPU-c", 2)]
    (sentence,) = told.warnings
    assert sentence.startswith("card 1 is left out: it does not answer (NVML_ERROR_")


def test_a_name_that_is_no_text_does_not_hide_the_others() -> None:
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    told = find(machine(Gpu("GPU-a", broken), Gpu("GPU-b")))
    assert [card.uuid for card in told.cards] == ["GPU-b"]
    assert told.warnings[0].startswith("card 0 is left out: it does not answer ('utf-8' codec")


def test_a_uuid_twice_is_said() -> None:
    told = find(machine(Gpu("GPU-a"), Gpu("GPU-a", bus=B)))
    assert [(card.uuid, card.index) for card in told.cards] == [("GPU-a", 0)]
    assert told.warnings == ("card 1 has the UUID of card 0: it is left out",)


def test_a_machine_without_cards_says_so() -> None:
    assert find(machine()) == Found(warnings=("NVML finds no card on this machine",))


def test_a_card_that_is_too_old_for_events_is_healthy_and_said() -> None:
    told = find(machine(Gpu("GPU-a", events=0), Gpu("GPU-b", errors={"register": NOT_SUPPORTED})))
    assert [card.fault for card in told.cards] == ["", ""]
    assert told.warnings == tuple(f"card GPU-{c} cannot tell of failures (too old): taken as healthy" for c in "ab")


PATHS = {
    "NVML_TOPOLOGY_INTERNAL": Level.SAME_BOARD,
    "NVML_TOPOLOGY_SINGLE": Level.SINGLE_SWITCH,
    "NVML_TOPOLOGY_MULTIPLE": Level.MULTI_SWITCH,
    "NVML_TOPOLOGY_HOSTBRIDGE": Level.HOST_BRIDGE,
    "NVML_TOPOLOGY_NODE": Level.SAME_CPU,
    "NVML_TOPOLOGY_SYSTEM": Level.CROSS_CPU,
}


@pytest.mark.parametrize(("constant", "level"), PATHS.items())
def test_paths(constant: str, level: Level) -> None:
    path = {frozenset(("GPU-a", "GPU-b")): CONSTANTS[constant]}
    told = find(machine(Gpu("GPU-a", bus=A), Gpu("GPU-b", bus=B), paths=path))
    assert told.links == (
        Link(uuid="GPU-a", peer="GPU-b", level=level),
        Link(uuid="GPU-b", peer="GPU-a", level=level),
    )


@pytest.mark.parametrize("paths", [{}, {frozenset(("GPU-a", "GPU-b")): 77}], ids=["not supported", "unknown"])
def test_a_path_that_nobody_knows_is_none(paths: dict[frozenset[str], int]) -> None:
    told = find(machine(Gpu("GPU-a", bus=A), Gpu("GPU-b", bus=B), paths=paths))
    assert [link.level for link in told.links] == [None, None]


def score(one: Gpu, other: Gpu) -> int:
    told = find(machine(one, other))
    return link_scores(told.cards, told.links)[0][0][1]


NVLINKS = {
    "two straight": ([B, B], [A, A], 200),
    "one is down": ([B, "down"], [A, "down"], 100),
    "to another card": ([C, C], [A], 0),
    "through a switch": (["switch"] * 12, ["switch"] * 11, 1100),
    "a switch on one side": (["switch"] * 12, [], 0),
    "straight and through a switch": ([B, "switch"], [A, "switch"], 100),
    "none": ([], [], 0),
}


@pytest.mark.parametrize(("one", "other", "expected"), NVLINKS.values(), ids=NVLINKS)
def test_nvlinks(one: list[str], other: list[str], expected: int) -> None:
    assert score(Gpu("GPU-a", bus=A, nvlinks=one), Gpu("GPU-b", bus=B, nvlinks=other)) == expected


def test_nvlinks_that_cannot_be_asked_are_none() -> None:
    assert score(Gpu("GPU-a", bus=A, nvlinks=[B], errors={"nvlink": UNKNOWN}), Gpu("GPU-b", bus=B)) == 0
