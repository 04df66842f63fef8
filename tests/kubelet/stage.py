"""The stand-in kubelet over real sockets: an API server in memory, and device plugins that do as told."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from cardwise.kube.client import Client
from cardwise.kube.connection import Connection
from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.kube.kubelet import podresources_pb2 as pr
from cardwise.kube.kubelet import rpc
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.kubelet.kubelet import Kubelet
from cardwise.sim.kubelet.objects import NodeShape, Pace
from kubelet.bench import GPU

T = TypeVar("T")
Json = dict[str, Any]

PACE = Pace(start_seconds=0.02, stop_seconds=0.02, first_pods_seconds=0.02, retry_seconds=0.1, node_status_seconds=0.02)
PATIENT = replace(PACE, first_pods_seconds=0.5)
"""Leaves a plugin the time to register again before the first admission after a restart."""


def run(coroutine: Coroutine[Any, Any, T], seconds: float = 20) -> T:
    """Runs a test's coroutine; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(coroutine, seconds))


async def until(holds: Callable[[], T], seconds: float = 5) -> T:
    """Waits until something is true, and returns it."""
    async with asyncio.timeout(seconds):
        while not (found := holds()):
            await asyncio.sleep(0.005)
    return found


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for the name of a unix socket."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as path:
        yield Path(path)


