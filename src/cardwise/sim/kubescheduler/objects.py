"""Pods and nodes as kube-scheduler reads them, and the pod as it stands in what an extender is sent."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from cardwise.core.nodefit import NodeFacts
from cardwise.core.nodeselect import PodRules
from cardwise.kube.requests import NODES, PODS, Resource, Scope
from cardwise.kube.types import time_of
from cardwise.wire import objects
from cardwise.wire.rules import read_facts, read_requests, read_rules

Json = dict[str, Any]

RAW_PODS: Resource[Json] = PODS.seen_as(Json)
RAW_NODES: Resource[Json] = NODES.seen_as(Json)
NOT_ENDED = Scope(fields="status.phase!=Succeeded,status.phase!=Failed")
"""kube-scheduler's own watch: a pod that has ended leaves it as if it were deleted."""


class _Spec(objects.PodSpec):
    priority: int = 0
    preemption_policy: str = ""


class _Status(objects.Object):
    nominated_node_name: str = ""
    conditions: list[Json] | None = None
    start_time: str = ""


class _Pod(objects.Object):
    metadata: objects.Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pod:
    """A pod that has not ended. `requests` is what counts on a node, `resources` what its containers name at all.

    `condition` is its PodScheduled condition, empty where there is none. A pod that has not started counts as the youngest.
    """

    body: Json
    uid: str
    namespace: str
    name: str
    scheduler: str
    node: str
    nominated: str
    priority: int
    never_preempts: bool
    gated: bool
    terminating: bool
    started_seconds: float
    rules: PodRules
    requests: Mapping[str, int]
    resources: frozenset[str]
    condition: Json

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def wire(self) -> bytes:
        """The pod in an extender's request: byte for byte as Go writes it."""
        return go_json(_ordered(self.body))


def read_pod(body: Json, ignored: Collection[str]) -> Pod:
    """The pod of this object; `ignored` are resources that do not count.

    Raises WireError or msgspec.ValidationError for what no API server would have taken.
    """
    read = msgspec.convert(body, _Pod)
    meta, spec = read.metadata, read.spec
    began = read.status.start_time
    conditions = read.status.conditions or ()
    return Pod(
        body=body,
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        nominated=read.status.nominated_node_name,
        priority=spec.priority,
        never_preempts=spec.preemption_policy == "Never",
        gated=bool(spec.scheduling_gates),
        terminating=meta.deletion_timestamp is not None,
        started_seconds=time_of(began).timestamp() if began else math.inf,
        rules=read_rules(spec),
        requests=read_requests(spec, without=ignored),
        resources=frozenset(_named([*(spec.init_containers or ()), *(spec.containers or ())])),
        condition=next((one for one in conditions if one.get("type") == "PodScheduled"), {}),
    )


def _named(containers: Iterable[objects.Container]) -> Iterable[str]:
    for one in containers:
        if one.resources is not None:
            yield from one.resources.limits or ()
            yield from one.resources.requests or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node's facts, and whatever else of it wakes pods when it changes."""

    facts: NodeFacts
    annotations: Mapping[str, str]
    conditions: Mapping[str, str]


def read_node(body: Json) -> Node:
    """The node of this object: kube-scheduler goes by taints, not by the Ready condition. Raises as `read_pod` does."""
    read = msgspec.convert(body, objects.Node)
    conditions = (read.status and read.status.conditions) or ()
    return Node(
        facts=replace(read_facts(read), ready=True),
        annotations=read.metadata.annotations or {},
        conditions={one.type: one.status for one in conditions},
    )


# The order of fields in Kubernetes' types, as far as pods that wait have them; others come after.
_POD = ("metadata", "spec", "status")
_META = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"),
)
_SPEC = (
    *("volumes", "initContainers", "containers", "restartPolicy", "terminationGracePeriodSeconds"),
    *("activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "serviceAccount"),
    *("automountServiceAccountToken", "nodeName", "hostNetwork", "hostPID", "hostIPC", "securityContext"),
    *("imagePullSecrets", "hostname", "subdomain", "affinity", "schedulerName", "tolerations", "hostAliases"),
    *("priorityClassName", "priority", "readinessGates", "runtimeClassName", "enableServiceLinks", "preemptionPolicy"),
    *("overhead", "topologySpreadConstraints", "schedulingGates", "resourceClaims", "resources"),
)
_CONTAINER = (
    *("name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources", "restartPolicy"),
    *("volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "terminationMessagePath"),
    *("terminationMessagePolicy", "imagePullPolicy", "securityContext"),
)
_STATUS = ("observedGeneration", "phase", "conditions", "message", "reason", "nominatedNodeName")


def _ordered(body: Json) -> Json:
    pod = _sorted(body, _POD, without=("kind", "apiVersion"))
    pod["metadata"] = _sorted(pod["metadata"], _META, without=("managedFields",))
    for texts in {"labels", "annotations"} & pod["metadata"].keys():
        pod["metadata"][texts] = dict(sorted(pod["metadata"][texts].items()))
    pod["spec"] = _sorted(pod["spec"], _SPEC)
    for kind in {"initContainers", "containers"} & pod["spec"].keys():
        pod["spec"][kind] = [_container(one) for one in pod["spec"][kind]]
    pod["status"] = _sorted(pod.get("status") or {}, _STATUS)
    return pod


def _container(one: Json) -> Json:
    amounts = one.get("resources") or {}
    kinds = [(kind, dict(sorted(amounts[kind].items()))) for kind in ("limits", "requests") if kind in amounts]
    return _sorted(one | {"resources": dict(kinds)}, _CONTAINER)


def _sorted(given: Json, order: tuple[str, ...], without: tuple[str, ...] = ()) -> Json:
    known = [key for key in order if key in given]
    return {key: given[key] for key in (*known, *(key for key in given if key not in {*known, *without}))}


def go_json(value: object) -> bytes:
    """JSON as Go writes it: no blanks, and what HTML could misread written as escapes."""
    text = msgspec.json.encode(value)
    for letter, escape in ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026")):
        text = text.replace(letter, escape)
    return text
