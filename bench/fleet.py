"""Fleets for benchmarks, made from a seed: nodes of eight (or sixteen) cards, running pods, and pods that ask."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cardwise.core.cluster import Cluster
from cardwise.core.model import (
    Card,
    CardPolicy,
    CardRequest,
    ContainerRequest,
    Links,
    Node,
    PodRequest,
    Selection,
)
from cardwise.wire import names
from cardwise.wire.families import FAMILIES
from cardwise.wire.links import encode_links
from cardwise.wire.register import encode_register

MODELS = (
    ("NVIDIA A100-SXM4-80GB", 81920),
    ("NVIDIA A100-SXM4-40GB", 40960),
    ("NVIDIA H100 80GB HBM3", 81559),
    ("NVIDIA L40S", 46068),
    ("NVIDIA-Tesla T4", 15360),
)
NO_RECORD: Mapping[str, str] = {}
SHAPES = tuple(
    CardRequest(family="nvidia", count=count, memory_mib=memory, cores_percent=cores)
    for count, memory, cores in (
        *((1, memory, cores) for memory in (2000, 4000, 8000, 10000, 15000) for cores in (0, 10, 30)),
        (2, 10000, 20),
    )
)


def links_of(cards: int) -> Links:
    """Pairs by NVLink, fours on one switch, the rest across: scores as the device plugin computes them."""

    def score(a: int, b: int) -> int:
        if a == b:
            return 0
        if a // 2 == b // 2:
            return 200
        return 40 if a // 4 == b // 4 else 20 if a // 8 == b // 8 else 10

    return tuple(tuple(score(a, b) for b in range(cards)) for a in range(cards))


def node_of(number: int, cards: int = 8) -> Node:
    """One node; its model follows from its number."""
    model, memory = MODELS[number % len(MODELS)]
    return Node(
        name=f"node-{number:05d}",
        cards=tuple(
            Card(
                uuid=f"GPU-{number:08x}-{index:04x}-4000-8000-000000000000",
                index=index,
                family="nvidia",
                model=model,
                slots=10,
                memory_mib=memory,
                cores_percent=100,
                numa=index * 2 // cards,
                mode="hami-core",
            )
            for index in range(cards)
        ),
        links=links_of(cards),
    )


def pod_of(name: str, *requests: CardRequest, **wishes: Any) -> PodRequest:
    """A pod whose containers ask for one request each."""
    containers = tuple(ContainerRequest(name=f"c{i}", cards=(request,)) for i, request in enumerate(requests))
    return PodRequest(namespace="bench", name=name, uid=name, containers=containers, **wishes)


def fleet(nodes: int, running: int, cards: int = 8, seed: int = 42) -> Cluster:
    """A cluster with so many nodes and running pods; shapes are drawn with a long tail, as in real clusters."""
    cluster = Cluster(FAMILIES)
    for number in range(nodes):
        cluster.set_node(node_of(number, cards))
    for number, shape in enumerate(drawn_shapes(running, seed)):
        pod = pod_of(f"running-{number}", shape, node_policy="spread")
        placement = cluster.place(pod)
        if placement is not None:
            cluster.reserve(pod, placement)
    return cluster


def drawn_shapes(count: int, seed: int = 42) -> Iterator[CardRequest]:
    """So many shapes, drawn with a long tail."""
    weights = [1 / rank for rank in range(1, len(SHAPES) + 1)]
    yield from random.Random(seed).choices(SHAPES, weights, k=count)


def unseen(number: int) -> PodRequest:
    """A pod whose shape nobody asked for before."""
    return pod_of(f"new-{number}", replace(SHAPES[0], memory_mib=2001 + number))


def two_with_numa(number: int) -> PodRequest:
    """Two containers, each with two cards on one NUMA node."""
    request = CardRequest(family="nvidia", count=2, memory_mib=4000, cores_percent=10)
    return pod_of(f"numa-{number}", request, request, selections={"nvidia": Selection(one_numa=True)})


def linked(number: int, count: int) -> PodRequest:
    """One container that wants well-linked cards."""
    request = CardRequest(family="nvidia", count=count, memory_mib=1000, cores_percent=1)
    return pod_of(f"linked-{number}", request, card_policy=CardPolicy(keys=("spread",), linked=True))


def snapshot(nodes: int, running: int, pending: int, seed: int = 42) -> Iterator[dict[str, Any]]:
    """The same as Kubernetes objects, with what a real API server prints around it."""
    cluster = fleet(nodes, running, seed=seed)
    for number in range(nodes):
        yield _node_object(cluster.cards.node(number))
    for number, hold in enumerate(cluster.holds.values()):
        (container,) = hold.containers
        text = "".join(f"{c.uuid},NVIDIA,{c.memory_mib},{c.cores_percent}:" for c in container.cards) + ";"
        first = container.cards[0]
        request = CardRequest(
            family="nvidia", count=len(container.cards), memory_mib=first.memory_mib, cores_percent=first.cores_percent
        )
        record = {
            "hami.io/vgpu-node": hold.node,
            "hami.io/vgpu-time": "1796065449",
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-allocated": text,
            "hami.io/vgpu-devices-to-allocate": ";",
        }
        yield pod_object(hold.name, number, request, hold.node, record)
    rng = random.Random(seed + 1)
    for number in range(pending):
        yield pod_object(f"pending-{number}", running + number, rng.choice(SHAPES))


def whole_cluster(nodes: int, running: int, plain: int) -> Iterator[dict[str, Any]]:
    """The same with so many pods beside that ask for no cards."""
    yield from snapshot(nodes, running, 0)
    for number in range(running, running + plain):
        yield pod_object(f"plain-{number}", number, None, f"node-{number % nodes:05d}")


def _node_object(node: Node) -> dict[str, Any]:
    amounts = {"cpu": "128", "memory": "1056617360Ki", "ephemeral-storage": "1843269236Ki", "pods": "110"}
    amounts["nvidia.com/gpu"] = str(sum(card.slots for card in node.cards))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": f"00000000-0000-0000-0000-{node.name[-5:]:>012}",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "gpu": "on"},
            "annotations": {
                names.NODE_AGENT: "0.1.0",
                "hami.io/node-nvidia-register": encode_register(node.cards, "json"),
                "hami.io/node-nvidia-score": encode_links([card.uuid for card in node.cards], node.links),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": "2026-11-30T19:08:17Z",
                    "reason": f"Kubelet{kind}",
                    "message": "kubelet is posting status",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "nodeInfo": {"kernelVersion": "6.1.0", "kubeletVersion": "v1.36.2", "operatingSystem": "linux"},
        },
    }


def uid_of(number: int) -> str:
    """The uid of the pod with this number."""
    return f"10000000-0000-0000-0000-{number:012d}"


def namespace_of(number: int) -> str:
    """Its namespace: twenty teams take turns."""
    return f"team-{number % 20}"


def pod_object(
    name: str, number: int, request: CardRequest | None, node: str = "", record: Mapping[str, str] = NO_RECORD
) -> dict[str, Any]:
    """A Pod as the API server completes it; with a node, one that runs there and holds what the record says."""
    limits = {"cpu": "2", "memory": "8Gi"}
    if request is not None:
        limits["nvidia.com/gpu"] = str(request.count)
        limits["nvidia.com/gpumem"] = str(request.memory_mib)
        limits["nvidia.com/gpucores"] = str(request.cores_percent)
    token = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token", "readOnly": True}
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/team/trainer:1.4.2",
                "command": ["python", "-m", "trainer", "--config", "/etc/trainer/config.yaml"],
                "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(6)],
                "resources": {"limits": limits, "requests": limits},
                "volumeMounts": [token],
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "schedulerName": "hami-scheduler",
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    }
    status: dict[str, Any] = {"phase": "Pending"}
    if node:
        spec["nodeName"] = node
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "startTime": "2026-11-30T19:17:51Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T19:17:52Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}],
        }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace_of(number),
            "uid": uid_of(number),
            "creationTimestamp": f"2026-11-30T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "labels": {"app": "trainer", "team": namespace_of(number)},
            "annotations": {"example.com/owner": "someone@example.com", **record},
        },
        "spec": spec,
        "status": status,
    }
