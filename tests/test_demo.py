"""The demo's parts: its nodes, its workload, and the lines that tell what happens."""

from __future__ import annotations

from typing import Any

import pytest

from cardwise.sim.demo.cluster import LEAST_NODES, nodes
from cardwise.sim.demo.story import Story
from cardwise.sim.demo.workload import Ask, Fate, expected, steps
from cardwise.wire.families import NVIDIA
from cardwise.wire.register import decode_register

Json = dict[str, Any]


@pytest.mark.parametrize("count", [LEAST_NODES, LEAST_NODES + 7])
def test_nodes_register_their_cards_and_count_their_slots(count: int) -> None:
    made = nodes(count, 1)
    assert len({node.shape.name for node in made}) == count
    assert len({card.uuid for node in made for card in node.cards}) == sum(len(node.cards) for node in made)
    for node in made:
        assert decode_register(node.shape.annotations[NVIDIA.register_key], NVIDIA).cards == node.cards
        assert node.shape.extra == {NVIDIA.count_resource: sum(card.slots for card in node.cards)}


def test_the_same_seed_makes_the_same_and_another_seed_another() -> None:
    assert nodes(6, 1) == nodes(6, 1) != nodes(6, 2)
    assert steps(nodes(9, 1), 1) == steps(nodes(9, 1), 1) != steps(nodes(9, 2), 2)


def test_the_workload_shows_one_of_each_fate_and_grows_with_the_nodes() -> None:
    few, many = (expected(steps(nodes(count, 1), 1)) for count in (5, 9))
    assert set(few.values()) == set(Fate) - {Fate.ASKED}
    assert len(many) == len(few) + 8


def test_a_pod_of_it_is_a_manifest_as_a_user_writes_it() -> None:
    ask = Ask(pod="a/b", limits={"gpu": "1", "gpumem": "4096"}, annotations={"x/y": "z"}, priority_class="urgent")
    manifest = ask.manifest()
    assert manifest["metadata"] == {"name": "b", "namespace": "a", "annotations": {"x/y": "z"}}
    assert manifest["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
    }
    assert "schedulerName" not in manifest["spec"]
    assert ask.says() == "asks for gpu 1, gpumem 4096, y z, priority class urgent"


def pod(*, annotations: Json | None = None, status: Json | None = None, node: str = "") -> Json:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "metadata": {"namespace": "a", "name": "b", "uid": "u1", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "resources": limits}], **({"nodeName": node} if node else {})},
        "status": status or {},
    }


def record(cores: int) -> Json:
    return {"hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": f"GPU-0,NVIDIA,1000,{cores}:;"}


TOLD = {
    "nothing": (pod(), ""),
    "woken": (pod(annotations={"cardwise.io/wake": "now"}), "is woken: it fits now"),
    "nominated": (pod(status={"nominatedNodeName": "n"}), "gets room made for it on n"),
    "bound": (pod(node="n", annotations=record(30)), "bound to n, card 3 (1000 MiB, 30 %)"),
    "alone": (pod(node="n", annotations=record(100)), "bound to n, card 3 (1000 MiB, 100 %, alone)"),
    "by another": (pod(node="n"), "bound to n, without a record of cards"),
    "ended": (pod(status={"phase": "Succeeded"}), "has ended"),
}


@pytest.mark.parametrize(("body", "line"), TOLD.values(), ids=TOLD)
def test_what_is_told_of_a_pod_and_only_once(body: Json, line: str) -> None:
    story = Story({"GPU-0": 3})
    assert list(story.see(body)) == [("a/b", line)] * bool(line)
    assert list(story.see(body)) == []


def event(reason: str, message: str) -> Json:
    about = {"namespace": "a", "name": "b", "uid": "u1"}
    return {"involvedObject": about, "reason": reason, "message": message}


def test_why_a_pod_waits_is_told_once() -> None:
    story = Story({})
    story.asked("a/b")
    assert list(story.hear(event("NoCardFits", "0 of 1 nodes fit"))) == [("a/b", "waits: 0 of 1 nodes fit")]
    assert list(story.hear(event("NoCardFits", "0 of 1 nodes fit"))) == []
    assert list(story.hear(event("FailedScheduling", "0/1 nodes are available"))) == []
    assert story.fates == {"a/b": Fate.WAITING}


def test_a_victim_is_told_for_whom_it_goes_and_its_end_is_no_other_fate() -> None:
    story = Story({})
    urgent = pod()
    urgent["metadata"] |= {"name": "urgent", "uid": "u9"}
    list(story.see(urgent))
    assert list(story.hear(event("Preempted", "Preempted by pod u9 on node n"))) == [("a/b", "is evicted for a/urgent")]
    assert list(story.see(pod(status={"phase": "Failed"}))) == []
    assert story.fates == {"a/b": Fate.EVICTED}
    assert story.counted()[Fate.EVICTED] == 1
