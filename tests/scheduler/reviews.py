"""AdmissionReviews as the API server sends them, and what their answers say."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import msgspec

from cardwise.scheduler.webhook import Outcome, Policy, View, review
from cardwise.sim.apiserver.patch import apply
from manifests import Object

UID = "aeb9b233-bbf5-4c05-87e0-fb83071372b9"
SCHEDULER = "system:serviceaccount:kube-system:cardwise-scheduler"
KUBELET = "system:node:n1"
POLICY = Policy(writers=frozenset((SCHEDULER,)))
RECORD = {
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,24576,100:;",
    "hami.io/dcu-devices-allocated": "DCU-0,DCU,1,1:;",
    "hami.io/bind-phase": "success",
    "cardwise.io/exclusive-cards": "GPU-0",
}
"""Annotations that only the scheduler and the agents write, one of each sort."""


def asked(
    value: Any,
    *,
    operation: str = "CREATE",
    old: Any = None,
    plural: str = "pods",
    subresource: str = "",
    user: str = "alice",
    version: str = "admission.k8s.io/v1",
    **request: Any,
) -> Object:
    """A review of this object; `request` are other fields of the request."""
    meta = value.get("metadata", {}) if isinstance(value, dict) else {}
    whole: Object = {
        "uid": UID,
        "resource": {"group": "", "version": "v1", "resource": plural},
        "namespace": meta.get("namespace", "ml"),
        "operation": operation,
        "userInfo": {"username": user},
        "object": value,
        "oldObject": old,
        "dryRun": False,
    }
    whole |= {"name": meta["name"]} if meta.get("name") else {}
    whole |= {"subResource": subresource} if subresource else {}
    return {"kind": "AdmissionReview", "apiVersion": version, "request": whole | request}


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An answer, with the patch as its operations."""

    outcome: Outcome
    says: str
    version: str
    uid: str
    allowed: bool
    patch: list[Object]
    warnings: list[str]
    code: int
    reason: str
    message: str

    @property
    def written(self) -> dict[str, Any]:
        """What is added, by its path."""
        return {each["path"]: each["value"] for each in self.patch if each["op"] == "add"}

    @property
    def removed(self) -> list[str]:
        return [each["path"] for each in self.patch if each["op"] == "remove"]


def answered(asked_for: Object | bytes, policy: Policy = POLICY, view: View | None = None) -> Answered:
    """What the webhook answers to a review, or to these bytes."""
    body = asked_for if isinstance(asked_for, bytes) else msgspec.json.encode(asked_for)
    reviewed = review(body, policy, view or View())
    found = msgspec.json.decode(reviewed.body)
    response = found["response"]
    assert found["kind"] == "AdmissionReview"
    assert response.get("patchType") == ("JSONPatch" if "patch" in response else None)
    status = response.get("status", {})
    return Answered(
        outcome=reviewed.outcome,
        says=reviewed.says,
        version=found["apiVersion"],
        uid=response["uid"],
        allowed=response["allowed"],
        patch=msgspec.json.decode(base64.b64decode(response["patch"], validate=True)) if "patch" in response else [],
        warnings=response.get("warnings", []),
        code=status.get("code", 0),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
    )


def patched(value: Object, answer: Answered) -> Object:
    """The object after the answer's patch."""
    after: Object = apply(value, answer.patch)
    return after
