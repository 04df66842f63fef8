"""Bus ids in one form and order, and cards after health events."""

import pytest

from agent.cards import found, found_card
from cardwise.agent.probe import HealthEvent, bus_id, bus_order

BUS_IDS = {
    "as NVML writes it": ("00000000:3B:00.0", "0000:3b:00.0"),
    "as Linux writes it": ("0000:3b:00.0", "0000:3b:00.0"),
    "of a domain beyond four digits": ("00010000:01:00.0", "10000:01:00.0"),
    "with a function": ("0000:01:00.1", "0000:01:00.1"),
    "without a function": ("0000:01:00", "0000:01:00.0"),
    "no bus id": (" N/A ", "n/a"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "expected"), BUS_IDS.values(), ids=BUS_IDS)
def test_bus_ids_have_one_form(text: str, expected: str) -> None:
    assert bus_id(text) == expected
    assert bus_id(expected) == expected
    assert bus_order(text) == bus_order(expected)


def test_cards_go_by_the_numbers_in_their_bus_ids() -> None:
    ids = ["0000:0b:00.0", "0000:10:00.0", "0000:10:00.1", "0001:01:00.0", "10000:01:00.0", "n/a"]
    assert sorted(sorted(ids, reverse=True), key=bus_order) == ids


EVENTS = {
    "one card fails": ([("GPU-1", False)], ["", "why"]),
    "all cards fail": ([("", False)], ["why", "why"]),
    "one comes back": ([("", False), ("GPU-0", True)], ["", "why"]),
    "all come back": ([("GPU-0", False), ("", True)], ["", ""]),
    "an unknown card fails": ([("GPU-7", False)], ["", ""]),
}


@pytest.mark.parametrize(("events", "faults"), EVENTS.values(), ids=EVENTS)
def test_health_events_change_the_cards_that_they_name(events: list[tuple[str, bool]], faults: list[str]) -> None:
    before = found(found_card(0), found_card(1))
    after = before.after(HealthEvent(uuid=uuid, healthy=healthy, why="why") for uuid, healthy in events)
    assert [card.fault for card in after.cards] == faults
    assert [card.uuid for card in after.cards] == ["GPU-0", "GPU-1"]


def test_a_failure_without_a_sentence_still_counts() -> None:
    (card,) = found(found_card(0)).after([HealthEvent(uuid="GPU-0", healthy=False)]).cards
    assert card.fault == "it is unhealthy"
