"""The decision: which node and which cards for a pod, or for each node why not.

    needs of the pod → nodes whose cards could take each → best node first → its cards, planned exactly

Nothing is changed by it: `cluster.Cluster.reserve` commits what is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from cardwise.core.cards import Bools, Cards, Floats, Ints
from cardwise.core.family import Family
from cardwise.core.model import Node, Placement, PodRequest, Refusal
from cardwise.core.plan import Step, steps_of
from cardwise.core.policy import NODE_KEYS
from cardwise.core.refusing import TOGETHER, Groups, alone, grouped
from cardwise.core.shapes import Shapes, ever_usable
from cardwise.core.tries import Tries

MOST_MISSES = 4
"""Nodes in a row that are not offered, until all that are offered are looked up."""
_LEAST = np.iinfo(np.int64).min
_CHEAP = 8
"""Nodes found one by one before all are sorted: most pods take the first."""


class Offered(Protocol):
    """The nodes that may be chosen, asked one by one (by column), or all at once as a mask over the columns."""

    def __call__(self, n: int, /) -> bool:
        """Whether one node is among them."""

    def mask(self) -> Bools:
        """All of them."""


def place(
    cards: Cards,
    shapes: Shapes,
    pod: PodRequest,
    among: Bools | None = None,
    preference: Ints | None = None,
    *,
    offered: Offered | None = None,
) -> Placement | None:
    """Where the pod goes, or None if no node can take it.

    `among` are the nodes that may be chosen (by column; all, if not given), and so are `offered`, which are asked one by
    one, the best first, as long as most of those are offered. `preference` ranks nodes before the pod's node policy does
    (the higher, the better): the soft rules of the pod. Ties fall to the node's name.
    """
    steps = steps_of(pod)
    could = candidates(cards, shapes, steps, among)
    tries = Tries(cards, pod, steps, could)
    order = best_first(cards, could, pod.node_policy, preference)
    if offered is not None:
        order = _offered(cards, could, pod.node_policy, preference, offered)
    return next(filter(None, map(tries.plan, order)), None)


def _offered(cards: Cards, could: Bools, policy: str, preference: Ints | None, offered: Offered) -> Iterator[int]:
    """The nodes that could and are offered, best first."""
    left, misses = could.copy(), 0
    for n in best_first(cards, could, policy, preference):
        left[n] = False
        misses = 0 if offered(n) else misses + 1
        if not misses:
            yield n
        elif misses == MOST_MISSES:
            yield from best_first(cards, left & offered.mask(), policy, preference)
            return


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
    keys = NODE_KEYS[policy](cards)
    left = np.where(could, keys, np.inf)
    for _ in range(_CHEAP):
        first = _best(cards, left, preference)
        if first is None:
            return
        yield first
        left[first] = np.inf
    columns = np.flatnonzero(left < np.inf)
    order = [cards.name_rank[columns], keys[columns]]
    if preference is not None:
        order.append(-preference[columns])
    yield from columns[np.lexsort(order)].tolist()


def _best(cards: Cards, keys: Floats, preference: Ints | None) -> int | None:
    """The best of the nodes with a finite key, if there is any."""
    if preference is not None:
        wishes = np.where(keys < np.inf, preference, _LEAST)
        keys = np.where(wishes == wishes.max(initial=_LEAST), keys, np.inf)
    least = keys.min(initial=np.inf)
    if least == np.inf:
        return None
    columns = np.flatnonzero(keys == least)
    return int(columns[cards.name_rank[columns].argmin()])


def refusals(
    cards: Cards,
    families: Mapping[str, Family],
    pod: PodRequest,
    among: Bools | None = None,
    preference: Ints | None = None,
) -> dict[str, Refusal]:
    """The same as `refusal_groups`, by node name."""
    groups = refusal_groups(cards, families, pod, among, preference)
    return {name: refusal for refusal, columns in groups for name in cards.names_at(columns)}


def refusal_groups(
    cards: Cards,
    families: Mapping[str, Family],
    pod: PodRequest,
    among: Bools | None = None,
    preference: Ints | None = None,
) -> Groups:
    """For each node that may be chosen and cannot take the pod as it is now: why. Nodes with equal reasons are together.

    Nodes are looked at as `place` looks at them, so a pod that it did not place is refused by every node.
    """
    steps = steps_of(pod)
    there = _there(cards, among)
    said = _Said(cards.width)
    for step in reversed(steps):  # the first container that does not fit is the one to name
        name = pod.containers[step.container].name
        for refusal, columns in alone(cards, families[step.need.family], there, step.need, name):
            said.say(refusal, columns)
    for n in np.flatnonzero(there & ~cards.in_service[: cards.width]).tolist():
        said.say(_out_of_service(cards.node(n), lasting=bool(said.lasting[n])), n)
    if len(steps) > 1:
        _say_together(cards, pod, steps, said, there, preference)
        _say_lasting(cards, pod, steps, said)
    return said.groups()


def _there(cards: Cards, among: Bools | None) -> Bools:
    there: Bools = cards.in_service[: cards.width].copy()
    for n in np.flatnonzero(~there).tolist():
        there[n] = cards.nodes[n] is not None
    return there if among is None else there & among


class _Said:
    """Which refusal each column has, if any: what was said last. `lasting` is where any that was said lasts."""

    def __init__(self, width: int) -> None:
        self.lasting: Bools = np.zeros(width, np.bool_)
        self._number = np.full(width, -1, np.int64)
        self._refusals: dict[Refusal, int] = {}

    def say(self, refusal: Refusal, columns: Ints | int) -> None:
        """These nodes are refused for this."""
        self._number[columns] = self._refusals.setdefault(refusal, len(self._refusals))
        if refusal.lasting:
            self.lasting[columns] = True

    def anything(self) -> Bools:
        """Where anything was said."""
        anything: Bools = self._number >= 0
        return anything

    def groups(self) -> Groups:
        """The refusals that were said last, with their columns."""
        columns, by_number = np.flatnonzero(self._number >= 0), list(self._refusals)
        together = (columns[places] for places in grouped(self._number[None, columns]))
        return [(by_number[self._number[found[0]]], found) for found in together]


def _out_of_service(node: Node, *, lasting: bool) -> Refusal:
    """What the unreadable record of a pod keeps shut opens when that pod ends, if its cards say nothing else."""
    kind = "node(s) out of service"
    lasting = lasting or not node.unreadable
    return Refusal(code="NodeOutOfService", text=node.out_of_service, kind=kind, lasting=lasting)


def _say_together(
    cards: Cards, pod: PodRequest, steps: Sequence[Step], said: _Said, there: Bools, preference: Ints | None
) -> None:
    """Of nodes on which each container fits alone, those on which not all do together."""
    could = there & ~said.anything()
    tries = Tries(cards, pod, steps, could)
    order = best_first(cards, could, pod.node_policy, preference)
    refused = np.array([n for n in order if tries.plan(n) is None], np.int64)
    if len(refused):
        said.say(TOGETHER, refused)


def _say_lasting(cards: Cards, pod: PodRequest, steps: Sequence[Step], said: _Said) -> None:
    """The refusals that only seem to pass: another container is refused for good, or all never fit together."""
    passing = [(refusal, columns) for refusal, columns in said.groups() if not refusal.lasting]
    asked = np.concatenate([np.zeros(0, np.int64), *(columns for _refusal, columns in passing)])
    asked = asked[~said.lasting[asked]]
    among = np.zeros(cards.width, np.bool_)
    among[asked] = True
    tries = Tries(cards, pod, steps, among, empty=True)
    for_good = said.lasting.copy()
    for_good[[n for n in asked.tolist() if tries.surely_not(n)]] = True
    for refusal, columns in passing:
        if for_good[columns].any():
            said.say(replace(refusal, lasting=True), columns[for_good[columns]])


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
    tries = Tries(cards, pod, steps, could, empty=True)
    return all(map(tries.surely_not, np.flatnonzero(could).tolist()))
