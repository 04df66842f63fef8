"""Every card of the cluster as columns, and what is used of it.

A column is an array of shape (card position in its node, node): a rule about cards is then one expression over all of
them, and a sum over a node's cards is a sum over the short first axis, which NumPy does fastest in this layout. Nodes
with fewer cards than the largest have rows whose family is ABSENT.

Nothing here decides. `Cards` knows totals and use; who uses what is `cluster.Cluster`'s to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cardwise.core.model import Card, CardUse, Links, Node

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Nodes = slice | Ints

ABSENT = -1
_FEW = 64
_JOURNAL_LEAST = 4096
_TOTAL_SUMS = slice(3, 6)
"""The last rows of a node's sums: slots, memory and compute in total. The first are the same in use."""

_STATIC: dict[str, Any] = {
    "family": np.int16,
    "model": np.int32,
    "mode": np.int32,
    "uuid": np.int64,
    "numa": np.int32,
    "healthy": np.bool_,
    "cordoned": np.bool_,
    "partitioned": np.bool_,
    "slots_total": np.int64,
    "memory_total_mib": np.int64,
    "cores_total_percent": np.int64,
}
_USED: dict[str, Any] = {
    "slots_used": np.int64,
    "memory_used_mib": np.int64,
    "cores_used_percent": np.int64,
    "holders": np.int64,
}
STATIC, USED = tuple(_STATIC), tuple(_USED)
"""The names of the columns: what cards are, and what is used of them."""


