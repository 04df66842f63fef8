"""One stored object in its two API versions: events are stored as core ones and shown to events.k8s.io by its names."""

from __future__ import annotations

from cardwise.sim.apiserver.errors import invalid, required
from cardwise.sim.apiserver.objects import Json, name_of
from cardwise.sim.apiserver.resources import CORE_EVENTS, EVENTS, Resource

EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: core for core, new in EVENT_NAMES.items()}


def shown(value: Json, resource: Resource) -> Json:
    """The stored object as this resource shows it."""
    if resource is not EVENTS:
        return value
    return {EVENT_NAMES.get(name, name): each for name, each in value.items()} | {"apiVersion": EVENTS.api_version}


def stored(value: Json, resource: Resource) -> Json:
    """The object as it is stored, whatever resource it came by."""
    if resource is not EVENTS:
        return value
    return {_CORE_NAMES.get(name, name): each for name, each in value.items()} | {"apiVersion": CORE_EVENTS.api_version}


def check_new(value: Json, resource: Resource) -> None:
    """Raise RefusedError (422) for what only one of the versions demands of a new object."""
    if resource is EVENTS and not value.get("eventTime"):
        raise invalid(CORE_EVENTS, name_of(value), [required("eventTime")])
