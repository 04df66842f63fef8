"""One word for the state of a pod, and its counts, as `kubectl get pods` shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cardwise.sim.apiserver.objects import Json, at, metadata_of
from cardwise.sim.apiserver.pods import ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """`restarted_at` is when the last container that was started again had ended, "" where none was."""

    reason: str
    ready: int
    containers: int
    restarts: int = 0
    restarted_at: str = ""


def pod_cells(pod: Json) -> PodState:
    """The pod's state as its status tells it."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    statuses = status.get("containerStatuses") or []
    inits = status.get("initContainerStatuses") or []
    reason = _init_reason(inits, sidecars, len(spec.get("initContainers") or ()))
    started = [each for each in inits if each.get("name") in sidecars and each.get("started")]
    shown = [*started, *([] if reason else statuses)]
    counted = inits if reason else [*(each for each in inits if each.get("name") in sidecars), *statuses]
    return PodState(
        reason=_ending(pod) or reason or _main_reason(status, statuses),
        ready=sum(1 for each in shown if each.get("ready")),
        containers=len(spec.get("containers") or ()) + len(sidecars),
        restarts=sum(each.get("restartCount", 0) for each in counted),
        restarted_at=max((_ended_at(each) for each in counted), default=""),
    )


def _ending(pod: Json) -> str:
    ends = bool(metadata_of(pod).get("deletionTimestamp"))
    return "Terminating" if ends and at(pod, ("status", "phase")) not in ENDED else ""


def _ended_at(container: Json) -> str:
    return at(container, ("lastState", "terminated", "finishedAt")) or ""


def _init_reason(inits: list[Json], sidecars: set[str], total: int) -> str:
    """What the first init container that is not through says; "" where all are."""
    for index, each in enumerate(inits):
        ended, waiting = at(each, ("state", "terminated")), at(each, ("state", "waiting", "reason"))
        if (ended and not ended.get("exitCode")) or (each.get("name") in sidecars and each.get("started")):
            continue
        if ended:
            return f"Init:{_ended_reason(ended)}"
        return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _ended_reason(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _main_reason(status: Json, statuses: list[Json]) -> str:
    """The first container that waits or has ended names the state; a running one beside it takes that back."""
    reason = _gate(status) or status.get("reason") or status.get("phase") or "Unknown"
    runs, failed = False, ""
    for each in reversed(statuses):
        state = each.get("state") or {}
        if waiting := at(state, ("waiting", "reason")):
            reason = waiting
        elif ended := state.get("terminated"):
            reason = _ended_reason(ended)
            failed = reason if ended.get("exitCode") else failed
        elif each.get("ready") and state.get("running") is not None:
            runs = True
    if reason != "Completed":
        return str(reason)
    return _beside_completed(status, failed, runs=runs)


def _beside_completed(status: Json, failed: str, *, runs: bool) -> str:
    if runs and _holds(status.get("conditions") or (), "Ready"):
        return "Running"
    return failed or ("NotReady" if runs else "Completed")


def _holds(conditions: Iterable[Json], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def _gate(status: Json) -> str:
    gated = [each for each in status.get("conditions") or () if each.get("reason") == "SchedulingGated"]
    return "SchedulingGated" if gated else ""
