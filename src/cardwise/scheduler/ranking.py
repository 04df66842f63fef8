"""Prioritize: how well each node meets the pod's node policy, for a kube-scheduler that chooses among several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cardwise.core.policy import NODE_KEYS
from cardwise.scheduler.books import Books
from cardwise.scheduler.pods import SeenPod

MOST_SCORE = 10
"""The scale of the extender protocol."""


def scores(books: Books, seen: SeenPod, nodes: Sequence[str], *, now: datetime) -> list[tuple[str, int]]:
    """0 to 10 for each node, in the order in which they came: the best of them has 10, the worst 0.

    A node that is not known, and one whose gate is busy, has 0.
    """
    cards = books.holdings.cluster.cards
    keys = NODE_KEYS[seen.request.node_policy](cards) if seen.request is not None else None
    busy = frozenset(books.gates.busy(now))
    known = {name: float(keys[n]) for name in nodes if keys is not None and (n := cards.index_of.get(name)) is not None}
    if not known:
        return [(name, 0) for name in nodes]
    low, high = min(known.values()), max(known.values())
    span = (high - low) or 1.0
    return [
        (name, round(MOST_SCORE * (high - known[name]) / span) if name in known and name not in busy else 0)
        for name in nodes
    ]
