"""What went on between a kubelet and its device plugins, kept for tests and for people who watch a demo."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.sim.kubelet.objects import Json

MOST_KEPT = 100_000
TO_PLUGIN, TO_KUBELET = "kubelet->plugin", "plugin->kubelet"
FIRST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a plugin gave to a container: devices, and what goes into the container with them."""

    node: str
    pod: str
    pod_uid: str
    container: str
    resource: str
    ids: tuple[str, ...]
    envs: Mapping[str, str]
    annotations: Mapping[str, str]
    mounts: tuple[tuple[str, str, bool], ...]
    """Path in the container, path on the host, whether it is read-only."""
    devices: tuple[tuple[str, str, str], ...]
    """Path in the container, path on the host, permissions."""
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One message. Long lists of devices are shortened: `message` holds their number and the first of them."""

    seconds: float
    node: str
    direction: str
    rpc: str
    message: Json


@dataclass(slots=True, kw_only=True)
class Records:
    """The newest of each, oldest first."""

    allocations: deque[Allocation] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    calls: deque[CallRecord] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))


def allocation(
    answer: dp.ContainerAllocateResponse,
    *,
    node: str,
    pod: str,
    pod_uid: str,
    container: str,
    resource: str,
    ids: tuple[str, ...],
) -> Allocation:
    """An allocation out of the plugin's answer."""
    return Allocation(
        node=node,
        pod=pod,
        pod_uid=pod_uid,
        container=container,
        resource=resource,
        ids=ids,
        envs=dict(answer.envs),
        annotations=dict(answer.annotations),
        mounts=tuple((one.container_path, one.host_path, one.read_only) for one in answer.mounts),
        devices=tuple((one.container_path, one.host_path, one.permissions) for one in answer.devices),
        cdi_devices=tuple(one.name for one in answer.cdi_devices),
    )


def shown(message: Message) -> Json:
    """A message as the log holds it."""
    if isinstance(message, dp.ListAndWatchResponse):
        return {
            "count": len(message.devices),
            "unhealthy": [one.ID for one in message.devices if one.health != "Healthy"],
            "first2": [_plain(one) for one in message.devices[:2]],
        }
    if isinstance(message, dp.PreferredAllocationRequest):
        return {"container_requests": [_preference(one) for one in message.container_requests]}
    return _plain(message)


def _preference(one: dp.ContainerPreferredAllocationRequest) -> Json:
    return {
        "available": len(one.available_deviceIDs),
        f"available_first{FIRST_SHOWN}": list(one.available_deviceIDs[:FIRST_SHOWN]),
        "must_include_deviceIDs": list(one.must_include_deviceIDs),
        "allocation_size": one.allocation_size,
    }


def _plain(message: Message) -> Json:
    plain: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return plain
