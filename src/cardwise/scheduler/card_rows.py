"""The lines of every card on the metrics page, kept by node and written anew only where a node or its use changed.

A page is of one moment. Making it takes a while at 40,000 cards, so the event loop gets its turn after at most
ROWS_AT_ONCE lines (or one node's, if that has more).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cardwise.core.cards import Cards
from cardwise.core.model import Card, Node
from cardwise.scheduler.page_text import encoded, heading, labelled
from cardwise.scheduler.series import CARD_COLUMNS, CARD_SLOTS

ROWS_AT_ONCE = 1000
_USED = ("slots_used", "memory_used_mib", "cores_used_percent")
"""What changes of a node that is the same object as before."""

Lines = tuple[bytes, ...]
"""A node's lines, for each of CARD_COLUMNS those of all its cards."""
_NONE: Lines = (b"",) * len(CARD_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Look:
    """What the cards were at one moment. Nodes are never changed, only replaced."""

    nodes: list[Node | None] = field(default_factory=list)
    columns: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def at(cls, cards: Cards) -> _Look:
        return cls(list(cards.nodes), {column: cards.columns[column].copy() for _series, column in CARD_COLUMNS})

    def changed_since(self, before: _Look) -> set[int]:
        """The nodes of which something differs."""
        everything = set(range(len(self.nodes)))
        if not before.columns or any(self.columns[name].shape != before.columns[name].shape for name in _USED):
            return everything
        same = len(before.nodes)
        changed = {n for n in range(same) if self.nodes[n] is not before.nodes[n]}
        for name in _USED:
            changed.update(np.flatnonzero((self.columns[name] != before.columns[name]).any(axis=0)).tolist())
        return (changed | set(range(same, len(self.nodes)))) & everything

    def lines(self, n: int) -> Lines:
        """A node's lines."""
        node = self.nodes[n]
        if node is None:
            return _NONE
        labels = [_labels(node, card) for card in node.cards]
        return tuple(
            encoded(
                "".join(
                    [
                        f"{series.name}{label} {value:d}\n"
                        for label, value in zip(labels, self.columns[column][: len(labels), n].tolist(), strict=True)
                    ]
                )
            )
            for series, column in CARD_COLUMNS
        )


class CardRows:
    """The lines about the cards of one `Cards`. Pages may be made at the same time, by tasks of one event loop."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._look = _Look()
        self._stale: set[int] = set()
        self._lines: list[Lines] = []

    async def pieces(self) -> AsyncIterator[bytes]:
        """The part of the page that is about cards, in pieces; whoever takes them gives way in between."""
        self._take_look()
        depth = max(1, len(self._look.columns[_USED[0]]))
        while self._stale:
            self._write_some(max(1, ROWS_AT_ONCE // (depth * len(CARD_COLUMNS))))
            await asyncio.sleep(0)
        lines = tuple(self._lines)
        at_once = max(1, ROWS_AT_ONCE // depth)
        for place, (series, _column) in enumerate(CARD_COLUMNS):
            yield encoded(heading(series))
            for start in range(0, len(lines), at_once):
                yield b"".join([of_node[place] for of_node in lines[start : start + at_once]])

    def _take_look(self) -> None:
        look = _Look.at(self._cards)
        self._stale |= look.changed_since(self._look)
        self._lines += [_NONE] * (len(look.nodes) - len(self._lines))
        self._look = look

    def _write_some(self, nodes: int) -> None:
        for _ in range(min(nodes, len(self._stale))):
            n = self._stale.pop()
            self._lines[n] = self._look.lines(n)


def _labels(node: Node, card: Card) -> str:
    return labelled(CARD_SLOTS.labels, (node.name, card.uuid, str(card.index), card.model, card.family))
