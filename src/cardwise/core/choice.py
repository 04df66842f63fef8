"""Which set of cards out of those that fit: sets lie within one group of cards each, and come best first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence

from cardwise.core.model import Links
from cardwise.core.topology import linked_set, linked_sets, weight

Groups = Sequence[Sequence[int]]


def first_set(links: Links, ranked: Sequence[int], groups: Groups, count: int) -> tuple[int, ...]:
    """The best set within one group: by links, then by its cards' ranks."""
    rank = {k: place for place, k in enumerate(ranked)}
    best = [(linked_set(links, group, count), group) for group in groups]
    return min(best, key=lambda one: _preference(links, one[0], one[1], rank))[0]


def all_sets(
    links: Links, ranked: Sequence[int], groups: Groups, count: int, classes: Mapping[int, int]
) -> Iterator[tuple[int, ...]]:
    """Every kind of set within one group each, in the same order; sets with equal classes are of one kind."""
    rank = {k: place for place, k in enumerate(ranked)}

    def keyed(group: Sequence[int]) -> Iterator[tuple[tuple[int, list[int]], tuple[int, ...]]]:
        for places in linked_sets(links, group, count, [classes[k] for k in group]):
            yield _preference(links, places, group, rank), places

    return (places for _key, places in heapq.merge(*map(keyed, groups)))


def cheapest_set(groups: Groups, count: int, cost: Callable[[Sequence[int]], int]) -> tuple[int, ...]:
    """The set within one group that costs least, in rank order; of equals, the one with the better ranks."""
    sets = [sorted(group, key=lambda k: cost((k,)))[:count] for group in groups]
    best = min(range(len(sets)), key=lambda place: cost(sets[place]))
    return tuple(k for k in groups[best] if k in sets[best])


def _preference(
    links: Links, places: Sequence[int], group: Sequence[int], rank: Mapping[int, int]
) -> tuple[int, list[int]]:
    return -weight(links, places, group), [rank[k] for k in places]
