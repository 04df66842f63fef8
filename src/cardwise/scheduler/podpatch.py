"""What admission writes into a pod, as the operations of a JSON patch (RFC 6902). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from cardwise.core.family import Family
from cardwise.scheduler.admission import owned_keys
from cardwise.wire import names, objects
from cardwise.wire.quantity import parse_quantity

Operation = dict[str, Any]


class Variable(objects.Object):
    name: str = ""


class ContainerRest(objects.Object):
    env: list[Variable] | None = None


class SpecRest(objects.Object):
    runtime_class_name: str | None = None
    init_containers: list[ContainerRest] | None = None
    containers: list[ContainerRest] | None = None


class PodRest(objects.Object):
    """What only admission needs to know of a pod, beside `objects.Pod`."""

    spec: SpecRest


rest_decoder = msgspec.json.Decoder(PodRest)


def without_owned(pod: objects.Pod) -> list[Operation]:
    """Takes the annotations off that only the scheduler and the agents write."""
    return [{"op": "remove", "path": f"/metadata/annotations/{_escaped(key)}"} for key in owned_keys(pod.annotations)]


def for_scheduler(pod: objects.Pod, rest: PodRest, scheduler: str, runtime_class: str) -> list[Operation]:
    """Gives the pod to this scheduler, and this runtime class where it names none (`""`: leaves it so)."""
    operations = []
    if pod.spec.scheduler_name != scheduler:
        operations.append(_add("/spec/schedulerName", scheduler))
    if runtime_class and not rest.spec.runtime_class_name:
        operations.append(_add("/spec/runtimeClassName", runtime_class))
    return operations


def with_amounts(pod: objects.Pod, amounts: Iterable[tuple[str, str, int]]) -> list[Operation]:
    """Writes amounts (container name, resource, number) into limits and requests.

    Requests follow limits by themselves only where the API server sees the limits first: it wants both to be equal.
    """
    by_container: dict[str, dict[str, str]] = {}
    for container, resource, amount in amounts:
        by_container.setdefault(container, {})[resource] = str(amount)
    return [
        operation
        for path, container in _places(pod)
        if container.name in by_container
        for operation in _written(path, container, by_container[container.name])
    ]


def with_priority(
    pod: objects.Pod, rest: PodRest, asking: Iterable[frozenset[str]], families: Iterable[Family]
) -> list[Operation]:
    """Tells containers their task priority, unless they set that variable themselves.

    `asking` are the names of the families whose cards each container asks for, in the order of `containers_of`.
    """
    told = {family.name: family.priority_resource for family in families if family.priority_resource}
    more = [*(rest.spec.init_containers or ()), *(rest.spec.containers or ())]
    operations: list[Operation] = []
    for (path, container), known, of in zip(_places(pod), more, asking, strict=True):
        resources = [told[name] for name in sorted(of & told.keys())]
        if any(each.name == names.TASK_PRIORITY_ENV for each in known.env or ()):
            continue
        for priority in _priorities(container, resources)[:1]:
            operations += _with_variable(path, known, priority)
    return operations


def _priorities(container: objects.Container, resources: Iterable[str]) -> list[str]:
    """What stands under these resources, as plain numbers: `1k` or `1000m` means nothing to who reads it."""
    given = container.resources or objects.Resources()
    amounts = {**(given.requests or {}), **(given.limits or {})}
    return [str(int(parse_quantity(amounts[name]).value)) for name in resources if name in amounts]


def _with_variable(path: str, known: ContainerRest, value: str) -> Iterator[Operation]:
    variable = {"name": names.TASK_PRIORITY_ENV, "value": value}
    yield _add(f"{path}/env", [variable]) if known.env is None else _add(f"{path}/env/-", variable)


def _written(path: str, container: objects.Container, amounts: dict[str, str]) -> Iterator[Operation]:
    have = container.resources or objects.Resources()
    if container.resources is None:
        yield _add(f"{path}/resources", {})
    for field, given in (("limits", have.limits), ("requests", have.requests)):
        if given is None:
            yield _add(f"{path}/resources/{field}", amounts)
        else:
            for resource, amount in amounts.items():
                yield _add(f"{path}/resources/{field}/{_escaped(resource)}", amount)


def _places(pod: objects.Pod) -> Iterator[tuple[str, objects.Container]]:
    """Where each container stands, in the order of `containers_of`."""
    for field, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers or ()):
            yield f"/spec/{field}/{index}", container


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
