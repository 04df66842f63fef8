"""The mutating webhook: an AdmissionReview in, the answer to it out. Pure.

Format: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/. Every review gets an
answer. One that cannot be read is allowed as it is: the webhook fails closed, and must not stop what it does not know.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from cardwise.core.model import PodRequest
from cardwise.kube.errors import cut
from cardwise.scheduler import admission, podpatch
from cardwise.scheduler.admission import admit, owned_keys
from cardwise.scheduler.inventory import Inventory
from cardwise.scheduler.podpatch import Operation
from cardwise.wire import objects
from cardwise.wire.errors import few

T = TypeVar("T")

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND = "AdmissionReview"
MOST_WARNINGS = 16
MOST_WARNING_CHARACTERS = 256
"""kube-apiserver cuts warnings to this length, and drops the last ones, where they exceed 4096 characters together."""
MOST_MESSAGE_CHARACTERS = 4096
REASONS = {400: "BadRequest", 403: "Forbidden"}

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Outcome(StrEnum):
    """What became of a review, as metrics name it."""

    ADMITTED = "admitted"
    UNTOUCHED = "untouched"
    PASSED_BY = "passed_by"
    REFUSED = "refused"
    UPDATED = "updated"
    FORGED = "forged"
    UNREADABLE = "unreadable"


def _no_quota(_request: PodRequest) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the webhook writes and whom it lets write. `writers` are user names that may write annotations of ours.

    `runtime_class` is for pods that name none; "" leaves them so. Raises ValueError where `scheduler_name` is not ours.
    """

    rules: admission.Rules = admission.Rules()
    scheduler_name: str = admission.SCHEDULER_NAME
    runtime_class: str = ""
    writers: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.scheduler_name not in self.rules.own_names:
            own = ", ".join(sorted(self.rules.own_names))
            raise ValueError(f"scheduler name is {self.scheduler_name}, must be one of our own ({own})")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is known of the cluster now. `judge_quota` says in sentences why a quota refuses a pod; nothing if none does."""

    inventory: Inventory | None = None
    judge_quota: Callable[[PodRequest], tuple[str, ...]] = _no_quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """The answer's body, and for metric and log what became of it; `says` is one line, or empty."""

    body: bytes
    outcome: Outcome
    says: str = ""


class GroupResource(objects.Object):
    group: str = ""
    resource: str = ""


class User(objects.Object):
    username: str = ""


class Request(objects.Object):
    """`object` and `old_object` are decoded by what the resource says they are."""

    uid: str
    operation: str = ""
    resource: GroupResource = msgspec.field(default_factory=GroupResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: User = msgspec.field(default_factory=User)
    object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    old_object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)

    @property
    def about(self) -> str:
        """The pod that this is about, as users write it."""
        return f"pod {self.namespace or 'default'}/{self.name or '*'}"


class Review(objects.Object):
    api_version: str
    kind: str
    request: Request


class Annotated(objects.Object):
    """A pod or a binding, of which only the annotations count."""

    metadata: objects.Meta


_review = msgspec.json.Decoder(Review)
_pod = msgspec.json.Decoder(objects.Pod)
_annotated = msgspec.json.Decoder(Annotated)