@dataclass(slots=True, kw_only=True)
class Stage:
    """A cluster of one API server and its kubelets."""

    server: MemoryServer
    client: Client
    kubelet: Kubelet
    root: Path
    skipped_seconds: list[float]

    def skip(self, seconds: float) -> None:
        """Sets the API server's clock forward; creation times are whole seconds."""
        self.skipped_seconds.append(seconds)

    def plugin_dir(self, node: str = "n1") -> Path:
        return self.root / node / "device-plugins"

    def create(self, name: str, *gpus: int, node: str = "", init: Sequence[int] = (), **spec: Any) -> Json:
        """A pod with containers c0, c1, ... of so many GPUs each."""
        return self.server.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {
                    "containers": [_container(f"c{n}", amount) for n, amount in enumerate(gpus)],
                    "initContainers": [_container(f"i{n}", amount) for n, amount in enumerate(init)],
                    **({"nodeName": node} if node else {}),
                    **spec,
                },
            }
        )

    def bound(self, name: str, *gpus: int, node: str = "n1", init: Sequence[int] = ()) -> None:
        """A pod that a scheduler has put on a node."""
        self.create(name, *gpus, init=init)
        self.server.bind(name, node)

    def phase(self, name: str) -> str:
        pod = self.server.get("pods", name)
        return "gone" if pod is None else str(pod["status"].get("phase"))

    async def becomes(self, name: str, phase: str) -> Json:
        """The pod when it has got there."""
        await until(lambda: self.phase(name) == phase)
        return self.server.get("pods", name) or {}

    def amounts(self, node: str = "n1") -> tuple[str | None, str | None]:
        """Capacity and allocatable of GPUs as the API server has them."""
        status = (self.server.get("nodes", node) or {})["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    async def crash(self, name: str) -> None:
        """Lets the first container of a pod end, as soon as the kubelet knows that the pod runs."""
        async with asyncio.timeout(5):
            while True:
                with suppress(ValueError):
                    return self.kubelet.crash(f"default/{name}", "c0")
                await asyncio.sleep(0.005)

    async def listed(self, node: str = "n1") -> dict[str, dict[str, list[str]]]:
        """What the node's pod-resources say."""
        async with rpc.channel_to(self.kubelet.pod_resources_socket(node)) as channel:
            answer = await rpc.LIST.over(channel)(pr.ListPodResourcesRequest())
        return {
            one.name: {each.name: sorted(i for d in each.devices for i in d.device_ids) for each in one.containers}
            for one in answer.pod_resources
        }


def _container(name: str, gpus: int) -> Json:
    limits = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {"name": name, "image": "pause", "resources": limits}


@asynccontextmanager
async def stage(
    *nodes: str | NodeShape,
    sockets: bool = True,
    pace: Pace = PACE,
    before: Callable[[MemoryServer], None] | None = None,
) -> AsyncIterator[Stage]:
    """A cluster with these nodes; `before` may prepare the server."""
    shapes = [NodeShape(name=one) if isinstance(one, str) else one for one in nodes or ("n1",)]
    with short_directory() as root:
        dirs = {one.name: root / one.name / "device-plugins" for one in shapes} if sockets else None
        skipped: list[float] = []
        clock = partial(_now, skipped)
        async with MemoryServer(clock=clock) as server, Client(Connection(where="test", url=server.url)) as client:
            if before is not None:
                before(server)
            async with Kubelet(client, shapes, dirs, pace=pace) as kubelet:
                yield Stage(server=server, client=client, kubelet=kubelet, root=root, skipped_seconds=skipped)


def _now(skipped: list[float]) -> float:
    return time.time() + sum(skipped)


AllocateHook = Callable[[list[str]], Awaitable[None]]


async def _agree(_ids: list[str]) -> None:
    return


@dataclass(slots=True, kw_only=True)
class StubPlugin:
    """A device plugin of a few lines. `on_allocate` may wait, look around, or raise `RefusedError`."""

    directory: Path
    ids: list[str]
    resource: str = GPU
    endpoint: str = "stub.sock"
    pre_start: bool = False
    preferred: bool = True
    on_allocate: AllocateHook = _agree
    fail_options: bool = False
    sick: set[str] = field(default_factory=set)
    allocated: list[list[str]] = field(default_factory=list)
    _server: grpc.aio.Server | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False

    async def serve(self) -> None:
        """Makes its socket."""
        self._server = rpc.server_at(
            self.directory / self.endpoint,
            rpc.DEVICE_PLUGIN,
            rpc.OPTIONS.served(self._options),
            rpc.LIST_AND_WATCH.served(self._list),
            rpc.PREFERRED.served(self._preferred),
            rpc.ALLOCATE.served(self._allocate),
            rpc.PRE_START.served(self._pre_start),
        )
        await self._server.start()

    async def register(self, *, version: str = rpc.VERSION) -> None:
        """Tells the kubelet of itself. Raises `grpc.aio.AioRpcError` where that refuses."""
        asked = dp.RegisterRequest(
            version=version, endpoint=self.endpoint, resource_name=self.resource, options=self._offer()
        )
        async with rpc.channel_to(self.directory / rpc.KUBELET_SOCKET) as channel:
            await rpc.REGISTER.over(channel)(asked, timeout=5)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    def end_list(self) -> None:
        """Ends its list of devices, and nothing else."""
        self._ended = True
        self._changed.set()

    def change(self, sick: set[str]) -> None:
        """Lists its devices again."""
        self.sick = sick
        self._changed.set()

    def _offer(self) -> dp.DevicePluginOptions:
        return dp.DevicePluginOptions(
            pre_start_required=self.pre_start, get_preferred_allocation_available=self.preferred
        )

    async def _options(self, _asked: dp.Empty, context: rpc.Context) -> dp.DevicePluginOptions:
        if self.fail_options:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no options here")
        return self._offer()

    async def _list(self, _asked: dp.Empty, _context: rpc.Context) -> AsyncIterator[dp.ListAndWatchResponse]:
        while not self._ended:
            self._changed.clear()
            yield dp.ListAndWatchResponse(devices=[self._device(one) for one in self.ids])
            await self._changed.wait()

    def _device(self, one: str) -> dp.Device:
        health = rpc.UNHEALTHY if one in self.sick else rpc.HEALTHY
        return dp.Device(ID=one, health=health, topology=dp.TopologyInfo(nodes=[dp.NUMANode(ID=0)]))

    async def _preferred(
        self, asked: dp.PreferredAllocationRequest, _context: rpc.Context
    ) -> dp.PreferredAllocationResponse:
        (one,) = asked.container_requests
        must = sorted(one.must_include_deviceIDs)
        others = [each for each in sorted(one.available_deviceIDs) if each not in must]
        chosen = [*must, *others][: one.allocation_size]
        answer = dp.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        return dp.PreferredAllocationResponse(container_responses=[answer])

    async def _allocate(self, asked: dp.AllocateRequest, context: rpc.Context) -> dp.AllocateResponse:
        (one,) = asked.container_requests
        ids = sorted(one.devices_ids)
        self.allocated.append(ids)
        try:
            await self.on_allocate(ids)
        except RefusedError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        text = ",".join(ids)
        answer = dp.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": text},
            mounts=[dp.Mount(container_path="/stub", host_path="/opt/stub", read_only=True)],
            devices=[dp.DeviceSpec(container_path="/dev/nvidia0", host_path="/dev/null", permissions="rw")],
            annotations={"stub/ids": text},
        )
        return dp.AllocateResponse(container_responses=[answer])

    async def _pre_start(
        self, _asked: dp.PreStartContainerRequest, _context: rpc.Context
    ) -> dp.PreStartContainerResponse:
        return dp.PreStartContainerResponse()


class RefusedError(Exception):
    """What a stub plugin says no with."""


def gpu_ids(cards: int, slots: int = 10) -> list[str]:
    return [f"GPU-{card:04}-{slot}" for card in range(cards) for slot in range(slots)]


@asynccontextmanager
async def plugged(
    on: Stage, ids: list[str] | None = None, node: str = "n1", **options: Any
) -> AsyncIterator[StubPlugin]:
    """A plugin that has registered, and whose devices the API server knows."""
    plugin = StubPlugin(directory=on.plugin_dir(node), ids=ids or gpu_ids(1, 4), **options)
    await plugin.serve()
    await plugin.register()
    await until(lambda: on.amounts(node)[1] == str(len(plugin.ids)))
    try:
        yield plugin
    finally:
        await plugin.stop()
