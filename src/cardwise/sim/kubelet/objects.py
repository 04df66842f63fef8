"""Pods as a kubelet reads them, and what a node looks like that it plays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cardwise.kube.requests import NODES, PODS, Resource
from cardwise.wire.errors import WireError
from cardwise.wire.objects import Amounts, Container, Meta, Object
from cardwise.wire.quantity import parse_quantity

Json = dict[str, Any]


class PodMeta(Meta):
    deletion_grace_period_seconds: int | None = None


class PodContainer(Container):
    image: str = ""


class PodSpec(Object):
    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    node_name: str = ""


class PodStatus(Object):
    phase: str = ""
    conditions: list[Json] | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(Object):
    """A pod with what the kubelet needs of it."""

    metadata: PodMeta
    spec: PodSpec
    status: PodStatus | None = None

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def phase(self) -> str:
        """The phase, empty where there is none yet."""
        return self.status.phase if self.status is not None else ""

    @property
    def ended(self) -> bool:
        """Whether its status says that it will not run any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def deleted(self) -> bool:
        """Whether it is to be stopped."""
        return self.metadata.deletion_timestamp is not None

    def containers(self) -> list[PodContainer]:
        """All containers in the order in which they start: init containers, then the others."""
        return [*(self.spec.init_containers or ()), *(self.spec.containers or ())]

    def listed(self) -> list[PodContainer]:
        """The containers that pod-resources shows: those that run beside each other."""
        sidecars = [one for one in self.spec.init_containers or () if is_sidecar(one)]
        return [*sidecars, *(self.spec.containers or ())]

    def is_plain_init(self, container: Container) -> bool:
        """Whether it is an init container that ends before the others start."""
        return not is_sidecar(container) and any(one is container for one in self.spec.init_containers or ())


SEEN_PODS: Resource[Pod] = PODS.seen_as(Pod)
SEEN_NODES: Resource[Json] = NODES.seen_as(Json)


def is_sidecar(container: Container) -> bool:
    """Whether it is an init container that keeps running."""
    return container.restart_policy == "Always"


def limits_of(container: Container) -> Iterator[tuple[str, int]]:
    """What a container asks for, in whole units; the kubelet takes devices by the limits."""
    limits: Amounts = (container.resources.limits if container.resources is not None else None) or {}
    for resource, amount in limits.items():
        try:
            yield resource, math.ceil(parse_quantity(amount).value)
        except WireError:  # an API server would not have taken it
            continue


def requested(pod: Pod, resource: str) -> int:
    """How much of a resource a pod holds at its peak, as Kubernetes counts."""
    sidecars = peak = 0
    for one in pod.spec.init_containers or ():
        amount = dict(limits_of(one)).get(resource, 0)
        peak = max(peak, sidecars + amount)
        sidecars += amount if is_sidecar(one) else 0
    together = sum(dict(limits_of(one)).get(resource, 0) for one in pod.spec.containers or ())
    return max(peak, sidecars + together)


DEFAULT_CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A node to be played. `allocatable` is the capacity where it is not given.

    `extra` are extended resources that no device plugin serves: they are in both, and only counted. Labels, annotations
    and taints are those of a Node that has to be made; one that is there already keeps its own.
    """

    name: str
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    allocatable: Mapping[str, str] | None = None
    extra: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take, in seconds. Admission itself takes as long as the device plugin does.

    `start`: from admission to Running. `stop`: from a deletion to the end, within the pod's grace. `first_pods`: from the
    kubelet's start to its first admission, the time that plugins have to register (0.8 s was seen). `retry`: until a
    container that could not be started is tried again. `node_status`: how long changes of a node are collected.
    """

    start_seconds: float = 0.3
    stop_seconds: float = 0.2
    first_pods_seconds: float = 0.8
    retry_seconds: float = 10.0
    node_status_seconds: float = 0.1
