"""Tables as the server prints them for `kubectl get`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardwise.sim.apiserver.objects import Json, at, metadata_of, name_of, seconds_of
from cardwise.sim.apiserver.podstate import pod_cells
from cardwise.sim.apiserver.resources import Resource

NONE, UNKNOWN = "<none>", "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
Cells = list[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """`wide` columns are shown with `-o wide` only."""

    name: str
    wide: bool = False
    type: str = "string"

    @property
    def definition(self) -> Json:
        form = "name" if self.name == "Name" else ""
        return {
            "name": self.name,
            "type": self.type,
            "format": form,
            "description": self.name,
            "priority": int(self.wide),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a kind, and the cells of one object now."""

    columns: tuple[Column, ...]
    cells: Callable[[Json, float], Cells]


def table(
    resource: Resource, items: list[Json], metadata: Json, now_seconds: float, *, include: str = "", heads: bool = True
) -> Json:
    """The Table of these objects. `include` is Object, Metadata or None: what of each object goes with its row."""
    layout = LAYOUTS.get(resource.stored_as, PLAIN)
    rows = [{"cells": layout.cells(each, now_seconds), "object": _included(each, include)} for each in items]
    columns = [each.definition for each in layout.columns] if heads else None
    head: Json = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return head | {"columnDefinitions": columns, "rows": rows}


def _included(value: Json, include: str) -> Json | None:
    if include == "None":
        return None
    return value if include == "Object" else partial_metadata(value)


def partial_metadata(value: Json) -> Json:
    """The object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata_of(value)}


def age(text: str | None, now_seconds: float) -> str:
    """How long ago that time was, in two or three figures; `<unknown>` without a time."""
    return duration(now_seconds - seconds_of(text)) if text else UNKNOWN


def duration(seconds: float) -> str:
    """A span of time as kubectl writes it: 119s, 2m, 9m59s, 3h, 7d23h, 2y."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    for bound, large, small, units in _SPANS:
        if whole < bound:
            return _written(whole, large, small, units)
    return f"{whole // YEAR}y"


_SPANS = (
    (2 * MINUTE, 1, 0, "s"),
    (10 * MINUTE, MINUTE, 1, "ms"),
    (3 * HOUR, MINUTE, 0, "m"),
    (8 * HOUR, HOUR, MINUTE, "hm"),
    (2 * DAY, HOUR, 0, "h"),
    (8 * DAY, DAY, HOUR, "dh"),
    (2 * YEAR, DAY, 0, "d"),
    (8 * YEAR, YEAR, DAY, "yd"),
)


def _written(whole: int, large: int, small: int, units: str) -> str:
    rest = whole % large // small if small else 0
    return f"{whole // large}{units[0]}" + (f"{rest}{units[1]}" if rest else "")


def _age(value: Json, now_seconds: float) -> str:
    return age(metadata_of(value).get("creationTimestamp"), now_seconds)


def _pod(pod: Json, now_seconds: float) -> Cells:
    state = pod_cells(pod)
    restarts = str(state.restarts)
    if state.restarts and state.restarted_at:
        restarts += f" ({age(state.restarted_at, now_seconds)} ago)"
    addresses = at(pod, ("status", "podIPs")) or []
    wide = (
        addresses[0].get("ip") if addresses else at(pod, ("status", "podIP")),
        at(pod, ("spec", "nodeName")),
        at(pod, ("status", "nominatedNodeName")),
        None,
    )
    ready = f"{state.ready}/{state.containers}"
    return [name_of(pod), ready, state.reason, restarts, _age(pod, now_seconds), *(each or NONE for each in wide)]


