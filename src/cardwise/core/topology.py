"""Choosing a well-linked set of cards, exactly, also out of sixteen.

The sum of link scores inside every subset is built by doubling: the subsets that hold card i are those of the cards
before it, each with the links from i added. That is 2^m additions in m vector operations, where looking at each set's
pairs would be C(m, n) × n² of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from cardwise.core.cards import Ints
from cardwise.core.model import Links

MOST_EXACT = 20


def linked_set(links: Links, ranked: Sequence[int], count: int) -> tuple[int, ...]:
    """The `count` cards out of `ranked` (best first) with the best links between them.

    One card: the one with the smallest sum of links to the other cards in `ranked`, which leaves the well-linked ones
    together. Ties fall to the set that comes first in rank order. Without link scores that is simply the first cards.
    Above MOST_EXACT cards the set is grown greedily: exact search doubles with each card.
    """
    if not links or count >= len(ranked):
        return tuple(ranked[:count])
    return _linked_set(links, tuple(ranked), count)


@lru_cache(maxsize=4096)
def _linked_set(links: Links, ranked: tuple[int, ...], count: int) -> tuple[int, ...]:
    scores = np.array(links, np.int64)[np.ix_(ranked, ranked)]
    if count == 1:
        return (ranked[int(scores.sum(axis=1).argmin())],)
    places = _exact(scores, count) if len(ranked) <= MOST_EXACT else _greedy(scores, count)
    return tuple(ranked[place] for place in places)


def _exact(scores: Ints, count: int) -> tuple[int, ...]:
    """Places of the best set. Bit m-1-p of a mask stands for place p: of equal sums the greatest mask comes first."""
    size = len(scores)
    sums = _subset_sums(scores[::-1, ::-1])
    masks = _masks(size, count)
    of_masks = sums[masks]
    best = int(masks[len(masks) - 1 - int(of_masks[::-1].argmax())])
    return tuple(place for place in range(size) if best >> (size - 1 - place) & 1)


def _subset_sums(scores: Ints) -> Ints:
    """For every bit mask, the sum of scores over the pairs in it."""
    sums = np.zeros(1, np.int64)
    for card in range(len(scores)):
        to_card = np.zeros(1, np.int64)
        for other in range(card):
            to_card = np.concatenate((to_card, to_card + scores[card, other]))
        sums = np.concatenate((sums, sums + to_card))
    return sums


@lru_cache(maxsize=256)
def _masks(size: int, count: int) -> Ints:
    """Every mask of `count` bits out of `size`, the smallest first."""
    masks = np.arange(1 << size, dtype=np.int64)
    of_size: Ints = masks[np.bitwise_count(masks) == count]
    return of_size


def _greedy(scores: Ints, count: int) -> tuple[int, ...]:
    size = len(scores)
    pairs = np.triu(scores, 1) + np.tril(np.full_like(scores, np.iinfo(np.int64).min))
    chosen = [int(place) for place in np.unravel_index(int(pairs.argmax()), pairs.shape)]
    while len(chosen) < count:
        rest = [place for place in range(size) if place not in chosen]
        chosen.append(rest[int(scores[np.ix_(rest, chosen)].sum(axis=1).argmax())])
    return tuple(sorted(chosen))


def linked_sets(links: Links, ranked: Sequence[int], count: int, classes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Sets in the order of preference, by links and then by rank: the best one of each kind.

    `classes` has a number for each card of `ranked`; sets with equal numbers of each class are of one kind.
    """
    if not links or len(ranked) > MOST_EXACT:
        yield from distinct_sets(ranked, count, classes)
        return
    scores = np.array(links, np.int64)[np.ix_(ranked, ranked)]
    masks = _masks(len(ranked), count)[::-1]  # of equal sums the set with the better ranks stands first
    of_masks = (
        -scores.sum(axis=1)[_places(masks, len(ranked))] if count == 1 else _subset_sums(scores[::-1, ::-1])[masks]
    )
    order = masks[np.argsort(-of_masks, kind="stable")]
    _kinds, first = np.unique(_kinds_of(order, classes), return_index=True)
    size = len(ranked)
    for mask in order[np.sort(first)].tolist():
        yield tuple(ranked[place] for place in range(size) if mask >> (size - 1 - place) & 1)


def _places(masks: Ints, size: int) -> Ints:
    """For masks of one bit each, the place that the bit stands for."""
    places: Ints = size - 1 - np.log2(masks).astype(np.int64)
    return places


def _kinds_of(masks: Ints, classes: Sequence[int]) -> Ints:
    """For each mask a number that says how many cards of each class are in it."""
    size = len(classes)
    kinds = np.zeros(len(masks), np.int64)
    for each in sorted(set(classes)):
        members = sum(1 << (size - 1 - place) for place in range(size) if classes[place] == each)
        kinds = np.unique(kinds * (size + 1) + np.bitwise_count(masks & members), return_inverse=True)[1]
    return kinds


def distinct_sets(ranked: Sequence[int], count: int, classes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Sets in the order of their cards' ranks, the first one of each kind only.

    That is: of each class, the best-ranked cards. A set that passes over a card and takes a worse one of its class is of
    the kind of an earlier set.
    """

    def grow(chosen: tuple[int, ...], start: int, passed: frozenset[int]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == count:
            yield chosen
            return
        open_places = [place for place in range(start, len(ranked)) if classes[place] not in passed]
        for at, place in enumerate(open_places):
            if len(chosen) + len(open_places) - at < count:
                return
            if classes[place] not in passed:
                yield from grow((*chosen, ranked[place]), place + 1, passed)
                passed |= {classes[place]}

    return grow((), 0, frozenset())


def weight(links: Links, chosen: Sequence[int], among: Sequence[int]) -> int:
    """How good a set is: the sum of its pair scores; for one card, minus the sum of its links to the others."""
    if not links:
        return 0
    if len(chosen) == 1:
        return -sum(links[chosen[0]][other] for other in among if other != chosen[0])
    return sum(links[a][b] for a, b in combinations(chosen, 2))
