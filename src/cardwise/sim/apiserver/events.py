"""What a watch tells of a change. Pure."""

from __future__ import annotations

from cardwise.sim.apiserver.kinds import kind_of
from cardwise.sim.apiserver.objects import Json, metadata_of, with_metadata
from cardwise.sim.apiserver.resources import Resource
from cardwise.sim.apiserver.selectors import Selection
from cardwise.sim.apiserver.store import Change

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
Event = tuple[str, Json]


def event_of(change: Change, selection: Selection) -> Event | None:
    """The event that a watch of this selection tells; None where it sees nothing of the change.

    An object that comes to be selected is ADDED, one that ceases to be is DELETED, and then shown as it was last
    selected, with the version of the change.
    """
    before = change.previous is not None and selection.holds(change.previous)
    now = not change.deleted and selection.holds(change.current)
    if now:
        return ("MODIFIED" if before else "ADDED", change.current)
    if not before:
        return None
    if change.deleted or change.previous is None:
        return "DELETED", change.current
    return "DELETED", with_metadata(change.previous, resourceVersion=metadata_of(change.current)["resourceVersion"])


def bookmark(resource: Resource, revision: int, *, ends_initial: bool = False) -> Event:
    """The event that says: all up to this version was told."""
    metadata: Json = {"resourceVersion": str(revision)}
    if ends_initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    empty = kind_of(resource.stored_as).empty or {}
    return "BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata} | empty
