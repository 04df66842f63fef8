"""The statuses that a kubelet writes, as merge patches. Pure.

A merge patch replaces lists as a whole, so conditions of others are taken over from the pod as it was seen last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cardwise.sim.kubelet.devices import Devices
from cardwise.sim.kubelet.objects import Json, NodeShape, Pod, PodContainer, limits_of

STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that are true of a running pod."""
REJECTED = "Pod was rejected: "
EXITS = {"Completed": 0, "Error": 1, "Killed": 143}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is known of a pod's containers: since when they run, where, and how often each was started again."""

    since: str
    ip: str
    restarts: Mapping[str, int] = field(default_factory=dict)


def rejected(reason: str, message: str, now: str) -> Json:
    """The status of a pod that was not admitted."""
    return {"phase": "Failed", "reason": reason, "message": REJECTED + message, "startTime": now}


def running(pod: Pod, run: Run, devices: Devices) -> Json:
    """The status of a pod whose containers all run."""
    running_state = {"running": {"startedAt": run.since}}
    done_state = _terminated("Completed", run.since, run.since)
    return {
        "phase": "Running",
        "startTime": run.since,
        "conditions": _conditions(pod, dict.fromkeys(STARTED, "True"), run.since),
        "podIP": run.ip,
        "podIPs": [{"ip": run.ip}],
        "containerStatuses": [_container(pod, one, run, running_state, devices) for one in pod.spec.containers or ()],
        "initContainerStatuses": [
            _container(pod, one, run, done_state if pod.is_plain_init(one) else running_state, devices)
            for one in pod.spec.init_containers or ()
        ],
    }


def ended(pod: Pod, run: Run | None, *, reason: str, now: str, devices: Devices) -> Json:
    """The status of a pod whose containers ended, each for this reason: a key of `EXITS`."""
    phase = "Succeeded" if reason == "Completed" else "Failed"
    truths = {"PodReadyToStartContainers": "False", "Initialized": "True"} | dict.fromkeys(
        ("Ready", "ContainersReady"), "False"
    )
    if run is None:
        return {"phase": phase, "conditions": _conditions(pod, truths, now)}
    state = _terminated(reason, run.since, now)
    return {
        "phase": phase,
        "conditions": _conditions(pod, truths, now),
        "containerStatuses": [_container(pod, one, run, state, devices) for one in pod.spec.containers or ()],
    }


def _terminated(reason: str, since: str, until: str) -> Json:
    says = "Completed" if reason == "Completed" else "Error"
    return {"terminated": {"exitCode": EXITS[reason], "reason": says, "startedAt": since, "finishedAt": until}}


def _conditions(pod: Pod, truths: Mapping[str, str], now: str) -> list[Json]:
    kept = (pod.status.conditions if pod.status is not None else None) or []
    ours = [{"type": name, "status": truth, "lastTransitionTime": now} for name, truth in truths.items()]
    return [*(one for one in kept if one.get("type") not in truths), *ours]


def _container(pod: Pod, container: PodContainer, run: Run, state: Json, devices: Devices) -> Json:
    runs = "running" in state
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": f"standin://{pod.uid}/{container.name}/{run.restarts.get(container.name, 0)}",
        "ready": runs or pod.is_plain_init(container),
        "started": runs,
        "restartCount": run.restarts.get(container.name, 0),
        "state": state,
    }
    held = devices.of_container(pod.uid, container.name)
    if held:
        status["allocatedResources"] = {name: str(amount) for name, amount in limits_of(container) if name in held}
        status["allocatedResourcesStatus"] = [
            {"name": name, "resources": [_health(name, one, devices) for one in sorted(ids)]}
            for name, ids in held.items()
        ]
    return status


def _health(resource: str, device: str, devices: Devices) -> Json:
    return {"resourceID": device, "health": "Healthy" if devices.is_healthy(resource, device) else "Unhealthy"}


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "the stand-in kubelet is posting ready status",
}
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node_conditions(kept: Iterable[Json], now: str) -> list[Json]:
    """A node's conditions when its kubelet starts; those of others are kept."""
    ours: list[Json] = [
        {"type": name, "status": "False", "reason": "KubeletHasEnough", "message": "nothing is short"}
        for name in PRESSURES
    ]
    ours = [one | {"lastHeartbeatTime": now, "lastTransitionTime": now} for one in (*ours, READY)]
    names = {one["type"] for one in ours}
    return [*(one for one in kept if one.get("type") not in names), *ours]


def node_amounts(
    shape: NodeShape, capacity: Mapping[str, int], allocatable: Mapping[str, int]
) -> tuple[dict[str, str], dict[str, str]]:
    """A node's capacity and allocatable: its shape's, and these of extended resources."""
    own = shape.capacity if shape.allocatable is None else shape.allocatable
    return (
        dict(shape.capacity) | {name: str(amount) for name, amount in capacity.items()},
        dict(own) | {name: str(amount) for name, amount in allocatable.items()},
    )
