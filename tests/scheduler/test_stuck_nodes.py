"""Filter and HAMi's nodes: one whose plugin is busy is taken last, one whose plugin does not answer is refused, for now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cardwise.scheduler.answers import Chosen, Filtered, Refused
from cardwise.scheduler.books import Books, Settings
from cardwise.scheduler.filtering import filter_pod
from cardwise.scheduler.gates import STUCK_SECONDS
from cardwise.scheduler.offered import Offered
from cardwise.wire import names, objects
from manifests import card_records, node_object, pod_object, running_pod, using

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = "HAMi's device plugin has not served pod ml/first, which waits for its cards since 2026-01-01T12:00:00Z"
ANOTHERS = "hami.io/mutex.lock is held by pod ml/elsewhere since 2026-01-01T12:00:00Z"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(name: str, *, agent: bool = False, lock: str = "") -> objects.Node:
    """One card."""
    annotations = {names.NODE_AGENT: "test"} if agent else {}
    annotations |= {names.NODE_LOCK: lock} if lock else {}
    return msgspec.convert(node_object(name, card_records(1, name), annotations=annotations), objects.Node)


def first(phase: str = "allocating") -> objects.Pod:
    """A pod that was bound to the node `hami`, version by phase."""
    pod = running_pod("first", "hami", using(("hami-0", 1000, 0)), gpu=1, gpumem=1000)
    pod["metadata"]["annotations"][names.BIND_PHASE] = phase
    pod["metadata"]["resourceVersion"] = {"allocating": "1", "success": "2"}[phase]
    return msgspec.convert(pod | {"status": {"phase": "Pending"}}, objects.Pod)


def waiting(name: str, mib: int) -> objects.Pod:
    about = {"uid": f"uid-{name}", "resourceVersion": "5"}
    spec = {"schedulerName": "cardwise-scheduler"}
    return msgspec.convert(pod_object(name, meta=about, spec=spec, gpu=1, gpumem=mib), objects.Pod)


def books(*nodes: objects.Node, pods: tuple[objects.Pod, ...] = ()) -> Books:
    made = Books(Settings())
    for one in nodes:
        made.node_seen(one, now=NOW)
    for pod in pods:
        made.pod_seen(pod, now=NOW)
    made.set_complete(True)
    made.holdings.take_freed()
    return made


def ask(made: Books, offered: list[str], seconds: float, mib: int = 1000) -> Filtered:
    asked = Offered.of(offered, made.holdings.cluster.cards)
    return filter_pod(made, waiting("second", mib), asked, now=at(seconds))


BOTH = ["hami", "other"]


@pytest.mark.parametrize("seconds", [1, STUCK_SECONDS, STUCK_SECONDS + 1, 3600])
def test_a_node_whose_plugin_is_busy_is_taken_last(seconds: float) -> None:
    """It would rank first, since it has a pod on it already."""
    made = books(node("hami"), node("other", agent=True), pods=(first(),))
    assert ask(made, BOTH, seconds) == Chosen(("other",))


def test_it_would_have_been_the_first() -> None:
    made = books(node("hami"), node("other", agent=True), pods=(first("success"),))
    assert ask(made, BOTH, 1) == Chosen(("hami",))


def test_where_there_is_no_other_the_pod_waits_there_for_its_turn() -> None:
    made = books(node("hami"), pods=(first(),))
    assert ask(made, ["hami"], STUCK_SECONDS) == Chosen(("hami",))


@pytest.mark.parametrize(
    ("lock", "pods", "says"),
    [
        ("", (first(),), SINCE),
        (
            "2026-01-01T12:00:00Z,ml,elsewhere",
            (msgspec.convert(pod_object("elsewhere", {names.BIND_PHASE: "allocating"}), objects.Pod),),
            ANOTHERS,
        ),
    ],
    ids=["a pod that is not served", "a lock of another scheduler's pod that is about to be bound"],
)
def test_after_half_a_minute_it_is_refused_for_now_with_the_reason(
    lock: str, pods: tuple[objects.Pod, ...], says: str
) -> None:
    made = books(node("hami", lock=lock), pods=pods)
    answer = ask(made, ["hami"], STUCK_SECONDS + 1)
    assert isinstance(answer, Refused)
    ((refusal, columns),) = answer.groups
    assert (refusal.code, refusal.text, refusal.lasting) == ("NodeLocked", says, False)
    assert refusal.kind == "node(s) whose lock is stuck"
    assert columns.tolist() == [made.holdings.cluster.cards.index_of["hami"]]


def test_of_a_node_whose_cards_would_not_do_either_that_is_said() -> None:
    """It is lasting, so worth more to know."""
    made = books(node("hami"), pods=(first(),))
    answer = ask(made, ["hami"], STUCK_SECONDS + 1, mib=24577)
    assert isinstance(answer, Refused)
    assert [(refusal.code, refusal.lasting) for refusal, _columns in answer.groups] == [
        ("CardInsufficientMemory", True)
    ]


def test_the_pod_that_was_refused_is_woken_once_the_plugin_answers() -> None:
    made = books(node("hami"), pods=(first(),))
    made.tick(now=at(STUCK_SECONDS + 1))
    assert isinstance(ask(made, ["hami"], STUCK_SECONDS + 1), Refused)
    made.pod_seen(first("success"), now=at(STUCK_SECONDS + 5))
    made.tick(now=at(STUCK_SECONDS + 6))
    found = made.waiting.wakes(made, now=at(STUCK_SECONDS + 6))
    assert [wake.uid for wake in found or ()] == ["uid-second"]
    assert ask(made, ["hami"], STUCK_SECONDS + 7) == Chosen(("hami",))