def _node(node: Json, now_seconds: float) -> Cells:
    info = at(node, ("status", "nodeInfo")) or {}
    addresses = {each.get("type"): each.get("address") for each in at(node, ("status", "addresses")) or ()}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(node),
        _node_status(node),
        _roles(node),
        _age(node, now_seconds),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Json) -> str:
    ready = [each for each in at(node, ("status", "conditions")) or () if each.get("type") == "Ready"]
    words = ["Ready" if ready[-1].get("status") == "True" else "NotReady"] if ready else ["Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if at(node, ("spec", "unschedulable")) else []))


def _roles(node: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = metadata_of(node).get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} - {""}
    return (
        ",".join(sorted(roles | ({labels["kubernetes.io/role"]} if labels.get("kubernetes.io/role") else set())))
        or NONE
    )


def _event(event: Json, now_seconds: float) -> Cells:
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = at(event, ("series", "lastObservedTime")) or event.get("lastTimestamp") or first
    parts = (
        source.get("component") or event.get("reportingComponent"),
        source.get("host") or event.get("reportingInstance"),
    )
    return [
        age(last, now_seconds),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(each for each in parts if each),
        str(event.get("message", "")).strip(),
        age(first, now_seconds),
        at(event, ("series", "count")) or event.get("count") or 1,
        name_of(event),
    ]


def _counts(value: Json, *names: str) -> list[int]:
    status = value.get("status") or {}
    return [status.get(name, 0) for name in names]


def _template(value: Json) -> Cells:
    containers = at(value, ("spec", "template", "spec", "containers")) or []
    labels = at(value, ("spec", "selector", "matchLabels")) or {}
    joined = [",".join(each.get(name, "") for each in containers) for name in ("name", "image")]
    return [*joined, ",".join(f"{key}={text}" for key, text in sorted(labels.items())) or NONE]


def _deployment(value: Json, now_seconds: float) -> Cells:
    ready, updated, available = _counts(value, "readyReplicas", "updatedReplicas", "availableReplicas")
    wanted = at(value, ("spec", "replicas"))
    return [name_of(value), f"{ready}/{wanted}", updated, available, _age(value, now_seconds), *_template(value)]


def _replica_set(value: Json, now_seconds: float) -> Cells:
    counts = _counts(value, "replicas", "readyReplicas")
    return [name_of(value), at(value, ("spec", "replicas")), *counts, _age(value, now_seconds), *_template(value)]


def _quota(value: Json, now_seconds: float) -> Cells:
    hard, used = at(value, ("status", "hard")) or {}, at(value, ("status", "used")) or {}
    said = {key: f"{key}: {used.get(key, 0)}/{amount}" for key, amount in sorted(hard.items())}
    limits = [text for key, text in said.items() if key.startswith("limits.")]
    requests = [text for key, text in said.items() if not key.startswith("limits.")]
    return [name_of(value), ", ".join(requests), ", ".join(limits), _age(value, now_seconds)]


def _layout(cells: Callable[[Json, float], Cells], *columns: str | Column) -> Layout:
    return Layout(columns=tuple(Column(each) if isinstance(each, str) else each for each in columns), cells=cells)


def _wide(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, wide=True) for name in names)


def _integer(name: str) -> Column:
    return Column(name, type="integer")


_WORKLOAD_WIDE = _wide("Containers", "Images", "Selector")
PLAIN = _layout(lambda value, now: [name_of(value), _age(value, now)], "Name", "Age")
LAYOUTS: dict[str, Layout] = {
    "pods": _layout(
        _pod, "Name", "Ready", "Status", "Restarts", "Age", *_wide("IP", "Node", "Nominated Node", "Readiness Gates")
    ),
    "nodes": _layout(
        _node,
        *("Name", "Status", "Roles", "Age", "Version"),
        *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    "namespaces": _layout(
        lambda value, now: [name_of(value), at(value, ("status", "phase")), _age(value, now)], "Name", "Status", "Age"
    ),
    "events": _layout(
        _event,
        *("Last Seen", "Type", "Reason", "Object"),
        *_wide("Subobject", "Source"),
        "Message",
        *_wide("First Seen", "Count", "Name"),
    ),
    "leases": _layout(
        lambda value, now: [name_of(value), at(value, ("spec", "holderIdentity")) or "", _age(value, now)],
        *("Name", "Holder", "Age"),
    ),
    "deployments": _layout(_deployment, "Name", "Ready", "Up-to-date", "Available", "Age", *_WORKLOAD_WIDE),
    "replicasets": _layout(
        _replica_set, "Name", _integer("Desired"), _integer("Current"), _integer("Ready"), "Age", *_WORKLOAD_WIDE
    ),
    "resourcequotas": _layout(_quota, "Name", "Request", "Limit", "Age"),
    "priorityclasses": _layout(
        lambda value, now: [
            name_of(value),
            value["value"],
            bool(value.get("globalDefault")),
            _age(value, now),
            value["preemptionPolicy"],
        ],
        "Name",
        _integer("Value"),
        Column("Global-Default", type="boolean"),
        "Age",
        "PreemptionPolicy",
    ),
    "mutatingwebhookconfigurations": _layout(
        lambda value, now: [name_of(value), len(value.get("webhooks") or ()), _age(value, now)],
        "Name",
        _integer("Webhooks"),
        "Age",
    ),
}
