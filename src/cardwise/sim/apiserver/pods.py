"""What a server does with pods and with nothing else: defaults, what must hold, binding, deletion with grace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cardwise.sim.apiserver.checks import LABEL_TEXT, check_items, is_label
from cardwise.sim.apiserver.errors import (
    Cause,
    RefusedError,
    bad_value,
    binding_conflict,
    forbidden_change,
    required,
    unsupported,
)
from cardwise.sim.apiserver.objects import Json, metadata_of, name_of, timestamp, with_metadata, without
from cardwise.sim.apiserver.quantities import canonical, value_of
from cardwise.sim.apiserver.resources import PODS

DEFAULT_GRACE_SECONDS = 30
ENDED = ("Succeeded", "Failed")
STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
SPEC_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
CONTAINER_DEFAULTS: Json = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
NOT_READY_SECONDS = 300
TOLERATED_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
SPEC_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod_shape(pod: Json) -> None:
    """Raise RefusedError (400) where the containers are no list of objects with text names."""
    spec = pod.get("spec") or {}
    for kind in ("containers", "initContainers"):
        check_items(spec.get(kind), f"PodSpec.spec.{kind}", "v1.Container", PODS)
    check_items(spec.get("tolerations"), "PodSpec.spec.tolerations", "v1.Toleration", PODS)


def with_pod_defaults(pod: Json) -> Json:
    """The pod as decoding leaves it, which is what a webhook sees; may be called again after one."""
    spec = SPEC_DEFAULTS | (pod.get("spec") or {})
    spec["serviceAccount"] = spec["serviceAccountName"]
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_container(each) for each in spec[kind]]
    if spec.get("overhead"):
        spec["overhead"] = _amounts(spec["overhead"])
    return pod | {"spec": spec, "status": pod.get("status") or {}}


def new_status(pod: Json, now_seconds: float) -> Json:
    """The status of a pod that is created, whatever the request says about it."""
    status: Json = {"phase": "Pending", "qosClass": _quality(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": timestamp(now_seconds),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [gated]
    return status


def _container(container: Json) -> Json:
    given = container.get("resources") or {}
    limits, requests = _amounts(given.get("limits")), _amounts(given.get("requests"))
    resources = without(given, "limits", "requests")
    if limits:
        resources["limits"] = limits
    if limits or requests:
        resources["requests"] = limits | requests
    always = str(container.get("image") or "").partition(":")[2] in ("", "latest")
    pull = {"imagePullPolicy": "Always" if always else "IfNotPresent"}
    return CONTAINER_DEFAULTS | pull | container | {"resources": resources}


def _amounts(amounts: Json | None) -> Json:
    return {name: canonical(each) for name, each in sorted((amounts or {}).items())}


def _tolerations(given: list[Json]) -> list[Json]:
    """Every pod stands a node that is away for five minutes, unless it says something else about that."""
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NOT_READY_SECONDS}
        for key in TOLERATED_KEYS
        if not any(
            each.get("key") in (key, None, "") and each.get("effect") in ("NoExecute", None, "") for each in given
        )
    ]
    return given + added


def _quality(spec: Json) -> str:
    """The pod's QoS class, from CPU and memory alone."""
    resources = [each.get("resources") or {} for each in (*spec.get("initContainers", ()), *spec.get("containers", ()))]
    requests = [_standard(each.get("requests")) for each in resources]
    limits = [_standard(each.get("limits")) for each in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    complete = all(len(limit) == 2 and limit == request for limit, request in zip(limits, requests, strict=True))
    return "Guaranteed" if complete else "Burstable"


def _standard(amounts: Json | None) -> Json:
    return {name: each for name, each in (amounts or {}).items() if name in ("cpu", "memory") and value_of(each)}


def new_pod_causes(pod: Json) -> list[Cause]:
    """What is wrong with a pod that is created, after defaults."""
    spec = pod["spec"]
    causes = [] if spec.get("containers") else [required("spec.containers")]
    seen: set[str] = set()
    for path, container in _containers(spec):
        causes += _container_causes(path, container, seen)
        seen.add(container.get("name", ""))
    policies = ("Always", "OnFailure", "Never")
    if spec["restartPolicy"] not in policies:
        causes.append(unsupported("spec.restartPolicy", spec["restartPolicy"], policies))
    return causes


def _containers(spec: Json) -> Iterator[tuple[str, Json]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"spec.{kind}[{index}]", container


def _container_causes(path: str, container: Json, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name") or ""
    if not name:
        causes.append(required(f"{path}.name"))
    elif not is_label(name):
        causes.append(bad_value(f"{path}.name", name, LABEL_TEXT))
    elif name in seen:
        causes.append(Cause(field=f"{path}.name", message=f'Duplicate value: "{name}"', reason="Duplicate"))
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    return causes + _resource_causes(f"{path}.resources", container["resources"])


def _resource_causes(path: str, resources: Json) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = [*_amount_causes(f"{path}.limits", limits), *_amount_causes(f"{path}.requests", requests)]
    for name, request in requests.items() if not causes else ():
        causes += _balance_causes(path, name, request, limits.get(name))
    return causes


def _amount_causes(path: str, amounts: Json) -> Iterator[Cause]:
    for name, amount in amounts.items():
        field = f"{path}[{name}]"
        if name not in STANDARD_RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            yield bad_value(field, name, "must be a standard resource type or fully qualified")
            yield bad_value(field, name, "must be a standard resource for containers")
        elif value_of(amount) < 0:
            yield bad_value(field, amount, "must be greater than or equal to 0")
        elif is_extended(name) and value_of(amount).denominator != 1:
            yield bad_value(field, amount, "must be an integer")


def is_extended(name: str) -> bool:
    """Whether it is a resource that only its vendor knows, which can be no fraction and not be overcommitted."""
    return "/" in name and "kubernetes.io/" not in name


def _balance_causes(path: str, name: str, request: str, limit: str | None) -> Iterator[Cause]:
    if limit is None:
        if is_extended(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif is_extended(name) and value_of(request) != value_of(limit):
        yield bad_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif value_of(request) > value_of(limit):
        yield bad_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


def inherited(old: Json, new: Json) -> Json:
    """The new pod with the priority that admission gave the old one: an update need not say it."""
    return new | {"spec": {"priority": old["spec"]["priority"]} | new["spec"]}


def changed_pod_causes(old: Json, new: Json) -> list[Cause]:
    """What an update may not do to a pod's spec: a real server shows the difference too, in the names of its code."""
    before, after = old["spec"], new["spec"]
    causes = [] if _masked(before) == _masked(after) else [forbidden_change("spec", SPEC_FIXED)]
    kept = [each for each in before.get("tolerations", ()) if each not in after.get("tolerations", ())]
    if kept:
        causes.append(
            forbidden_change("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    gates = [each["name"] for each in before.get("schedulingGates", ())]
    if added := [each["name"] for each in after.get("schedulingGates", ()) if each["name"] not in gates]:
        why = f"only deletion is allowed, but found new scheduling gate '{added[0]}'"
        causes.append(forbidden_change("spec.schedulingGates", why))
    return causes


def _masked(spec: Json) -> Json:
    """The spec without what may change; nodeSelector and affinity may while the pod is gated."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    masked = without(spec, *free, *(("nodeSelector", "affinity") if spec.get("schedulingGates") else ()))
    for kind in ("containers", "initContainers"):
        masked[kind] = [without(each, "image", "imagePullPolicy") for each in spec.get(kind) or ()]
    return masked


def bound(pod: Json, binding: Json, now_seconds: float, *, merge_labels: bool) -> Json:
    """The pod after this Binding; raises RefusedError (409) where it cannot be bound.

    Annotations and, from Kubernetes 1.35 on, labels of the Binding are merged into the pod's, and win.
    """
    if why := _unbindable(pod):
        raise binding_conflict(name_of(pod), why)
    given, metadata = metadata_of(binding), metadata_of(pod)
    changes = {"annotations": metadata.get("annotations", {}) | (given.get("annotations") or {})}
    if merge_labels:
        changes["labels"] = metadata.get("labels", {}) | (given.get("labels") or {})
    status = without(pod["status"], "nominatedNodeName")
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(now_seconds)}
    others = [each for each in status.get("conditions", ()) if each["type"] != "PodScheduled"]
    spec = pod["spec"] | {"nodeName": binding["target"]["name"]}
    return with_metadata(pod, **changes) | {"spec": spec, "status": status | {"conditions": [*others, scheduled]}}


def _unbindable(pod: Json) -> str:
    name, spec = name_of(pod), pod["spec"]
    if metadata_of(pod).get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def check_binding(name: str, binding: Json) -> None:
    """Raise RefusedError where the Binding is not one for the pod of this name; in a real server's odd statuses."""
    if name_of(binding) != name:
        raise RefusedError(400, "name in URL does not match name in Binding object", "BadRequest")
    target: Any = binding.get("target") or {}
    if target.get("kind", "") not in ("", "Node"):
        text = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise RefusedError(500, text)
    if not target.get("name"):
        raise RefusedError(500, "target.name: Required value")


def grace_of(pod: Json, asked_seconds: int | None) -> int:
    """Seconds that the pod gets to end: none where nobody runs it (any more)."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ENDED:
        return 0
    own: int = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    grace = own if asked_seconds is None else asked_seconds
    return 1 if grace < 0 else grace


def terminating(pod: Json, grace_seconds: int, now_seconds: float) -> Json:
    """The pod as it waits for its end; the same pod where it is to end as soon already."""
    metadata = metadata_of(pod)
    if metadata.get("deletionTimestamp"):
        if metadata.get("deletionGracePeriodSeconds", 0) <= grace_seconds:
            return pod
        generation = metadata["generation"]
    else:
        generation = metadata.get("generation", 0) + 1
    return with_metadata(
        pod,
        generation=generation,
        deletionTimestamp=timestamp(now_seconds + grace_seconds),
        deletionGracePeriodSeconds=grace_seconds,
    )
