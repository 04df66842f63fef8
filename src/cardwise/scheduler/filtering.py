"""Filter: which node, and which cards on it, are reserved for a pod among the nodes that kube-scheduler offers.

A call that repeats never reserves twice: a new attempt first lets go of what the one before it reserved.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import numpy as np

from cardwise.core.cards import Bools, Ints
from cardwise.core.model import Placement, PodRequest, Refusal
from cardwise.core.place import best_first, candidates
from cardwise.core.plan import plan, steps_of
from cardwise.scheduler.answers import POD_GONE, Chosen, Filtered, Refused, Reservation, Untouched
from cardwise.scheduler.books import Books
from cardwise.scheduler.offered import Offered
from cardwise.scheduler.pods import SeenPod, is_managed, unplaceable
from cardwise.wire import objects
from cardwise.wire.rules import read_rules

MOST_RETURNED = 100
"""Nodes planned one by one for a pod whose containers must be tried together, where all that fit are to be returned."""
BUSY_COSTS = 1 << 60
"""How far behind all others a node ranks whose gate is busy."""

Found = tuple[Placement | None, tuple[str, ...]]


def filter_pod(books: Books, pod: objects.Pod, offered: Offered, *, now: datetime) -> Filtered:
    """Where the pod may go among the nodes that are offered; what is chosen is reserved."""
    if not is_managed(pod, books.holdings.families):
        return Untouched()
    seen = books.note(pod, now=now)
    if seen is None or seen.ended:
        return Refused(everywhere=POD_GONE)
    if (held := _already(books, seen, offered)) is not None:
        return held
    if (fault := unplaceable(seen, books.holdings.families)) is not None:
        return Refused(everywhere=fault)
    if seen.request is None:
        return Untouched()
    answer = _attempt(books, seen, offered, now=now)
    if isinstance(answer, Refused):
        if seen.uid in books.silent:
            books.silent.discard(seen.uid)
            books.untold[seen.uid] = None
        books.waiting.refused(seen, offered if answer.everywhere is None else None)
    else:
        books.waiting.placed(seen.uid, books.reservations[seen.uid].placement)
    return answer


def _attempt(books: Books, seen: SeenPod, offered: Offered, *, now: datetime) -> Filtered:
    books.set_aside(seen.uid)
    return _decide(books, seen, offered, now=now) if books.complete else Refused(everywhere=books.why_not)


def _already(books: Books, seen: SeenPod, offered: Offered) -> Filtered | None:
    """A pod that is bound, or whose Binding is under way, goes where it goes."""
    reservation = books.reservations.get(seen.uid)
    if reservation is not None and reservation.sent:
        node = reservation.placement.node
        return Chosen((node,)) if offered.has(node) else None
    hold = books.holdings.cluster.holds.get(seen.uid)
    bound_to = hold.node if hold is not None and hold.confirmed else seen.node
    if not bound_to:
        return None
    if offered.has(bound_to):
        return Chosen((bound_to,))
    text = f"the pod is bound to node {bound_to}"
    return Refused(everywhere=Refusal(code="PodBound", text=text, kind=text, lasting=True))


def _decide(books: Books, seen: SeenPod, offered: Offered, *, now: datetime) -> Filtered:
    request = books.asked(seen)
    preference = _preference(books, seen, now)
    stuck = books.gates.stuck(now)
    with books.holdings.without(books.nominations.seen_through(seen.uid, seen.priority)):
        if books.settings.node_choice == "cardwise":
            placement, nodes = _the_best(books, request, offered, preference, stuck)
        else:
            placement, nodes = _all_that_fit(books, request, offered.mask() & _not(books, stuck), preference)
        if placement is None or books.holdings.reserve(request, placement) is not None:
            return _refused(books, request, offered, preference, stuck)
    books.nominations.placed(seen.uid)
    books.reservations[seen.uid] = Reservation(request=request, placement=placement, made_at=now, told=seen.refused)
    return Chosen(nodes)


def _the_best(
    books: Books, request: PodRequest, offered: Offered, preference: Ints | None, stuck: Iterable[str]
) -> Found:
    among = _not(books, stuck) if stuck else None
    if offered.at_once:
        among = offered.mask() if among is None else among & offered.mask()
    one_by_one = None if offered.at_once else offered
    placement = books.holdings.cluster.place(request, among, preference, offered=one_by_one)
    return placement, () if placement is None else (placement.node,)


def _all_that_fit(books: Books, request: PodRequest, among: Bools, preference: Ints | None) -> Found:
    """The best placement, and every node that fits, the best first."""
    cluster = books.holdings.cluster
    steps = steps_of(request)
    could = candidates(cluster.cards, cluster.shapes, steps, among)
    order = list(best_first(cluster.cards, could, request.node_policy, preference))
    one_by_one = len(steps) > 1 or bool(request.quota)
    best: Placement | None = None
    nodes: list[str] = []
    for n in order:
        placement = plan(cluster.cards, n, request, steps) if one_by_one or best is None else best
        if placement is not None:
            best = best or placement
            nodes.append(cluster.cards.names[n])
        if one_by_one and len(nodes) >= MOST_RETURNED:
            break
    return best, tuple(nodes)


def _preference(books: Books, seen: SeenPod, now: datetime) -> Ints | None:
    """The pod's soft rules, and last of all the nodes whose gates are busy."""
    wishes = books.nodes.preference(read_rules(seen.spec)) if books.nodes.may_prefer(seen.spec) else None
    cards = books.holdings.cluster.cards
    busy = [n for n in map(cards.index_of.get, books.gates.busy(now)) if n is not None]
    if not busy:
        return wishes
    wishes = np.zeros(cards.width, np.int64) if wishes is None else wishes.copy()
    wishes[busy] -= BUSY_COSTS
    return wishes


def _not(books: Books, names: Iterable[str]) -> Bools:
    cards = books.holdings.cluster.cards
    mask = np.ones(cards.width, np.bool_)
    mask[[cards.index_of[name] for name in names if name in cards.index_of]] = False
    return mask


def _refused(
    books: Books, request: PodRequest, offered: Offered, preference: Ints | None, stuck: dict[str, str]
) -> Refused:
    """Why each offered node will not do. A node whose cards would do is kept from the pod by its lock."""
    cluster = books.holdings.cluster
    mask = offered.mask()
    groups = cluster.refusal_groups(request, mask, preference)
    index_of = cluster.cards.index_of
    shut = {index_of[name]: why for name, why in stuck.items() if name in index_of and mask[index_of[name]]}
    said = {n for _refusal, columns in groups for n in columns.tolist()} if shut else set()
    groups += [
        (Refusal(code="NodeLocked", text=why, kind="node(s) whose lock is stuck"), np.array([n]))
        for n, why in shut.items()
        if n not in said
    ]
    return Refused(groups=tuple(groups), unknown=tuple(offered.unknown))
