"""What the scheduler knows: facts in, and nothing decided.

    filter → a reservation → bind → a Binding with the record → the pod is seen bound → a confirmed hold

A reservation ends by evidence: the pod is filtered again, deleted, replaced, or seen refused after it. Once a Binding was
sent, only what the API server shows ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cardwise.core.model import PodRequest, Refusal
from cardwise.scheduler.admission import Rules
from cardwise.scheduler.answers import VIEW_INCOMPLETE, Reservation
from cardwise.scheduler.gates import Gates
from cardwise.scheduler.holdings import Holdings
from cardwise.scheduler.nodes import Nodes
from cardwise.scheduler.nominations import Nominations
from cardwise.scheduler.pods import SeenPod, is_managed, is_older, seen_pod
from cardwise.scheduler.waiting import Waiting
from cardwise.wire import names, objects
from cardwise.wire.errors import WireError
from cardwise.wire.pods import read_hold
from cardwise.wire.quotas import read_traits

REMEMBERED_GONE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`node_choice`: `cardwise` answers filter with the one best node, `kube-scheduler` with all that fit."""

    rules: Rules = Rules()
    node_choice: str = "cardwise"
    reservation_seconds: float = 1200.0


class Books:
    """Everything that is known. Every `now` is an aware datetime of one clock."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.complete = False
        self.why_not = VIEW_INCOMPLETE
        """Whether the whole cluster was seen, and is known to be seen as it is; if not, what filter answers."""
        self.holdings = Holdings(settings.rules.families)
        self.nodes = Nodes(self.holdings)
        self.gates = Gates(settings.rules.families)
        self.pods: dict[str, SeenPod] = {}
        self.reservations: dict[str, Reservation] = {}
        self.nominations = Nominations(self.holdings)
        self.waiting = Waiting(self.holdings)
        self.oddities: list[str] = []
        """Sentences about what was ignored, for the log."""
        self.doubts: dict[str, dict[str, Reservation]] = {}
        """By uid and alias what was sent, and set aside for another attempt: it may still be carried out."""
        self.turned: list[str] = []
        """Pods whose turn at a node's gate may have come."""
        self.untold: dict[str, None] = {}
        """Pods that kube-scheduler refuses, and of which it is not yet told why."""
        self.unshown: dict[str, datetime] = {}
        """Pods of which only kube-scheduler has told, and since when: they may have been gone before our watch began."""
        self.silent: set[str] = set()
        """Pods of which nothing was told since they would have fitted: if they are refused again, it is looked at again."""
        self._stuck: set[str] = set()
        self._aliases = 0
        self._gone: dict[str, str] = {}
        self._uid_by_name: dict[tuple[str, str], str] = {}

    def set_complete(self, complete: bool, why_not: Refusal = VIEW_INCOMPLETE) -> None:
        """The view is whole and fresh, or is not. When it becomes so, all that waits is looked at again."""
        self.why_not = why_not
        if complete and not self.complete:
            self.holdings.freed.everything = True
        self.complete = complete

    # -- facts: nodes ----------------------------------------------------------------------------------------------

    def node_seen(self, node: objects.Node, *, now: datetime) -> None:
        """A node is there, or has changed."""
        self.turned += self.gates.node_seen(node, now)
        self.nodes.see(node)

    def node_gone(self, name: str) -> None:
        """A node is gone."""
        self.turned += self.gates.node_gone(name)
        self.waiting.forget_column(self.holdings.cluster.cards.index_of.get(name), name)
        self.nodes.gone(name)

    def nodes_listed(self, names: Iterable[str]) -> None:
        """All nodes there are: the others are gone."""
        for name in set(self.nodes.names) - set(names):
            self.node_gone(name)

    # -- facts: pods -----------------------------------------------------------------------------------------------

    def pod_seen(self, pod: objects.Pod, *, now: datetime) -> None:
        """A pod is there, or has changed. What is older than what was seen before says nothing."""
        uid = pod.metadata.uid
        before = self.pods.get(uid)
        if before is None and self._is_gone(pod):
            return
        if before is None and not is_managed(pod, self.holdings.families):
            if names.BIND_PHASE in pod.annotations:  # of another scheduler: it may own a node's lock
                self.turned += self.gates.pod_seen(pod, now)
            return
        if before is not None and is_older(pod.version, before.version):
            return
        seen = self._keep(pod)
        if seen is None:
            return
        self.unshown.pop(uid, None)
        self.turned += self.gates.pod_seen(pod, now)
        if seen.ended:
            self._release_all(uid)
        elif seen.node:
            self._bound(pod, seen, before)
        else:
            self._unbound(seen)
        self.waiting.seen(seen)
        self.nominations.seen(seen, self.pods)

    def pod_gone(self, uid: str, version: str = "") -> None:
        """A pod is gone from the API server. What is newer than its last version is another word for it being there."""
        known = self.pods.get(uid)
        self._gone[uid] = version or (known.version if known is not None else "")
        if len(self._gone) > REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        self.turned += self.gates.pod_gone(uid)
        self._release_all(uid)
        self.unshown.pop(uid, None)
        seen = self.pods.pop(uid, None)
        if seen is not None:
            self.nodes.can_read(seen.node, uid)
            if self._uid_by_name.get((seen.namespace, seen.name)) == uid:
                del self._uid_by_name[seen.namespace, seen.name]
        self.waiting.gone(uid)
        self.silent.discard(uid)
        self.nominations.gone(uid)

    def pods_listed(self, uids: set[str], version: str) -> None:
        """All pods there were at that version: whoever was seen before it and is not among them is gone."""
        for uid in sorted(self.pods.keys() - uids):
            if not is_older(version, self.pods[uid].version):
                self.pod_gone(uid)
        for uid in self.gates.watched - uids - self.pods.keys():
            self.turned += self.gates.pod_gone(uid)

    def pod_unreadable(self, node: str, uid: str, name: str) -> None:
        """A pod is there that cannot be decoded at all: where it runs, nothing is known of what is free."""
        if node:
            self.nodes.cannot_read(node, uid, name)

    def _is_gone(self, pod: objects.Pod) -> bool:
        """Whether this is an older word of a pod that is gone."""
        last = self._gone.get(pod.metadata.uid)
        return last is not None and not is_older(last, pod.version)

    def _keep(self, pod: objects.Pod) -> SeenPod | None:
        """The pod as it is now; None for one that another of its name has replaced already."""
        before = self.pods.get(pod.metadata.uid)
        same = before is not None and before.version == pod.version != ""
        seen = before if before is not None and same else self.read(pod)  # (a list tells of all again)
        name = seen.namespace, seen.name
        other = self._uid_by_name.get(name)
        if other is not None and other != seen.uid:
            if is_older(seen.version, self.pods[other].version):
                return None
            self.pod_gone(other)
        before = self.pods.get(seen.uid)
        self._uid_by_name[name] = seen.uid
        self.pods[seen.uid] = seen
        if seen.waits and seen.refused is not None and (before is None or before.refused != seen.refused):
            self.untold[seen.uid] = None  # (a filter call may tell of a refusal before the watch does)
        return seen

    def _bound(self, pod: objects.Pod, seen: SeenPod, before: SeenPod | None) -> None:
        """The pod has a node: it holds what its record says, and nothing else."""
        uid = seen.uid
        if before is not None and before.record == seen.record and uid not in self.reservations:
            return
        self.reservations.pop(uid, None)
        self.end_doubts(uid)
        try:
            hold = read_hold(pod, self.holdings.families)
        except WireError as error:
            self.holdings.release(uid)
            self.nodes.cannot_read(seen.node, uid, seen.full_name)
            self.oddities.append(f"pod {seen.full_name} on node {seen.node}: its record cannot be read: {error}")
            return
        self.nodes.can_read(seen.node, uid)
        if hold is not None:
            self.holdings.confirm(hold, read_traits(pod.spec))
            return
        self.holdings.release(uid)
        self.oddities.append(f"pod {seen.full_name} on node {seen.node} has no record that counts: it holds nothing")

    def _unbound(self, seen: SeenPod) -> None:
        """The pod has no node yet: what was reserved ends where the attempt that it was made for has failed."""
        reservation = self.reservations.get(seen.uid)
        if reservation is None or reservation.sent:
            return
        failed = seen.refused is not None and seen.refused != reservation.told
        if failed or seen.terminating:
            self.unreserve(seen.uid)

    def _release_all(self, uid: str) -> None:
        self.unreserve(uid)
        self.end_doubts(uid)

    def unreserve(self, uid: str) -> None:
        """What was reserved for the pod is free."""
        self.reservations.pop(uid, None)
        self.holdings.release(uid)

    def end_doubts(self, uid: str) -> None:
        """No Binding of the pod can be carried out any more but those that are known."""
        for alias in self.doubts.pop(uid, {}):
            self.holdings.drop(alias)

    def sent(self, uid: str) -> dict[str, Reservation]:
        """Bindings of the pod that left and of which nothing is known, by what they are held under: uid or alias."""
        own = self.reservations.get(uid)
        return {**({uid: own} if own is not None and own.sent else {}), **self.doubts.get(uid, {})}

    def not_sent(self, uid: str, held_as: str) -> None:
        """One of those will not be carried out."""
        if held_as == uid:
            self.unreserve(uid)
            return
        aliases = self.doubts[uid]
        del aliases[held_as]
        if not aliases:
            del self.doubts[uid]
        self.holdings.drop(held_as)

    def note(self, pod: objects.Pod, *, now: datetime) -> SeenPod | None:
        """A pod as kube-scheduler sends it, which may know of it before our watch does; None for one that is gone."""
        before = self.pods.get(pod.metadata.uid)
        if before is not None and not is_older(before.version, pod.version):
            return before
        if pod.spec.node_name or pod.ended:
            self.pod_seen(pod, now=now)
            return self.pods.get(pod.metadata.uid)
        if self._is_gone(pod):
            return None
        seen = self._keep(pod)
        if seen is not None and before is None:
            self.unshown[seen.uid] = now
        return seen

    def read(self, pod: objects.Pod) -> SeenPod:
        """A pod as it is sent, without taking it for one that is there."""
        rules = self.settings.rules
        return seen_pod(pod, rules.families, rules.defaults, rules.own_names)

    def asked(self, seen: SeenPod, ended: Collection[str] = ()) -> PodRequest:
        """What a pod asks for, within what its namespace has left (as if the pods of `ended` had ended).

        Raises ValueError for a pod that asks for nothing.
        """
        if seen.request is None:
            raise ValueError(f"pod {seen.full_name} asks for no card")
        quota = self.holdings.quotas.left(seen.namespace, seen.uid, traits=seen.request.traits, ended=ended)
        return replace(seen.request, quota=quota) if quota else seen.request

    def tick(self, *, now: datetime) -> None:
        """Time has passed: what was reserved and never bound ends, as a last resort."""
        oldest = now - timedelta(seconds=self.settings.reservation_seconds)
        for uid in [uid for uid, one in self.reservations.items() if not one.sent and one.made_at < oldest]:
            self.unreserve(uid)
        self.nominations.tick(now=now)
        stuck = self.gates.stuck(now).keys()
        self.holdings.freed.nodes |= self._stuck - stuck  # (a lock may run out by time alone)
        self._stuck = set(stuck)
        self.waiting.again(now=now)

    def set_aside(self, uid: str) -> None:
        """A new attempt begins: what was reserved before is free, unless a Binding of it may still be carried out."""
        reservation = self.reservations.pop(uid, None)
        if reservation is not None and reservation.sent:
            self._aliases += 1
            alias = f"{uid}/sent/{self._aliases}"
            self.holdings.rename(uid, alias)
            self.doubts.setdefault(uid, {})[alias] = reservation
        else:
            self.holdings.release(uid)
