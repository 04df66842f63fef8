"""How a container gets its devices, as generators: they yield a call of the plugin and are sent its outcome. Pure.

What they return is the error of the kubelet, empty if all went well. Texts and order are those of the real kubelet's
devicemanager/manager.go, for a node whose topology policy is `none`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from cardwise.sim.kubelet.devices import NONE, Devices, Ids
from cardwise.sim.kubelet.objects import Pod, PodContainer, limits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefer:
    """GetPreferredAllocation."""

    resource: str
    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Allocate, for one container."""

    container: str
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStart:
    """PreStartContainer."""

    container: str
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """The devices that a plugin prefers."""

    ids: Ids = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A plugin agreed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A call failed; the text is as Go's gRPC prints it."""

    text: str


Rpc = Prefer | Allocate | PreStart
Outcome = Preferred | Done | Broken
Steps = Generator[Rpc, Outcome, str]


def admit(job: int, pod: Pod, devices: Devices) -> Steps:
    """Devices for a pod that is being admitted: for each container in turn, until one gets none."""
    for container in pod.containers():
        error = yield from give(job, pod, container, devices)
        if error:
            return error
    return ""


def start(job: int, pod: Pod, containers: Iterable[PodContainer], devices: Devices) -> Steps:
    """What a kubelet does just before containers start. What has no devices, after a lost checkpoint, gets them now."""
    for container in containers:
        error = yield from _start(job, pod, container, devices)
        if error:
            return error
    return ""


def _start(job: int, pod: Pod, container: PodContainer, devices: Devices) -> Steps:
    missing = False
    for resource, amount in limits_of(container):
        if amount and devices.serves(resource):
            error = yield from _pre_start(pod, container, resource, devices)
            if error:
                return error
            missing |= devices.held_by(pod.uid, container.name, resource) is None
    if missing:
        return (yield from give(job, pod, container, devices))
    return ""


def _pre_start(pod: Pod, container: PodContainer, resource: str, devices: Devices) -> Steps:
    options = devices.options.get(resource)
    if options is None or not options.pre_start:
        return ""
    held = devices.held_by(pod.uid, container.name, resource)
    if held is None:
        where = f"pod {pod.uid}, container {container.name}, resource {resource}"
        return f"no devices found allocated in local cache for {where}"
    outcome = yield PreStart(container=container.name, resource=resource, ids=devices.shuffled(held))
    if isinstance(outcome, Broken):
        return f"device plugin PreStartContainer rpc failed with err: {outcome.text}"
    return ""


def give(job: int, pod: Pod, container: PodContainer, devices: Devices) -> Steps:
    """Devices for one container, of every resource that it asks for."""
    devices.reusable(pod.uid)
    for resource, amount in limits_of(container):
        if devices.serves(resource):
            devices.collect()
            error = yield from _give(job, pod, container, resource, amount, devices)
            if error:
                return error
    devices.note_reuse(pod.uid, container.name, plain_init=pod.is_plain_init(container))
    return ""


def _give(job: int, pod: Pod, container: PodContainer, resource: str, amount: int, devices: Devices) -> Steps:
    held = devices.held_by(pod.uid, container.name, resource)
    error = _objection(pod, container, resource, amount, held, devices)
    if error or held is not None or amount == 0:
        return error
    try:
        error = yield from _pick(job, pod, resource, amount, devices)
        if error:
            return error
        _, picked = devices.promised[job]
        outcome = yield Allocate(container=container.name, resource=resource, ids=devices.shuffled(picked))
        if isinstance(outcome, Broken):
            return outcome.text
        devices.hold(pod.uid, container.name, resource, picked)
    finally:
        devices.promised.pop(job, None)
    return ""


def _objection(
    pod: Pod, container: PodContainer, resource: str, amount: int, held: Ids | None, devices: Devices
) -> str:
    if held is not None and len(held) != amount:
        changed = f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}"'
        return f"{changed} from {len(held)} to {amount}"
    healthy = devices.healthy.get(resource)
    if healthy is None:
        return f"cannot allocate unregistered device {resource}"
    if not healthy:
        return f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    if not (held or NONE) <= healthy:
        return f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
    return ""


def _pick(job: int, pod: Pod, resource: str, amount: int, devices: Devices) -> Steps:
    """Promises devices to the job: reusable ones, then what the plugin prefers, then any."""
    reusable = devices.shuffled(devices.reusable(pod.uid).get(resource, ()))
    reused = frozenset(reusable[:amount])
    _promise(job, resource, reused, devices)
    needed = amount - len(reused)
    if needed == 0:
        return ""
    preferred: Ids = NONE
    free = devices.free(resource) - reused
    error = _shortage(resource, needed, free)
    options = devices.options.get(resource)
    if not error and options is not None and options.preferred:
        available, must = devices.shuffled(free | reused), devices.shuffled(reused)
        outcome = yield Prefer(resource=resource, available=available, must_include=must, size=amount)
        if isinstance(outcome, Broken):
            return f"device plugin GetPreferredAllocation rpc failed with err: {outcome.text}"
        preferred = outcome.ids if isinstance(outcome, Preferred) else NONE
        # Others may have taken some of them while the plugin thought.
        free = devices.free(resource) - reused
        error = _shortage(resource, needed, free)
    if error:
        return error
    order = (*devices.shuffled(preferred & free), *devices.shuffled(free - preferred))
    _promise(job, resource, reused | frozenset(order[:needed]), devices)
    return ""


def _promise(job: int, resource: str, ids: Ids, devices: Devices) -> None:
    devices.promised[job] = (resource, ids)


def _shortage(resource: str, needed: int, free: set[str]) -> str:
    if len(free) >= needed:
        return ""
    return f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(free)}"
