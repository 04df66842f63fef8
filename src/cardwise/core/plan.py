"""Which cards of one node each container of a pod gets, or that the node cannot take the pod.

Containers are placed in their order, each on the cards that its policy prefers among those that pass the checks, seeing
what the pod's own earlier containers use beside it. Where the preferred cards leave a later container without, the next
best are tried, so a pod that fits is placed whatever the policy prefers. Cards that are alike to every container still
to be placed are tried once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from cardwise.core.cards import Bools, Cards, Ints, View
from cardwise.core.checks import CHECKS, LASTING, Need, card_memory_need_mib, fits, memory_need_mib, need_of
from cardwise.core.choice import all_sets, cheapest_set, first_set
from cardwise.core.model import (
    CardAllocation,
    CardRequest,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    Links,
    Placement,
    PodRequest,
    Selection,
)
from cardwise.core.policy import card_order
from cardwise.core.quota import memory_limits, quota_bound
from cardwise.core.sieve import enough

MOST_TRIES = 400
"""Alternatives tried before a pod is taken not to fit. Only pods with several asking containers try a second."""
EXACT_TRIES = MOST_TRIES // 2
"""A decision is exact if fewer choices than this are made in vain: a node may take half of what is left."""

_NO_SELECTION = Selection()
_SPREAD = ("spread",)
_NOTHING: Mapping[str, CardUse] = MappingProxyType({})
_NO_LIMITS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Step:
    """One container's request of one family."""

    container: int
    kind: ContainerKind
    need: Need


def steps_of(pod: PodRequest) -> tuple[Step, ...]:
    """The requests of a pod in the order in which they are placed: init containers and sidecars first, then apps."""
    numbered = sorted(enumerate(pod.containers), key=lambda pair: pair[1].kind is ContainerKind.APP)
    return tuple(
        Step(place, container.kind, _need(pod, place, request))
        for place, container in numbered
        for request in container.cards
    )


def _need(pod: PodRequest, place: int, request: CardRequest) -> Need:
    need = need_of(request, pod.selections.get(request.family, _NO_SELECTION), pod.card_policy)
    bound = quota_bound(pod, place, request) if pod.quota else None
    return need if bound is None else replace(need, most_memory_mib=bound.memory_mib, quota=bound.says)


