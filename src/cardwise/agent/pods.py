"""The pods of a node, as the API server shows them and as the kubelet lists them, as far as the agent needs them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cardwise.core.family import Family
from cardwise.core.model import ContainerKind
from cardwise.kube.kubelet import podresources_pb2 as pr
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.pods import containers_of
from cardwise.wire.quantity import parse_quantity

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of what stands on the API server for a static pod."""
_RANDOM_SUFFIX = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What the API server puts behind a generateName, so that a name never comes again."""


class Variable(objects.Object):
    name: str = ""
    value: str = ""


class NodeContainer(objects.Container):
    env: list[Variable] | None = None


class NodePodSpec(objects.PodSpec):
    containers: list[NodeContainer] | None = None  # type: ignore[assignment]  # nobody puts others into it
    init_containers: list[NodeContainer] | None = None  # type: ignore[assignment]


class NodePod(objects.Pod):
    """A pod with what only the agent needs: the containers' environment. To be read as `PODS.seen_as(NodePod)`."""

    spec: NodePodSpec

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.metadata.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A container that asks for cards: where it stands among all of the pod's, and how many the kubelet asks for.

    `shown`: pod-resources lists it. A plain init container is never listed, whatever it has.
    """

    place: int
    name: str
    kind: ContainerKind
    count: int

    @property
    def shown(self) -> bool:
        """Whether pod-resources lists it."""
        return self.kind is not ContainerKind.INIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A pod as pod-resources lists it: the devices of one resource that each of its containers has, by name."""

    namespace: str
    name: str
    devices: Mapping[str, frozenset[str]]

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def held(self) -> frozenset[str]:
        """The containers that have devices."""
        return frozenset(name for name, ids in self.devices.items() if ids)


def asking(pod: objects.Pod, resource: str) -> tuple[Asking, ...]:
    """The containers for which the kubelet asks, in the order in which it does: init containers first."""
    found = []
    for place, (container, kind) in enumerate(containers_of(pod)):
        if count := count_of(container, resource):
            found.append(Asking(place=place, name=container.name, kind=kind, count=count))
    return tuple(found)


def count_of(container: objects.Container, resource: str) -> int:
    """How many of an extended resource a container has as its limit: whole numbers, the API server takes no others."""
    amount = ((container.resources and container.resources.limits) or {}).get(resource)
    if amount is None:
        return 0
    try:
        value = parse_quantity(amount).value
    except WireError:
        return 0
    return int(value) if value.denominator == 1 and value > 0 else 0


def variables_of(pod: NodePod, container: str) -> dict[str, str]:
    """What a container itself sets in its environment; one that comes from elsewhere counts as empty."""
    everyone = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    return {each.name: each.value for one in everyone if one.name == container for each in one.env or ()}


def priority_of(pod: objects.Pod, container: str, family: Family) -> int | None:
    """The task priority among a container's limits; None where none is set."""
    for one, _kind in containers_of(pod):
        limits = (one.resources and one.resources.limits) or {}
        if one.name == container and family.priority_resource in limits:
            return count_of(one, family.priority_resource)
    return None


def recurs(pod: objects.Pod) -> bool:
    """Whether another pod may bear this pod's name one day: then its name alone does not say which of them is meant."""
    prefix, name = pod.metadata.generate_name, pod.metadata.name
    numbered = any(owner.kind == "StatefulSet" for owner in pod.metadata.owner_references or ())
    random = bool(prefix) and name.startswith(prefix) and _RANDOM_SUFFIX.fullmatch(name, len(prefix)) is not None
    return numbered or not random


def read_list(answer: pr.ListPodResourcesResponse, resource: str) -> tuple[Listed, ...]:
    """What pod-resources tell of this resource."""
    return tuple(
        Listed(
            namespace=pod.namespace,
            name=pod.name,
            devices={
                one.name: frozenset(
                    i for each in one.devices if each.resource_name == resource for i in each.device_ids
                )
                for one in pod.containers
            },
        )
        for pod in answer.pod_resources
    )
