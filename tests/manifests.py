"""Kubernetes objects as plain values, as a user's files hold them, and those files' texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml12

from cardwise.core.model import Placement
from cardwise.scheduler.admission import Rules
from cardwise.sim.documents import Document
from cardwise.sim.simulate import Result, simulate
from cardwise.sim.snapshot import Snapshot
from cardwise.sim.world import World, build
from cardwise.wire.families import NVIDIA

Object = dict[str, Any]
A40_REGISTER = (
    "GPU-03f69c50-207a-2038-9b45-23cac89cb67d,10,46068,100,NVIDIA-NVIDIA A40,0,true:"
    "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae,10,46068,100,NVIDIA-NVIDIA A40,0,true:"
)
RTX = "NVIDIA-NVIDIA GeForce RTX 3090"
RESOURCES = {
    "gpu": "nvidia.com/gpu",
    "gpumem": "nvidia.com/gpumem",
    "percent": "nvidia.com/gpumem-percentage",
    "gpucores": "nvidia.com/gpucores",
}


def card_record(uuid: str, index: int = 0, **other: Any) -> Object:
    """One card of a register in JSON form: 24576 MiB, 100 %, 10 slots, healthy, unless said otherwise."""
    usual = {"count": 10, "devmem": 24576, "devcore": 100, "type": RTX, "numa": 0, "mode": "hami-core", "health": True}
    return {"id": uuid, "index": index} | usual | other


def card_records(number: int, prefix: str = "GPU", **other: Any) -> list[Object]:
    """So many like cards, <prefix>-0 and on."""
    return [card_record(f"{prefix}-{n}", n, **other) for n in range(number)]


def node_object(
    name: str,
    cards: str | Sequence[Object] = A40_REGISTER,
    *,
    key: str = NVIDIA.register_key,
    annotations: Mapping[str, Any] | None = None,
    links: Sequence[Object] | None = None,
    labels: Mapping[str, str] | None = None,
    **rest: Any,
) -> Object:
    """A Node with this register, text as it stands or records as JSON; `rest` are spec and status."""
    register = cards if isinstance(cards, str) else msgspec.json.encode(cards).decode()
    scores = {} if links is None else {NVIDIA.links_key: msgspec.json.encode(links).decode()}
    meta = {"name": name, "labels": dict(labels or {}), "annotations": {key: register, **scores, **(annotations or {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, **rest}


def limits_of(**asked: Any) -> Object:
    """Limits by the short names gpu, gpumem, percent and gpucores; other names stand for themselves."""
    return {RESOURCES.get(name, name): amount for name, amount in asked.items()}


def container_object(name: str = "main", *, more: Object | None = None, **asked: Any) -> Object:
    """A container with these limits; `more` are other fields of it."""
    return {"name": name, "image": "ubuntu:22.04", "resources": {"limits": limits_of(**asked)}, **(more or {})}


def pod_object(
    name: str,
    annotations: Mapping[str, Any] | None = None,
    *,
    namespace: str | None = "ml",
    containers: Sequence[Object] | None = None,
    init: Sequence[Object] = (),
    meta: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **asked: Any,
) -> Object:
    """A Pod whose one container `main` has these limits, or which has these containers."""
    about: Object = {"name": name, "annotations": dict(annotations or {})}
    about |= {"namespace": namespace} if namespace else {}
    inside: Object = {"containers": list(containers) if containers is not None else [container_object(**asked)]}
    if init:
        inside["initContainers"] = list(init)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**about, **(meta or {})},
        "spec": {**inside, **(spec or {})},
    }


def running_pod(
    name: str, node: str, assignment: str, *, annotations: Mapping[str, Any] | None = None, **rest: Any
) -> Object:
    """A Pod that is bound to a node, runs there, and has this assignment."""
    record = {
        "hami.io/vgpu-node": node,
        NVIDIA.allocated_key: assignment,
        NVIDIA.to_allocate_key: assignment,
        "hami.io/bind-phase": "success",
    }
    pod = pod_object(name, {**record, **(annotations or {})}, **rest)
    pod["metadata"].setdefault("uid", f"uid-{name}")
    pod["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    pod["spec"]["nodeName"] = node
    return {**pod, "status": {"phase": "Running"}}


def using(*cards: tuple[str, int, int]) -> str:
    """The assignment of a pod of one container with these cards: UUID, MiB, percent."""
    return "".join(f"{uuid},NVIDIA,{mib},{cores}:" for uuid, mib, cores in cards) + ";"


def workload_object(
    kind: str,
    name: str,
    template: Object,
    *,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A workload of this kind whose pods are like the Pod `template`."""
    of_pods = {"metadata": {"annotations": template["metadata"].get("annotations", {})}, "spec": template["spec"]}
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    about = {"name": name, "namespace": "ml", "annotations": dict(annotations or {}), **(meta or {})}
    inside: Object = {"template": of_pods, **spec}
    if kind == "CronJob":
        suspend = {"suspend": inside.pop("suspend")} if "suspend" in inside else {}
        inside = {"schedule": "0 0 * * *", "jobTemplate": {"spec": inside}, **suspend}
    whole = {"apiVersion": group, "kind": kind, "metadata": about, "spec": inside}
    return {**whole, "status": dict(status)} if status is not None else whole


def list_object(items: Iterable[Object]) -> Object:
    """What `kubectl get` prints for several objects."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def to_yaml(*objects: Any) -> str:
    """A file of these objects, a document each."""
    return yaml12.format_yaml(list(objects), multi=True)


def to_json(value: Any) -> str:
    """A file of this one object."""
    return msgspec.json.encode(value).decode()


def write(folder: Path, *objects: Any, name: str = "input.yaml") -> str:
    """The path of a new file with these objects."""
    path = folder / name
    path.write_text(to_yaml(*objects), encoding="utf-8")
    return str(path)


def snapshot_of(*objects: Any) -> Snapshot:
    """The snapshot of these objects. Nothing of them may be lost."""
    snapshot = Snapshot()
    for number, value in enumerate(objects, 1):
        snapshot.add(Document(f"object {number}", value))
    assert snapshot.errors == []
    return snapshot


def world_of(*objects: Any, rules: Rules | None = None) -> World:
    """The world that these objects show."""
    return build(snapshot_of(*objects), rules or Rules())


def simulated(*objects: Any, rules: Rules | None = None) -> Result:
    """What becomes of the pods among these objects that wait."""
    return simulate(world_of(*objects, rules=rules), detailed=True)


def uuids_of(placement: Placement) -> list[str]:
    """The cards of all containers of a placement, in order."""
    return [card.uuid for container in placement.containers for card in container.cards]


def where(result: Result) -> dict[str, tuple[str, list[str]]]:
    """For each placed pod its node and cards."""
    return {
        placed.pod.partition("/")[2]: (placed.placement.node, uuids_of(placed.placement)) for placed in result.placed
    }


def reasons(result: Result) -> dict[str, str]:
    """For each pod that waits, why."""
    return {pending.pod.partition("/")[2]: pending.reason for pending in result.pending}
