"""How many cards of each node fit a need, remembered: most pods ask for what another pod asked for a moment ago.

`Cards` keeps a journal of the nodes that changed. A need that was seen before looks again only at those; a new need, or
one that slept too long, looks at all. The numbers are always those that a full look would give.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cardwise.core.cards import Bools, Cards, View
from cardwise.core.checks import CHECKS, LASTING, Need, fits

Counts = npt.NDArray[np.int16]
MOST_SHAPES = 512


@dataclass(slots=True)
class _Shape:
    counts: Counts
    read: int


class Shapes:
    """Remembered counts over one `Cards`."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._shapes: OrderedDict[Need, _Shape] = OrderedDict()

    def counts(self, need: Need) -> Counts:
        """For each node, how many of its cards one container could take (with one_numa, of its best NUMA node)."""
        cards = self._cards
        shape = self._shapes.get(need)
        if shape is None or shape.read < cards.journal_start or len(shape.counts) != cards.width:
            shape = self._shapes[need] = _Shape(usable(cards.view(), need), 0)
            if len(self._shapes) > MOST_SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._refresh(shape, need)
        shape.read = cards.journal_start + len(cards.journal)
        self._shapes.move_to_end(need)
        return shape.counts

    def _refresh(self, shape: _Shape, need: Need) -> None:
        changed = np.array(sorted(set(self._cards.journal[shape.read - self._cards.journal_start :])), np.int64)
        if len(changed):
            shape.counts[changed] = usable(self._cards.view(changed), need)


def usable(view: View, need: Need) -> Counts:
    """For each node in view, the cards that one container with this need could take."""
    return countable(view, fits(view, need), need)


def ever_usable(view: View, need: Need) -> Counts:
    """The same if nothing ran on the nodes: what waiting could bring at best."""
    return countable(view, fits(view, need, CHECKS[:LASTING]), need)


def countable(view: View, fitting: Bools, need: Need) -> Counts:
    """For each node, how many of the fitting cards one container could take together."""
    if not need.one_numa:
        counts: Counts = fitting.sum(axis=0, dtype=np.int16)
        return counts
    most = np.zeros(fitting.shape[1], np.int16)
    for numa in np.unique(view.numa[fitting]):
        np.maximum(most, (fitting & (view.numa == numa)).sum(axis=0, dtype=np.int16), out=most)
    return most
