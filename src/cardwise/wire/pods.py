"""A Kubernetes Pod becomes a request for cards, or, where it is bound, what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from cardwise.core.cluster import Hold
from cardwise.core.family import Asked, Family, Quantity, ask
from cardwise.core.model import (
    CardAllocation,
    CardPolicy,
    CardRequest,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Selection,
    Weights,
)
from cardwise.core.peak import peak_use
from cardwise.wire import names, objects
from cardwise.wire.assignment import align, decode_assignment
from cardwise.wire.errors import WireError
from cardwise.wire.lists import comma_list, switch
from cardwise.wire.policies import card_policy, node_policy, scoring_weights
from cardwise.wire.quantity import parse_quantity
from cardwise.wire.quotas import read_traits

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The cluster's policies, for pods that name none."""

    node_policy: str = "binpack"
    card_policy: CardPolicy = CardPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading:
    """What a pod asks for (None: no managed resource), and what is wrong or odd about it, in whole sentences.

    `writes` are container name, resource and plain number: what admission puts into limits where the user left it out.
    With `faults` the pod must not be placed.
    """

    request: PodRequest | None = None
    writes: tuple[tuple[str, str, int], ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def containers_of(pod: objects.Pod) -> list[tuple[objects.Container, ContainerKind]]:
    """Init containers and sidecars in their order, then app containers: the order of every text about containers."""
    init = [
        (each, ContainerKind.SIDECAR if each.restart_policy == "Always" else ContainerKind.INIT)
        for each in pod.spec.init_containers or ()
    ]
    return init + [(each, ContainerKind.APP) for each in pod.spec.containers or ()]


def asks_for_cards(container: objects.Container, families: Iterable[Family]) -> bool:
    """Whether a container names any managed resource."""
    resources = container.resources
    if resources is None:
        return False
    given = [amounts for amounts in (resources.limits, resources.requests) if amounts]
    return any(not family.resources.isdisjoint(amounts) for family in families for amounts in given)


def read_pod(pod: objects.Pod, families: Iterable[Family], defaults: Defaults | None = None) -> PodReading:
    """What the pod asks for. Nothing malformed counts as zero or as no constraint: it becomes a fault."""
    families = tuple(families)
    kinds = containers_of(pod)
    if not any(asks_for_cards(container, families) for container, _kind in kinds):
        return PodReading()
    writes: list[tuple[str, str, int]] = []
    faults: list[str] = []
    warnings: list[str] = []
    containers = []
    for container, kind in kinds:
        where = f"pod {pod.full_name}, container {container.name}"
        requests: list[CardRequest] = []
        for family in families:
            asked = _asked(container, family, where, faults)
            faults += [f"{where}: {fault}" for fault in asked.faults]
            warnings += [f"{where}: {note}" for note in asked.notes]
            writes += [(container.name, name, amount) for name, amount in asked.defaults]
            if asked.request:
                requests.append(asked.request)
        containers.append(ContainerRequest(name=container.name, kind=kind, cards=tuple(requests)))
    asking = {request.family for container in containers for request in container.cards}
    selections = {family.name: _selection(pod, family, faults) for family in families if family.name in asking}
    policies = _policies(pod, defaults or Defaults(), faults, warnings)
    if faults or not asking:
        return PodReading(faults=tuple(faults), warnings=tuple(warnings))
    request = PodRequest(
        namespace=pod.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid or pod.full_name,
        containers=tuple(containers),
        selections=selections,
        node_policy=policies[0],
        card_policy=policies[1],
        weights=policies[2],
        traits=read_traits(pod.spec),
    )
    return PodReading(request=request, writes=tuple(writes), warnings=tuple(warnings))


def _asked(container: objects.Container, family: Family, where: str, faults: list[str]) -> Asked:
    resources = container.resources or objects.Resources()
    amounts = {**(resources.requests or {}), **(resources.limits or {})}
    asked, unreadable = _asked_of(family, tuple((name, each, type(each)) for name, each in amounts.items()))
    faults += [f"{where}: {fault}" for fault in unreadable]
    return asked


@lru_cache(maxsize=4096)
def _asked_of(family: Family, amounts: tuple[tuple[str, objects.Amount, type], ...]) -> tuple[Asked, tuple[str, ...]]:
    """What these amounts ask for, and what of it cannot be read. Most pods ask for what others have asked for."""
    known = family.resources | {family.priority_resource}
    quantities: dict[str, Quantity] = {}
    faults = []
    for name, amount, _type in amounts:
        if name in known:
            try:
                quantities[name] = parse_quantity(amount)
            except WireError as error:
                faults.append(f"{name} {str(error).removeprefix('quantity ')}")
    return Asked() if faults else ask(family, quantities), tuple(faults)


def _selection(pod: objects.Pod, family: Family, faults: list[str]) -> Selection:
    annotations = pod.annotations

    def items(key: str) -> tuple[str, ...]:
        text = annotations.get(key) if key else ""
        return comma_list(text) if text else ()

    one_numa = False
    if family.one_numa_key and family.one_numa_key in annotations:
        try:
            one_numa = switch(annotations[family.one_numa_key])
        except WireError as error:
            faults.append(f"pod {pod.full_name}: annotation {family.one_numa_key} {error}")
    return _same_selection(
        items(family.use_models_key),
        items(family.avoid_models_key),
        items(family.use_uuids_key),
        items(family.avoid_uuids_key),
        items(family.mode_key),
        one_numa,
    )


@lru_cache(maxsize=4096)
def _same_selection(
    use_models: tuple[str, ...],
    avoid_models: tuple[str, ...],
    use_uuids: tuple[str, ...],
    avoid_uuids: tuple[str, ...],
    modes: tuple[str, ...],
    one_numa: bool,
) -> Selection:
    return Selection(
        use_models=use_models,
        avoid_models=avoid_models,
        use_uuids=use_uuids,
        avoid_uuids=avoid_uuids,
        modes=modes,
        one_numa=one_numa,
    )


def _policies(
    pod: objects.Pod, defaults: Defaults, faults: list[str], warnings: list[str]
) -> tuple[str, CardPolicy, Weights]:
    """An unknown policy is a preference that cannot be met: warned about. Weights that cannot be read are refused."""

    def read(key: str, parse: Callable[[str], _Value], default: _Value, said: list[str], then: str) -> _Value:
        text = pod.annotations.get(key)
        if text is None:
            return default
        try:
            return parse(text)
        except WireError as error:
            said.append(f"pod {pod.full_name}: annotation {key} {error}{then}")
            return default

    return (
        read(names.NODE_POLICY, node_policy, defaults.node_policy, warnings, "; the default is used"),
        read(names.CARD_POLICY, card_policy, defaults.card_policy, warnings, "; the default is used"),
        read(names.SCORING_WEIGHTS, scoring_weights, Weights(), faults, ""),
    )


def _asks_some(container: objects.Container, family: Family) -> bool:
    """Whether a container asks for more than zero cards, as it was when it was placed."""
    resources = container.resources or objects.Resources()
    amounts = {**(resources.requests or {}), **(resources.limits or {})}
    count = amounts.get(family.count_resource, family.default_count)
    return asks_for_cards(container, (family,)) and str(count) != "0"


def read_hold(pod: objects.Pod, families: Iterable[Family]) -> Hold | None:
    """What a bound pod holds by its record, or None where it has none that counts.

    A record counts if the pod is bound, asks for a managed resource, and the record names that node, and of it what stands
    at containers that ask: no one can block a card by writing text on a pod. Raises WireError for a record that counts and
    cannot be read.
    """
    kinds = containers_of(pod)
    records = [
        (family, pod.annotations[family.allocated_key])
        for family in families
        if pod.annotations.get(family.allocated_key) and any(_asks_some(each, family) for each, _kind in kinds)
    ]
    if not pod.spec.node_name or not records or pod.annotations.get(names.ASSIGNED_NODE) != pod.spec.node_name:
        return None
    given: list[tuple[CardAllocation, ...]] = [() for _ in kinds]
    for family, text in records:
        try:
            asking = [_asks_some(container, family) for container, _kind in kinds]
            entries = align(decode_assignment(text, family), [kind for _container, kind in kinds], asking)
            for (container, _kind), asks, cards in zip(kinds, asking, entries, strict=True):
                if asks and not cards:
                    raise WireError(f"container {container.name} asks for cards and has none in it")
        except WireError as error:
            msg = f"annotation {family.allocated_key}: {error}"
            raise WireError(msg) from error
        # What stands at a container that asks for nothing was written by nobody who places pods.
        given = [have + (more if asks else ()) for have, more, asks in zip(given, entries, asking, strict=True)]
    containers = tuple(
        ContainerAllocation(name=container.name, kind=kind, cards=cards)
        for (container, kind), cards in zip(kinds, given, strict=True)
    )
    exclusive = frozenset(comma_list(pod.annotations.get(names.EXCLUSIVE_CARDS, "")))
    return Hold(
        uid=pod.metadata.uid or pod.full_name,
        namespace=pod.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        use=peak_use(containers, exclusive),
        containers=containers,
        confirmed=True,
    )
