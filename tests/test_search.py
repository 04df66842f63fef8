"""The search of the placement engine: second thoughts, nodes that are alike, and how much of it there may be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import numpy as np
import pytest

from builders import all_linked, asks, card, cards_of, cluster, hold, node, pod, uuids
from cardwise.core.cluster import Cluster
from cardwise.core.model import (
    Card,
    CardPolicy,
    CardRequest,
    CardUse,
    Links,
    Node,
    PodRequest,
    Selection,
)
from cardwise.core.place import best_first, never_fits

LINKED = CardPolicy(linked=True)


# -- nodes that are alike but for their UUIDs ------------------------------------------------------------------------

NAMED = pod(
    "picky",
    asks(memory_percent=60),
    asks(memory_percent=60),
    selections={"nvidia": Selection(use_uuids=("A-0", "B-0", "B-1"))},
)


def two_alike() -> Cluster:
    """On a the pod of above may use one card, on b two, as it needs."""
    return cluster(node("a", *cards_of(2, "A")), node("b", *cards_of(2, "B")))


def test_a_node_is_tried_although_another_with_such_cards_but_other_uuids_failed() -> None:
    assert uuids(two_alike().place(NAMED)) == [["B-0"], ["B-1"]]


def test_refusals_tell_nodes_apart_that_differ_only_in_uuids() -> None:
    assert set(two_alike().refusals(NAMED)) == {"a"}


def test_never_fits_tells_nodes_apart_that_differ_only_in_uuids() -> None:
    assert not never_fits(two_alike().cards, NAMED)


# -- time ------------------------------------------------------------------------------------------------------------


def no_longer_than(calls: int, run: Callable[[], object]) -> bool:
    """Whether it ends within so many Python calls, which every machine counts alike; it is stopped there."""
    left = calls

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal left
        left -= event == "call"
        if left < 0:
            raise TimeoutError

    sys.setprofile(count)
    try:
        run()
    except TimeoutError:
        return False
    finally:
        sys.setprofile(None)
    return True


BOUND_CALLS = 300_000  # 400 tries take a fifth of it


def halves(policy: CardPolicy) -> PodRequest:
    """Never fits on 20 cards: each container alone does, on 184,756 sets of cards and on one."""
    return pod("halves", asks(10, memory_percent=60), asks(20, memory_percent=60), card_policy=policy)


@pytest.mark.parametrize("policy", [CardPolicy(), LINKED], ids=["spread", "topology-aware"])
def test_like_cards_are_not_tried_set_by_set(policy: CardPolicy) -> None:
    made = cluster(node("a", *cards_of(20)))
    assert no_longer_than(BOUND_CALLS, lambda: made.place(halves(policy)))


@pytest.mark.parametrize("policy", [CardPolicy(), LINKED], ids=["spread", "topology-aware"])
def test_like_cards_on_many_nodes_that_differ_in_use_are_not_tried_set_by_set(policy: CardPolicy) -> None:
    made = cluster(*(node(f"n-{k}", *cards_of(16, f"n-{k}")) for k in range(50)))
    for k in range(50):
        made.confirm(hold(f"other-{k}", f"n-{k}", f"n-{k}-0", memory_mib=100 + k))
    asking = pod("new", asks(8, memory_percent=60), asks(9, memory_percent=60), card_policy=policy)
    assert no_longer_than(BOUND_CALLS, lambda: made.place(asking))


def test_sets_of_linked_cards_are_not_all_sorted_for_the_second_one() -> None:
    different = [card(k, memory_mib=1000 + k) for k in range(20)]
    made = cluster(node("a", *different, links=all_linked(20)))
    assert no_longer_than(BOUND_CALLS, lambda: made.place(halves(LINKED)))


def tangled(number: int) -> Node:
    """Eight cards, no two alike: nine containers, each with most of a card, can be tried in 8! ways."""
    return node(f"n-{number}", *(card(k, memory_mib=1000 + 10 * number + k) for k in range(8)))


NINE = pod("nine", *(asks(memory_percent=60 + k) for k in range(9)))
"""No two requests are equal, so that no count of equal ones says at once that they do not fit."""


MISFIT = pod(
    "misfit", *(asks(memory_percent=60 + k) for k in range(5)), *(asks(memory_percent=43 + k) for k in range(8))
)
"""Five cards are taken alone, and three are left for four pairs; no sum of sizes says so, and there are 13! orders."""

bounded = pytest.mark.parametrize(
    ("asking", "nodes"),
    [
        pytest.param(NINE, 50, id="sums tell"),
        pytest.param(MISFIT, 50, id="nothing tells"),
        pytest.param(MISFIT, 400, id="nothing tells, on many nodes"),
        pytest.param(replace(MISFIT, card_policy=LINKED), 50, id="nothing tells, topology-aware"),
        pytest.param(
            replace(MISFIT, card_policy=CardPolicy(keys=("numa", "binpack"))), 50, id="nothing tells, binpack"
        ),
    ],
)


@bounded
def test_placing_is_bounded_over_all_nodes(asking: PodRequest, nodes: int) -> None:
    made = cluster(*map(tangled, range(nodes)))
    assert no_longer_than(BOUND_CALLS, lambda: made.place(asking))


@bounded
def test_refusing_is_bounded_over_all_nodes(asking: PodRequest, nodes: int) -> None:
    made = cluster(*map(tangled, range(nodes)))
    assert no_longer_than(BOUND_CALLS, lambda: made.refusals(asking))
    assert len(made.refusals(asking)) == nodes


@bounded
def test_never_fits_is_bounded_over_all_nodes(asking: PodRequest, nodes: int) -> None:
    made = cluster(*map(tangled, range(nodes)))
    assert no_longer_than(BOUND_CALLS, lambda: never_fits(made.cards, asking))


def test_a_pod_that_a_node_takes_without_a_search_is_placed_after_any_number_of_nodes_that_cannot() -> None:
    """By the cards that it prefers; or, where those leave too little for the last ones, by packing the largest first."""
    made = cluster(*map(tangled, range(30)), node("z", *cards_of(9)))
    preferring = made.place(MISFIT)
    assert preferring is not None
    assert preferring.node == "z"
    packed = pod("packed", *reversed(MISFIT.containers))  # the small ones first: each takes a card of its own
    packing = made.place(packed)
    assert packing is not None
    assert packing.node == "z"
    assert [one.name for one in packing.containers] == [one.name for one in packed.containers]


def test_a_pod_that_is_not_placed_is_refused_by_every_node_by_name() -> None:
    """Also by nodes that were not looked at because the search had come to its bound."""
    made = cluster(*map(tangled, range(12)), node("z", *cards_of(9)))
    assert made.place(NINE) is not None or len(made.refusals(NINE)) == 13


BACKWARDS = pod("backwards", *(asks(memory_mib=1100 + k) for k in range(8)), asks(memory_mib=2000))


def found_late(name: str) -> Node:
    """The first container of BACKWARDS likes the large card, which the last one needs: that takes a second thought."""
    return node(name, card(0, memory_mib=2000), *(card(k, memory_mib=1500) for k in range(1, 9)))


def found_after_the_bound(name: str) -> Cluster:
    """The search comes to its bound on twelve nodes that cannot, before it comes to the one that could.

    Sums do not tell that these cannot: one card has twice what the smallest container asks, but no two ask so little.
    """
    sizes = ((2200, *(2000 + 10 * k + q for q in range(7))) for k in range(12))
    eight = (node(f"n-{k}", *(card(q, memory_mib=size) for q, size in enumerate(own))) for k, own in enumerate(sizes))
    return cluster(*eight, found_late(name))


def test_the_node_that_is_found_late_can_take_the_pod() -> None:
    assert cluster(found_late("a")).place(BACKWARDS) is not None


def test_a_pod_that_soft_rules_kept_from_its_node_is_refused_by_every_node_by_name() -> None:
    made = found_after_the_bound("a")
    liked = np.array([made.cards.node(n).name != "a" for n in range(made.cards.width)], np.int64)
    if made.place(BACKWARDS, preference=liked) is None:
        assert len(made.refusals(BACKWARDS, preference=liked)) == 13


def test_a_search_cut_short_never_says_that_waiting_could_not_help() -> None:
    made = found_after_the_bound("z")
    found = made.refusals(BACKWARDS)
    assert not any(refusal.lasting for refusal in found.values())
    assert not never_fits(made.cards, BACKWARDS)


# -- many nodes ------------------------------------------------------------------------------------------------------


def test_soft_rules_rank_every_node_not_only_the_first_few() -> None:
    names = [f"n-{k:02}" for k in range(12)]
    made = cluster(*(node(name, card(memory_mib=100 + k)) for k, name in enumerate(names)))
    liked = np.arange(12)
    could = np.ones(12, np.bool_)
    assert [names[n] for n in best_first(made.cards, could, "binpack", liked)] == names[::-1]


def test_refusals_are_asked_of_the_offered_nodes_alone() -> None:
    made = cluster(node("a", card()), node("b", card()), node("c"))
    offered = np.array([False, True, True])
    assert set(made.refusals(pod("new", asks(9)), offered)) == {"b", "c"}


def test_a_node_is_tried_although_another_with_such_cards_but_more_in_use_failed() -> None:
    made = cluster(node("a", *cards_of(2)), node("b", *cards_of(2)))
    made.confirm(hold("busy", "a", "GPU-0", memory_mib=15000))
    placement = made.place(pod("new", asks(memory_percent=60), asks(memory_percent=60)))
    assert placement is not None
    assert placement.node == "b"


# -- second thoughts: the first container likes the card that the second cannot do without -----------------------------

FIVE = asks(memory_mib=5)
SLIM = card(1, memory_mib=20)
SECOND_THOUGHTS: dict[str, tuple[Card, CardUse, CardUse, CardRequest, CardRequest]] = {
    "more memory": (
        card(0, memory_mib=25),
        CardUse(slots=1, memory_mib=5),
        CardUse(slots=1, memory_mib=5),
        FIVE,
        asks(memory_mib=16),
    ),
    "more compute": (
        card(0, memory_mib=20, cores_percent=150),
        CardUse(slots=1, cores_percent=40),
        CardUse(slots=1, cores_percent=40),
        asks(memory_mib=5, cores_percent=50),
        asks(memory_mib=5, cores_percent=70),
    ),
    "less used memory": (
        card(0, memory_mib=20),
        CardUse(slots=1, memory_mib=1),
        CardUse(slots=1, memory_mib=8),
        FIVE,
        asks(memory_mib=18),
    ),
    "less used compute": (
        card(0, memory_mib=20),
        CardUse(slots=1, cores_percent=10),
        CardUse(slots=1, cores_percent=60),
        asks(memory_mib=5, cores_percent=40),
        asks(memory_mib=5, cores_percent=70),
    ),
}


@pytest.mark.parametrize("row", SECOND_THOUGHTS)
def test_a_pod_fits_by_the_one_thing_in_which_two_cards_differ(row: str) -> None:
    better, its_use, other_use, first, second = SECOND_THOUGHTS[row]
    made = cluster(node("a", better, SLIM))
    made.confirm(replace(hold("busy", "a"), use={"GPU-0": its_use, "GPU-1": other_use}))
    policy = CardPolicy(keys=("numa",))  # all are on one, so the first card stands first
    assert uuids(made.place(pod("new", first, second, card_policy=policy))) == [["GPU-1"], ["GPU-0"]]


BOUND = {"nvidia": Selection(one_numa=True)}


def test_a_pod_fits_by_leaving_a_numa_node_whole() -> None:
    made = cluster(node("a", card(0), card(1), card(2, numa=1)))
    asking = pod("new", asks(memory_percent=60), asks(2, memory_percent=60), selections=BOUND)
    assert uuids(made.place(asking)) == [["GPU-2"], ["GPU-0", "GPU-1"]]


def links_of(size: int, scores: dict[tuple[int, int], int]) -> Links:
    return tuple(tuple(scores.get((min(i, j), max(i, j)), 0) for j in range(size)) for i in range(size))


def test_the_best_linked_set_of_all_numa_nodes_is_taken_then_the_second_best() -> None:
    cards = (card(0, memory_mib=30), *(card(k, memory_mib=20, numa=k // 3) for k in range(1, 6)))
    made = cluster(node("a", *cards, links=links_of(6, {(0, 1): 50, (1, 2): 20, (3, 4): 30})))
    pair = asks(2, memory_mib=5)
    assert uuids(made.place(pod("new", pair, selections=BOUND, card_policy=LINKED))) == [["GPU-0", "GPU-1"]]
    both = pod("new", pair, asks(memory_mib=26), selections=BOUND, card_policy=LINKED)
    assert uuids(made.place(both)) == [["GPU-3", "GPU-4"], ["GPU-0"]]


def test_the_best_linked_set_may_stand_on_the_numa_node_of_the_worse_ranked_cards() -> None:
    made = cluster(node("a", *(card(k, numa=k // 2) for k in range(4)), links=links_of(4, {(0, 1): 10, (2, 3): 50})))
    asking = pod("new", asks(2, memory_mib=5), selections=BOUND, card_policy=LINKED)
    assert uuids(made.place(asking)) == [["GPU-2", "GPU-3"]]


def test_like_containers_that_each_hold_a_card_alone_get_one_each() -> None:
    made = cluster(node("a", *cards_of(2)))
    assert uuids(made.place(pod("two", asks(cores_percent=100), asks(cores_percent=100)))) == [["GPU-0"], ["GPU-1"]]
    assert made.place(pod("three", *(asks(cores_percent=100) for _ in range(3)))) is None
