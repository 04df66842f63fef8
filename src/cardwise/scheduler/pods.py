"""A pod that asks for cards, as the scheduler last saw it: what decides whether it waits, holds, or is gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cardwise.core.family import Family
from cardwise.core.model import PodRequest, Refusal
from cardwise.wire import names, objects
from cardwise.wire.pods import Defaults, PodReading, asks_for_cards, containers_of, read_pod

Refused = tuple[str, str, str]
"""A condition PodScheduled False: reason, message, since when."""


@dataclass(slots=True, kw_only=True)
class SeenPod:
    """`version` is the newest resource version seen, `refused` what kube-scheduler last said against the pod.

    `reading` is what it asks for, read once; `spec` what it says about amounts and nodes.
    """

    uid: str
    namespace: str
    name: str
    version: str
    spec: objects.PodSpec
    reading: PodReading
    node: str = ""
    ended: bool = False
    terminating: bool = False
    gated: bool = False
    ours: bool = True
    priority: int = 0
    created: str = ""
    refused: Refused | None = None
    nominated: str = ""
    record: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def request(self) -> PodRequest | None:
        """What it asks for; None where that is nothing, or cannot be meant."""
        return self.reading.request

    @property
    def waits(self) -> bool:
        """Whether it is for us to place, and is not placed."""
        return self.ours and not (self.node or self.ended or self.terminating or self.gated)


def is_managed(pod: objects.Pod, families: Iterable[Family]) -> bool:
    """Whether any container of the pod names a managed resource."""
    families = tuple(families)
    return any(asks_for_cards(container, families) for container, _kind in containers_of(pod))


def seen_pod(pod: objects.Pod, families: tuple[Family, ...], defaults: Defaults, own_names: Iterable[str]) -> SeenPod:
    """The pod as it is now."""
    meta, spec, status = pod.metadata, pod.spec, pod.status or objects.PodStatus()
    return SeenPod(
        uid=meta.uid,
        namespace=pod.namespace,
        name=meta.name,
        version=meta.resource_version,
        spec=_amounts_only(spec) if spec.node_name else spec,
        reading=_reading(pod, families, defaults),
        node=spec.node_name,
        ended=pod.ended,
        terminating=bool(meta.deletion_timestamp),
        gated=bool(spec.scheduling_gates),
        ours=spec.scheduler_name in own_names,
        priority=spec.priority or 0,
        created=meta.creation_timestamp or "",
        refused=refused_of(pod),
        nominated=status.nominated_node_name,
        record=record_of(pod, families),
    )


def _amounts_only(spec: objects.PodSpec) -> objects.PodSpec:
    """What is still of use of a bound pod's spec: tens of thousands are kept."""
    return objects.PodSpec(
        containers=spec.containers,
        init_containers=spec.init_containers,
        node_name=spec.node_name,
        overhead=spec.overhead,
        resources=spec.resources,
    )


def _reading(pod: objects.Pod, families: tuple[Family, ...], defaults: Defaults) -> PodReading:
    """What a waiting pod asks for. What a bound one asked for is in its record."""
    return PodReading() if pod.spec.node_name else read_pod(pod, families, defaults)


def unplaceable(seen: SeenPod, families: Iterable[Family]) -> Refusal | None:
    """Why the pod cannot be placed on any node, as it is written."""
    if seen.reading.faults:
        text = seen.reading.faults[0]
        return Refusal(code="PodInvalid", text=text, kind=text, lasting=True)
    counts = {family.count_resource for family in families}
    for container, resource, _amount in seen.reading.writes:
        if resource in counts:
            text = (
                f"pod {seen.full_name}, container {container}: {resource} is not set, must be set by admission"
                " (the pod did not pass Cardwise's webhook)"
            )
            return Refusal(code="PodNotAdmitted", text=text, kind=text, lasting=True)
    return None


def refused_of(pod: objects.Pod) -> Refused | None:
    """What kube-scheduler says against the pod, if it does."""
    for each in (pod.status and pod.status.conditions) or ():
        if each.type == "PodScheduled" and each.status == "False":
            return each.reason, each.message, each.last_transition_time or ""
    return None


def record_of(pod: objects.Pod, families: tuple[Family, ...]) -> tuple[str, ...]:
    """All texts that say what a bound pod holds: while they are the same, so is the hold."""
    if not pod.spec.node_name:
        return ()
    keys = (names.ASSIGNED_NODE, names.EXCLUSIVE_CARDS, *(family.allocated_key for family in families))
    return (pod.spec.node_name, *(pod.annotations.get(key, "") for key in keys))


def is_older(version: str, than: str) -> bool:
    """Whether a resource version is older than another: they count up in all servers that are in use.

    Where one is no number nothing is known, and nothing counts as old.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
