"""What the server says when it does not do what it is asked: a Status object, in the words of a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from cardwise.sim.apiserver.objects import Json
from cardwise.sim.apiserver.resources import Resource

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class RefusedError(Exception):
    """A request that is not carried out. `body` is a Status object of meta/v1, `status` its HTTP status."""

    def __init__(self, status: int, message: str, reason: str = "", details: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.body["reason"] = reason
        if details is not None:
            self.body["details"] = details
        self.body["code"] = status
        self.headers: list[tuple[str, str]] = []

    def with_headers(self, headers: Sequence[tuple[str, str]]) -> Self:
        self.headers.extend(headers)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One thing that is wrong with an object. `reason` is without its prefix FieldValue."""

    field: str
    message: str
    reason: str = "Invalid"

    @property
    def text(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def body(self) -> Json:
        return {"reason": f"FieldValue{self.reason}", "message": self.message, "field": self.field}


def required(field: str, hint: str = "") -> Cause:
    return Cause(field=field, message="Required value" + (f": {hint}" if hint else ""), reason="Required")


def bad_value(field: str, value: str, why: str) -> Cause:
    return Cause(field=field, message=f'Invalid value: "{value}": {why}')


def unsupported(field: str, value: str, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{each}"' for each in supported)
    return Cause(
        field=field, message=f'Unsupported value: "{value}": supported values: {listed}', reason="NotSupported"
    )


def forbidden_change(field: str, why: str) -> Cause:
    return Cause(field=field, message=f"Forbidden: {why}", reason="Forbidden")


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> RefusedError:
    return _invalid(resource.qualified_kind, resource.kind, resource.group, name, causes)


def must_have_version(resource: Resource, name: str) -> RefusedError:
    """For kinds that no one may update without having read them. A real server names the resource, not the kind."""
    cause = Cause(field="metadata.resourceVersion", message="Invalid value: 0: must be specified for an update")
    return _invalid(resource.qualified, resource.plural, resource.group, name, [cause])


def invalid_options(kind: str, cause: Cause) -> RefusedError:
    return _invalid(f"{kind}.meta.k8s.io", kind, "meta.k8s.io", "", [cause])


def _invalid(qualified: str, kind: str, group: str, name: str, causes: Sequence[Cause]) -> RefusedError:
    texts = [each.text for each in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(name, group, kind) | {"causes": [each.body for each in causes]}
    return RefusedError(422, f'{qualified} "{name}" is invalid: {listed}', "Invalid", details)


def not_found(resource: Resource, name: str) -> RefusedError:
    return RefusedError(404, f'{resource.qualified} "{name}" not found', "NotFound", _named(resource, name))


def already_exists(resource: Resource, name: str) -> RefusedError:
    return RefusedError(409, f'{resource.qualified} "{name}" already exists', "AlreadyExists", _named(resource, name))


def conflict(resource: Resource, name: str, why: str) -> RefusedError:
    return _conflict(resource.qualified, resource.group, resource.plural, name, why)


def binding_conflict(name: str, why: str) -> RefusedError:
    return _conflict("pods/binding", "", "pods/binding", name, why)


def precondition_conflict(resource: Resource, name: str, why: str) -> RefusedError:
    """For what a DeleteOptions demands; a real server names the kind here."""
    return _conflict(resource.qualified_kind, resource.group, resource.kind, name, why)


def uid_conflict(resource: Resource, key: str, name: str, wanted: str, found: str) -> RefusedError:
    prefix = f"/registry/{resource.plural}/{key}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {prefix}, ResourceVersion: 0, AdditionalErrorMsg:"
        f" Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(resource, name, why)


def _conflict(qualified: str, group: str, kind: str, name: str, why: str) -> RefusedError:
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return RefusedError(409, message, "Conflict", _details(name, group, kind))


def forbidden(resource: Resource, name: str, why: str) -> RefusedError:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return RefusedError(403, message, "Forbidden", _named(resource, name))


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, message, "BadRequest")


def unauthorized() -> RefusedError:
    return RefusedError(401, "Unauthorized", "Unauthorized")


def no_such_resource() -> RefusedError:
    return RefusedError(404, "the server could not find the requested resource", "NotFound", {})


def method_not_allowed() -> RefusedError:
    message = "the server does not allow this method on the requested resource"
    return RefusedError(405, message, "MethodNotAllowed", {})


def unsupported_media_type(message: str) -> RefusedError:
    return RefusedError(415, message, "UnsupportedMediaType")


def unsupported_patch() -> RefusedError:
    return RefusedError(415, "415: Unsupported Media Type", "UnsupportedMediaType", {})


def patched_badly(why: str) -> RefusedError:
    """For a patch after which the object is none of its kind. A real server shows the whole object too."""
    cause = Cause(field="patch", message=f"Invalid value: {why}")
    return RefusedError(422, f' "" is invalid: {cause.text}', "Invalid", {"causes": [cause.body]})


def too_large(limit_bytes: int) -> RefusedError:
    return RefusedError(413, f"Request entity too large: limit is {limit_bytes}", "RequestEntityTooLarge")


def patch_fails() -> RefusedError:
    """For a JSON patch that does not fit the object: a real server does not say where."""
    return RefusedError(422, "the server rejected our request due to an error in our request", "Invalid", {})


def expired(message: str, token: str = "") -> RefusedError:
    """410. `token` goes on with the list as it is now."""
    refused = RefusedError(410, message, "Expired")
    if token:
        refused.body["metadata"] = {"continue": token}
    return refused


def internal(message: str) -> RefusedError:
    return RefusedError(500, f"Internal error occurred: {message}", "InternalError", {"causes": [{"message": message}]})


def timed_out() -> RefusedError:
    message = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return RefusedError(504, message, "Timeout", {})


def version_too_large(asked: int, current: int) -> RefusedError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return RefusedError(504, message, "Timeout", details).with_headers([("Retry-After", "1")])


@contextmanager
def understood(resource: Resource) -> Iterator[None]:
    """What is not of the types that Kubernetes has is refused (400), wherever in the block that comes out."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        kind, version = resource.kind, resource.version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error


def _named(resource: Resource, name: str) -> Json:
    return _details(name, resource.group, resource.plural)


def _details(name: str, group: str, kind: str) -> Json:
    named = {"name": name, "group": group, "kind": kind}
    return {key: text for key, text in named.items() if text}
