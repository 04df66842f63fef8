"""Kubernetes objects that are the API server's own business: lists, watch events, Status, leases, events, bindings.

Pods and nodes are in `cardwise.wire.objects`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

from cardwise.wire.objects import Meta, Object, Texts

T = TypeVar("T")

MOST_EVENT_CHARACTERS = 1024


class ListMeta(Object):
    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectList(Object, Generic[T]):
    """One page of a list."""

    kind: str = ""
    metadata: ListMeta | None = None
    items: list[T] | None = None


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch; the object is decoded by what the type says it is."""

    type: str
    object: msgspec.Raw


class GlimpseMeta(Object):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Glimpse(Object):
    """What any object tells about itself."""

    kind: str = ""
    metadata: GlimpseMeta | None = None


class StatusDetails(Object):
    name: str = ""
    retry_after_seconds: float | None = None


class Status(Object):
    """What the API server answers where there is no object to answer."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class LeaseSpec(Object):
    """Who holds it. Times are as `micro_time` writes them."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object):
    api_version: str = ""
    kind: str = ""
    metadata: Meta | None = None
    spec: LeaseSpec | None = None


class Reference(Object):
    """Another object, as events and bindings point at it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Object):
    component: str = ""
    host: str = ""


class Event(Object):
    api_version: str = ""
    kind: str = ""
    metadata: Meta | None = None
    involved_object: Reference | None = None
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    reporting_component: str = ""


class Binding(Object):
    api_version: str
    kind: str
    metadata: Meta
    target: Reference


class Preconditions(Object):
    uid: str = ""
    resource_version: str = ""


class DeleteOptions(Object):
    api_version: str
    kind: str
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None


def lease(namespace: str, name: str, spec: LeaseSpec, *, version: str = "") -> Lease:
    """A lease to be created, or to be updated if it still has that resource version."""
    meta = Meta(name=name, namespace=namespace, resource_version=version)
    return Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=meta, spec=spec)


def event(about: Reference, *, reason: str, message: str, component: str, at: datetime, warning: bool = False) -> Event:
    """An event about an object, to be created beside it; the server completes its name. Long messages are cut."""
    when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Event(
        api_version="v1",
        kind="Event",
        metadata=Meta(generate_name=f"{about.name}.", namespace=about.namespace or "default"),
        involved_object=about,
        reason=reason,
        message=message[:MOST_EVENT_CHARACTERS],
        type="Warning" if warning else "Normal",
        source=EventSource(component=component),
        first_timestamp=when,
        last_timestamp=when,
        count=1,
        reporting_component=component,
    )


def binding(namespace: str, name: str, *, uid: str, node: str, annotations: Texts, labels: Texts) -> Binding:
    """What binds this very pod (no other of its name) to a node, and merges annotations and labels into it."""
    return Binding(
        api_version="v1",
        kind="Binding",
        metadata=Meta(name=name, namespace=namespace, uid=uid, annotations=annotations or None, labels=labels or None),
        target=Reference(api_version="v1", kind="Node", name=node),
    )


def micro_time(at: datetime) -> str:
    """A time as leases hold it: UTC, with microseconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of(text: str) -> datetime:
    """A time of Kubernetes, which is RFC 3339. Raises ValueError for anything else, a time without a zone included."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return at
