"""The decision: which node and which cards for a pod, or for each node why not.

    needs of the pod → nodes whose cards could take each → best node first → its cards, planned exactly

Nothing is changed by it: `cluster.Cluster.reserve` commits what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cardwise.core.cards import STATIC, USED, Bools, Cards, Floats, Ints
from cardwise.core.checks import CHECKS, FITS, LASTING, NOT_ASKED, Need, Verdicts, verdicts
from cardwise.core.family import Family
from cardwise.core.model import Placement, PodRequest, Refusal
from cardwise.core.plan import Budget, Step, plan, steps_of
from cardwise.core.policy import NODE_KEYS
from cardwise.core.shapes import Shapes, countable, ever_usable

_CHEAP = 8
"""Nodes found one by one before all are sorted: most pods take the first."""


def place(
    cards: Cards, shapes: Shapes, pod: PodRequest, among: Bools | None = None, preference: Ints | None = None
) -> Placement | None:
    """Where the pod goes, or None if no node can take it.

    `among` are the nodes that may be chosen (by column; all, if not given). `preference` ranks nodes before the pod's
    node policy does (the higher, the better): the soft rules of the pod. Ties fall to the node's name.
    """
    steps = steps_of(pod)
    could = candidates(cards, shapes, steps, among)
    tried = _Tried(cards, pod, steps)
    return next(filter(None, map(tried.plan, best_first(cards, could, pod.node_policy, preference))), None)


class _Tried:
    """Plans of one pod, node by node, within one budget; nodes that are alike are tried once."""

    def __init__(self, cards: Cards, pod: PodRequest, steps: Sequence[Step], *, empty: bool = False) -> None:
        self._cards, self._pod, self._steps, self._empty = cards, pod, steps, empty
        self._budget = Budget()
        self._in_vain: set[bytes] = set()
        self._unsure: set[bytes] = set()

    def plan(self, n: int) -> Placement | None:
        """The pod's cards on a node, or None."""
        cards, steps = self._cards, self._steps
        if self._in_vain and likeness(cards, n, steps, empty=self._empty) in self._in_vain:
            return None
        placement = plan(cards, n, self._pod, steps, empty=self._empty, budget=self._budget)
        if placement is None:
            kind = likeness(cards, n, steps, empty=self._empty)
            self._in_vain.add(kind)
            if self._budget.cut_short:
                self._unsure.add(kind)
        return placement

    def surely_not(self, n: int) -> bool:
        """Whether the node cannot take the pod: not only that a search found nothing before it came to its bound."""
        if self.plan(n) is not None:
            return False
        return not self._unsure or likeness(self._cards, n, self._steps, empty=self._empty) not in self._unsure


def candidates(cards: Cards, shapes: Shapes, steps: Sequence[Step], among: Bools | None = None) -> Bools:
    """Nodes on which each container alone finds its cards. With one container that asks, exactly those that fit."""
    could: Bools = cards.in_service[: cards.width].copy()
    if among is not None:
        could &= among
    for need in {step.need: None for step in steps}:
        could &= shapes.counts(need) >= need.count
    return could


def best_first(cards: Cards, could: Bools, policy: str, preference: Ints | None = None) -> Iterator[int]:
    """The nodes that could, best first: by preference, then by policy, then by name. The first few come cheaply."""
    columns = np.flatnonzero(could)
    keys = NODE_KEYS[policy](cards)
    for _ in range(_CHEAP):
        if not len(columns):
            return
        first = _best(cards, columns, keys, preference)
        yield first
        columns = columns[columns != first]
    order = [cards.name_rank[columns], keys[columns]]
    if preference is not None:
        order.append(-preference[columns])
    yield from columns[np.lexsort(order)].tolist()


def _best(cards: Cards, columns: Ints, keys: Floats, preference: Ints | None) -> int:
    if preference is not None:
        wishes = preference[columns]
        columns = columns[wishes == wishes.max()]
    ranks = keys[columns]
    columns = columns[ranks == ranks.min()]
    return int(columns[cards.name_rank[columns].argmin()])


def likeness(cards: Cards, n: int, steps: Sequence[Step], *, empty: bool = False) -> bytes:
    """Equal for nodes whose cards are the same in all that the checks of these steps read (`empty`: use left out)."""
    names = STATIC if empty else STATIC + USED
    by_uuid = any(step.need.use_uuids or step.need.avoid_uuids for step in steps)
    columns = (cards.columns[name][:, n].tobytes() for name in names if by_uuid or name != "uuid")
    return b"".join(columns) + repr(cards.node(n).links).encode()


def refusals(
    cards: Cards,
    families: Mapping[str, Family],
    pod: PodRequest,
    among: Bools | None = None,
    preference: Ints | None = None,
) -> dict[str, Refusal]:
    """For each node that may be chosen and cannot take the pod as it is now: why.

    Nodes are looked at as `place` looks at them, so a pod that it did not place is refused by every node.
    """
    steps = steps_of(pod)
    there = np.array([node is not None for node in cards.nodes], np.bool_)
    if among is not None:
        there &= among
    columns = np.flatnonzero(there)
    found: dict[str, Refusal] = {}
    lasting: set[str] = set()
    for step in reversed(steps):  # the first container that does not fit is the one to name
        alone = _alone(cards, families, columns, step, pod.containers[step.container].name)
        found |= alone
        lasting.update(name for name, refusal in alone.items() if refusal.lasting)
    for n in np.flatnonzero(there & ~cards.in_service[: cards.width]).tolist():
        node = cards.node(n)
        found[node.name] = Refusal(
            code="NodeOutOfService", text=node.out_of_service, lasting=not node.unreadable or node.name in lasting
        )
    if len(steps) > 1:
        found |= _together(cards, columns, pod, steps, found, preference)
        found |= _lasting(cards, pod, steps, found, lasting)
    return found


