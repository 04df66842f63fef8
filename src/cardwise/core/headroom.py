"""How many more pods of a shape fit now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cardwise.core.cards import Cards, Ints
from cardwise.core.peak import peak_use
from cardwise.core.place import candidates
from cardwise.core.plan import Step, count_in, plan_on, room, steps_of
from cardwise.core.scene import Scene
from cardwise.core.tries import likenesses

MOST_PER_NODE = 4096


def headroom(scene: Scene) -> int:
    """How many pods like the scene's fit beside all that runs, each on one node, one after another."""
    cluster = scene.cluster
    steps = steps_of(scene.pod)
    could = candidates(cluster.cards, cluster.shapes, steps, scene.allowed())
    columns = np.flatnonzero(could)
    if len(steps) == 1 and steps[0].need.count == 1:
        # Each copy takes one card wherever there is room: no order of taking them makes it more or fewer.
        by_node = room(cluster.cards.view(columns), steps[0].need).tolist()
    else:
        by_node = _one_after_another(scene, steps, columns)
    return sum(_by_amounts(scene, n, copies) for n, copies in zip(columns.tolist(), by_node, strict=True))


def _one_after_another(scene: Scene, steps: Sequence[Step], columns: Ints) -> list[int]:
    """How many copies each node's cards take; nodes that are alike take as many."""
    cards = scene.cluster.cards
    kinds = likenesses(cards, columns, scene.pod, steps)
    copies = {
        kind: _copies(cards, n, scene, steps) for kind, n in dict(zip(kinds, columns.tolist(), strict=True)).items()
    }
    return [copies[kind] for kind in kinds]


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
