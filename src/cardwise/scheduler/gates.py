"""One pod at a time on each of HAMi's nodes: who is being served there, who waits, and which node does not answer.

Between its binding and its last `Allocate` a pod occupies its node's gate, as HAMi's device plugin serves whichever pod
the node's lock names. Pure. Every `now` is an aware datetime of one clock; ages are counted from when we first saw
something, so no other clock matters. Each fact gives back the uids whose turn may have come: those ask `claim` again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from cardwise.core.family import Family
from cardwise.scheduler.nodelock import (
    Owner,
    Taken,
    is_hami_node,
    lock_decision,
    lock_of,
    read_lock,
    utc_seconds,
)
from cardwise.wire import names, objects
from cardwise.wire.record import ALLOCATING

STUCK_SECONDS = 30.0
"""A pod that is not served for so long, or a lock that stands so long: the plugin or the kubelet does not work."""

Turned = tuple[str, ...]


class Turn(StrEnum):
    """Whether a claim may go on."""

    GRANTED = "granted"
    QUEUED = "queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A pod's turn at a node. `position` counts from 1 in the queue, 0 is granted; `since` is when it was first made."""

    state: Turn
    since: datetime
    position: int = 0


@dataclass(slots=True, kw_only=True)
class _Pod:
    """A pod that may own a lock: not bound, as far as we saw (no node), or on a node and not known to be done there.

    `places`: the nodes whose gates it closes, and since when: where it is bound and not served, and where we sent a
    Binding of which we know no result. `watched`: the watch showed it, so the watch will tell when it is gone.
    """

    name: str
    node: str = ""
    watched: bool = False
    places: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenLock:
    text: str
    first_seen: datetime


