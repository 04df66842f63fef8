"""The Node object of a node: made or taken over, Ready, without the taint that new nodes start with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardwise.kube.client import Client
from cardwise.kube.errors import Fault, KubeError
from cardwise.sim.kubelet.objects import SEEN_NODES, Json, NodeShape
from cardwise.sim.kubelet.statuses import node_amounts, node_conditions

NOT_READY = "node.kubernetes.io/not-ready"
"""The API server puts it on every new node; where no node controller takes it off, the kubelet's stand-in does."""


async def register(
    client: Client, shape: NodeShape, capacity: Mapping[str, int], allocatable: Mapping[str, int], *, ip: str, now: str
) -> None:
    """Makes a Node or takes over the one that is there; nothing is written that is there already. Raises KubeError."""
    node = await _ensure(client, shape)
    status = _status_of(node, shape, capacity, allocatable, ip, now)
    if status:
        node = await client.patch(SEEN_NODES, {"status": status}, shape.name, subresource="status")
    while any(map(_is_not_ready, taints := _taints(node))):
        rest = [one for one in taints if not _is_not_ready(one)]
        version = node["metadata"]["resourceVersion"]
        change = {"metadata": {"resourceVersion": version}, "spec": {"taints": rest or None}}
        try:
            node = await client.patch(SEEN_NODES, change, shape.name)
        except KubeError as error:
            if error.fault is not Fault.CONFLICT:
                raise
            node = await client.get_quorum(SEEN_NODES, shape.name)


async def write_amounts(
    client: Client, shape: NodeShape, capacity: Mapping[str, int], allocatable: Mapping[str, int]
) -> None:
    """Tells what the node has now. Raises KubeError."""
    all_capacity, all_allocatable = node_amounts(shape, capacity, allocatable)
    change = {"status": {"capacity": all_capacity, "allocatable": all_allocatable}}
    await client.patch(SEEN_NODES, change, shape.name, subresource="status")


async def _ensure(client: Client, shape: NodeShape) -> Json:
    labels = {"kubernetes.io/hostname": shape.name, "kubernetes.io/os": "linux"} | dict(shape.labels)
    meta = {"name": shape.name, "labels": labels, "annotations": dict(shape.annotations)}
    spec = {"taints": [dict(one) for one in shape.taints]} if shape.taints else {}
    try:
        return await client.create(SEEN_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    except KubeError as error:
        if error.fault is not Fault.ALREADY_EXISTS:
            raise
    return await client.get_quorum(SEEN_NODES, shape.name)


def _status_of(
    node: Json, shape: NodeShape, capacity: Mapping[str, int], allocatable: Mapping[str, int], ip: str, now: str
) -> Json:
    """What the node's status lacks."""
    status = node.get("status") or {}
    wanted_capacity, wanted_allocatable = node_amounts(shape, capacity, allocatable)
    change: dict[str, Any] = {}
    if not wanted_capacity.items() <= (status.get("capacity") or {}).items():
        change["capacity"] = wanted_capacity
    if not wanted_allocatable.items() <= (status.get("allocatable") or {}).items():
        change["allocatable"] = wanted_allocatable
    conditions = status.get("conditions") or []
    if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        change["conditions"] = node_conditions(conditions, now)
    if not status.get("addresses"):
        change["addresses"] = [
            {"type": "InternalIP", "address": ip},
            {"type": "Hostname", "address": shape.name},
        ]
    return change


def _taints(node: Json) -> list[Json]:
    return (node.get("spec") or {}).get("taints") or []


def _is_not_ready(taint: Json) -> bool:
    return taint.get("key") == NOT_READY
