"""What users of GPU sharing really hit: what counts as in use, and until when. Ids are the cases' numbers."""

from __future__ import annotations

from typing import Any

import pytest

from cardwise.core.model import CardUse
from cardwise.scheduler.admission import Rules, admit
from cardwise.sim.simulate import simulate
from cardwise.sim.world import World
from cardwise.wire.families import FAMILIES
from cardwise.wire.pods import read_hold, read_pod
from manifests import (
    Object,
    card_records,
    container_object,
    node_object,
    pod_object,
    reasons,
    running_pod,
    simulated,
    snapshot_of,
    using,
    where,
    workload_object,
    world_of,
)

ONE = node_object("n1", card_records(1))


def held(name: str, mib: int = 8000, uuid: str = "GPU-0", node: str = "n1", **rest: Any) -> Object:
    """A running pod with so much of a card."""
    return running_pod(name, node, using((uuid, mib, 0)), gpu=1, gpumem=mib, **rest)


def used(world: World, node: str = "n1", card: int = 0) -> CardUse:
    cards = world.cluster.cards
    return cards.use(cards.index_of[node], card)


def test_case_85_and_105_after_any_number_of_rounds_nothing_is_in_use() -> None:
    world = world_of(ONE)
    for number in range(100):
        [pod] = snapshot_of(held(f"p{number}", 20000, meta={"uid": f"uid-{number}"})).pods
        hold = read_hold(pod, FAMILIES)
        assert hold is not None
        world.cluster.confirm(hold)
        world.cluster.confirm(hold)  # seen again: counted once
        assert used(world).memory_mib == 20000
        world.cluster.release(hold.uid)
        world.cluster.release(hold.uid)
    assert used(world) == CardUse()


def test_case_86_the_old_pod_counts_until_it_is_gone() -> None:
    old, new = held("old", 16000), pod_object("new", gpu=1, gpumem=16000)
    assert where(simulated(ONE, old, new)) == {}
    assert where(simulated(ONE, new)) == {"new": ("n1", ["GPU-0"])}


