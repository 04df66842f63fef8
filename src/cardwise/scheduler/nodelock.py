"""HAMi's lock on a node: which pod its device plugin serves next, whether that still means anything, how it is set.

The plugin's `Allocate` is not told which pod it is for: it takes the one that the annotation `names.NODE_LOCK` names, and
removes the annotation when that pod has all its cards, or was refused. The form is HAMi's (2.4 to 2.10):
`<RFC 3339 time>,<namespace>,<pod>`; older ones wrote the time alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from cardwise.core.family import Family
from cardwise.kube.types import time_of
from cardwise.wire import names, objects
from cardwise.wire.errors import shown

LOCK_SECONDS = 300.0
"""How long a lock counts, as in HAMi: after that its owner is taken to have been forgotten."""
SUCCESS, FAILED = "success", "failed"


class Owner(StrEnum):
    """What the pod that a lock names is about, in words that end a sentence; all but ACTIVE free the lock at once."""

    ACTIVE = "may still be served"
    GONE = "is gone"
    ENDED = "has ended"
    SERVED = "has its cards"
    FAILED = "was refused its cards"
    ELSEWHERE = "is on another node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock as read. Without a pod it is of an older HAMi."""

    since: datetime
    namespace: str = ""
    pod: str = ""

    @property
    def owner(self) -> str:
        """Namespace and name of the pod; empty where there is none."""
        return f"{self.namespace}/{self.pod}" if self.pod else ""

    def is_of(self, namespace: str, pod: str) -> bool:
        """Whether it names this very pod: a name that begins alike is another's."""
        return bool(self.pod) and (self.namespace, self.pod) == (namespace, pod)


@dataclass(frozen=True, slots=True)
class Free:
    """There is no lock: set it."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The very pod that asks has it already."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """There is one that means nothing any more: set it anew. `why` is a sentence for the log."""

    why: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Another has it: wait. `by` is namespace and name of the pod, empty where an older HAMi set it."""

    by: str
    since: datetime

    def __str__(self) -> str:
        by = f"pod {shown(self.by)}" if self.by else "an older scheduler of HAMi"
        return f"{names.NODE_LOCK} is held by {by} since {utc_seconds(self.since)}"


LockDecision = Free | Ours | TakeOver | Taken


def is_hami_node(node: objects.Node, families: Iterable[Family]) -> bool:
    """Whether HAMi's device plugin serves the node's cards: there is a register, and our agent did not write it."""
    annotations = node.metadata.annotations or {}
    if annotations.get(names.NODE_AGENT):
        return False
    return any(family.register_key in annotations for family in families)


def lock_of(node: objects.Node) -> str | None:
    """The lock's text; None where there is none."""
    return (node.metadata.annotations or {}).get(names.NODE_LOCK)


def read_lock(text: str) -> Lock | None:
    """What a lock's text says, or None where it is no such text."""
    time, *owner = text.split(",")
    try:
        since = time_of(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if not owner:
        return Lock(since=since)
    if len(owner) != 2 or not all(owner):
        return None
    return Lock(since=since, namespace=owner[0], pod=owner[1])


def owner_of(pod: objects.Pod | None, node: str) -> Owner:
    """What the owner of a node's lock is about, from the pod of that name; None: there is no such pod.

    A pod without a node may be about to be bound here, as the lock is set first. A running pod whose phase is still
    `allocating` has the lock until it runs out: HAMi holds it to be so.
    """
    if pod is None:
        return Owner.GONE
    if pod.ended:
        return Owner.ENDED
    if not pod.spec.node_name:
        return Owner.ACTIVE
    if pod.spec.node_name != node:
        return Owner.ELSEWHERE
    phases = {SUCCESS: Owner.SERVED, FAILED: Owner.FAILED}
    return phases.get(pod.annotations.get(names.BIND_PHASE, ""), Owner.ACTIVE)


def lock_decision(
    text: str | None,
    *,
    namespace: str = "",
    pod: str = "",
    owner: Owner,
    now: datetime,
    first_seen: datetime | None = None,
) -> LockDecision:
    """What a bind of this pod does about the lock that stands on the node; without a pod, of whatever pod may come.

    `owner` is about the pod that `read_lock` names. `first_seen`: when this text was first seen by our clock; a lock
    counts no longer than `LOCK_SECONDS` from then, whatever the clock of its writer was.
    """
    if text is None:
        return Free()
    lock = read_lock(text)
    if lock is None:
        return TakeOver(f"{names.NODE_LOCK} is {shown(text)}, must be time,namespace,pod: it counts for nothing")
    if why := _ran_out(lock, now, first_seen):
        return TakeOver(why)
    if lock.is_of(namespace, pod):
        return Ours()
    if lock.pod and owner is not Owner.ACTIVE:
        return TakeOver(f"pod {shown(lock.owner)}, which holds {names.NODE_LOCK}, {owner}")
    return Taken(by=lock.owner, since=lock.since)


def is_lock_of(text: str | None, *, namespace: str, pod: str) -> bool:
    """Whether a lock is this very pod's, so that it may remove it."""
    lock = read_lock(text) if text is not None else None
    return lock is not None and lock.is_of(namespace, pod)


def lock_text(now: datetime, *, namespace: str, pod: str) -> str:
    """The lock of this pod, as every HAMi since 2.4 reads it."""
    return f"{utc_seconds(now)},{namespace},{pod}"


def lock_patch(version: str, text: str) -> dict[str, Any]:
    """A merge patch that sets the lock of a node with this resource version. Raises ValueError where that is empty."""
    return _patch(version, text)


def unlock_patch(version: str) -> dict[str, Any]:
    """A merge patch that removes the lock of a node with this resource version. Raises ValueError where that is empty."""
    return _patch(version, None)


def _patch(version: str, text: str | None) -> dict[str, Any]:
    if not version:
        raise ValueError("resourceVersion is empty: the lock would be written over anybody's")
    return {"metadata": {"resourceVersion": version, "annotations": {names.NODE_LOCK: text}}}


def _ran_out(lock: Lock, now: datetime, first_seen: datetime | None) -> str:
    """Why the lock's time is over, or nothing. A clock may be ahead of ours, but not by more than a lock's whole time."""
    most = timedelta(seconds=LOCK_SECONDS)
    if lock.since - now > most:
        return f"{names.NODE_LOCK} is of {utc_seconds(lock.since)}, in the future: it counts for nothing"
    if now - min(lock.since, first_seen or lock.since) > most:
        return f"{names.NODE_LOCK} is of {utc_seconds(lock.since)}, more than {LOCK_SECONDS:g} s old"
    return ""


def utc_seconds(at: datetime) -> str:
    """A time as HAMi writes it into locks: RFC 3339, UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
