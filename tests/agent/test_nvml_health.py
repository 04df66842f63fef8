"""Health as NVML tells of it: XIDs, cards that stop answering, events that cannot be waited for; and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.fake_nvml import LOST, UNKNOWN, Gpu, Machine
from cardwise.agent.nvml_session import RECHECK_SECONDS, REOPEN_SECONDS, Session
from cardwise.agent.probe import HealthEvent, ProbeError
from cardwise.agent.xids import IGNORED_XIDS, ignored_xids
from cardwise.wire.errors import WireError

BUSES = [f"00000000:{n:02X}:00.0" for n in range(16, 20)]


class Stage:
    """A machine of two cards, a session on it, and a clock."""

    def __init__(self, ignored: frozenset[int] | None = IGNORED_XIDS) -> None:
        self.one, self.other = Gpu("GPU-a", bus=BUSES[0]), Gpu("GPU-b", bus=BUSES[1])
        self.machine = Machine(gpus=[self.one, self.other])
        self.seconds = 1000.0
        self.session = Session(
            self.machine.module(), sysfs=Path("/nowhere"), ignored=ignored, monotonic=lambda: self.seconds
        )

    def faults(self) -> dict[str, str]:
        return {card.uuid: card.fault for card in self.session.find().cards}

    def poll(self, after_seconds: float = 0) -> list[tuple[str, bool]]:
        """Which cards failed (False) and came back (True)."""
        self.seconds += after_seconds
        return [(event.uuid, event.healthy) for event in self.session.poll(1)]

    def xid(self, gpu: Gpu | None, code: int = 79) -> None:
        self.machine.queue.append((gpu or Gpu("?", errors={"uuid": UNKNOWN}), code))


@pytest.fixture(name="stage")
def _stage() -> Stage:
    stage = Stage()
    assert stage.faults() == {"GPU-a": "", "GPU-b": ""}
    assert stage.poll() == []
    return stage


def test_an_xid_takes_its_card_out(stage: Stage) -> None:
    stage.xid(stage.other, 79)
    why = "the driver reported XID 79"
    assert stage.session.poll(1) == (HealthEvent(uuid="GPU-b", healthy=False, why=why, xid=79),)
    assert stage.faults() == {"GPU-a": "", "GPU-b": why}


@pytest.mark.parametrize("code", sorted(IGNORED_XIDS))
def test_an_xid_of_a_program_changes_nothing(stage: Stage, code: int) -> None:
    stage.xid(stage.one, code)
    assert stage.poll() == []
    assert stage.faults() == {"GPU-a": "", "GPU-b": ""}


STRANGERS = {"of no card that answers": None, "of a card that was not found": Gpu("GPU-x")}


@pytest.mark.parametrize("gpu", STRANGERS.values(), ids=STRANGERS)
def test_an_xid_of_an_unknown_card_takes_all_out(stage: Stage, gpu: Gpu | None) -> None:
    stage.xid(gpu, 62)
    why = "the driver reported XID 62 of a card that is not known"
    assert stage.session.poll(1) == (HealthEvent(uuid="", healthy=False, why=why, xid=62),)
    assert stage.faults() == {"GPU-a": why, "GPU-b": why}


def test_a_card_is_back_when_the_driver_asks_for_nothing(stage: Stage) -> None:
    stage.xid(stage.other)
    stage.poll()
    stage.other.action = 1
    assert stage.poll(RECHECK_SECONDS) == []
    assert stage.faults()["GPU-b"] == "the driver reported XID 79"
    stage.other.action = 0
    assert stage.poll(RECHECK_SECONDS) == [("GPU-b", True)]
    assert stage.faults() == {"GPU-a": "", "GPU-b": ""}


def test_an_xid_counts_for_a_while_even_if_the_driver_asks_for_nothing_yet(stage: Stage) -> None:
    stage.xid(stage.other)
    stage.poll()
    assert stage.faults()["GPU-b"]
    stage.seconds += RECHECK_SECONDS / 2
    assert stage.faults()["GPU-b"]


def test_an_older_driver_never_takes_an_xid_back(stage: Stage) -> None:
    stage.other.action = None
    stage.xid(stage.other)
    stage.poll()
    stage.poll(3600)
    assert stage.faults()["GPU-b"] == (
        "the driver reported XID 79; this driver does not tell when it recovers, so it is out until the agent starts anew"
    )


ACTIONS = {
    1: "the driver asks for a reset of the card",
    2: "the driver asks for a restart of the machine",
    4: "the driver asks for no new work, and a reset of the card",
    9: "the driver asks for recovery action 9",
}


@pytest.mark.parametrize(("action", "why"), ACTIONS.items())
def test_a_card_that_needs_a_reset_is_out_from_the_start(action: int, why: str) -> None:
    stage = Stage()
    stage.one.action = action
    assert stage.faults() == {"GPU-a": why, "GPU-b": ""}


def test_a_card_that_stops_answering_stays_with_a_fault_and_its_links() -> None:
    stage = Stage()
    stage.one.nvlinks, stage.other.nvlinks = ["switch"] * 2, ["switch"] * 2
    stage.machine.paths = {frozenset(("GPU-a", "GPU-b")): 50}
    before = stage.session.find()
    stage.one.errors = {"memory": LOST}
    after = stage.session.find()
    assert [card.fault for card in after.cards] == ["it does not answer (NVML_ERROR_GPU_IS_LOST)", ""]
    assert after.after([HealthEvent(uuid="", healthy=True)]) == before


def test_a_card_that_falls_off_the_bus_stays_with_a_fault(stage: Stage) -> None:
    stage.machine.gpus.remove(stage.one)
    told = stage.session.find()
    assert [(card.uuid, card.index, card.fault) for card in told.cards] == [
        ("GPU-a", 0, "NVML does not find it any more"),
        ("GPU-b", 0, ""),
    ]


def test_nvml_is_opened_anew_for_a_card_that_does_not_answer_but_not_all_the_time(stage: Stage) -> None:
    stage.seconds += REOPEN_SECONDS
    stage.one.errors = {"handle": LOST}
    assert stage.faults()["GPU-a"]
    assert stage.machine.opened == 1
    assert stage.poll(RECHECK_SECONDS) == []
    assert stage.machine.opened == 2
    stage.poll(RECHECK_SECONDS)
    assert stage.machine.opened == 2
    stage.one.errors = {}
    assert stage.poll(RECHECK_SECONDS) == [("GPU-a", True)]
    assert sorted(stage.machine.watched) == ["GPU-a", "GPU-b"]
    assert stage.machine.closed == 1


def test_a_card_that_cannot_be_watched_is_out_until_it_can() -> None:
    stage = Stage()
    stage.one.errors = {"register": UNKNOWN}
    assert stage.faults() == {"GPU-a": "NVML cannot watch it: NVML_ERROR_UNKNOWN", "GPU-b": ""}
    stage.one.errors = {}
    assert stage.poll(REOPEN_SECONDS) == [("GPU-a", True)]


def test_where_waiting_fails_for_a_card_only_that_card_is_out(stage: Stage) -> None:
    stage.machine.queue.append(LOST)
    stage.one.errors = {"handle": LOST}
    assert stage.poll() == [("GPU-a", False)]
    assert stage.machine.watched == ["GPU-b"]
    assert stage.poll() == []


def test_where_waiting_fails_for_no_card_all_are_out_until_it_works(stage: Stage) -> None:
    stage.machine.queue.append(UNKNOWN)
    why = "NVML cannot wait for events: NVML_ERROR_UNKNOWN"
    assert stage.session.poll(1) == (HealthEvent(uuid="", healthy=False, why=why),)
    assert stage.faults() == {"GPU-a": why, "GPU-b": why}
    assert stage.poll() == [("GPU-a", True), ("GPU-b", True)]
    assert stage.faults() == {"GPU-a": "", "GPU-b": ""}


def test_waiting_that_fails_again_and_again_is_left_to_the_caller(stage: Stage) -> None:
    stage.machine.errors = {"nvmlEventSetWait_v2": UNKNOWN}
    assert stage.poll() == [("", False)]
    for _attempt in range(3):
        with pytest.raises(ProbeError, match="NVML cannot wait for events: NVML_ERROR_UNKNOWN"):
            stage.poll()
    stage.machine.errors = {}
    assert stage.poll() == [("GPU-a", True), ("GPU-b", True)]


def test_where_nvml_fails_altogether_all_are_out_and_then_it_is_said(stage: Stage) -> None:
    stage.machine.errors = {"nvmlEventSetWait_v2": UNKNOWN, "nvmlDeviceGetCount": UNKNOWN}
    assert stage.poll() == [("", False)]
    with pytest.raises(ProbeError, match="NVML cannot count the cards: NVML_ERROR_UNKNOWN"):
        stage.poll()
    stage.machine.errors = {}
    assert stage.poll(RECHECK_SECONDS) == []
    assert stage.poll() == [("GPU-a", True), ("GPU-b", True)]


def test_where_no_events_are_to_be_had_all_are_out(stage: Stage) -> None:
    stage = Stage()
    stage.machine.errors = {"nvmlEventSetCreate": UNKNOWN}
    why = "NVML cannot watch the cards: NVML_ERROR_UNKNOWN"
    assert stage.faults() == {"GPU-a": why, "GPU-b": why}
    with pytest.raises(ProbeError, match=why):
        stage.poll()
    stage.machine.errors = {}
    assert stage.poll() == [("GPU-a", True), ("GPU-b", True)]


def test_a_new_card_is_watched_too(stage: Stage) -> None:
    stage.machine.gpus.append(Gpu("GPU-c", bus=BUSES[2]))
    assert set(stage.faults()) == {"GPU-a", "GPU-b", "GPU-c"}
    assert sorted(stage.machine.watched) == ["GPU-a", "GPU-b", "GPU-c"]


def test_health_is_not_looked_at_where_nobody_wants_it() -> None:
    stage = Stage(ignored=None)
    stage.one.action = 1
    assert stage.faults() == {"GPU-a": "", "GPU-b": ""}
    assert stage.machine.watched == []
    stage.one.errors = {"handle": LOST}
    assert stage.faults()["GPU-a"] == "it does not answer (NVML_ERROR_GPU_IS_LOST)"


XIDS = {
    "nothing said": ("", "", IGNORED_XIDS),
    "more are ignored": (" 48, 79", "", IGNORED_XIDS | {48, 79}),
    "all are ignored": ("all", "", None),
    "all are ignored, by the other word": ("XIDS", "", None),
    "one counts again": ("", "31", IGNORED_XIDS - {31}),
    "what counts wins": ("79", "79", IGNORED_XIDS),
    "all count": ("all", "all", frozenset()),
    "all are ignored, whatever counts": ("all", "79", None),
}


@pytest.mark.parametrize(("disabled", "enabled", "ignored"), XIDS.values(), ids=XIDS)
def test_which_xids_are_ignored(disabled: str, enabled: str, ignored: frozenset[int] | None) -> None:
    assert ignored_xids(disabled, enabled) == ignored


@pytest.mark.parametrize("word", ["ecc", "-1", "7.9", "70000", "999999"])
def test_a_code_that_is_none_is_refused(word: str) -> None:
    sentence = f"DP_DISABLE_HEALTHCHECKS is {word}, must be codes of 0 to 65536 with commas between, or all"
    with pytest.raises(WireError, match=sentence):
        ignored_xids(disabled=f"79,{word}")
