"""A pod tried on one node after the other, within one budget, looking ahead over all of them where the first were in vain.

Most pods fit on the first node that is tried. Where several were tried in vain, all that are left are looked at together:
nodes on which not even sums are enough are left out, nodes that are alike are tried once, and when the budget is used up,
only those are tried on which a first choice will do: the cards that the pod prefers, or the fullest for the largest first.
So a decision takes a bounded time, however many nodes there are and however they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cardwise.core.cards import STATIC, USED, Bools, Cards, Ints, View
from cardwise.core.checks import Need, fits, memory_need_mib
from cardwise.core.model import ContainerKind, Links, Placement, PodRequest
from cardwise.core.plan import Budget, Step, plan, running, steps_of
from cardwise.core.policy import CARD_KEYS
from cardwise.core.sieve import enough

ONE_BY_ONE = 8
"""Nodes planned one by one until all that are left are looked at together."""
MOST_LATE = 64
"""Plans after the budget is used up: only quotas make one fail of which a first choice seemed to do."""


class Tries:
    """Plans of one pod on some nodes (a mask over the columns); nodes that are alike are tried once."""

    def __init__(
        self, cards: Cards, pod: PodRequest, steps: Sequence[Step], among: Bools, *, empty: bool = False
    ) -> None:
        if empty and pod.quota:
            pod = replace(pod, quota={})  # quotas stop nothing where nothing runs
            steps = steps_of(pod)
        self._cards, self._pod, self._steps, self._empty = cards, pod, steps, empty
        self._among = among
        self._budget = Budget()
        self._planned = 0
        self._in_vain: set[bytes] = set()
        self._unsure: set[bytes] = set()
        self._kinds: dict[int, bytes] = {}
        self._hopeless: Bools | None = None

    def plan(self, n: int) -> Placement | None:
        """The pod's cards on a node, or None."""
        if self._is_hopeless(n):
            return None
        if self._in_vain and self._kind(n) in self._in_vain:
            return None
        if self._budget.tries <= 0:
            return self._plan_late(n)
        placement = plan(self._cards, n, self._pod, self._steps, empty=self._empty, budget=self._budget)
        self._planned += 1
        if placement is None:
            self._note(n, unsure=self._budget.cut_short)
        return placement

    def surely_not(self, n: int) -> bool:
        """Whether the node cannot take the pod: not only that a search found nothing before it came to its bound."""
        if self._is_hopeless(n):
            return True
        if self._hopeless is not None and any(do[n] for _pod, _steps, do in self._first_choices):
            return False
        if self.plan(n) is not None:
            return False
        return not self._unsure or self._kind(n) not in self._unsure

    def _plan_late(self, n: int) -> Placement | None:
        """The first of the first choices that does."""
        for pod, steps, do in self._first_choices:
            if do[n] and self._budget.tries > -MOST_LATE:
                self._budget.tries -= 1
                placement = plan(self._cards, n, pod, steps, empty=self._empty, budget=self._budget)
                if placement is not None:
                    return placement
        self._note(n, unsure=True)
        return None

    def _note(self, n: int, *, unsure: bool) -> None:
        kind = self._kind(n)
        self._in_vain.add(kind)
        if unsure:
            self._unsure.add(kind)

    def _kind(self, n: int) -> bytes:
        kind = self._kinds.get(n)
        if kind is None:
            (kind,) = likenesses(self._cards, np.array([n]), self._pod, self._steps, empty=self._empty)
            self._kinds[n] = kind
        return kind

    def _is_hopeless(self, n: int) -> bool:
        """Whether sums say that the node cannot take the pod, whatever is tried; not asked of the first few nodes."""
        if self._hopeless is None:
            if self._planned < ONE_BY_ONE and self._budget.tries > 0:
                return False
            self._look_ahead()
        return self._hopeless is not None and bool(self._hopeless[n])

    def _look_ahead(self) -> None:
        """Look at all nodes together: which are hopeless, and which of the others are alike."""
        columns = self._columns
        hopeless = ~enough(self._view(columns), running(self._steps))
        self._hopeless = np.zeros(self._cards.width, np.bool_)
        self._hopeless[columns] = hopeless
        left = columns[~hopeless]
        kinds = likenesses(self._cards, left, self._pod, self._steps, empty=self._empty)
        self._kinds |= zip(left.tolist(), kinds, strict=True)

    @cached_property
    def _columns(self) -> Ints:
        return np.flatnonzero(self._among)

    @cached_property
    def _first_choices(self) -> list[tuple[PodRequest, Sequence[Step], Bools]]:
        """Ways to plan the pod without a search, and where each will do, quotas aside. Links are not looked at any more."""
        preferring = replace(self._pod, card_policy=replace(self._pod.card_policy, linked=False))
        packing = replace(self._pod, card_policy=replace(self._pod.card_policy, linked=False, keys=("binpack",)))
        ways = ((preferring, self._steps), (packing, largest_first(self._steps)))
        left = self._columns if self._hopeless is None else self._columns[~self._hopeless[self._columns]]
        found = []
        for pod, steps in ways:
            do = np.zeros(self._cards.width, np.bool_)
            do[left] = first_choice_does(self._view(left), pod, steps)
            found.append((pod, steps, do))
        return found

    def _view(self, columns: Ints) -> View:
        view = self._cards.view(columns)
        return view.drop_use() if self._empty else view


