"""The stand-in kubelet against the real API server: nodes that a real kube-scheduler uses, pods from bound to gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cardwise.kube.client import Client
from cardwise.kube.kubeconfig import load
from cardwise.sim.kubelet.kubelet import Kubelet
from cardwise.sim.kubelet.objects import NodeShape
from kubelet.bench import GPU
from kubelet.stage import PATIENT, StubPlugin, gpu_ids, run, short_directory, until

from .cluster import create_pod, get_pod
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

NODES = [NodeShape(name="played-1"), NodeShape(name="played-2", extra={"example.com/seat": 2})]


def playing(plane: ControlPlane, test: Callable[[Kubelet, Path], Awaitable[None]]) -> None:
    """Runs a test beside the kubelets of NODES."""

    async def main() -> None:
        connection = load(str(plane.kubeconfig("kubelet", ("system:masters",))))
        with short_directory() as root:
            dirs = {"played-1": root / "1" / "device-plugins"}
            async with Client(connection) as client, Kubelet(client, NODES, dirs, pace=PATIENT) as kubelet:
                await test(kubelet, root)

    run(main(), 60)


async def ask(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A blocking request, beside the kubelets' own loop."""
    return await asyncio.to_thread(call, *args, **options)


async def until_phase(rest: Rest, name: str, phase: str) -> Json:
    async with asyncio.timeout(20):
        while True:
            answer = await ask(rest.get, f"/api/v1/namespaces/default/pods/{name}")
            if answer.status == 404:
                assert phase == "gone", f"{name} is gone"
                return {}
            pod: Json = answer.done()
            if pod["status"]["phase"] == phase:
                return pod
            await asyncio.sleep(0.02)


async def plugged(rest: Rest, directory: Path, count: int) -> StubPlugin:
    plugin = StubPlugin(directory=directory, ids=gpu_ids(1, count), pre_start=True)
    await plugin.serve()
    await plugin.register()
    await until_allocatable(rest, str(count))
    return plugin


async def until_allocatable(rest: Rest, amount: str) -> None:
    async with asyncio.timeout(20):
        while True:
            node = (await ask(rest.get, "/api/v1/nodes/played-1")).done()
            if node["status"]["allocatable"].get(GPU) == amount:
                return
            await asyncio.sleep(0.02)


def test_a_real_scheduler_uses_the_nodes_and_their_pods_run_end_and_go(plane: ControlPlane) -> None:
    rest = plane.rest
    scheduler = plane.start_scheduler()

    async def test(kubelet: Kubelet, root: Path) -> None:
        node = (await ask(rest.get, "/api/v1/nodes/played-1")).done()
        assert not node["spec"].get("taints")
        plugin = await plugged(rest, root / "1" / "device-plugins", 4)
        spec = {"initContainers": [{"name": "i", "image": "none", "resources": {"limits": {GPU: "1"}}}]}
        await ask(create_pod, rest, "gpu", limits={GPU: "2"}, spec=spec)
        await ask(create_pod, rest, "seat", limits={"example.com/seat": "1"})
        pod = await until_phase(rest, "gpu", "Running")
        await until_phase(rest, "seat", "Running")
        (container,) = pod["status"]["containerStatuses"]
        assert (container["ready"], container["allocatedResources"]) == (True, {GPU: "2"})
        assert pod["status"]["podIP"] == "10.0.0.1"
        assert {one["type"] for one in pod["status"]["conditions"]} >= {"PodScheduled", "Ready", "Initialized"}
        kubelet.finish("default/seat")
        await until_phase(rest, "seat", "Succeeded")
        await ask(rest.delete, "/api/v1/namespaces/default/pods/gpu")
        await until_phase(rest, "gpu", "gone")
        assert [one.container for one in kubelet.allocations] == ["i", "main"]
        await plugin.stop()
        await until_allocatable(rest, "0")

    try:
        playing(plane, test)
    finally:
        scheduler.stop()
    written = [(one["verb"], one["objectRef"].get("subresource", "")) for one in plane.audit_of("pods", "gpu")]
    assert written.count(("delete", "")) == 2


def test_pods_past_the_scheduler_fail_for_good_and_a_restart_keeps_those_that_run(plane: ControlPlane) -> None:
    rest = plane.rest

    async def test(kubelet: Kubelet, root: Path) -> None:
        directory = root / "1" / "device-plugins"
        plugin = await plugged(rest, directory, 3)
        await ask(create_pod, rest, "one", limits={GPU: "1"}, spec={"nodeName": "played-1"})
        await until_phase(rest, "one", "Running")
        await ask(create_pod, rest, "many", limits={GPU: "3"}, spec={"nodeName": "played-1"})
        status = (await until_phase(rest, "many", "Failed"))["status"]
        short = f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"
        message = f"Pod was rejected: Allocate failed due to {short}, which is unexpected"
        assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", message)
        await kubelet.stop("played-1")
        await ask(create_pod, rest, "late", limits={GPU: "1"}, spec={"nodeName": "played-1"})
        await kubelet.start("played-1")
        again = StubPlugin(directory=directory, ids=plugin.ids, endpoint="again.sock")
        await again.serve()
        await again.register()
        await until_phase(rest, "late", "Running")
        assert [one.pod for one in kubelet.allocations] == ["default/one", "default/late"]
        assert (await ask(get_pod, rest, "one"))["status"]["containerStatuses"][0]["restartCount"] == 0
        await until(lambda: len(again.allocated) == 1)
        await plugin.stop()
        await again.stop()

    playing(plane, test)