class Gates:
    """Facts in, answers out. Tell it of every node and every pod: a lock may be of any scheduler's pod."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)
        self._hami: set[str] = set()
        self._locks: dict[str, _SeenLock] = {}
        self._pods: dict[str, _Pod] = {}
        self._uids: dict[str, str] = {}
        self._occupants: dict[str, dict[str, _Pod]] = {}
        self._granted: dict[str, tuple[str, datetime]] = {}
        self._queues: dict[str, dict[str, datetime]] = {}

    @property
    def remembered(self) -> int:
        """How many nodes, locks, pods and claims are remembered: 0 when all are gone."""
        maps = (self._hami, self._locks, self._pods, self._uids, self._occupants, self._granted, self._queues)
        return sum(map(len, maps))

    @property
    def watched(self) -> frozenset[str]:
        """The uids of the pods that are remembered because they were seen: those a new list does not have are gone."""
        return frozenset(uid for uid, pod in self._pods.items() if pod.watched)

    # -- facts about nodes

    def node_seen(self, node: objects.Node, now: datetime) -> Turned:
        """A node is there, or other than before."""
        name = node.metadata.name
        if not is_hami_node(node, self._families):
            return self.node_gone(name)
        self._hami.add(name)
        text, before = lock_of(node), self._locks.get(name)
        if text is None:
            self._locks.pop(name, None)
        elif before is None or before.text != text:
            self._locks[name] = _SeenLock(text=text, first_seen=now)
        return self._next(name)

    def node_gone(self, name: str) -> Turned:
        """A node is gone, or HAMi's no more: there is no gate to wait at. What is granted stays until it is released."""
        self._hami.discard(name)
        self._locks.pop(name, None)
        return tuple(self._queues.pop(name, ()))

    # -- facts about pods

    def pod_seen(self, pod: objects.Pod, now: datetime) -> Turned:
        """A pod is there, or other than before, in the order of the watch. Without a node it is no evidence of one."""
        uid, name, node = pod.metadata.uid, pod.full_name, pod.spec.node_name
        other = self._uids.get(name, uid)
        turned = self._forget(other) if other != uid else ()
        if pod.ended or (node and pod.annotations.get(names.BIND_PHASE) != ALLOCATING):
            return turned + self._forget(uid)
        known = self._known(uid, name)
        known.watched = True
        if not node:
            return turned
        known.node = node
        served = pod.status is not None and pod.status.phase == "Running"  # the kubelet asks for all cards before it
        places = {} if served else {node: known.places.get(node, now)}
        return turned + self._occupy(uid, known, places)

    def pod_gone(self, uid: str) -> Turned:
        """A pod is gone. Its claims are its bind call's to release."""
        return self._forget(uid)

    def bind_sent(self, uid: str, namespace: str, name: str, node: str, now: datetime) -> Turned:
        """A Binding leaves now: from here on only evidence ends it. Its claim is used up."""
        known = self._known(uid, f"{namespace}/{name}")
        if known.node != node:
            self._occupy(uid, known, {node: now, **known.places})
        return self.release(node, uid)

    def bind_failed(self, uid: str, node: str = "") -> Turned:
        """A Binding certainly did not happen: it was refused. Without a node: none did, as a quorum read says."""
        known = self._pods.get(uid)
        if known is None:
            return ()
        failed = {node} if node else known.places.keys()
        stays = {place: since for place, since in known.places.items() if place == known.node or place not in failed}
        turned = self._occupy(uid, known, stays)
        return turned if stays or known.watched else turned + self._forget(uid)

    # -- turns

    def claim(self, node: str, uid: str, now: datetime) -> Claim:
        """A pod asks for its turn at a node, again and again until it is granted. First come, first served.

        A node that is not HAMi's has no gate. Bind calls of one pod to one node share a claim: let one follow another.
        """
        if node not in self._hami or uid in self._occupants.get(node, ()):
            return Claim(state=Turn.GRANTED, since=now)
        holder, since = self._granted.get(node, ("", now))
        if holder == uid:
            return Claim(state=Turn.GRANTED, since=since)
        queue = self._queues.setdefault(node, {})
        since = queue.setdefault(uid, now)
        if self._next(node) == (uid,):
            return Claim(state=Turn.GRANTED, since=since)
        return Claim(state=Turn.QUEUED, since=since, position=list(queue).index(uid) + 1)

    def release(self, node: str, uid: str) -> Turned:
        """A bind call ends. If it sent a Binding, the gate stays closed until there is evidence of what became of it."""
        if self._granted.get(node, ("",))[0] == uid:
            del self._granted[node]
        queue = self._queues.get(node, {})
        queue.pop(uid, None)
        if not queue:
            self._queues.pop(node, None)
        return self._next(node)

    def waited(self, node: str, claim: Claim, now: datetime) -> str:
        """The sentence for a bind that has waited too long for its turn."""
        ahead = self._longest(node)
        for_whom = f"pod {ahead.name}" if ahead is not None else "another pod"
        seconds = (now - claim.since).total_seconds()
        return f"node {node}: HAMi's device plugin is still to serve {for_whom}; waited {seconds:.0f} s for a turn"

    # -- questions

    def is_hami(self, node: str) -> bool:
        """Whether the node's cards are served by HAMi's device plugin."""
        return node in self._hami

    def busy(self, now: datetime) -> frozenset[str]:
        """The nodes of HAMi on which a pod that comes now would have to wait. Costs by how many there are."""
        return frozenset(node for node in self._touched() if self.is_busy(node, now))

    def is_busy(self, node: str, now: datetime) -> bool:
        """Whether a pod that comes to this node now would have to wait."""
        if node not in self._hami:
            return False
        held = node in self._occupants or node in self._granted or node in self._queues
        return held or self._taken(node, now) is not None

    def stuck(self, now: datetime) -> dict[str, str]:
        """The nodes of HAMi that take no pods at present, and why: see `why_stuck`. Costs by how many are busy."""
        causes = ((node, self.why_stuck(node, now)) for node in sorted(self._touched()))
        return {node: cause for node, cause in causes if cause}

    def why_stuck(self, node: str, now: datetime) -> str:
        """Why a node takes no pods at present, or nothing. The sentence is the same as long as the cause is."""
        if node not in self._hami:
            return ""
        most = timedelta(seconds=STUCK_SECONDS)
        waits = self._longest(node)
        if waits is not None and now - waits.places[node] > most:
            since = utc_seconds(waits.places[node])
            return f"HAMi's device plugin has not served pod {waits.name}, which waits for its cards since {since}"
        seen, taken = self._locks.get(node), self._taken(node, now)
        return str(taken) if taken is not None and seen is not None and now - seen.first_seen > most else ""

    def owner(self, node: str, text: str) -> Owner:
        """What the pod that a node's lock names is about, as far as we saw; a read of that pod is surer."""
        lock = read_lock(text)
        if lock is None or not lock.owner:
            return Owner.ACTIVE
        known = self._pods.get(self._uids.get(lock.owner, ""))
        if known is None:
            return Owner.GONE
        return Owner.ACTIVE if known.node in ("", node) else Owner.ELSEWHERE

    def lock_first_seen(self, node: str, text: str) -> datetime | None:
        """When we first saw this lock on the node; None where we did not."""
        seen = self._locks.get(node)
        return seen.first_seen if seen is not None and seen.text == text else None

    # -- inside

    def _touched(self) -> set[str]:
        if not self._hami:
            return set()
        return self._hami & (self._occupants.keys() | self._granted.keys() | self._queues.keys() | self._locks.keys())

    def _taken(self, node: str, now: datetime) -> Taken | None:
        """The lock of the node, if anybody else would have to respect it."""
        seen = self._locks.get(node)
        if seen is None:
            return None
        owner = self.owner(node, seen.text)
        found = lock_decision(seen.text, owner=owner, now=now, first_seen=seen.first_seen)
        return found if isinstance(found, Taken) else None

    def _longest(self, node: str) -> _Pod | None:
        """Of the pods that occupy a node the one that has waited longest."""
        return min(self._occupants.get(node, {}).values(), key=lambda pod: pod.places[node], default=None)

    def _known(self, uid: str, name: str) -> _Pod:
        self._uids[name] = uid
        return self._pods.setdefault(uid, _Pod(name=name))

    def _forget(self, uid: str) -> Turned:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ()
        if self._uids.get(pod.name) == uid:
            del self._uids[pod.name]
        return self._occupy(uid, pod, {})

    def _occupy(self, uid: str, pod: _Pod, places: dict[str, datetime]) -> Turned:
        """The pod closes the gates of these nodes, and of no others."""
        left = sorted(pod.places.keys() - places.keys())
        pod.places = places
        for node in places:
            self._occupants.setdefault(node, {})[uid] = pod
        for node in left:
            del self._occupants[node][uid]
            if not self._occupants[node]:
                del self._occupants[node]
        return tuple(uid for node in left for uid in self._next(node))

    def _next(self, node: str) -> Turned:
        """Grants the first in the queue its turn, where the gate is open."""
        queue = self._queues.get(node)
        if not queue or node in self._granted or node in self._occupants:
            return ()
        uid = next(iter(queue))
        self._granted[node] = (uid, queue.pop(uid))
        if not queue:
            del self._queues[node]
        return (uid,)
