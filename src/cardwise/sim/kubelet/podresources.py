"""One node's pod-resources API: which containers have which devices, those of the pod being admitted not yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc

from cardwise.kube.kubelet import podresources_pb2 as pr
from cardwise.kube.kubelet import rpc
from cardwise.sim.kubelet.devices import Device
from cardwise.sim.kubelet.node import Node
from cardwise.sim.kubelet.objects import Pod

CALLS_PER_SECOND = 100.0
MOST_AT_ONCE = 10.0


class RateLimit:
    """So many calls a second, and some more at once."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens = MOST_AT_ONCE
        self._at = monotonic()

    def take(self) -> bool:
        """Whether one more call is allowed now."""
        now = self._monotonic()
        self._tokens = min(MOST_AT_ONCE, self._tokens + (now - self._at) * CALLS_PER_SECOND)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResources:
    """The server of one node."""

    def __init__(self, directory: Path, node: Node, monotonic: Callable[[], float]) -> None:
        self.socket = directory / rpc.KUBELET_SOCKET
        self._node = node
        self._limit = RateLimit(monotonic)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listens on its socket, one that was left there is replaced."""
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._server = rpc.server_at(
            self.socket,
            rpc.POD_RESOURCES,
            rpc.LIST.served(self._list),
            rpc.GET.served(self._get),
            rpc.ALLOCATABLE.served(self._allocatable),
        )
        await self._server.start()

    async def stop(self) -> None:
        """As when a kubelet's process ends."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    async def _list(self, _asked: pr.ListPodResourcesRequest, context: rpc.Context) -> pr.ListPodResourcesResponse:
        await self._allow(context)
        return pr.ListPodResourcesResponse(pod_resources=[self._of(pod) for pod in self._node.active()])

    async def _get(self, asked: pr.GetPodResourcesRequest, context: rpc.Context) -> pr.GetPodResourcesResponse:
        await self._allow(context)
        pod = self._named(asked.pod_namespace, asked.pod_name)
        if pod is None:
            missing = f"pod {asked.pod_name} in namespace {asked.pod_namespace} not found"
            await context.abort(grpc.StatusCode.UNKNOWN, missing)
        return pr.GetPodResourcesResponse(pod_resources=self._of(pod))

    async def _allocatable(
        self, _asked: pr.AllocatableResourcesRequest, context: rpc.Context
    ) -> pr.AllocatableResourcesResponse:
        await self._allow(context)
        devices = self._node.devices
        return pr.AllocatableResourcesResponse(
            devices=[
                one
                for resource, healthy in devices.healthy.items()
                for device in sorted(healthy)
                for one in _entries(resource, devices.listed[resource][device])
            ]
        )

    def _named(self, namespace: str, name: str) -> Pod | None:
        pods = (record.pod for record in self._node.pods.values())
        return next((pod for pod in pods if pod.full_name == f"{namespace}/{name}"), None)

    async def _allow(self, context: rpc.Context) -> None:
        if not self._limit.take():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _of(self, pod: Pod) -> pr.PodResources:
        return pr.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[
                pr.ContainerResources(name=one.name, devices=list(self._devices(pod.uid, one.name)))
                for one in pod.listed()
            ],
        )

    def _devices(self, uid: str, container: str) -> Iterator[pr.ContainerDevices]:
        devices = self._node.devices
        for resource, ids in devices.of_container(uid, container).items():
            known = devices.listed.get(resource, {})
            for one in devices.shuffled(ids):
                yield from _entries(resource, known.get(one, Device(id=one)))


def _entries(resource: str, device: Device) -> Iterator[pr.ContainerDevices]:
    """One entry for each memory node that the device is near to, and one without where it names none."""
    if not device.numa:
        yield pr.ContainerDevices(resource_name=resource, device_ids=[device.id])
    for numa in device.numa:
        topology = pr.TopologyInfo(nodes=[pr.NUMANode(ID=numa)])
        yield pr.ContainerDevices(resource_name=resource, device_ids=[device.id], topology=topology)
