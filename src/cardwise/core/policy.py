"""In which order nodes and cards are tried: named sort keys.

A key gives a number for each node or card, the lowest first. A policy is a tuple of keys, the weightiest first; ties fall
to the node's name and to the card's index. What looks like a policy but refuses cards (`mutex`) is a check, and what
chooses a set rather than an order (`topology-aware`) is in `topology`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cardwise.core.cards import Cards, Floats, Ints, View
from cardwise.core.model import Weights

CardKey = Callable[[View, Weights], Floats | Ints]
NodeKey = Callable[[Cards], Floats]


def card_scores(view: View, weights: Weights) -> Floats:
    """10 × the weighted sum of slots, cores and memory in use, each ÷ its total. What has no total counts nothing."""
    return 10 * (
        weights.slots * _ratio(view.slots_used, view.slots_total)
        + weights.cores * _ratio(view.cores_used_percent, view.cores_total_percent)
        + weights.memory * _ratio(view.memory_used_mib, view.memory_total_mib)
    )


def _ratio(used: Ints, total: Ints) -> Floats:
    return np.divide(used, total, out=np.zeros(used.shape), where=total > 0)


CARD_KEYS: dict[str, CardKey] = {
    "binpack": lambda view, weights: -card_scores(view, weights),
    "spread": card_scores,
    "numa": lambda view, _weights: view.numa,
}

NODE_KEYS: dict[str, NodeKey] = {
    "binpack": lambda cards: -cards.score[: cards.width],
    "spread": lambda cards: cards.score[: cards.width],
}

NODE_POLICIES = tuple(NODE_KEYS)
CARD_POLICIES = ("binpack", "spread", "numa", "topology-aware", "mutex")


def card_order(view: View, keys: Sequence[str], weights: Weights, first: Sequence[int] = ()) -> list[int]:
    """Positions of one node's cards, best first. Cards at the positions `first` come before all others."""
    columns = [CARD_KEYS[key](view, weights)[:, 0] for key in reversed(keys)]
    if first:
        early = np.ones(view.family.shape[0])
        early[list(first)] = 0
        columns.append(early)
    if not columns:
        return list(range(view.family.shape[0]))
    order: list[int] = np.lexsort(columns).tolist()
    return order
