"""What is particular to each kind: defaults, what must hold, and what an update or a status update may touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardwise.sim.apiserver import pods, webhooks
from cardwise.sim.apiserver.errors import Cause, bad_value, required
from cardwise.sim.apiserver.objects import Json, metadata_of, name_of, without
from cardwise.sim.apiserver.quantities import canonical, value_of

NOT_READY_TAINT: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
NODE_STATUS: Json = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(NODE_INFO, ""),
}


def _same(value: Json) -> Json:
    return value


def _created(value: Json, _now_seconds: float) -> Json:
    return value


def _nothing(_value: Json) -> list[Cause]:
    return []


def _newer(_old: Json, new: Json) -> Json:
    return new


def _no_change(_old: Json, _new: Json) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Pure steps, in the order in which a request meets them.

    `shape` raises RefusedError (400). `default` may run twice, before and after webhooks. `created` is what only a
    creation does, `inherit` what only an update does: fill in what it leaves out. `empty` is what a bookmark shows of
    the kind besides its version.
    """

    shape: Callable[[Json], Any] = _same
    default: Callable[[Json], Json] = _same
    created: Callable[[Json, float], Json] = _created
    causes: Callable[[Json], list[Cause]] = _nothing
    inherit: Callable[[Json, Json], Json] = _newer
    change_causes: Callable[[Json, Json], list[Cause]] = _no_change
    empty: Json | None = None


def _new_pod(pod: Json, now_seconds: float) -> Json:
    return pod | {"status": pods.new_status(pod, now_seconds)}


def _node_default(node: Json) -> Json:
    status = NODE_STATUS | (node.get("status") or {})
    for name in ("capacity", "allocatable"):
        if status.get(name):
            status[name] = {key: canonical(each) for key, each in status[name].items()}
    if status.get("capacity"):
        status = {"allocatable": status["capacity"]} | status
    spec = {name: each for name, each in (node.get("spec") or {}).items() if each not in ([], "", False)}
    return node | {"spec": spec, "status": status}


def _new_node(node: Json, _now_seconds: float) -> Json:
    """Nobody has said yet that it is ready: the plugin TaintNodesByCondition keeps pods off it until somebody does."""
    taints = node["spec"].get("taints") or []
    if any(each.get("key") == NOT_READY_TAINT["key"] for each in taints):
        return node
    return node | {"spec": node["spec"] | {"taints": [*taints, NOT_READY_TAINT]}}


def _node_causes(node: Json) -> list[Cause]:
    return [
        bad_value(f"status.{name}.{key}", amount, "must be an integer")
        for name in ("capacity", "allocatable")
        for key, amount in (node["status"].get(name) or {}).items()
        if pods.is_extended(key) and value_of(amount).denominator != 1
    ]


def _namespace_default(namespace: Json) -> Json:
    metadata = metadata_of(namespace)
    labels = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": name_of(namespace)}
    rest = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return rest | namespace | {"metadata": metadata | {"labels": labels}}


def _event_causes(event: Json) -> list[Cause]:
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    own = metadata_of(event).get("namespace") or ""
    if about != own and not (about == "" and own == "default"):
        return [bad_value("involvedObject.namespace", about, "does not match event.namespace")]
    return []


def _workload_default(workload: Json) -> Json:
    spec = {"replicas": 1} | (workload.get("spec") or {})
    return workload | {"spec": spec, "status": workload.get("status") or {}}


def _new_workload(workload: Json, _now_seconds: float) -> Json:
    return workload | {"status": {"replicas": 0} if workload["kind"] == "ReplicaSet" else {}}


def _workload_causes(workload: Json) -> list[Cause]:
    spec = workload["spec"]
    return [required(f"spec.{name}") for name in ("selector", "template") if not spec.get(name)]


def _quota_default(quota: Json) -> Json:
    return quota | {"spec": quota.get("spec") or {}, "status": quota.get("status") or {}}


def _class_default(priority: Json) -> Json:
    return {"value": 0, "preemptionPolicy": "PreemptLowerPriority"} | priority


def _class_change(old: Json, new: Json) -> list[Cause]:
    if old["value"] == new["value"]:
        return []
    return [Cause(field="value", message="Forbidden: may not be changed in an update.", reason="Forbidden")]


_WORKLOAD = Kind(default=_workload_default, created=_new_workload, causes=_workload_causes)

KINDS: dict[str, Kind] = {
    "pods": Kind(
        shape=pods.check_pod_shape,
        default=pods.with_pod_defaults,
        created=_new_pod,
        causes=pods.new_pod_causes,
        inherit=pods.inherited,
        change_causes=pods.changed_pod_causes,
        empty={"spec": {"containers": None}, "status": {}},
    ),
    "nodes": Kind(
        default=_node_default,
        created=_new_node,
        causes=_node_causes,
        empty={"spec": {}, "status": NODE_STATUS},
    ),
    "namespaces": Kind(default=_namespace_default),
    "events": Kind(causes=_event_causes),
    "deployments": _WORKLOAD,
    "replicasets": _WORKLOAD,
    "resourcequotas": Kind(default=_quota_default),
    "priorityclasses": Kind(default=_class_default, change_causes=_class_change),
    "mutatingwebhookconfigurations": Kind(default=webhooks.with_defaults, causes=webhooks.causes),
}
_PLAIN = Kind()


def kind_of(stored_as: str) -> Kind:
    return KINDS.get(stored_as, _PLAIN)


def only_status(old: Json, new: Json) -> Json:
    """What an update of the status subresource leaves: labels and annotations go through it, spec does not."""
    owners = metadata_of(old).get("ownerReferences")
    metadata = without(metadata_of(new), "ownerReferences") | ({"ownerReferences": owners} if owners else {})
    quality = {name: old["status"][name] for name in ("qosClass",) if name in old.get("status", {})}
    return old | {"metadata": metadata, "status": (new.get("status") or {}) | quality}


def all_but_status(old: Json, new: Json) -> Json:
    """What an update of the object itself leaves, where the kind has a status subresource."""
    return new | ({"status": old["status"]} if "status" in old else {})
