"""How many more pods of a shape fit now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cardwise.core.cards import Cards
from cardwise.core.peak import peak_use
from cardwise.core.place import candidates, likeness
from cardwise.core.plan import Step, count_in, plan_on, steps_of
from cardwise.core.scene import Scene

MOST_PER_NODE = 4096


def headroom(scene: Scene) -> int:
    """How many pods like the scene's fit beside all that runs, each on one node, one after another."""
    cluster = scene.cluster
    steps = steps_of(scene.pod)
    could = candidates(cluster.cards, cluster.shapes, steps, scene.allowed())
    by_kind: dict[bytes, int] = {}
    total = 0
    for n in np.flatnonzero(could).tolist():
        kind = likeness(cluster.cards, n, steps)
        if kind not in by_kind:
            by_kind[kind] = _copies(cluster.cards, n, scene, steps)
        total += _by_amounts(scene, n, by_kind[kind])
    return total


def _copies(cards: Cards, n: int, scene: Scene, steps: Sequence[Step]) -> int:
    """How many copies the node's cards take."""
    view = cards.view(slice(n, n + 1)).copy_use()
    for copies in range(MOST_PER_NODE):
        placement = plan_on(view, cards, n, scene.pod, steps)
        if placement is None:
            return copies
        for uuid, use in peak_use(placement.containers, placement.exclusive).items():
            count_in(view, cards.position(n, uuid), use)
    return MOST_PER_NODE


def _by_amounts(scene: Scene, n: int, most: int) -> int:
    """The greatest number of copies, up to `most`, for which the node's other amounts are enough."""
    requests = scene.requests()
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        together = {name: amount * middle for name, amount in requests.items()}
        if scene.table.refusals(scene.rules, together, n):
            high = middle - 1
        else:
            low = middle
    return low
