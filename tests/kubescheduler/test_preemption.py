"""Who has to leave for a more important pod, and what an extender can change about it: the same with a real scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .script import Json
from .stage import FULL, HIGH, Stage, failed, first


def nominated(stage: Stage, name: str) -> str:
    return str(stage.seen(name)["status"].get("nominatedNodeName", ""))


def full(stage: Stage, node: str, *names: str) -> dict[str, str]:
    """A node with so many cards as pods, all of low priority; answers their uids. The first is the oldest."""
    stage.node(node, len(names))
    return {name: stage.placed(name, node, terminationGracePeriodSeconds=30)["metadata"]["uid"] for name in names}


def answering(victims: dict[str, list[str]]) -> Callable[[Json], Json]:
    chosen = {node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()}
    return lambda _request: {"NodeNameToMetaVictims": chosen}


def leaving(stage: Stage, *names: str) -> set[str]:
    """Those of the pods that are gone or end."""
    return {
        name for name in names if stage.seen(name)["metadata"].get("deletionTimestamp", not stage.seen(name)["spec"])
    }


def test_a_node_full_only_for_the_extender_is_never_offered(stage: Stage) -> None:
    stage.node("a")
    stage.placed("low", "a")
    stage.extender.answers["filter"] = failed(FULL)
    stage.pod("p", **HIGH)
    said = stage.refusal("p")
    assert said == f'0/1 nodes are available: 1 {FULL}. preemption: expected at least one victim pod on node "a"'
    assert stage.extender.of("preempt") == []


def test_a_node_full_by_count_is_offered_with_its_least_important_pod(stage: Stage) -> None:
    uids = full(stage, "a", "l1")
    made = stage.pod("p", **HIGH)
    call = stage.asked("preempt", "p")
    tail = f'"NodeNameToMetaVictims":{{"a":{{"Pods":[{{"UID":"{uids["l1"]}"}}],"NumPDBViolations":0}}}}}}'
    assert call.body.decode().endswith(f',"NodeNameToVictims":null,{tail}')
    assert list(call.request) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    assert stage.event("l1", "Preempted") == f"Preempted by pod {made['metadata']['uid']} on node a"
    assert "0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in stage.event("p", "FailedScheduling")
    time.sleep(0.3)
    assert nominated(stage, "p") == "a"
    assert stage.extender.of("filter") == []


def test_the_pod_is_bound_as_soon_as_its_victim_is_gone(stage: Stage) -> None:
    full(stage, "a", "l1", "l2", "l3")
    stage.node("b", 0)
    stage.pod("p", **HIGH)
    stage.event("p", "FailedScheduling")
    (victim,) = _until_some_leave(stage, "l1", "l2", "l3")
    time.sleep(0.3)
    assert stage.extender.of("filter") == []
    stage.server.delete("pods", victim, grace_seconds=0)
    call = stage.asked("filter", "p", seconds=1.5)
    assert call.nodes == ["a"]
    assert call.request["Pod"]["status"]["nominatedNodeName"] == "a"
    assert stage.bound("p") == "a"
    assert nominated(stage, "p") == ""


def _until_some_leave(stage: Stage, *names: str, number: int = 1) -> set[str]:
    for _ in range(100):
        if len(gone := leaving(stage, *names)) >= number:
            return gone
        time.sleep(0.02)
    raise AssertionError(f"{number} of {names} should leave, {gone} do")


def test_the_extenders_own_choice_is_obeyed(stage: Stage) -> None:
    uids = full(stage, "a", "l1", "l2", "l3")
    stage.extender.answers["preempt"] = lambda request: answering(
        {"a": [uid for uid in uids.values() if uid != request["NodeNameToMetaVictims"]["a"]["Pods"][0]["UID"]]}
    )(request)
    stage.pod("p", **HIGH)
    offered = stage.asked("preempt", "p").request["NodeNameToMetaVictims"]["a"]["Pods"][0]["UID"]
    (kept,) = [name for name, uid in uids.items() if uid == offered]
    victims = _until_some_leave(stage, *uids, number=2)
    assert kept not in victims
    stage.server.delete("pods", min(victims), grace_seconds=0)
    assert stage.bound("p", seconds=2.0) == "a"
    assert kept not in leaving(stage, *uids)


def test_a_node_that_was_not_offered_may_be_named(stage: Stage) -> None:
    full(stage, "a", "low-a")
    stage.node("b")
    uid = stage.placed("low-b", "b", terminationGracePeriodSeconds=30)["metadata"]["uid"]
    stage.extender.answers |= {"filter": failed(FULL), "preempt": answering({"b": [uid]})}
    stage.pod("p", **HIGH)
    assert set(stage.asked("preempt", "p").request["NodeNameToMetaVictims"]) == {"a"}
    assert _until_some_leave(stage, "low-a", "low-b") == {"low-b"}
    stage.extender.answers["filter"] = first
    stage.server.delete("pods", "low-b", grace_seconds=0)
    assert stage.bound("p", seconds=2.0) == "b"


ODD = {
    "another node's pod": (
        lambda uids: {"a": [uids["elsewhere"]]},
        "extender: URL claims to preempt pod (UID: &{UID}) on node: a, but the pod is not found on that node",
    ),
    "nobody": (lambda _uids: {"a": []}, 'expected at least one victim pod on node "a"'),
    "no node": (lambda _uids: {}, "no candidate node for preemption"),
}


@pytest.mark.parametrize(("victims", "said"), ODD.values(), ids=ODD)
def test_an_odd_answer_evicts_nobody_and_is_told(
    stage: Stage, victims: Callable[[dict[str, str]], dict[str, list[str]]], said: str
) -> None:
    uids = full(stage, "a", "l1") | full(stage, "b", "elsewhere")
    stage.server.patch("nodes", "b", {"spec": {"unschedulable": True}})
    time.sleep(0.1)
    stage.extender.answers["preempt"] = answering(victims(uids))
    stage.pod("p", **HIGH)
    said = said.replace("URL", stage.extender.url).replace("{UID}", f"{{{uids['elsewhere']}}}")
    assert stage.refusal("p").endswith(f"preemption: {said}")
    assert leaving(stage, "l1", "elsewhere") == set()
    assert nominated(stage, "p") == ""


def test_a_node_of_which_a_pods_leaving_does_not_help_is_not_offered(stage: Stage) -> None:
    full(stage, "a", "l1")
    stage.pod("p", 2, **HIGH)
    said = stage.refusal("p")
    assert said.endswith("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
    assert stage.extender.of("preempt") == []


def test_nobody_leaves_for_a_pod_of_the_same_priority(stage: Stage) -> None:
    full(stage, "a", "l1")
    stage.pod("p")
    said = stage.refusal("p")
    assert said.endswith("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
    assert leaving(stage, "l1") == set()


def test_a_pod_that_never_preempts_says_so(stage: Stage) -> None:
    full(stage, "a", "l1")
    stage.pod("p", priorityClassName="patient")
    assert "not eligible due to preemptionPolicy=Never" in stage.refusal("p")
    assert leaving(stage, "l1") == set()


def test_a_node_whose_victims_are_less_important_is_taken(stage: Stage) -> None:
    full(stage, "cheap", "low")
    stage.node("dear", 1)
    stage.placed("middle", "dear", **HIGH)
    stage.pod("p", priorityClassName="higher")
    assert _until_some_leave(stage, "low", "middle") == {"low"}
    assert set(stage.asked("preempt", "p").request["NodeNameToMetaVictims"]) == {"cheap", "dear"}


def test_a_refusal_after_the_victims_are_gone_keeps_the_node_and_evicts_no_more(stage: Stage) -> None:
    full(stage, "a", "l1", "l2")
    stage.extender.answers["filter"] = failed(FULL)
    stage.pod("p", **HIGH)
    (victim,) = _until_some_leave(stage, "l1", "l2")
    stage.server.delete("pods", victim, grace_seconds=0)
    second = stage.asked("filter", "p", 2, seconds=2.0)
    assert second.nodes == ["a"]
    stage.quiet("p")
    assert 'expected at least one victim pod on node "a"' in stage.condition("p")["message"]
    assert nominated(stage, "p") == "a"
    assert len(leaving(stage, "l1", "l2")) == 1


def test_no_less_important_pod_slips_into_the_room_that_is_made(stage: Stage) -> None:
    full(stage, "a", "l1")
    stage.pod("p", **HIGH)
    _until_some_leave(stage, "l1")
    stage.pod("slipping")
    stage.refusal("slipping")
    stage.server.delete("pods", "l1", grace_seconds=0)
    assert stage.bound("p", seconds=2.0) == "a"
    assert stage.extender.of("filter", "slipping") == []


def test_of_equally_important_pods_the_one_that_has_not_started_leaves(stage: Stage) -> None:
    full(stage, "a", "old", "a-new")
    stage.server.patch("pods", "old", {"status": {"startTime": "2026-01-01T00:00:00Z"}}, subresource="status")
    stage.settle()
    stage.pod("p", **HIGH)
    assert _until_some_leave(stage, "old", "a-new") == {"a-new"}