def _together(
    cards: Cards,
    columns: Ints,
    pod: PodRequest,
    steps: Sequence[Step],
    found: Mapping[str, Refusal],
    preference: Ints | None,
) -> dict[str, Refusal]:
    """Of nodes on which each container fits alone, those on which not all do together."""
    could = np.zeros(cards.width, np.bool_)
    could[[n for n in columns.tolist() if cards.names[n] not in found]] = True
    tried = _Tried(cards, pod, steps)
    refusal = Refusal(
        code="AllocatedCardsInsufficientRequest", text="each container fits alone, but not all of them together"
    )
    order = best_first(cards, could, pod.node_policy, preference)
    return {cards.names[n]: refusal for n in order if tried.plan(n) is None}


def _lasting(
    cards: Cards, pod: PodRequest, steps: Sequence[Step], found: Mapping[str, Refusal], lasting: set[str]
) -> dict[str, Refusal]:
    """The refusals that only seem to pass: another container is refused for good, or all never fit together."""
    tried = _Tried(cards, pod, steps, empty=True)
    passing = [name for name, refusal in found.items() if not refusal.lasting]
    for_good = [name for name in passing if name in lasting or tried.surely_not(cards.index_of[name])]
    return {name: replace(found[name], lasting=True) for name in for_good}


def _alone(
    cards: Cards, families: Mapping[str, Family], columns: Ints, step: Step, container: str
) -> dict[str, Refusal]:
    """The nodes on which one container alone does not find its cards. Nodes with equal counts share one Refusal."""
    need = step.need
    everything = len(columns) == cards.width
    view = cards.view() if everything else cards.view(columns)
    found = verdicts(view, need)
    counts = countable(view, found == FITS, need)
    places = np.flatnonzero(counts < need.count)
    ever = countable(view, found >= LASTING, need)
    by_check = _histograms(found)
    table = np.column_stack((counts, ever < need.count, by_check))[places].astype(np.int16)
    names = cards.names_at(columns[places])
    width = table.shape[1] * table.itemsize
    rows = table.tobytes()
    kinds = [rows[start : start + width] for start in range(0, len(rows), width)]
    shared = {kind: _refusal(families[need.family], need, _numbers(kind), container) for kind in set(kinds)}
    return dict(zip(names, map(shared.__getitem__, kinds), strict=True))


def _numbers(row: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(row, np.int16).tolist()
    return numbers


def _histograms(found: Verdicts) -> Ints:
    """For each node, how many of its cards have each verdict: a row a node, FITS last."""
    width = FITS + 2
    nodes = np.arange(found.shape[1], dtype=np.int64) * width
    counted = np.bincount((found - NOT_ASKED + nodes).ravel(), minlength=found.shape[1] * width)
    by_node: Ints = counted.reshape(-1, width)[:, 1:]
    return by_node


def _refusal(family: Family, need: Need, row: Sequence[int], container: str) -> Refusal:
    usable, lasting, *by_check = row
    have, fitting = sum(by_check), by_check[FITS]
    histogram = tuple((check.name, count) for check, count in zip(CHECKS, by_check, strict=False) if count)
    if have < need.count:
        text = (
            f"needs {need.count} distinct {family.title} cards, node has {have}"
            if have
            else f"has no {family.title} cards"
        )
        return Refusal(code="NodeInsufficientDevice", text=text, lasting=True, container=container, histogram=histogram)
    if fitting >= need.count:
        text = f"needs {need.count} cards on one NUMA node, at most {usable} fit on any"
        return Refusal(code="NumaNotFit", text=text, lasting=bool(lasting), container=container, histogram=histogram)
    worst = max(range(FITS), key=lambda check: by_check[check])
    parts = ", ".join(
        f"{count} {check.short(need, family)}" for check, count in zip(CHECKS, by_check, strict=False) if count
    )
    cards = "card" if need.count == 1 else "cards"
    text = f"needs {need.count} {cards}, {fitting} of {have} fit ({parts})"
    return Refusal(code=CHECKS[worst].code, text=text, lasting=bool(lasting), container=container, histogram=histogram)


def never_fits(cards: Cards, pod: PodRequest, among: Bools | None = None) -> bool:
    """Whether the pod would not fit even if nothing ran on any of these nodes: no pod's leaving could help."""
    steps = steps_of(pod)
    # What a record that cannot be read keeps shut opens when its pod ends.
    could = np.array([n is not None and (not n.out_of_service or bool(n.unreadable)) for n in cards.nodes], np.bool_)
    if among is not None:
        could &= among
    view = cards.view()
    for need in {step.need: None for step in steps}:
        could &= ever_usable(view, need) >= need.count
    tried = _Tried(cards, pod, steps, empty=True)
    return all(tried.surely_not(n) for n in np.flatnonzero(could).tolist())