def likenesses(
    cards: Cards, columns: Ints, pod: PodRequest, steps: Sequence[Step], *, empty: bool = False
) -> list[bytes]:
    """For each of these nodes some bytes, equal where its cards are the same in all that this pod's planning reads.

    `empty`: what is in use is left out.
    """
    names = STATIC if empty else STATIC + USED
    if not any(step.need.use_uuids or step.need.avoid_uuids for step in steps):
        names = tuple(name for name in names if name != "uuid")
    parts = [np.ascontiguousarray(cards.columns[name][:, columns].T).view(np.uint8) for name in names]
    rows = np.concatenate(parts, axis=1)
    links = [_bytes(cards.node(n).links) for n in columns.tolist()] if pod.card_policy.linked else [b""] * len(columns)
    return [row.tobytes() + own for row, own in zip(rows, links, strict=True)]


@lru_cache(maxsize=4096)
def _bytes(links: Links) -> bytes:
    return repr(links).encode()


def largest_first(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps, those of the app containers in another order: they run together, whichever is placed first."""

    def order(step: Step) -> tuple[bool, int, int]:
        is_app = step.kind is ContainerKind.APP
        return is_app, -step.need.memory_percent * is_app, -step.need.memory_mib * is_app

    return tuple(sorted(steps, key=order))


def first_choice_does(view: View, pod: PodRequest, steps: Sequence[Step]) -> Bools:
    """For each node in view, whether all find their cards where each takes those that it prefers, links left out."""
    if not len(view.family):
        return np.full(view.family.shape[1], not steps)
    view.copy_use()
    do = np.ones(view.family.shape[1], np.bool_)
    of_init = np.zeros(view.family.shape, np.bool_)
    for step in steps:
        early = of_init if step.kind is ContainerKind.APP else None
        chosen = _preferred(view, pod, step.need, early)
        do &= chosen.any(axis=0)
        if step.kind is ContainerKind.INIT:
            of_init |= chosen
        else:
            _take(view, step.need, chosen)
    return do


def _preferred(view: View, pod: PodRequest, need: Need, early: Bools | None) -> Bools:
    """The cards that a need prefers on each node, as many as it asks; none where it does not find so many."""
    keys: list[npt.NDArray[Any]] = [
        CARD_KEYS[key](view, pod.weights) for key in reversed(pod.card_policy.keys or ("spread",))
    ]
    if early is not None:
        keys.append(~early)
    order = np.lexsort(keys, axis=0)
    fitting = np.take_along_axis(fits(view, need), order, axis=0)
    numa = np.take_along_axis(view.numa, order, axis=0)
    groups = [fitting & (numa == one) for one in np.unique(numa[fitting])] if need.one_numa else [fitting]
    best = np.zeros(fitting.shape, np.bool_)
    for group in groups:
        first = _first(group, need.count)
        np.copyto(best, first, where=_is_better(first, best))
    chosen = np.zeros(fitting.shape, np.bool_)
    np.put_along_axis(chosen, order, best, axis=0)
    return chosen


def _first(fitting: Bools, count: int) -> Bools:
    """On each node the first so many that fit; none where there are fewer."""
    number = fitting.cumsum(axis=0)
    first: Bools = fitting & (number <= count) & (number[-1:] >= count)
    return first


def _is_better(one: Bools, other: Bools) -> Bools:
    """For each node, whether one set of cards has the better ranks: the first row in which they differ is its own."""
    differ = one != other
    first = differ.argmax(axis=0)
    better: Bools = differ.any(axis=0) & one[first, np.arange(one.shape[1])]
    return better


def _take(view: View, need: Need, chosen: Bools) -> None:
    view.slots_used += chosen
    view.memory_used_mib += chosen * memory_need_mib(need, view.memory_total_mib)
    view.cores_used_percent += chosen * need.cores_percent
    view.holders += chosen * int(need.exclusive)
