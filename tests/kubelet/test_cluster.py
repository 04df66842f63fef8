"""Many nodes against an API server: Node objects, pods from bound to gone, and an API server that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from cardwise.kube.client import Client
from cardwise.kube.connection import Connection
from cardwise.kube.errors import KubeError
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.kubelet.kubelet import Kubelet
from cardwise.sim.kubelet.objects import NodeShape
from kubelet.bench import GPU
from kubelet.stage import PACE, plugged, run, stage, until

KEPT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def condition(node: dict[str, Any] | None, kind: str) -> str:
    found = (one["status"] for one in (node or {})["status"]["conditions"] if one["type"] == kind)
    return str(next(found))


def test_a_node_is_made_ready_without_the_taint_of_new_nodes() -> None:
    async def main() -> None:
        shape = NodeShape(name="n1", capacity={"cpu": "8"}, allocatable={"cpu": "7"}, extra={GPU: 4}, taints=(KEPT,))
        async with stage(shape, sockets=False) as on:
            node = on.server.get("nodes", "n1") or {}
            assert node["spec"]["taints"] == [KEPT]
            assert condition(node, "Ready") == "True"
            assert node["status"]["capacity"] == {"cpu": "8", GPU: "4"}
            assert node["status"]["allocatable"] == {"cpu": "7", GPU: "4"}

    run(main())


def adopted(server: MemoryServer) -> None:
    meta = {"name": "n1", "labels": {"zone": "a"}, "annotations": {"x": "y"}}
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": [KEPT, NOT_READY]}})
    theirs = {"type": "GPUFault", "status": "False"}
    server.patch(
        "nodes", "n1", {"status": {"conditions": [theirs], "capacity": {"theirs/x": "1"}}}, subresource="status"
    )


def test_a_node_that_is_there_is_taken_over_and_keeps_what_is_others() -> None:
    async def main() -> None:
        async with stage(before=adopted, sockets=False) as on:
            node = on.server.get("nodes", "n1") or {}
            assert (node["metadata"]["labels"]["zone"], node["metadata"]["annotations"]["x"]) == ("a", "y")
            assert node["spec"]["taints"] == [KEPT]
            assert (condition(node, "Ready"), condition(node, "GPUFault")) == ("True", "False")
            assert node["status"]["capacity"]["theirs/x"] == "1"

    run(main())


def test_a_node_that_is_as_it_should_be_is_not_written_again_and_nothing_is_when_nothing_happens() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            on.bound("p", 1)
            await on.becomes("p", "Running")
            await asyncio.sleep(0.1)
            on.server.log.clear()
            await asyncio.sleep(0.2)
            assert on.server.log.writes == ()
        async with stage("n1", sockets=False) as on:
            on.server.log.clear()
            async with Kubelet(on.client, on.kubelet.nodes, pace=PACE):
                writes = [(one.verb, one.resource, one.status) for one in on.server.log.writes]
                assert writes == [("create", "nodes", 409)]

    run(main())


def test_a_pod_from_bound_to_gone() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            on.bound("p", 1, init=[1])
            status = (await on.becomes("p", "Running"))["status"]
            assert {one["type"]: one["status"] for one in status["conditions"]} == dict.fromkeys(
                ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"), "True"
            )
            assert status["podIP"] == "10.0.0.1"
            writes = len(on.server.log.of(resource="pods/status"))
            assert writes == 1
            on.server.delete("pods", "p")
            assert on.phase("p") == "Running"
            await until(lambda: on.phase("p") == "gone")
            said = [(one.verb, one.resource) for one in on.server.log.writes if one.name == "p"]
            assert said == [("patch", "pods/status"), ("patch", "pods/status"), ("delete", "pods")]

    run(main())


def test_pods_end_on_request() -> None:
    async def main() -> None:
        async with stage("n1", "n2", sockets=False) as on:
            on.bound("a", 0)
            on.bound("b", 0, node="n2")
            for name in "ab":
                await on.becomes(name, "Running")
            on.kubelet.finish("default/a")
            on.kubelet.finish("default/b", failed=True)
            await on.becomes("a", "Succeeded")
            await on.becomes("b", "Failed")
            with pytest.raises(ValueError, match="pod default/a is not running on any node that is played"):
                on.kubelet.finish("default/a")

    run(main())


def test_a_pod_that_is_deleted_and_made_again_under_its_name_is_another_pod() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on, ["GPU-0"]):
            on.bound("p", 1)
            await on.becomes("p", "Running")
            on.server.delete("pods", "p", grace_seconds=0)
            on.bound("p", 1)
            await on.becomes("p", "Running")
            assert len({one.pod_uid for one in on.kubelet.allocations}) == 2

    run(main())


def test_a_resource_without_a_plugin_is_counted() -> None:
    async def main() -> None:
        async with stage(NodeShape(name="n1", extra={GPU: 2}), sockets=False) as on:
            on.bound("a", 2)
            on.bound("b", 1)
            await on.becomes("a", "Running")
            status = (await on.becomes("b", "Failed"))["status"]
            assert status["reason"] == f"OutOf{GPU}"
            with pytest.raises(ValueError, match="node n1 has no plugin directory"):
                on.kubelet.pod_resources_socket("n1")
            with pytest.raises(ValueError, match="node n9 is not one of the 1 that are played"):
                await on.kubelet.stop("n9")

    run(main())


FAULTS: dict[str, Callable[[MemoryServer], None]] = {
    "status refused": lambda server: server.faults.answer(500, verb="patch", resource="pods/status", times=2),
    "status throttled": lambda server: server.faults.answer(429, verb="patch", resource="pods/status"),
    "status lost before": lambda server: server.faults.drop(verb="patch", resource="pods/status"),
    "status lost after": lambda server: server.faults.drop(verb="patch", resource="pods/status", after_write=True),
    "conflict": lambda server: server.faults.answer(409, reason="Conflict", verb="patch", resource="pods/status"),
    "remove lost": lambda server: server.faults.drop(verb="delete", resource="pods", after_write=True),
    "remove refused": lambda server: server.faults.answer(503, verb="delete", resource="pods"),
    "watch cut": lambda server: server.faults.cut_watches(after_events=1, abort=True, resource="pods"),
    "line halved": lambda server: server.faults.halve_line(resource="pods"),
    "forgotten": lambda server: server.compact(),
    "late": lambda server: server.faults.delay_watches(0.2, resource="pods"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_failing_api_server_delays_but_loses_nothing(fault: Callable[[MemoryServer], None]) -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            fault(on.server)
            for name in ("a", "b"):
                on.bound(name, 1)
            for name in ("a", "b"):
                await on.becomes(name, "Running")
            on.server.delete("pods", "a")
            await until(lambda: on.phase("a") == "gone")
            assert [one.pod for one in on.kubelet.allocations] == ["default/a", "default/b"]
            assert list(await on.listed()) == ["b"]

    run(main())


def test_a_node_whose_first_writes_fail_is_made_all_the_same() -> None:
    def failing(server: MemoryServer) -> None:
        server.faults.answer(500, verb="create", resource="nodes")
        server.faults.drop(verb="patch", resource="nodes/status", after_write=True)
        server.faults.answer(409, reason="Conflict", verb="patch", resource="nodes")

    async def main() -> None:
        async with stage(before=failing, sockets=False) as on:
            node = on.server.get("nodes", "n1") or {}
            assert (condition(node, "Ready"), node["spec"].get("taints")) == ("True", None)

    run(main())


def test_a_server_that_refuses_the_node_for_good_is_an_error_at_once() -> None:
    async def main() -> None:
        async with MemoryServer() as server, Client(Connection(where="test", url=server.url)) as client:
            server.faults.answer(403, reason="Forbidden", message="no nodes for you", verb="create", times=5)
            with pytest.raises(BaseExceptionGroup) as caught:
                async with Kubelet(client, [NodeShape(name="n1")], pace=PACE):
                    pass
            assert caught.group_contains(KubeError, match="no nodes for you")

    run(main())


def test_a_pod_that_was_written_nowhere_when_the_kubelet_died_is_written_by_the_next() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            on.server.faults.answer(500, verb="patch", resource="pods/status", times=1000)
            on.bound("p", 1)
            await until(lambda: on.server.log.of(resource="pods/status"))
            await on.kubelet.stop("n1")
            on.server.faults.clear()
            await on.kubelet.start("n1")
            await on.becomes("p", "Running")
            assert len(on.kubelet.allocations) == 1

    run(main())


def test_sixty_nodes_and_six_hundred_pods_in_one_process() -> None:
    nodes = [f"n{n}" for n in range(60)]

    async def main() -> float:
        async with stage(*nodes, sockets=False) as on:
            began = time.monotonic()
            for n in range(600):
                on.bound(f"p{n}", 0, node=nodes[n % 60])
            await until(lambda: all(one["status"]["phase"] == "Running" for one in on.server.list("pods")), 15)
            return time.monotonic() - began

    assert run(main()) < 15