def test_case_87_a_new_pod_gets_exactly_the_freed_pair() -> None:
    pairs = [(f"GPU-{n}", f"GPU-{n + 1}") for n in range(0, 8, 2)]
    running = [
        running_pod(f"p{n}", "n1", using(*((uuid, 24576, 100) for uuid in pair)), gpu=2) for n, pair in enumerate(pairs)
    ]
    gone = running.pop(2)
    placed = where(simulated(node_object("n1", card_records(8)), *running, pod_object("new", gpu=2)))
    assert placed["new"][1] == list(pairs[2])
    assert "GPU-4" in gone["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]


def test_case_89_a_terminating_pod_still_holds() -> None:
    leaving = held("old", 20000, meta={"deletionTimestamp": "2026-01-01T00:10:00Z", "uid": "u"})
    assert "too little free memory" in reasons(simulated(ONE, leaving, pod_object("new", gpu=1, gpumem=8000)))["new"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_case_89_an_ended_pod_holds_nothing(phase: str) -> None:
    ended = {**held("old", 20000), "status": {"phase": phase}}
    assert used(world_of(ONE, ended)) == CardUse()


def init(name: str, mib: int, **more: Any) -> Object:
    return container_object(name, gpu=1, gpumem=mib, more=more)


SIDECAR = {"restartPolicy": "Always"}
PEAKS = [
    pytest.param([init(f"i{n}", 10000) for n in range(3)], [10000], 10000, id="case-94-init-containers-one-by-one"),
    pytest.param([init("s", 4000, **SIDECAR), init("i", 10000)], [8000], 14000, id="case-95-sidecar-before-init"),
    pytest.param([init("i", 12000), init("s", 4000, **SIDECAR)], [7000], 12000, id="case-95-sidecar-after-init"),
    pytest.param([{"name": "cpu"}], [4000], 4000, id="case-96-cpu-only-init"),
]


@pytest.mark.parametrize(("before", "apps", "mib"), PEAKS)
def test_a_pod_holds_its_peak(before: list[Object], apps: list[int], mib: int) -> None:
    containers = [container_object(f"a{n}", gpu=1, gpumem=asked) for n, asked in enumerate(apps)]
    world = world_of(
        node_object("n1", card_records(1, devmem=16384)), pod_object("p", containers=containers, init=before)
    )
    assert list(where(simulate(world))) == ["p"]
    assert used(world).memory_mib == mib


@pytest.mark.parametrize(
    "text", ["GPU-0,NVIDIA,4000,0:;", ";GPU-0,NVIDIA,4000,0:;", "GPU-0,NVIDIA,4000,0:", ";GPU-0,NVIDIA,4000,0:"]
)
def test_case_96_empty_entries_shift_nothing(text: str) -> None:
    running = running_pod(
        "p", "n1", text, containers=[container_object("app", gpu=1, gpumem=4000)], init=[{"name": "cpu"}]
    )
    hold = read_hold(snapshot_of(running).pods[0], FAMILIES)
    assert hold is not None
    assert [(each.name, len(each.cards)) for each in hold.containers] == [("cpu", 0), ("app", 1)]


def test_case_97_memory_is_charged_on_each_card() -> None:
    world = world_of(node_object("n1", card_records(2)), pod_object("p", gpu=2, gpumem=3000))
    simulate(world)
    assert [used(world, card=n).memory_mib for n in range(2)] == [3000, 3000]


@pytest.mark.parametrize(
    "handshake",
    ["Deleted_2026.01.01 00:00:00", "Requesting_2020.01.01 00:00:00", "Reported 2020-01-01", "", "nonsense"],
)
def test_case_99_and_100_handshakes_decide_nothing(handshake: str) -> None:
    node = node_object(
        "n1",
        card_records(1),
        annotations={"hami.io/node-handshake": handshake},
        status={"allocatable": {"nvidia.com/gpu": 10}},
    )
    assert list(where(simulated(node, pod_object("p", gpu=1)))) == ["p"]


def test_case_101_and_106_no_allocatable_no_new_pods_and_running_ones_count() -> None:
    node = node_object("n1", card_records(1), status={"allocatable": {"nvidia.com/gpu": "0"}})
    world = world_of(node, held("r", 5000), pod_object("p", gpu=1, gpumem=1))
    assert used(world).memory_mib == 5000
    assert sum("its device plugin is not running" in warning for warning in world.warnings) == 1
    assert "Insufficient nvidia.com/gpu: needs 1, 0 of 0 free" in reasons(simulate(world))["p"]


def test_case_107_what_is_placed_and_then_seen_counts_once() -> None:
    world = world_of(ONE, pod_object("p", gpu=1, gpumem=3000, meta={"uid": "uid-p"}))
    assert list(where(simulate(world))) == ["p"]
    [seen] = snapshot_of(held("p", 3000)).pods
    hold = read_hold(seen, FAMILIES)
    assert hold is not None
    world.cluster.confirm(hold)
    assert used(world) == CardUse(slots=1, memory_mib=3000)


def test_case_80_a_held_card_that_is_gone_is_told_and_no_other_pod_gets_it() -> None:
    world = world_of(ONE, held("r", uuid="GPU-gone"), pod_object("p", gpu=1))
    assert any("pod ml/r holds card GPU-gone, which node n1 does not register" in text for text in world.warnings)
    assert where(simulate(world)) == {"p": ("n1", ["GPU-0"])}


def test_case_117_a_uuid_that_two_nodes_have_is_charged_on_one() -> None:
    world = world_of(node_object("n1", card_records(1)), node_object("n2", card_records(1)), held("r", node="n2"))
    assert (used(world, "n1").memory_mib, used(world, "n2").memory_mib) == (0, 8000)
    assert any("card GPU-0 is registered by nodes n1 and n2" in text for text in world.warnings)


def test_case_125_more_in_use_than_there_is_leaves_nothing_free() -> None:
    result = simulated(ONE, held("r", 90000), pod_object("p", gpu=1, gpumem=1))
    assert "too little free memory" in reasons(result)["p"]


@pytest.mark.parametrize(
    ("annotations", "counts"),
    [
        pytest.param({}, True, id="case-12-the-scheduler-s-own-record"),
        pytest.param({"hami.io/vgpu-node": "n2"}, False, id="case-12-a-record-of-another-node"),
    ],
)
def test_only_a_record_of_that_node_counts(annotations: dict[str, str], counts: bool) -> None:
    world = world_of(ONE, held("r", annotations=annotations))
    assert bool(used(world).memory_mib) is counts
    assert any("holds nothing that counts" in text for text in world.warnings) is not counts


@pytest.mark.parametrize("container", [{"name": "c"}, container_object(gpu=0)], ids=["no-resource", "a-count-of-0"])
def test_case_12_a_record_on_a_pod_that_asks_for_nothing_counts_nothing(container: Object) -> None:
    world = world_of(ONE, running_pod("r", "n1", using(("GPU-0", 24576, 100)), containers=[container]))
    assert used(world) == CardUse()


@pytest.mark.parametrize("text", ["GPU-0,NVIDIA,-1,0:;", "GPU-0,NVIDIA,x,0:;", "GPU-0:;", "GPU-0,NVIDIA,1,0:;;;;"])
def test_a_record_that_cannot_be_read_takes_its_node_out_of_service(text: str) -> None:
    running = running_pod("r", "n1", text, gpu=1, gpumem=1)
    world = world_of(ONE, running, pod_object("p", gpu=1, gpumem=1))
    placed = where(simulate(world))
    if text.endswith(";;;;"):  # one entry with cards for one container that asks: read
        assert list(placed) == ["p"]
    else:
        assert placed == {}
        assert any("out of service: the record of pod ml/r cannot be read" in text for text in world.warnings)


def test_case_154_a_gated_pod_uses_nothing() -> None:
    gated = pod_object("g", gpu=1, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})
    result = simulated(ONE, gated, pod_object("p", gpu=1))
    assert list(where(result)) == ["p"]
    assert "scheduling gate kueue.x-k8s.io/admission" in reasons(result)["g"]


def test_case_11_a_pod_whose_init_container_alone_asks_is_ours() -> None:
    [pod] = snapshot_of(pod_object("p", containers=[{"name": "app"}], init=[container_object("i", gpu=1)])).pods
    assert read_pod(pod, FAMILIES).request is not None
    assert admit(pod, Rules()).request is not None


# -- names and uids that are there twice -----------------------------------------------------------------------------


def test_a_workload_s_new_pod_does_not_free_the_running_pod_of_the_same_name() -> None:
    """A StatefulSet of three with one pod running: its other two are not named like the one that runs."""
    wanted = workload_object(
        "StatefulSet", "web", pod_object("x", gpu=1, gpumem=10000), replicas=3, status={"replicas": 1}
    )
    world = world_of(ONE, held("web-0", 10000), wanted)
    placed = where(simulate(world))
    assert len(placed) == 1
    assert used(world).memory_mib == 20000


def test_two_workloads_of_one_name_hold_both() -> None:
    template = pod_object("x", gpu=1, gpumem=10000)
    world = world_of(ONE, *(workload_object(kind, "web", template) for kind in ("StatefulSet", "Deployment")))
    assert len(simulate(world).placed) == 2
    assert used(world).memory_mib == 20000


def test_two_pods_with_one_uid_hold_both() -> None:
    """Exported, copied and renamed: the uid went with it."""
    world = world_of(ONE, *(held(name, 10000, meta={"uid": "u"}) for name in ("a", "b")))
    assert used(world).memory_mib == 20000


def test_waiting_pods_with_one_uid_hold_both() -> None:
    world = world_of(ONE, *(pod_object(name, gpu=1, gpumem=10000, meta={"uid": "u"}) for name in ("a", "b", "c")))
    assert len(simulate(world).placed) == 2
    assert used(world).memory_mib == 20000