class Vocabulary:
    """Words as small numbers, so that columns can hold them, and which words a list of a user's items means."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._codes: dict[str, int] = {}
        self._matches: dict[tuple[bool, tuple[str, ...]], Bools] = {}

    def code(self, word: str) -> int:
        """The number of a word, given to it now where it is new."""
        code = self._codes.get(word)
        if code is None:
            code = self._codes[word] = len(self.words)
            self.words.append(word)
            self._matches.clear()
        return code

    def known(self, words: Iterable[str]) -> list[int]:
        """The numbers of those words that were ever seen."""
        return [self._codes[word] for word in words if word in self._codes]

    def containing(self, items: tuple[str, ...]) -> Bools:
        """For each word, whether it contains one of the items, whatever the case."""
        return self._match(items, whole=False)

    def among(self, items: tuple[str, ...]) -> Bools:
        """For each word, whether it is one of the items, or is empty."""
        return self._match(items, whole=True)

    def _match(self, items: tuple[str, ...], *, whole: bool) -> Bools:
        found = self._matches.get((whole, items))
        if found is None:
            if len(self._matches) >= 1024:  # lists of users' own making: do not remember them all for ever
                self._matches.clear()
            lowered = [item.lower() for item in items]
            found = np.array(
                [
                    word in items or not word if whole else any(i in word.lower() for i in lowered)
                    for word in self.words
                ],
                dtype=np.bool_,
            )
            self._matches[whole, items] = found
        return found


def _cut(column: npt.NDArray[Any], nodes: Nodes) -> npt.NDArray[Any]:
    cut: npt.NDArray[Any] = column[:, nodes] if isinstance(nodes, slice) else column.take(nodes, axis=1)
    return cut


class View:
    """The columns for some of the nodes: what checks and policies read.

    A column is cut out when it is first read; for a node or a few all at once, which costs less than to ask for each. A
    planner that tries things assigns copies to the four columns of use.
    """

    family: Ints
    model: Ints
    mode: Ints
    uuid: Ints
    numa: Ints
    healthy: Bools
    cordoned: Bools
    partitioned: Bools
    slots_total: Ints
    memory_total_mib: Ints
    cores_total_percent: Ints
    slots_used: Ints
    memory_used_mib: Ints
    cores_used_percent: Ints
    holders: Ints

    def __init__(self, cards: Cards, nodes: Nodes) -> None:
        self.cards = cards
        self.nodes = nodes
        if isinstance(nodes, slice) or len(nodes) <= _FEW:
            self.__dict__ |= {name: _cut(column, nodes) for name, column in cards.columns.items()}

    def __getattr__(self, column: str) -> npt.NDArray[Any]:
        values = self.__dict__[column] = _cut(self.cards.columns[column], self.nodes)
        return values

    def copy_use(self) -> View:
        """The same view with use of its own: what is then changed in it changes nothing else."""
        for column in _USED:
            setattr(self, column, getattr(self, column).copy())
        return self

    def drop_use(self) -> View:
        """The same cards with nothing in use."""
        for column in _USED:
            setattr(self, column, np.zeros_like(getattr(self, column)))
        return self


class Cards:
    """All cards as columns. Nodes keep their column until they are removed; a removed node's column is used again."""

    def __init__(self) -> None:
        self.families = Vocabulary()
        self.models = Vocabulary()
        self.modes = Vocabulary()
        self.uuids = Vocabulary()
        self.nodes: list[Node | None] = []
        self.names: list[str] = []
        self.index_of: dict[str, int] = {}
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self.in_service: Bools = np.zeros(0, np.bool_)
        self.score: Floats = np.zeros(0)
        self._sums: Floats = np.zeros((6, 0))
        self._free: list[int] = []
        self._name_rank: Ints | None = None
        self.journal: list[int] = []
        self.journal_start = 0
        self._shape(0, 0)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add a node, or replace its cards; nothing on it is then in use. Gives its column."""
        node = _in_order(node)
        n = self.index_of.get(node.name)
        if n is None:
            n = self._take_column()
            self.index_of[node.name] = n
            self._name_rank = None
        self.nodes[n] = node
        self.names[n] = node.name
        depth, width = self.columns["family"].shape
        if len(node.cards) > depth:
            self._shape(len(node.cards), width)
        self._write(n, node)
        return n

    def remove_node(self, name: str) -> None:
        """Forget a node; unknown names are forgotten already."""
        n = self.index_of.pop(name, None)
        if n is None:
            return
        self._write(n, Node(name=name))
        self.nodes[n] = None
        self.in_service[n] = False
        self._free.append(n)
        self._name_rank = None

    def node(self, n: int) -> Node:
        """The node in a column that is taken."""
        node = self.nodes[n]
        if node is None:
            msg = f"column {n} holds no node"
            raise LookupError(msg)
        return node

    def names_at(self, columns: Ints) -> list[str]:
        """The names of the nodes in these columns."""
        return list(map(self.names.__getitem__, columns.tolist()))

    @property
    def width(self) -> int:
        """How many columns there are, free ones included."""
        return len(self.nodes)

    @property
    def name_rank(self) -> Ints:
        """For each column, the place of its node's name among all names: how ties fall."""
        if self._name_rank is None or len(self._name_rank) != self.width:
            rank = np.full(self.width, self.width, np.int64)
            for place, name in enumerate(sorted(self.index_of)):
                rank[self.index_of[name]] = place
            self._name_rank = rank
        return self._name_rank

    def view(self, nodes: Nodes = slice(None)) -> View:
        """The columns of these nodes (all, if none are named)."""
        return View(self, nodes if isinstance(nodes, np.ndarray) else slice(*nodes.indices(self.width)))

    # -- use -------------------------------------------------------------------------------------------------------

    def position(self, n: int, uuid: str) -> int | None:
        """Where on the node a card stands, or None if the node has no such card."""
        return next((k for k, card in enumerate(self.node(n).cards) if card.uuid == uuid), None)

    def add_use(self, n: int, k: int, use: CardUse, sign: int = 1) -> None:
        """Count a pod's use of one card (or, with sign -1, count it no more)."""
        columns = self.columns
        columns["slots_used"][k, n] += sign * use.slots
        columns["memory_used_mib"][k, n] += sign * use.memory_mib
        columns["cores_used_percent"][k, n] += sign * use.cores_percent
        columns["holders"][k, n] += sign * use.holders
        sums = self._sums
        sums[0, n] += sign * use.slots
        sums[1, n] += sign * use.memory_mib
        sums[2, n] += sign * use.cores_percent
        self._touch(n)

    def use(self, n: int, k: int) -> CardUse:
        """What is in use of one card."""
        slots, memory, cores, holders = (int(self.columns[name][k, n]) for name in _USED)
        return CardUse(slots=slots, memory_mib=memory, cores_percent=cores, holders=holders)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _take_column(self) -> int:
        if self._free:
            return self._free.pop()
        depth, width = self.columns["family"].shape
        if self.width == width:
            self._shape(depth, max(64, width * 2))
        self.nodes.append(None)
        self.names.append("")
        return len(self.nodes) - 1

    def _shape(self, depth: int, width: int) -> None:
        """Make room; what is remembered about nodes by others is void after it, so the journal starts anew."""
        for name, kind in (_STATIC | _USED).items():
            column = np.full((depth, width), ABSENT if name == "family" else 0, kind)
            if (old := self.columns.get(name)) is not None:
                column[: old.shape[0], : old.shape[1]] = old
            self.columns[name] = column
        self.in_service = _grown(self.in_service, width)
        self.score = _grown(self.score, width)
        sums = np.zeros((6, width))
        sums[:, : self._sums.shape[1]] = self._sums
        self._sums = sums
        self._forget_journal()

    def _write(self, n: int, node: Node) -> None:
        for name, kind in (_STATIC | _USED).items():
            self.columns[name][:, n] = ABSENT if name == "family" else kind(0)
        for k, card in enumerate(node.cards):
            for name, value in self._row(node, card).items():
                self.columns[name][k, n] = value
        self.in_service[n] = not node.out_of_service
        self._sums[:, n] = 0
        self._sums[_TOTAL_SUMS, n] = (
            sum(card.slots for card in node.cards),
            sum(card.memory_mib for card in node.cards),
            sum(card.cores_percent for card in node.cards),
        )
        self._touch(n)

    def _row(self, node: Node, card: Card) -> dict[str, Any]:
        return {
            "family": self.families.code(card.family),
            "model": self.models.code(card.model),
            "mode": self.modes.code(card.mode),
            "uuid": self.uuids.code(card.uuid),
            "numa": card.numa,
            "healthy": card.healthy,
            "cordoned": card.uuid in node.cordoned,
            "partitioned": card.partitioned,
            "slots_total": card.slots,
            "memory_total_mib": card.memory_mib,
            "cores_total_percent": card.cores_percent,
        }

    def _touch(self, n: int) -> None:
        used_slots, used_memory, used_cores, slots, memory, cores = self._sums[:, n].tolist()
        self.score[n] = score(used_slots, slots, used_memory, memory, used_cores, cores)
        self.journal.append(n)
        if len(self.journal) > max(_JOURNAL_LEAST, self.width):
            self._forget_journal()

    def _forget_journal(self) -> None:
        self.journal_start += len(self.journal) + 1
        self.journal.clear()


def score(used_slots: float, slots: float, used_memory: float, memory: float, used_cores: float, cores: float) -> float:
    """10 × (slots + memory + cores, each as used ÷ total): how busy a node is. What has no total counts nothing."""
    return 10 * (_ratio(used_slots, slots) + _ratio(used_memory, memory) + _ratio(used_cores, cores))


def _ratio(used: float, total: float) -> float:
    return used / total if total > 0 else 0.0


def _grown(column: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    grown = np.zeros(width, column.dtype)
    grown[: len(column)] = column
    return grown


def _in_order(node: Node) -> Node:
    """The node with its cards in the order in which ties fall: by index, then as they were registered."""
    order = sorted(range(len(node.cards)), key=lambda k: node.cards[k].index)
    if order == list(range(len(node.cards))):
        return node
    return Node(
        name=node.name,
        cards=tuple(node.cards[k] for k in order),
        links=permuted(node.links, order),
        cordoned=node.cordoned,
        out_of_service=node.out_of_service,
        unreadable=node.unreadable,
    )


def permuted(links: Links, order: Sequence[int]) -> Links:
    """The link matrix with rows and columns in this order; empty stays empty."""
    return tuple(tuple(links[i][j] for j in order) for i in order) if links else ()
