"""Nodes with cards as the agent registers them, pods that ask for cards, and what the records on pods say."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from cardwise.wire import names
from cardwise.wire.families import NVIDIA

from .cluster import create_node, create_pod, get_pod
from .rest import Json, Rest

PODS = "/api/v1/namespaces/default/pods"
MEMORY_MIB, CORES_PERCENT, SLOTS = 24576, 100, 10
WHOLE = {NVIDIA.count_resource: "1"}


def create_gpu_node(
    rest: Rest, name: str, *, cards: int = 1, labels: dict[str, str] | None = None, slots: int = SLOTS
) -> Json:
    """A node with so many like cards, <name>-0 and on, registered by our own agent; answers it."""
    usual = {"count": slots, "devmem": MEMORY_MIB, "devcore": CORES_PERCENT, "type": "Card", "numa": 0, "health": True}
    register = [{"id": f"{name}-{n}", "index": n, "mode": "hami-core"} | usual for n in range(cards)]
    annotations = {NVIDIA.register_key: json.dumps(register), names.NODE_AGENT: "test"}
    allocatable = {NVIDIA.count_resource: str(slots * cards)}
    return create_node(rest, name, annotations=annotations, allocatable=allocatable, labels=labels)


def share(memory_mib: int, cores_percent: int = 0) -> dict[str, str]:
    """Limits that ask for a part of one card."""
    asked = {NVIDIA.memory_resource: str(memory_mib), NVIDIA.cores_resource: str(cores_percent)}
    return {key: amount for key, amount in (WHOLE | asked).items() if amount != "0"}


def create_pinned(rest: Rest, name: str, node: str, limits: dict[str, str]) -> Json:
    """A pod that goes to this node or nowhere."""
    return create_pod(rest, name, limits=limits, spec={"nodeSelector": {"kubernetes.io/hostname": node}})


def end(rest: Rest, *pods: str) -> None:
    """The pods are gone at once."""
    for name in pods:
        rest.delete(f"{PODS}/{name}?gracePeriodSeconds=0").done()


def end_all(rest: Rest) -> None:
    """No pod is left in the default namespace."""
    rest.delete(f"{PODS}?gracePeriodSeconds=0").done()


def cards_of(rest: Rest, name: str) -> list[str]:
    """The cards that are recorded on a pod."""
    return [uuid for uuid, _memory, _cores in given(get_pod(rest, name))]


def given(pod: Json) -> list[tuple[str, int, int]]:
    """UUID, MiB and percent of each card that is recorded on a pod. Read here by hand, not by the code that wrote it."""
    text = pod["metadata"].get("annotations", {}).get(NVIDIA.allocated_key, "")
    entries = [entry.split(",") for entry in text.replace(";", ":").split(":") if entry]
    return [(uuid, int(memory), int(cores)) for uuid, _kind, memory, cores in entries]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the records of all bound pods add up to."""

    pods_by_node: Counter[str]
    excess: list[str]
    """Cards that more is recorded of than they have, in words."""


def use(rest: Rest, selector: str = "") -> Use:
    """The use of every card, as the records of the pods with these labels say: of all, if none are named.

    Raises AssertionError for a bound pod without a record.
    """
    nodes: Counter[str] = Counter()
    slots, memory, cores = Counter[str](), Counter[str](), Counter[str]()
    for pod in rest.get(f"{PODS}?labelSelector={selector}").done()["items"]:
        if node := pod["spec"].get("nodeName"):
            nodes[node] += 1
            cards = given(pod)
            assert cards, f"{pod['metadata']['name']} is bound without a record"
            assert all(uuid.rpartition("-")[0] == node for uuid, *_ in cards), f"{pod['metadata']['name']}: {cards}"
            for uuid, mib, percent in cards:
                slots[uuid] += 1
                memory[uuid] += mib
                cores[uuid] += percent
    most = ((slots, SLOTS, "slots"), (memory, MEMORY_MIB, "MiB"), (cores, CORES_PERCENT, "percent"))
    excess = [f"{uuid}: {n} {unit}" for used, total, unit in most for uuid, n in used.items() if n > total]
    return Use(pods_by_node=nodes, excess=excess)
