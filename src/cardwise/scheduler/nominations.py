"""Pods that wait for their victims to end: what they will take is held against pods of lower and equal priority.

kube-scheduler counts a nominated pod's requests on its node for all but higher pods; it knows no cards, so we do the same
for those. Between our answer to preempt and the nomination that we see on the pod, each node that was answered is held
for a moment: else a lower pod could slip in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cardwise.core.model import CardUse, Placement, PodRequest
from cardwise.core.plan import plan, steps_of
from cardwise.scheduler.holdings import Holdings
from cardwise.scheduler.pods import SeenPod

PROMISED_SECONDS = 5.0
"""How long a node that was answered is held without a nomination that is seen."""


@dataclass(slots=True)
class _Promise:
    alias: str
    priority: int
    until: datetime | None


class Nominations:
    """By pod and node what is held for it; `until` None once the nomination was seen."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._promises: dict[str, dict[str, _Promise]] = {}

    def __len__(self) -> int:
        return len(self._promises)

    def promise(self, request: PodRequest, priority: int, placement: Placement, *, now: datetime) -> None:
        """Preempt answered this node: hold it until the nomination is seen."""
        self._hold(request, priority, placement, now + timedelta(seconds=PROMISED_SECONDS))

    def seen(self, seen: SeenPod, pods: Mapping[str, SeenPod]) -> None:
        """The pod as it is now. A nomination of which nothing is known (after a restart) is planned anew."""
        uid, nominated = seen.uid, seen.nominated
        held = self._promises.get(uid, {})
        if not seen.waits:
            self.placed(uid)
        elif not nominated:
            for node in [node for node, promise in held.items() if promise.until is None]:
                self._drop(uid, node)
        else:
            for node in [node for node in held if node != nominated]:
                self._drop(uid, node)
            if nominated in held:
                held[nominated].until = None
            else:
                self._plan(seen, pods)

    def placed(self, uid: str) -> None:
        """The pod has cards of its own now, or wants none any more."""
        for node in list(self._promises.get(uid, ())):
            self._drop(uid, node)

    gone = placed

    def seen_through(self, uid: str, priority: int) -> list[str]:
        """The aliases that do not stand in this pod's way: its own, and those of lower pods."""
        return [
            promise.alias
            for other, held in self._promises.items()
            for promise in held.values()
            if other == uid or promise.priority < priority
        ]

    def tick(self, *, now: datetime) -> None:
        """Forget what was answered and not taken up."""
        over = [
            (uid, node)
            for uid, held in self._promises.items()
            for node, promise in held.items()
            if promise.until is not None and promise.until <= now
        ]
        for uid, node in over:
            self._drop(uid, node)

    def _plan(self, seen: SeenPod, pods: Mapping[str, SeenPod]) -> None:
        cluster = self._holdings.cluster
        n = cluster.cards.index_of.get(seen.nominated)
        if n is None or seen.request is None or seen.uid in cluster.holds:
            return
        leaving = [
            hold.use
            for hold in cluster.holds_on(seen.nominated)
            if (pod := pods.get(hold.uid)) is not None and pod.terminating and pod.priority < seen.priority
        ]
        placement = plan(cluster.cards, n, seen.request, steps_of(seen.request), freed=added(leaving))
        if placement is not None:
            self._hold(seen.request, seen.priority, placement, None)

    def _hold(self, request: PodRequest, priority: int, placement: Placement, until: datetime | None) -> None:
        alias = f"{request.uid}/nominated/{placement.node}"
        self._holdings.shadow(alias, request, placement)
        self._promises.setdefault(request.uid, {})[placement.node] = _Promise(alias, priority, until)

    def _drop(self, uid: str, node: str) -> None:
        held = self._promises[uid]
        self._holdings.drop(held.pop(node).alias)
        if not held:
            del self._promises[uid]


def added(uses: list[Mapping[str, CardUse]]) -> dict[str, CardUse]:
    """The sum of what several pods hold, by UUID."""
    total: dict[str, CardUse] = {}
    for use in uses:
        for uuid, more in use.items():
            have = total.get(uuid, CardUse())
            total[uuid] = CardUse(
                slots=have.slots + more.slots,
                memory_mib=have.memory_mib + more.memory_mib,
                cores_percent=have.cores_percent + more.cores_percent,
                holders=have.holders + more.holders,
            )
    return total
