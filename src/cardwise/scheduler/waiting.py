"""Pods that were refused, and which of them to touch when something becomes free.

kube-scheduler looks at a refused pod again when a pod somewhere ends, and otherwise only after minutes. It and we watch the
API server separately: when it looks again before we know what has ended, we refuse again, and nothing would come after
that. So when we learn of it, we plan the refused pods again, over the nodes that were last offered for them, and touch
those that now fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cardwise.core.cards import Bools
from cardwise.core.model import Placement, PodRequest
from cardwise.core.plan import Step, steps_of
from cardwise.scheduler.answers import Wake
from cardwise.scheduler.holdings import Freed, Holdings
from cardwise.scheduler.offered import Offered
from cardwise.scheduler.pods import SeenPod, unplaceable
from cardwise.wire.rules import read_rules

if TYPE_CHECKING:
    from cardwise.scheduler.books import Books

MOST_PLANS = 25
"""Plans in one step: a few milliseconds, between which other questions are answered."""
KEPT_SECONDS = 2.0
"""How long what a woken pod would take is not offered to the next one that waits."""
AGAIN_SECONDS = KEPT_SECONDS
"""After this a pod that was touched and not filtered is touched again; then after twice as long, and so on."""
MOST_WAKES = 6
"""Touches of a pod that kube-scheduler does not bring to us: it has reasons of its own."""


@dataclass(slots=True)
class _Waiter:
    """`offered` are the columns that were last offered, packed; None if not known. `wakes`: since it was filtered."""

    seen: SeenPod
    offered: npt.NDArray[np.uint8] | None = None
    unknown: frozenset[str] = frozenset()
    wakes: int = 0


@dataclass(slots=True)
class _Woken:
    placement: Placement
    request: PodRequest
    at: datetime
    again_at: datetime
    keeps: bool


@dataclass(slots=True)
class _Pass:
    """One round over those that wait: who is still to be asked, where something is free, and what was tried in vain."""

    freed: Freed
    queue: list[str]
    in_vain: set[tuple[tuple[Step, ...], str, bytes]] = field(default_factory=set)


class Waiting:
    """Derived from the pods, so a restart finds it again; only what was offered is known better by asking."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._waiters: dict[str, _Waiter] = {}
        self._woken: dict[str, _Woken] = {}
        self._pass: _Pass | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[SeenPod]:
        return (waiter.seen for waiter in self._waiters.values())

    def refused(self, seen: SeenPod, offered: Offered | None) -> None:
        """Filter refused the pod on the nodes that were offered; None where it did not look at them."""
        self._let_go(seen.uid)
        waiter = self._waiters[seen.uid] = _Waiter(seen)
        if offered is not None:
            waiter.offered, waiter.unknown = np.packbits(offered.mask()), frozenset(offered.unknown)

    def placed(self, uid: str, placement: Placement | None = None) -> None:
        """Filter found this place for the pod, or it waits no more."""
        self._waiters.pop(uid, None)
        self._let_go(uid, placement)

    gone = placed

    def _let_go(self, uid: str, placement: Placement | None = None) -> None:
        """What was kept for a woken pod is offered to the others, unless it took just that."""
        woken = self._woken.pop(uid, None)
        if woken is not None and woken.keeps and woken.placement != placement:
            self._offer(woken)

    def _offer(self, woken: _Woken) -> None:
        """All that wait are asked again about what a woken pod would take."""
        self._holdings.freed.nodes.add(woken.placement.node)
        if woken.request.quota:
            self._holdings.freed.namespaces.add(woken.request.namespace)

    def seen(self, seen: SeenPod) -> None:
        """The pod as it is now: it waits here while kube-scheduler says that it is refused."""
        waiter = self._waiters.get(seen.uid)
        if not seen.waits or seen.request is None:
            self.placed(seen.uid)
        elif waiter is not None:
            waiter.seen = seen
        elif seen.refused is not None:
            self._waiters[seen.uid] = _Waiter(seen)

    def forget_column(self, n: int | None, name: str) -> None:
        """A node is gone, and its column will be another's. Under its name it may come back."""
        if n is None:
            return
        byte, bit = divmod(n, 8)
        for waiter in self._waiters.values():
            if waiter.offered is not None and byte < len(waiter.offered) and waiter.offered[byte] & (0x80 >> bit):
                waiter.offered[byte] &= 0xFF ^ (0x80 >> bit)
                waiter.unknown |= {name}

    def again(self, *, now: datetime) -> None:
        """Look again at pods that were touched a while ago and not brought to us, and at those that they kept out."""
        for uid, woken in list(self._woken.items()):
            if now < woken.again_at:
                continue
            waiter = self._waiters.get(uid)
            if waiter is None or waiter.wakes >= MOST_WAKES:
                del self._woken[uid]
            else:
                self._holdings.freed.uids.add(uid)  # (what was planned for it may be taken, and something else free)
                self._offer(woken)

    def wake_failed(self, uid: str) -> None:
        """The touch did not arrive: it does not count."""
        waiter = self._waiters.get(uid)
        if waiter is not None and waiter.wakes:
            waiter.wakes -= 1

    def wakes(self, books: Books, *, now: datetime) -> list[Wake] | None:
        """The next of those that fit by what became free; None when all were asked. One step of bounded work."""
        if books.holdings.freed:
            self._begin(books.holdings.take_freed())
        if self._pass is None or not books.complete:
            return None
        found: list[Wake] = []
        with books.holdings.tentative() as take:
            for woken in self._kept(now):
                take(woken.request, woken.placement)
            plans = MOST_PLANS
            while self._pass.queue and plans > 0:
                uid = self._pass.queue.pop()
                waiter = self._waiters.get(uid)
                if waiter is None or uid in books.holdings.cluster.holds or self._just_woken(uid, now):
                    continue
                placement, planned = self._fits(books, waiter, self._pass, now)
                plans -= planned
                if placement is not None:
                    woken = self._touch(waiter, placement, books.asked(waiter.seen), now)
                    if woken.keeps:
                        take(woken.request, woken.placement)
                    found.append(Wake(uid=uid, namespace=waiter.seen.namespace, name=waiter.seen.name))
        if not self._pass.queue:
            self._pass = None
            return found or None
        return found

    def _begin(self, freed: Freed) -> None:
        if self._pass is not None:
            freed.nodes |= self._pass.freed.nodes
            freed.namespaces |= self._pass.freed.namespaces
            freed.uids |= self._pass.freed.uids
            freed.everything |= self._pass.freed.everything
        order = sorted(
            self._waiters.values(), key=lambda one: (-one.seen.priority, one.seen.created, one.seen.full_name)
        )
        self._pass = _Pass(freed, [waiter.seen.uid for waiter in reversed(order)]) if order else None

    def _just_woken(self, uid: str, now: datetime) -> bool:
        woken = self._woken.get(uid)
        return woken is not None and now < woken.again_at

    def _kept(self, now: datetime) -> list[_Woken]:
        kept = timedelta(seconds=KEPT_SECONDS)
        return [woken for woken in self._woken.values() if woken.keeps and now - woken.at < kept]

    def _touch(self, waiter: _Waiter, placement: Placement, request: PodRequest, now: datetime) -> _Woken:
        """A pod that did not come when it was touched before keeps nothing from others."""
        again_at = now + timedelta(seconds=AGAIN_SECONDS * 2.0**waiter.wakes)
        woken = _Woken(placement, request, now, again_at, keeps=not waiter.wakes)
        waiter.wakes += 1
        self._woken[waiter.seen.uid] = woken
        return woken

    def _fits(self, books: Books, waiter: _Waiter, one: _Pass, now: datetime) -> tuple[Placement | None, int]:
        """Where the pod would go now, and whether that had to be planned."""
        seen = waiter.seen
        among = self._among(books, waiter, one.freed, now)
        if not among.any() or waiter.wakes >= MOST_WAKES or unplaceable(seen, books.holdings.families):
            return None, 0
        request = books.asked(seen)
        key = steps_of(request), seen.namespace if request.quota else "", np.packbits(among).tobytes()
        if key in one.in_vain:
            return None, 0
        with books.holdings.without(books.nominations.seen_through(seen.uid, seen.priority)):
            placement = books.holdings.cluster.place(request, among)
        if placement is None:
            one.in_vain.add(key)
        return placement, 1

    def _among(self, books: Books, waiter: _Waiter, freed: Freed, now: datetime) -> Bools:
        """The nodes that may be new to the pod: freed ones among those that were offered, or may have been."""
        cards = books.holdings.cluster.cards
        if freed.everything or waiter.seen.namespace in freed.namespaces or waiter.seen.uid in freed.uids:
            among = np.ones(cards.width, np.bool_)
        else:
            among = np.zeros(cards.width, np.bool_)
            among[[cards.index_of[name] for name in freed.nodes if name in cards.index_of]] = True
        among[[cards.index_of[name] for name in books.gates.stuck(now) if name in cards.index_of]] = False
        if waiter.offered is None:
            return among & books.nodes.table.mask(read_rules(waiter.seen.spec), {})[: cards.width]
        offered = np.zeros(cards.width, np.bool_)
        bits = np.unpackbits(waiter.offered)[: cards.width].astype(np.bool_)
        offered[: len(bits)] = bits
        offered[[cards.index_of[name] for name in waiter.unknown if name in cards.index_of]] = True
        return among & offered
