"""Preempt: kube-scheduler names victims by its own arithmetic, which knows no cards; this keeps a node only if the pod fits
there once they are gone, with other victims where it must be others, and drops it otherwise.

Victims of our own choice are pods of lower priority that hold cards on that node. kube-scheduler obeys and
does not look at priorities again, so an equal or higher pod is never named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from cardwise.core.cluster import Hold
from cardwise.core.model import Placement
from cardwise.core.plan import plan, steps_of
from cardwise.scheduler.books import Books
from cardwise.scheduler.nominations import added
from cardwise.scheduler.pods import SeenPod
from cardwise.wire.errors import WireError
from cardwise.wire.rules import read_requests

MOST_VICTIMS = 64
"""Pods of one node among which victims are sought."""


def preempt_on(books: Books, seen: SeenPod, node: str, given: Iterable[str], *, now: datetime) -> list[str] | None:
    """The uids of the victims on one node, or None where the pod would not fit there for all of them."""
    if not books.complete or seen.request is None or seen.reading.faults:
        return None
    cluster = books.holdings.cluster
    n = cluster.cards.index_of.get(node)
    if n is None or not cluster.cards.in_service[n]:
        return None
    victims = list(given)
    lower = _lower(books, seen, node)
    with books.holdings.without(books.nominations.seen_through(seen.uid, seen.priority)):
        placement = _without(books, seen, n, [hold for hold in lower if hold.uid in victims])
        if placement is None:
            chosen = _chosen(books, seen, n, lower, victims)
            if chosen is None:
                return None
            victims, placement = chosen
    if seen.request.uid not in cluster.holds:
        books.nominations.promise(seen.request, seen.priority, placement, now=now)
    return victims


def _chosen(
    books: Books, seen: SeenPod, n: int, lower: list[Hold], given: list[str]
) -> tuple[list[str], Placement] | None:
    """Fewer or other victims: all lower pods at first, then each is spared that need not go, the highest first."""
    chosen = list(lower)
    placement = _without(books, seen, n, chosen)
    if placement is None:
        return None
    # kube-scheduler's own arithmetic must still be met: as much must leave of all that the pod asks for.
    enough = _amounts(books, seen, given)
    for hold in lower:
        rest = [other for other in chosen if other is not hold]
        freed = _amounts(books, seen, [other.uid for other in rest])
        if hold.uid in given and any(freed.get(name, 0) < amount for name, amount in enough.items()):
            continue
        if (spared := _without(books, seen, n, rest)) is not None:
            chosen, placement = rest, spared
    holds = books.holdings.cluster.holds
    others = [uid for uid in given if uid not in holds]
    return others + [hold.uid for hold in chosen], placement


def _lower(books: Books, seen: SeenPod, node: str) -> list[Hold]:
    """Pods of lower priority that hold cards on a node, those to be spared first: by priority, then the oldest."""
    found = [
        (-pod.priority, pod.created, pod.full_name, hold)
        for hold in books.holdings.cluster.holds_on(node)
        if (pod := books.pods.get(hold.uid)) is not None and pod.node == node and pod.priority < seen.priority
    ]
    found.sort(key=lambda one: one[:3])
    return [hold for *_order, hold in found[-MOST_VICTIMS:]]


def _without(books: Books, seen: SeenPod, n: int, leaving: Iterable[Hold]) -> Placement | None:
    cards = books.holdings.cluster.cards
    freed = {hold.uid: hold.use for hold in (*leaving, *_ending(books, cards.names[n]))}
    request = books.asked(seen, freed)
    return plan(cards, n, request, steps_of(request), freed=added(list(freed.values())))


def _ending(books: Books, node: str) -> list[Hold]:
    """Pods that leave already: nobody else has to go for what they hold."""
    holds = books.holdings.cluster.holds_on(node)
    return [hold for hold in holds if (pod := books.pods.get(hold.uid)) is not None and pod.terminating]


def _amounts(books: Books, seen: SeenPod, uids: Iterable[str]) -> Mapping[str, int]:
    """What the going of these pods frees of the resources that the pod asks for and kube-scheduler counts."""
    skip = {name for family in books.holdings.families for name in family.uncounted_resources}
    asked = _requests(seen, skip)
    total = dict.fromkeys(asked, 0)
    for pod in filter(None, map(books.pods.get, uids)):
        for name, amount in _requests(pod, skip).items():
            if name in total:
                total[name] += amount
    return total


def _requests(seen: SeenPod, skip: set[str]) -> dict[str, int]:
    try:
        return read_requests(seen.spec, skip)
    except WireError:
        return {}  # an amount that kube-scheduler could not read either: it frees nothing
