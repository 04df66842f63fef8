"""What becomes of a pod that is refused, and of one that meets an error: the same with a real kube-scheduler."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .script import Status
from .stage import FULL, HTTP_SECONDS, Stage, failed, slow

NO_VICTIMS = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
ONE_OF_EACH = (
    "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod,"
    " 1 Preemption is not helpful for scheduling."
)
UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"

REPLIES: dict[str, tuple[Any, str, str]] = {
    "FailedNodes": (failed(FULL), UNSCHEDULABLE, f"0/2 nodes are available: 2 {FULL}. {NO_VICTIMS}"),
    "FailedAndUnresolvableNodes": (
        failed("stub: no such card", "FailedAndUnresolvableNodes"),
        UNSCHEDULABLE,
        f"0/2 nodes are available: 2 stub: no such card. {NOT_HELPFUL}",
    ),
    "both": (
        lambda _: {"FailedNodes": {"a": FULL, "b": FULL}, "FailedAndUnresolvableNodes": {"b": "too small"}},
        UNSCHEDULABLE,
        f"0/2 nodes are available: 1 {FULL}, 1 too small. {ONE_OF_EACH}",
    ),
    "nothing": (lambda _: {}, UNSCHEDULABLE, f"0/2 nodes are available: {NOT_HELPFUL}"),
    "error": (lambda _: {"Error": "stub: broken"}, ERROR, "stub: broken"),
    "500": (lambda _: Status(500), ERROR, "failed filter with extender at URL <url>/filter, code 500"),
    "unknown node": (
        lambda _: {"NodeNames": ["no-such-node"]},
        ERROR,
        'extender "<url>" claims a filtered node "no-such-node" which is not found in the input node list',
    ),
}


def without_claims(message: str) -> str:
    """Newer versions say something about resource claims too."""
    return message.replace("no new claims to deallocate, ", "")


@pytest.mark.parametrize(("answer", "reason", "message"), REPLIES.values(), ids=REPLIES)
def test_a_reply_becomes_condition_and_event(stage: Stage, answer: Any, reason: str, message: str) -> None:
    stage.node("a")
    stage.node("b")
    stage.extender.answers["filter"] = answer
    stage.pod("p")
    message = message.replace("<url>", stage.extender.url)
    assert without_claims(stage.refusal("p")) == message
    assert stage.condition("p")["reason"] == reason
    assert without_claims(stage.event("p", "FailedScheduling")) == message


def test_a_slow_extender_is_an_error(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["filter"] = slow(HTTP_SECONDS + 0.3, failed(FULL))
    stage.pod("p")
    why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert stage.refusal("p") == f'Post "{stage.extender.url}/filter": {why}'


def test_a_cluster_without_nodes_has_words_of_its_own(stage: Stage) -> None:
    stage.pod("p")
    assert stage.refusal("p") == "no nodes available to schedule pods"
    assert stage.condition("p")["reason"] == UNSCHEDULABLE
    stage.node("a")
    assert stage.bound("p") == "a"


def test_a_new_refused_pod_is_asked_about_twice_and_then_put_aside(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["filter"] = failed(FULL)
    stage.pod("p")
    second = stage.asked("filter", "p", 2)
    assert second.began - stage.asked("filter", "p").began < 0.3
    time.sleep(1.5)
    assert len(stage.extender.of("filter", "p")) == 2


def bound_pod(stage: Stage) -> None:
    stage.placed("new", "a")


WAKING = {
    "its own annotation": lambda stage: stage.annotate("p"),
    "its own label": lambda stage: stage.server.patch("pods", "p", {"metadata": {"labels": {"x": "y"}}}),
    "a bound pod made": bound_pod,
    "a bound pod annotated": lambda stage: stage.annotate("other"),
    "a bound pod's status": lambda stage: stage.server.patch(
        "pods", "other", {"status": {"phase": "Running"}}, subresource="status"
    ),
    "a bound pod ended": lambda stage: stage.server.patch(
        "pods", "other", {"status": {"phase": "Succeeded"}}, subresource="status"
    ),
    "a bound pod deleted": lambda stage: stage.server.delete("pods", "other", grace_seconds=0),
    "a node's annotation": lambda stage: stage.annotate("a", "nodes"),
    "a node's label": lambda stage: stage.server.patch("nodes", "a", {"metadata": {"labels": {"x": "y"}}}),
    "more on a node": lambda stage: stage.server.patch(
        "nodes", "a", {"status": {"allocatable": {"cpu": "128"}}}, subresource="status"
    ),
    "a new node": lambda stage: stage.node("new"),
}

QUIET = {
    "a pending pod of another scheduler": lambda stage: stage.pod("pending", scheduler="other"),
    "another pending pod annotated": lambda stage: stage.annotate("gated"),
    "a node's status that nobody reads": lambda stage: stage.server.patch(
        "nodes", "a", {"status": {"nodeInfo": {"kernelVersion": "7.1"}}}, subresource="status"
    ),
}


@pytest.fixture(params=["FailedNodes", "FailedAndUnresolvableNodes"])
def waiting(stage: Stage, request: pytest.FixtureRequest) -> Stage:
    """A pod `p` that was refused and put aside, and others beside it."""
    stage.node("a")
    stage.placed("other", "a")
    stage.pod("gated", schedulingGates=[{"name": "example.com/queue"}])
    stage.extender.answers["filter"] = failed(FULL, request.param)
    stage.pod("p")
    stage.refusal("p")
    stage.quiet("p")
    return stage


@pytest.mark.parametrize("act", WAKING.values(), ids=WAKING)
def test_what_wakes_a_refused_pod(waiting: Stage, act: Any) -> None:
    assert waiting.wakes("p", lambda: act(waiting))


@pytest.mark.parametrize("act", QUIET.values(), ids=QUIET)
def test_what_does_not(waiting: Stage, act: Any) -> None:
    assert not waiting.wakes("p", lambda: act(waiting))


def test_a_woken_pod_is_bound_at_once_however_often_it_was_refused(stage: Stage) -> None:
    stage.node("a")
    stage.refused("p")
    for _ in range(5):
        assert stage.wakes("p", lambda: stage.annotate("p"))
    stage.extender.answers["filter"] = lambda request: {"NodeNames": request["NodeNames"]}
    began = time.monotonic()
    stage.annotate("p")
    assert stage.bound("p") == "a"
    assert time.monotonic() - began < 0.8


def test_what_happens_while_a_pod_is_tried_counts_for_it(stage: Stage) -> None:
    """The trap of two watches: the room came free after the extender had looked."""
    stage.node("a")
    stage.placed("other", "a")
    stage.refused("p")
    stage.extender.answers["filter"] = slow(0.4, failed(FULL))
    before = len(stage.extender.of("filter", "p"))
    stage.annotate("p")
    stage.asked("filter", "p", before + 1)
    stage.server.delete("pods", "other", grace_seconds=0)
    assert stage.asked("filter", "p", before + 2, seconds=1.0)


def test_a_pod_that_its_own_checks_refused_is_tried_when_room_comes_free(stage: Stage) -> None:
    stage.node("a", 1)
    stage.placed("holder", "a")
    stage.pod("p")
    assert "1 Insufficient nvidia.com/gpu" in stage.refusal("p")
    stage.server.delete("pods", "holder", grace_seconds=0)
    assert stage.bound("p", seconds=1.5) == "a"


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten(stage: Stage) -> None:
    stage.node("a")
    stage.refused("p")
    stage.server.delete("pods", "p", grace_seconds=0)
    stage.settle()
    assert not stage.wakes("p", lambda: stage.annotate("a", "nodes"))
