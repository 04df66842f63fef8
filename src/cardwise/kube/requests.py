"""Requests to the API server as values. Pure: nothing here sends anything.

The paths and parameters are those of https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from cardwise.kube import types
from cardwise.wire import objects
from cardwise.wire.quotas import ResourceQuota

T = TypeVar("T")
U = TypeVar("U")

JSON = "application/json"
LATEST = ""
"""Resource version of a read that must see every write before it: a quorum read."""
ANY = "0"
"""Resource version of a read that may be a little old: from the API server's memory."""


class Patch(StrEnum):
    """How a patch is written down."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """A kind of object, where the API server has it, and what it is decoded as."""

    group_version: str
    plural: str
    kind: str
    decoded_as: type[T]
    namespaced: bool = True

    def seen_as(self, decoded_as: type[U]) -> Resource[U]:
        """The same kind with other fields of it decoded."""
        return replace(self, decoded_as=decoded_as)  # type: ignore[arg-type, return-value]


PODS = Resource(group_version="v1", plural="pods", kind="Pod", decoded_as=objects.Pod)
NODES = Resource(group_version="v1", plural="nodes", kind="Node", decoded_as=objects.Node, namespaced=False)
NAMESPACES = Resource(
    group_version="v1", plural="namespaces", kind="Namespace", decoded_as=objects.Namespace, namespaced=False
)
RESOURCE_QUOTAS = Resource(group_version="v1", plural="resourcequotas", kind="ResourceQuota", decoded_as=ResourceQuota)
EVENTS = Resource(group_version="v1", plural="events", kind="Event", decoded_as=types.Event)
LEASES = Resource(group_version="coordination.k8s.io/v1", plural="leases", kind="Lease", decoded_as=types.Lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects of a kind: of one namespace (all, if empty), by label and by field selector as kubectl takes them."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> tuple[tuple[str, str], ...]:
        """The selectors as parameters."""
        return _given(labelSelector=self.labels, fieldSelector=self.fields)


EVERYWHERE = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent: the path is quoted already, the query is not."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = ""

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"{self.method} {self.path}"

    @property
    def writes(self) -> bool:
        """Whether it changes something, and so must not be sent twice."""
        return self.method != "GET"

    @property
    def target(self) -> str:
        """Path and query as they stand in the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def path_of(resource: Resource[Any], *, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where objects of a kind are; with a name, that object. Raises ValueError for what cannot stand in a path."""
    root = "/api" if "/" not in resource.group_version else "/apis"
    parts = [root, *resource.group_version.split("/")]
    if namespace and resource.namespaced:
        parts += ["namespaces", _segment(f"namespace of the {resource.kind}", namespace)]
    parts.append(resource.plural)
    if name:
        parts.append(_segment(f"name of the {resource.kind}", name))
    if subresource:
        parts.append(_segment("subresource", subresource))
    return "/".join(parts)


def list_page(resource: Resource[Any], scope: Scope, *, limit: int = 0, page: str = "") -> Request:
    """One page of a list, as of now; `page` is what the page before it gave for it, `limit` 0 is all of it."""
    query = scope.query() + _given(limit=str(limit or ""), **{"continue": page})
    return Request(method="GET", path=path_of(resource, namespace=scope.namespace), query=query)


def watch(resource: Resource[Any], scope: Scope, *, version: str, timeout_seconds: int) -> Request:
    """What happens after a version, with bookmarks; the server ends it after the time-out."""
    query = scope.query() + _given(
        watch="true", allowWatchBookmarks="true", resourceVersion=version, timeoutSeconds=str(timeout_seconds)
    )
    return Request(method="GET", path=path_of(resource, namespace=scope.namespace), query=query)


def get(resource: Resource[Any], name: str, namespace: str = "", *, version: str = LATEST) -> Request:
    """One object."""
    return Request(method="GET", path=_one(resource, name, namespace), query=_given(resourceVersion=version))


def create(resource: Resource[Any], one: object, namespace: str = "") -> Request:
    """A new object."""
    path = path_of(resource, namespace=_namespace(resource, namespace))
    return Request(method="POST", path=path, body=msgspec.json.encode(one), content_type=JSON)


def update(resource: Resource[Any], one: object, name: str, namespace: str = "", *, subresource: str = "") -> Request:
    """The object as it shall be, refused with a conflict if it no longer has the resource version that stands in it.

    It replaces all of the object: fields that a partial type does not have are lost.
    """
    path = _one(resource, name, namespace, subresource)
    return Request(method="PUT", path=path, body=msgspec.json.encode(one), content_type=JSON)


def bind(
    namespace: str,
    name: str,
    *,
    uid: str,
    node: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Request:
    """Binds this very pod to a node and records annotations and labels on it, in one write."""
    one = types.binding(
        namespace, name, uid=uid, node=node, annotations=dict(annotations or {}), labels=dict(labels or {})
    )
    path = _one(PODS, name, namespace, "binding")
    return Request(method="POST", path=path, body=msgspec.json.encode(one), content_type=JSON)


def merge_patch(
    resource: Resource[Any], change: Mapping[str, Any], name: str, namespace: str = "", *, subresource: str = ""
) -> Request:
    """Fields to be set; null removes one. With `metadata.resourceVersion` it is refused if the object changed since."""
    return _patch(Patch.MERGE, msgspec.json.encode(change), _one(resource, name, namespace, subresource))


def json_patch(
    resource: Resource[Any],
    steps: Sequence[Mapping[str, Any]],
    name: str,
    namespace: str = "",
    *,
    subresource: str = "",
) -> Request:
    """Steps of RFC 6902 (`op`, `path`, `value`), all of them or none."""
    return _patch(Patch.JSON, msgspec.json.encode(steps), _one(resource, name, namespace, subresource))


def delete(
    resource: Resource[Any],
    name: str,
    namespace: str = "",
    *,
    uid: str = "",
    version: str = "",
    grace_seconds: int | None = None,
) -> Request:
    """Takes an object away: only if it has this uid and resource version, where they are given."""
    preconditions = types.Preconditions(uid=uid, resource_version=version) if uid or version else None
    options = types.DeleteOptions(
        api_version="v1", kind="DeleteOptions", grace_period_seconds=grace_seconds, preconditions=preconditions
    )
    path = _one(resource, name, namespace)
    return Request(method="DELETE", path=path, body=msgspec.json.encode(options), content_type=JSON)


def _patch(how: Patch, body: bytes, path: str) -> Request:
    return Request(method="PATCH", path=path, body=body, content_type=how.value)


def _one(resource: Resource[Any], name: str, namespace: str, subresource: str = "") -> str:
    if not name:
        # A DELETE without a name would be one of the whole collection.
        raise ValueError(f"name of the {resource.kind} is (empty), must be the name of an object")
    return path_of(resource, namespace=_namespace(resource, namespace), name=name, subresource=subresource)


def _namespace(resource: Resource[Any], namespace: str) -> str:
    if resource.namespaced and not namespace:
        raise ValueError(f"namespace of the {resource.kind} is (empty), must be the name of a namespace")
    return namespace


def _segment(what: str, text: str) -> str:
    if text in (".", ".."):
        raise ValueError(f"{what} is {text}, which means something else in a path")
    return quote(text, safe="")


def _given(**parameters: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in parameters.items() if value)
