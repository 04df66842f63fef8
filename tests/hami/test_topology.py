"""Which set of linked cards is chosen: HAMi's topology tests, by the search alone and through a whole placement.

HAMi gives the cards of a set in the order of its scan. Sets are compared here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest

from cardwise.core.model import Links
from cardwise.core.topology import linked_set, linked_sets
from hami.fixture import Golden, InUse, cluster_of, each, each_model, gpu, outcome, pod_of, want

Pairs = Mapping[str, int]
"""Link scores by pairs of one-letter cards; a pair that is left out has the score under ""."""


def links_of(cards: Sequence[str], pairs: Pairs) -> Links:
    """The symmetric matrix of these pairs, in the order of the cards."""
    rest = pairs.get("", 0)
    return tuple(tuple(0 if a == b else pairs.get(min(a, b) + max(a, b), rest) for b in cards) for a in cards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked(Golden[frozenset[str]]):
    """Cards with their links, how many are asked for, and the set that is chosen."""

    count: int
    pairs: Pairs
    cards: str


def linked(name: str, cards: str, count: int, pairs: Pairs, chosen: str) -> Linked:
    """Cards and the chosen set as letters."""
    return Linked(name=name, cards=cards, count=count, pairs=pairs, hami=frozenset(chosen))


THREE = {"01": 100, "02": 200, "12": 150}
NEGATIVE = {"01": -5, "02": -3, "12": -1}
STAR = {"": 1, "af": 100, "cf": 100}
ALL_BUT_F = {"": 100, **{f"{other}f": 1 for other in "abcde"}}
SETS = [
    linked("exactly as many", "01", 2, {}, "01"),
    linked("worst single card", "012", 1, THREE, "1"),
    linked("best pair", "012", 2, THREE, "02"),
    linked("negative: worst single card", "012", 1, NEGATIVE, "0"),
    linked("negative: best pair", "012", 2, NEGATIVE, "12"),
    linked("six cards: best three", "abcdef", 3, STAR, "acf"),
    linked("six cards: worst single card", "abcdef", 1, ALL_BUT_F, "f"),
]


@each(SETS)
def test_the_search_chooses_hamis_set(golden: Linked) -> None:
    chosen = linked_set(links_of(golden.cards, golden.pairs), range(len(golden.cards)), golden.count)
    assert frozenset(golden.cards[place] for place in chosen) == golden.expected


@each_model
@each(SETS)
def test_a_pod_gets_hamis_set(golden: Linked, model: str) -> None:
    cards = [gpu(name, (1, 2048, 1), slots=4, index=i, numa=i // 2) for i, name in enumerate(golden.cards)]
    cluster = cluster_of({"node-1": cards}, model, links=links_of(golden.cards, golden.pairs))
    found = outcome(cluster, pod_of(want(golden.count, 1024, 20), cards="topology-aware"))
    assert frozenset(found) == golden.expected


@each_model
def test_links_that_are_all_zero_still_give_a_set(model: str) -> None:
    cards = [gpu(f"dev-{i}", index=i) for i in range(3)]
    cluster = cluster_of({"node-1": cards}, model, links=links_of("012", {}))
    found = outcome(cluster, pod_of(want(2, 100, 10), cards="topology-aware"))
    assert len(found) == len(set(found)) == 2


@pytest.mark.parametrize(("count", "sets"), [(1, 4), (2, 6), (3, 4), (4, 1)])
def test_every_set_of_four_cards_is_there_once(count: int, sets: int) -> None:
    found = [frozenset(chosen) for chosen in linked_sets(links_of("0123", {}), range(4), count, range(4))]
    assert len(found) == sets
    assert set(found) == {frozenset(chosen) for chosen in combinations(range(4), count)}


# Both cards have the same links, so the rest of the policy decides: spread, with the pod's weights.
TIED: list[InUse] = [
    gpu("gpu-a", (1, 10, 90), memory_mib=100),
    gpu("gpu-b", (7, 20, 10), memory_mib=100, index=1),
]
TIE_BREAKS = [
    Golden(name="slot=1,core=1,memory=1", hami=("gpu-b",)),
    Golden(name="slot=1,core=1,memory=3", hami=("gpu-a",)),
]


@each_model
@each(TIE_BREAKS)
def test_weights_break_the_ties_between_links(golden: Golden[tuple[str]], model: str) -> None:
    cluster = cluster_of({"node-1": TIED}, model, links=((0, 1), (1, 0)))
    pod = pod_of(want(1, percent=40), cards="topology-aware", weights=golden.name)
    assert outcome(cluster, pod) == golden.expected