class _UnreadableError(ValueError):
    """What is not as Kubernetes writes it: where, and what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """`code` 0 allows; for any other, `says` is what the user is told."""

    outcome: Outcome
    says: str = ""
    code: int = 0
    operations: Sequence[Operation] = ()
    warnings: Sequence[str] = ()


def review(body: bytes, policy: Policy, view: View) -> Reviewed:
    """The answer to a review. It never raises, and a dry run is answered like any other: nothing is noted here."""
    try:
        asked = _read(body)
    except _UnreadableError as error:
        answer = _Answer(outcome=Outcome.UNREADABLE, says=f"AdmissionReview: {error}; allowed as it is")
        return _reviewed(*_found_in(body), answer)
    return _reviewed(asked.api_version, asked.request.uid, _judged(asked.request, policy, view))


def _read(body: bytes) -> Review:
    asked = _decoded(_review, body, "the body")
    if asked.kind != KIND or asked.api_version not in VERSIONS:
        is_a = f"{cut(asked.kind, 80)} of {cut(asked.api_version, 80)}"
        raise _UnreadableError(f"it is {is_a}, must be {KIND} of {' or '.join(VERSIONS)}")
    if not asked.request.uid:
        raise _UnreadableError("request.uid is (empty), must be the uid of the request")
    return asked


def _found_in(body: bytes) -> tuple[str, str]:
    """The version and uid that an unreadable review may have all the same: without the uid no answer is taken."""
    try:
        asked = msgspec.json.decode(body)
    except _UNREADABLE:
        return VERSIONS[0], ""
    version = asked.get("apiVersion") if isinstance(asked, dict) else ""
    request = asked.get("request") if isinstance(asked, dict) else {}
    uid = request.get("uid") if isinstance(request, dict) else ""
    return version if version in VERSIONS else VERSIONS[0], uid if isinstance(uid, str) else ""


def _judged(request: Request, policy: Policy, view: View) -> _Answer:
    what = (request.operation, request.resource.resource, request.sub_resource)
    judge = JUDGES.get(what) if request.resource.group == "" else None
    if judge is None:
        return _Answer(outcome=Outcome.UNTOUCHED)
    try:
        return judge(request, policy, view)
    except _UnreadableError as error:
        says = f"{request.about}: {error}; Cardwise lets it pass as it is"
        return _Answer(outcome=Outcome.UNREADABLE, says=says, warnings=(says,))


def _created(request: Request, policy: Policy, view: View) -> _Answer:
    """A new pod. Whatever becomes of it, it does not keep annotations of ours: they would count once it is bound."""
    pod = _named(_decoded(_pod, request.object, "object"), request)
    found = admit(pod, policy.rules, inventory=view.inventory)
    if found.outcome is admission.Outcome.REFUSED:
        return _Answer(outcome=Outcome.REFUSED, code=400, says=found.reason, warnings=found.warnings)
    if found.request is None:
        outcome = Outcome.PASSED_BY if found.outcome is admission.Outcome.PASSED_BY else Outcome.UNTOUCHED
        warnings = (*found.warnings, *admission.forged(pod))
        return _Answer(outcome=outcome, says=found.reason, operations=podpatch.without_owned(pod), warnings=warnings)
    if refusals := view.judge_quota(found.request):
        return _Answer(outcome=Outcome.REFUSED, code=403, says="; ".join(refusals), warnings=found.warnings)
    operations = _operations(pod, found.request, found.limits, request, policy)
    says = "; ".join(few(found.warnings))
    return _Answer(outcome=Outcome.ADMITTED, says=says, operations=operations, warnings=found.warnings)


def _operations(
    pod: objects.Pod, asks: PodRequest, limits: Sequence[tuple[str, str, int]], request: Request, policy: Policy
) -> list[Operation]:
    rest = _decoded(podpatch.rest_decoder, request.object, "object")
    asking = [frozenset(card.family for card in each.cards) for each in asks.containers]
    return [
        *podpatch.for_scheduler(pod, rest, policy.scheduler_name, policy.runtime_class),
        *podpatch.without_owned(pod),
        *podpatch.with_amounts(pod, limits),
        *podpatch.with_priority(pod, rest, asking, policy.rules.families),
    ]


def _named(pod: objects.Pod, request: Request) -> objects.Pod:
    """The pod as texts shall name it: its namespace may stand in the request alone, and its name may not be made yet."""
    meta = pod.metadata
    meta.namespace = request.namespace or meta.namespace
    meta.name = meta.name or f"{meta.generate_name}*"
    return pod


def _changed(request: Request, policy: Policy, _view: View) -> _Answer:
    new, old = (
        _decoded(_annotated, raw, name).metadata.annotations or {}
        for raw, name in ((request.object, "object"), (request.old_object, "oldObject"))
    )
    keys = [key for key in owned_keys(new.keys() | old.keys()) if new.get(key) != old.get(key)]
    return _by_writer(keys, request, policy)


def _bound(request: Request, policy: Policy, _view: View) -> _Answer:
    """A binding's annotations become the pod's."""
    binding = _decoded(_annotated, request.object, "object")
    return _by_writer(owned_keys(binding.metadata.annotations or ()), request, policy)


def _by_writer(keys: Sequence[str], request: Request, policy: Policy) -> _Answer:
    user = request.user_info.username
    if not keys or user in policy.writers:
        return _Answer(outcome=Outcome.UPDATED)
    written = f"annotations {', '.join(few(keys))} are written by the scheduler and its agents only"
    says = f"{request.about}: {written}; {cut(user)} must not set, change or remove them"
    return _Answer(outcome=Outcome.FORGED, code=403, says=says)


JUDGES: dict[tuple[str, str, str], Callable[[Request, Policy, View], _Answer]] = {
    ("CREATE", "pods", ""): _created,
    ("UPDATE", "pods", ""): _changed,
    ("UPDATE", "pods", "status"): _changed,
    ("CREATE", "pods", "binding"): _bound,
    ("CREATE", "bindings", ""): _bound,
}
"""Who judges what, by operation, resource and subresource. All else is allowed."""


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw, name: str) -> T:
    try:
        return decoder.decode(text)
    except _UNREADABLE as error:
        raise _UnreadableError(f"{name} cannot be read: {cut(str(error))}") from error


def _reviewed(version: str, uid: str, answer: _Answer) -> Reviewed:
    says = cut(answer.says, MOST_MESSAGE_CHARACTERS) if answer.says else ""
    response: dict[str, Any] = {"uid": uid, "allowed": not answer.code}
    if answer.code:
        response["status"] = {"code": answer.code, "reason": REASONS[answer.code], "message": says}
    elif answer.operations:
        patch = base64.b64encode(msgspec.json.encode(answer.operations)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if answer.warnings:
        response["warnings"] = _bounded(answer.warnings)
    body = msgspec.json.encode({"apiVersion": version, "kind": KIND, "response": response})
    return Reviewed(body=body, outcome=answer.outcome, says=says)


def _bounded(warnings: Sequence[str]) -> list[str]:
    shown = [cut(text, MOST_WARNING_CHARACTERS) for text in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        shown[-1] = f"and {len(warnings) - MOST_WARNINGS + 1} more warnings"
    return shown