@dataclass(slots=True)
class Budget:
    """How many alternatives may still be tried for one pod, over all nodes: what bounds the time of a decision.

    A node may take half of what is left. When it is used up, a node is still tried with the preferred cards alone.
    """

    tries: int = MOST_TRIES
    cut_short: bool = False
    """Whether the last search ended at a bound: then that nothing was found does not mean that there is nothing."""

    @property
    def most_on_one_node(self) -> int:
        """How many of them the next node may take: 1 is the preferred cards alone."""
        return max(1, self.tries // 2)


def plan(
    cards: Cards,
    n: int,
    pod: PodRequest,
    steps: Sequence[Step],
    *,
    empty: bool = False,
    freed: Mapping[str, CardUse] = _NOTHING,
    budget: Budget | None = None,
) -> Placement | None:
    """The pod's cards on one node, or None. Changes nothing but the budget.

    `empty`: as if nothing ran there. `freed`: as if so much of these cards, by UUID, were in use no more.
    """
    view = cards.view(slice(n, n + 1))
    if empty:
        view.drop_use()
    elif freed or len(steps) > 1:  # (what one step takes is never counted)
        view.copy_use()
    for uuid, use in freed.items():
        count_in(view, cards.position(n, uuid), use, -1)
    return plan_on(view, cards, n, pod, steps, budget=budget)


def plan_on(
    view: View, cards: Cards, n: int, pod: PodRequest, steps: Sequence[Step], *, budget: Budget | None = None
) -> Placement | None:
    """The same on a view of one node whose use is the caller's own; it is left as it was."""
    node = cards.node(n)
    if budget:
        budget.cut_short = False
    limits = memory_limits(pod) if pod.quota else _NO_LIMITS
    search = _Search(view, node.links, pod, steps, 1, limits)
    if limits or not search.fill(0):  # (most pods get the cards that they prefer)
        if not enough(view, running(steps))[0]:
            return None
        search.most_tries = budget.most_on_one_node if budget else MOST_TRIES
        if not _searched(search, budget):
            return None
    search.clear()
    return _placement(cards, n, pod, steps, search.chosen)


def _searched(search: _Search, budget: Budget | None) -> bool:
    """Whether a search finds something; what it took is taken off the budget."""
    search.tries = 0
    fitted = search.fill(0)
    if budget:
        budget.tries -= search.tries
        budget.cut_short = not fitted and search.tries >= search.most_tries
    return fitted


def running(steps: Sequence[Step]) -> list[Need]:
    """What is asked at once when the app containers run."""
    return [step.need for step in steps if step.kind is not ContainerKind.INIT]


def room(view: View, need: Need) -> Ints:
    """For each node, how many times a card of it can be taken for this need, if nothing else takes any."""
    times = view.slots_total - view.slots_used
    memory = memory_need_mib(need, view.memory_total_mib)
    times = np.minimum(times, (view.memory_total_mib - view.memory_used_mib) // memory)
    if need.cores_percent:
        times = np.minimum(times, (view.cores_total_percent - view.cores_used_percent) // need.cores_percent)
    if need.exclusive:
        times = np.minimum(times, 1)
    by_node: Ints = np.where(fits(view, need), times, 0).sum(axis=0)
    return by_node


def count_in(view: View, k: int | None, use: CardUse, sign: int = 1, *, column: int = 0) -> None:
    """Count a use of one card in a column of a view; a card that the node does not have is nobody's."""
    if k is None:
        return
    view.slots_used[k, column] += sign * use.slots
    view.memory_used_mib[k, column] += sign * use.memory_mib
    view.cores_used_percent[k, column] += sign * use.cores_percent
    view.holders[k, column] += sign * use.holders


def _placement(
    cards: Cards, n: int, pod: PodRequest, steps: Sequence[Step], chosen: Sequence[tuple[int, ...]]
) -> Placement:
    node = cards.node(n)
    given: list[list[CardAllocation]] = [[] for _ in pod.containers]
    exclusive: set[str] = set()
    for step, places in zip(steps, chosen, strict=True):
        for card in (node.cards[k] for k in places):
            given[step.container].append(
                CardAllocation(
                    family=card.family,
                    uuid=card.uuid,
                    index=card.index,
                    memory_mib=card_memory_need_mib(step.need, card.memory_mib),
                    cores_percent=step.need.cores_percent,
                )
            )
            if step.need.exclusive:
                exclusive.add(card.uuid)
    containers = tuple(
        ContainerAllocation(name=container.name, kind=container.kind, cards=tuple(got))
        for container, got in zip(pod.containers, given, strict=True)
    )
    return Placement(node=node.name, containers=containers, exclusive=frozenset(exclusive))


@dataclass(slots=True)
class _Search:
    """One node's cards while a pod's containers are tried on them; `chosen` has the card positions of each step.

    `limits` are MiB by family that the pod's cards may come to together at its peak.
    """

    view: View
    links: Links
    pod: PodRequest
    steps: Sequence[Step]
    most_tries: int
    limits: Mapping[str, int]
    chosen: list[tuple[int, ...]] = field(default_factory=list)
    tries: int = 0

    def fill(self, at: int) -> bool:
        """Place the steps from `at` on; False if that cannot be done after the choices made so far."""
        if at == len(self.steps):
            return True
        step = self.steps[at]
        for places in self._affordable(at) if self.limits else self._options(at):
            self.chosen.append(places)
            if at + 1 == len(self.steps):
                return True  # (nothing comes after it that would have to see what it takes)
            self._take(places, step)
            if self.fill(at + 1):
                return True
            self.chosen.pop()
            self._take(places, step, -1)
            self.tries += 1
            if step.kind is ContainerKind.INIT or self.tries >= self.most_tries:
                return False  # (an ended init container leaves nothing behind: other cards for it change nothing)
        return False

    def clear(self) -> None:
        """Take back what was counted in the view for the choices made."""
        for step, places in zip(self.steps[:-1], self.chosen[:-1], strict=True):
            self._take(places, step, -1)

    def _affordable(self, at: int) -> Iterator[tuple[int, ...]]:
        """The options with which the pod stays within its quotas; where there are too many to look at, the cheapest."""
        need = self.steps[at].need
        most = self.limits.get(need.family)
        if most is None:
            yield from self._options(at)
            return
        most -= self._beside_mib(at)
        for places in self._options(at):
            if self._memory_mib(need, places) <= most:
                yield places
                continue
            self.tries += 1
            if self.tries >= self.most_tries:
                cheapest = cheapest_set(self._fitting(at)[1], need.count, partial(self._memory_mib, need))
                yield from (cheapest,) if self._memory_mib(need, cheapest) <= most else ()
                return

    def _beside_mib(self, at: int) -> int:
        """MiB of this family that the pod's containers placed so far use while the step at `at` runs."""
        family = self.steps[at].need.family
        return sum(
            self._memory_mib(step.need, places)
            for step, places in zip(self.steps[:at], self.chosen, strict=True)
            if step.kind is not ContainerKind.INIT and step.need.family == family
        )

    def _memory_mib(self, need: Need, places: Sequence[int]) -> int:
        totals = self.view.memory_total_mib
        return sum(card_memory_need_mib(need, int(totals[k, 0])) for k in places)

    def _fitting(self, at: int) -> tuple[list[int], list[list[int]]]:
        """The cards that the step could take, best first, and the same in groups of which one must have all it takes."""
        need = self.steps[at].need
        fitting = fits(self.view, need)[:, 0].tolist()
        keys = self.pod.card_policy.keys or _SPREAD
        ranked = [k for k in card_order(self.view, keys, self.pod.weights, self._own_init_cards(at)) if fitting[k]]
        groups = self._numa_groups(ranked) if need.one_numa else [ranked]
        return ranked, [group for group in groups if len(group) >= need.count]

    def _options(self, at: int) -> Iterator[tuple[int, ...]]:
        """Sets of cards that this step could take, best first: of those that leave the rest of the pod the same, one."""
        need = self.steps[at].need
        ranked, groups = self._fitting(at)
        linked = self.links if self.pod.card_policy.linked else ()
        if not groups:
            return
        first = first_set(linked, ranked, groups, need.count)
        yield first
        last = at + 1 == len(self.steps) and need.family not in self.limits
        if last or self.most_tries <= 1:
            return  # nothing comes after it that another choice could help
        classes = self._classes(ranked, at)
        kind = sorted(classes[k] for k in first)
        for places in all_sets(linked, ranked, groups, need.count, classes):
            if sorted(classes[k] for k in places) != kind:
                yield places

    def _own_init_cards(self, at: int) -> list[int]:
        """Cards that the pod's init containers had: the kubelet hands the same devices to the app containers."""
        if self.steps[at].kind is not ContainerKind.APP:
            return []
        before = zip(self.steps[:at], self.chosen, strict=True)
        return sorted({k for step, places in before if step.kind is ContainerKind.INIT for k in places})

    def _numa_groups(self, ranked: Sequence[int]) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for k in ranked:
            groups.setdefault(int(self.view.numa[k, 0]), []).append(k)
        return list(groups.values())

    def _take(self, places: Sequence[int], step: Step, sign: int = 1) -> None:
        """Count what the step uses beside what follows; an init container's use ends before the next one starts."""
        if step.kind is ContainerKind.INIT:
            return
        need = step.need
        for k in places:
            use = CardUse(
                slots=1,
                memory_mib=card_memory_need_mib(need, int(self.view.memory_total_mib[k, 0])),
                cores_percent=need.cores_percent,
                holders=int(need.exclusive),
            )
            count_in(self.view, k, use, sign)

    def _classes(self, ranked: Sequence[int], at: int) -> dict[int, int]:
        """A number for each card, equal for those that are the same to what comes after step `at`."""
        later = [fits(self.view, step.need, CHECKS[:LASTING])[:, 0] for step in self.steps[at + 1 :]]
        view = self.view
        columns: list[Bools | Ints] = [view.memory_total_mib, view.numa]  # all that quotas look at
        if later:
            columns += [
                view.slots_total - view.slots_used,
                view.slots_used > 0,
                view.memory_used_mib,
                view.cores_total_percent,
                view.cores_used_percent,
            ]
        numbers: dict[tuple[int, ...], int] = {}
        likeness = (
            (k, tuple(int(column[k, 0]) for column in columns) + tuple(int(ok[k]) for ok in later)) for k in ranked
        )
        return {k: numbers.setdefault(alike, len(numbers)) for k, alike in likeness}
