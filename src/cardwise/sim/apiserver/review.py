"""AdmissionReview v1: what a webhook is asked, and what its answer means. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from cardwise.sim.apiserver.calls import Call
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.objects import Json, metadata_of
from cardwise.sim.apiserver.resources import Resource

WARNINGS_LIMIT = 4096
WARNING_LIMIT = 256
_NO_MORE = "couldn't get version/kind; json parse error"


class BadAnswerError(Exception):
    """An answer that is none: whether the request goes on is the webhook's failurePolicy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a webhook said. `denial` is a Status object where it does not allow the request."""

    allowed: bool
    patch: list[Any] | None = None
    warnings: tuple[str, ...] = ()
    denial: Json | None = None


def question(uid: str, call: Call, value: Json, user: str) -> Json:
    """The AdmissionReview for the creation of this object, which has no name yet where one is to be made up."""
    resource = call.resource
    request = {
        "uid": uid,
        "kind": _kind(resource),
        "resource": _plural(resource),
        "requestKind": _kind(resource),
        "requestResource": _plural(resource),
        "name": metadata_of(value).get("name", ""),
        "namespace": call.namespace,
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": value,
        "oldObject": None,
        "dryRun": call.dry_run,
        "options": _options(call),
    }
    named = {name: each for name, each in request.items() if each != ""}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": named}


def _kind(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _plural(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(call: Call) -> Json:
    options: Json = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    options |= {name: call.query[name] for name in ("fieldManager", "fieldValidation") if call.query.get(name)}
    return options | ({"dryRun": ["All"]} if call.dry_run else {})


def read_answer(body: bytes, uid: str) -> Answer:
    """The webhook's answer; raises BadAnswerError with the words of a real server."""
    review = _review(body)
    response = review.get("response")
    if not isinstance(response, dict):
        raise BadAnswerError("received invalid webhook response: webhook response was absent")
    if response.get("uid") != uid:
        found = response.get("uid", "")
        raise BadAnswerError(f'received invalid webhook response: expected response.uid="{uid}", got "{found}"')
    status = response.get("status")
    return Answer(
        allowed=response.get("allowed") is True,
        patch=_patch(response),
        warnings=tuple(each for each in response.get("warnings") or () if isinstance(each, str)),
        denial=status if isinstance(status, dict) else None,
    )


def _review(body: bytes) -> Json:
    try:
        review = json.loads(body)
    except ValueError as error:
        raise BadAnswerError(f"failed to call webhook: {_NO_MORE}: {error}") from error
    if not isinstance(review, dict):
        raise BadAnswerError(f"failed to call webhook: {_NO_MORE}: no object")
    version = review.get("apiVersion", "")
    if review.get("response") is not None and version != "admission.k8s.io/v1":
        short = str(version).rpartition("/")[2]
        raise BadAnswerError(
            f"failed to call webhook: converting ({short}.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        )
    return review


def _patch(response: Json) -> list[Any] | None:
    text = response.get("patch")
    if not text or not response.get("allowed"):
        return None
    if response.get("patchType") != "JSONPatch":
        raise BadAnswerError(
            "received invalid webhook response: webhook returned response.patch but not response.patchType"
        )
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadAnswerError("failed to call webhook: illegal base64 data at input byte 0") from error
    try:
        operations = json.loads(decoded)
    except ValueError as error:
        raise BadAnswerError(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(operations, list):
        raise BadAnswerError("received undecodable patch in webhook response: no list of operations")
    return operations


def denied(name: str, answer: Answer) -> RefusedError:
    """The refusal that the client of a denied request gets: never below 400, whatever code the webhook gives."""
    status = answer.denial or {}
    said = status.get("message") or status.get("reason") or ""
    explained = f"denied the request: {said}" if said else "denied the request without explanation"
    code = status.get("code")
    return RefusedError(
        code if isinstance(code, int) and code >= 400 else 400,
        f'admission webhook "{name}" {explained}',
        status.get("reason") or "",
        status.get("details"),
    )


def warning_headers(texts: list[str]) -> list[tuple[str, str]]:
    """Warning headers (299): each text once, and all cut short where they are too long together."""
    unique = [text for text in dict.fromkeys(texts) if text and text.isprintable()]
    if sum(map(len, unique)) > WARNINGS_LIMIT:
        unique = [text[:WARNING_LIMIT] for text in unique][: WARNINGS_LIMIT // WARNING_LIMIT]
    return [("Warning", f'299 - "{_quoted(text)}"') for text in unique]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
