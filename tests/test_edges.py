"""The placement engine at its edges: what few clusters have, what no request should say, and what must not take long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import numpy as np
import pytest

from builders import asks, card, cards_of, cluster, container, hold, node, pod
from cardwise.core.cluster import Cluster
from cardwise.core.model import (
    Card,
    CardPolicy,
    CardRequest,
    CardUse,
    ContainerKind,
    Links,
    Node,
    Placement,
    PodRequest,
    Selection,
)
from cardwise.core.place import never_fits
from cardwise.core.plan import plan_on, steps_of
from cardwise.core.topology import linked_set

LINKED = CardPolicy(linked=True)
HUGE = (1, 2, 3, 40_000, 1 << 31, 1 << 63, 1 << 80)


def uuids(placement: Placement | None) -> list[list[str]]:
    """The UUIDs of each container; no containers where the pod found no place."""
    return [[one.uuid for one in got.cards] for got in placement.containers] if placement else []


def all_linked(size: int, score: int = 10) -> Links:
    return tuple(tuple(0 if i == j else score for j in range(size)) for i in range(size))


def use_of(made: Cluster, on: str, uuid: str) -> CardUse:
    n = made.cards.index_of[on]
    place = made.cards.position(n, uuid)
    assert place is not None
    return made.cards.use(n, place)


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


# -- whether waiting could help --------------------------------------------------------------------------------------


def test_a_refusal_is_lasting_if_any_container_never_fits_not_only_the_first_that_does_not_now() -> None:
    made = cluster(node("a", card(memory_mib=100)))
    made.confirm(hold("other", "a", "GPU-0", memory_mib=90))
    found = made.refusals(pod("new", asks(memory_mib=50), asks(memory_mib=1000)))
    assert found["a"].lasting


def test_a_refusal_is_lasting_if_the_containers_never_fit_together() -> None:
    made = cluster(node("a", card(memory_mib=100)))
    made.confirm(hold("other", "a", "GPU-0", memory_mib=90))
    found = made.refusals(pod("new", asks(memory_mib=60), asks(memory_mib=60)))
    assert found["a"].lasting


def test_a_refusal_by_cards_registered_without_slots_is_lasting() -> None:
    found = cluster(node("a", card(slots=0))).refusals(pod("new", asks(memory_mib=1)))
    assert found["a"].lasting


def test_a_refusal_is_lasting_if_one_of_two_families_never_fits() -> None:
    made = cluster(node("a", card(0, "N"), card(1, "H", family="hygon", memory_mib=10)))
    made.confirm(hold("other", "a", "N", memory_mib=24576))
    both = pod("new", container("c", asks(memory_mib=100), asks(memory_mib=1000, family="hygon")))
    assert made.refusals(both)["a"].lasting


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


ONE_NODE = 200_000  # 400 tries take a third of it
ALL_NODES = 2_000_000  # 4,000 tries take a third of it


def halves(policy: CardPolicy) -> PodRequest:
    """Never fits on 20 cards: each container alone does, on 184,756 sets of cards and on one."""
    return pod("halves", asks(10, memory_percent=60), asks(20, memory_percent=60), card_policy=policy)


@pytest.mark.parametrize("policy", [CardPolicy(), LINKED], ids=["spread", "topology-aware"])
def test_like_cards_are_not_tried_set_by_set(policy: CardPolicy) -> None:
    made = cluster(node("a", *cards_of(20)))
    assert no_longer_than(ONE_NODE, lambda: made.place(halves(policy)))


@pytest.mark.parametrize("policy", [CardPolicy(), LINKED], ids=["spread", "topology-aware"])
def test_like_cards_on_many_nodes_that_differ_in_use_are_not_tried_set_by_set(policy: CardPolicy) -> None:
    made = cluster(*(node(f"n-{k}", *cards_of(16, f"n-{k}")) for k in range(50)))
    for k in range(50):
        made.confirm(hold(f"other-{k}", f"n-{k}", f"n-{k}-0", memory_mib=100 + k))
    asking = pod("new", asks(8, memory_percent=60), asks(9, memory_percent=60), card_policy=policy)
    assert no_longer_than(ALL_NODES, lambda: made.place(asking))


def test_sets_of_linked_cards_are_not_all_sorted_for_the_second_one() -> None:
    different = [card(k, memory_mib=1000 + k) for k in range(20)]
    made = cluster(node("a", *different, links=all_linked(20)))
    assert no_longer_than(ONE_NODE, lambda: made.place(halves(LINKED)))


def tangled(number: int) -> Node:
    """Eight cards, no two alike: nine containers, each with most of a card, can be tried in 8! ways."""
    return node(f"n-{number}", *(card(k, memory_mib=1000 + 10 * number + k) for k in range(8)))


NINE = pod("nine", *(asks(memory_percent=60 + k) for k in range(9)))
"""No two requests are equal, so that no count of equal ones says at once that they do not fit."""


def test_placing_is_bounded_over_all_nodes() -> None:
    made = cluster(*map(tangled, range(50)))
    assert no_longer_than(ALL_NODES, lambda: made.place(NINE))


def test_refusing_is_bounded_over_all_nodes() -> None:
    made = cluster(*map(tangled, range(50)))
    assert no_longer_than(ALL_NODES, lambda: made.refusals(NINE))


def test_never_fits_is_bounded_over_all_nodes() -> None:
    made = cluster(*map(tangled, range(50)))
    assert no_longer_than(ALL_NODES, lambda: never_fits(made.cards, NINE))


def test_a_pod_that_is_not_placed_is_refused_by_every_node_by_name() -> None:
    """Also by nodes that were not looked at because the search had come to its bound."""
    made = cluster(*map(tangled, range(12)), node("z", *cards_of(9)))
    assert made.place(NINE) is not None or len(made.refusals(NINE)) == 13


BACKWARDS = pod("backwards", *(asks(memory_mib=1100 + k) for k in range(8)), asks(memory_mib=2000))


def found_late(name: str) -> Node:
    """The first container of BACKWARDS likes the large card, which the last one needs: that takes a second thought."""
    return node(name, card(0, memory_mib=2000), *(card(k, memory_mib=1500) for k in range(1, 9)))


def found_after_the_bound(name: str) -> Cluster:
    """The search comes to its bound on twelve nodes that cannot, before it comes to the one that could."""
    eight = (node(f"n-{k}", *(card(q, memory_mib=2000 + 10 * k + q) for q in range(8))) for k in range(12))
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
    assert "z" not in found or not found["z"].lasting
    assert not never_fits(made.cards, BACKWARDS)


# -- requests that cannot be meant -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", HUGE)
def test_any_count_is_answered(count: int) -> None:
    made = cluster(node("a", *cards_of(2)), node("empty"))
    asking = pod("new", asks(count, memory_mib=1))
    fits = count <= 2
    assert (made.place(asking) is not None) is fits
    assert never_fits(made.cards, asking) is not fits
    assert set(made.refusals(asking)) >= (set() if fits else {"a", "empty"})


@pytest.mark.parametrize("memory", [1, (1 << 31) - 1, 1 << 31, 1 << 63, 1 << 80])
def test_more_memory_than_any_card_has_fits_nowhere(memory: int) -> None:
    made = cluster(node("a", card(memory_mib=(1 << 31) - 1)))
    assert (made.place(pod("new", asks(memory_mib=memory))) is not None) is (memory < 1 << 31)


@pytest.mark.parametrize("percent", [1, 99, 100])
def test_a_share_of_the_largest_card_fits(percent: int) -> None:
    made = cluster(node("a", card(memory_mib=(1 << 31) - 1)))
    assert made.place(pod("new", asks(memory_percent=percent))) is not None


@pytest.mark.parametrize("percent", [100, 101, 1 << 31, 1 << 63, 1 << 80])
def test_more_than_the_whole_compute_fits_nowhere(percent: int) -> None:
    made = cluster(node("a", card()))
    assert (made.place(pod("new", asks(cores_percent=percent))) is not None) is (percent <= 100)


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_mib": -5},
        {"memory_percent": -5},
        {"memory_percent": 101},
        {"memory_percent": 1 << 80},
        {"memory_mib": 5, "memory_percent": 5},
        {"memory_mib": 5, "cores_percent": -5},
        {"memory_mib": 0, "memory_percent": 0},
        {"memory_mib": 5, "count": 0},
        {"memory_mib": 5, "count": -1},
    ],
    ids=str,
)
def test_a_request_out_of_bounds_cannot_be_made(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="CardRequest"):
        CardRequest(**{"family": "nvidia", "count": 1, **wrong})  # type: ignore[arg-type]


def test_a_container_that_asks_one_family_twice_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="twice"):
        container("c", asks(memory_percent=60), asks(memory_percent=30))


def test_a_pod_without_requests_goes_anywhere_in_service_and_never_fits_agrees() -> None:
    made = cluster(node("a", out_of_service="no"), node("b"))
    asking = pod("plain", container("c"))
    placement = made.place(asking)
    assert placement is not None
    assert placement.node == "b"
    assert not never_fits(made.cards, asking)


# -- cards that few nodes have ---------------------------------------------------------------------------------------


def test_cards_without_compute_take_pods_that_ask_none() -> None:
    made = cluster(node("a", card(cores_percent=0)))
    assert made.place(pod("new", asks(memory_mib=1))) is not None
    assert made.refusals(pod("new", asks(memory_mib=1, cores_percent=1)))["a"].lasting


@pytest.mark.parametrize("size", [20, 21, 64])
def test_topologies_of_many_cards_are_chosen_from(size: int) -> None:
    links = [[0] * size for _ in range(size)]
    best = (1, size // 2, size - 1)
    for a in best:
        for b in best:
            links[a][b] = 50 if a != b else 0
    assert linked_set(tuple(map(tuple, links)), range(size), 3) == best


def test_a_node_with_a_uuid_twice_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="twice"):
        node("a", card(0, "same"), card(1, "same"))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_node_with_links_for_another_number_of_cards_cannot_be_made(size: int) -> None:
    with pytest.raises(ValueError, match="links"):
        node("a", *cards_of(3), links=all_linked(size))


# -- second thoughts: the first container likes the card that the second cannot do without -----------------------------

FIVE = asks(memory_mib=5)
SECOND_THOUGHTS: dict[str, tuple[tuple[Card, Card], CardUse, CardRequest, CardRequest]] = {
    "more memory": (
        (card(0, memory_mib=25), card(1, memory_mib=20)),
        CardUse(slots=1, memory_mib=5),
        FIVE,
        asks(memory_mib=16),
    ),
    "more compute": (
        (card(0, memory_mib=20, cores_percent=150), card(1, memory_mib=20)),
        CardUse(slots=1, cores_percent=40),
        asks(memory_mib=5, cores_percent=50),
        asks(memory_mib=5, cores_percent=70),
    ),
}


@pytest.mark.parametrize("row", SECOND_THOUGHTS)
def test_a_pod_fits_by_the_one_thing_in_which_two_cards_differ(row: str) -> None:
    cards, used, first, second = SECOND_THOUGHTS[row]
    made = cluster(node("a", *cards))
    busy = hold("busy", "a", "GPU-0", "GPU-1")
    made.confirm(replace(busy, use=dict.fromkeys(("GPU-0", "GPU-1"), used)))
    policy = CardPolicy(keys=("numa",))  # all are on one, so the first card stands first
    found = made.place(pod("new", first, second, card_policy=policy))
    assert uuids(found) == [["GPU-1"], ["GPU-0"]]


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


# -- a pod's own containers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "got"), [(ContainerKind.APP, "GPU-1"), (ContainerKind.SIDECAR, "GPU-0"), (ContainerKind.INIT, "GPU-0")]
)
def test_only_app_containers_prefer_the_cards_of_init_containers(kind: ContainerKind, got: str) -> None:
    made = cluster(node("a", card(0, memory_mib=100), card(1, memory_mib=1000)))
    init = container("first", asks(memory_mib=500), kind=ContainerKind.INIT)
    asking = pod("new", init, container("then", asks(memory_mib=1), kind=kind))
    assert uuids(made.place(asking)) == [["GPU-1"], [got]]


def test_an_init_container_and_the_app_after_it_can_each_ask_most_of_one_card() -> None:
    init = container("first", asks(memory_percent=90), kind=ContainerKind.INIT)
    asking = pod("new", init, asks(memory_percent=90))
    assert uuids(cluster(node("a", card())).place(asking)) == [["GPU-0"], ["GPU-0"]]


def test_a_plan_leaves_the_view_as_it_was() -> None:
    made = cluster(node("a", *cards_of(2)))
    asking = pod("new", asks(memory_percent=60), asks(memory_percent=60))
    view = made.cards.view(slice(0, 1)).copy_use()
    first, second = (plan_on(view, made.cards, 0, asking, steps_of(asking)) for _ in range(2))
    assert uuids(first) == uuids(second) == [["GPU-0"], ["GPU-1"]]
    assert not view.slots_used.any()


# -- books -----------------------------------------------------------------------------------------------------------


def reserve(made: Cluster, asking: PodRequest) -> Placement:
    placement = made.place(asking)
    assert placement is not None
    assert made.reserve(asking, placement) is None
    return placement


def test_a_pod_without_a_uid_holds_nothing() -> None:
    made = cluster(node("a", card()))
    one = replace(pod("one", asks(memory_percent=40)), uid="")
    placement = made.place(one)
    assert placement is not None
    with pytest.raises(ValueError, match="no uid"):
        made.reserve(one, placement)


def test_reserving_again_replaces_what_the_pod_held() -> None:
    made = cluster(node("a", card()), node("b", card()))
    asking = pod("new", asks())
    placement = reserve(made, asking)
    assert made.reserve(asking, placement) is None
    assert made.reserve(asking, replace(placement, node="b")) is None
    assert (use_of(made, "a", "GPU-0").slots, use_of(made, "b", "GPU-0").slots) == (0, 1)


def test_a_reservation_that_is_refused_changes_nothing_not_even_the_order_of_holds() -> None:
    made = cluster(node("a", card()))
    first, second = pod("first", asks(memory_percent=40)), pod("second", asks(memory_percent=40))
    placement = reserve(made, first)
    reserve(made, second)
    assert made.reserve(first, replace(placement, node="gone")) is not None
    assert [held.name for held in made.holds_on("a")] == ["first", "second"]


def test_a_pod_can_take_the_cards_of_the_one_that_it_replaces_under_its_name() -> None:
    made = cluster(node("a", card()))
    placement = reserve(made, pod("same", asks(), uid="old"))
    assert made.reserve(pod("same", asks(), uid="new"), placement) is None
    assert set(made.holds) == {"new"}


def test_a_uuid_that_two_nodes_have_is_two_cards() -> None:
    made = cluster(node("a", card()), node("b", card()))
    made.confirm(hold("other", "a", "GPU-0", memory_mib=24576))
    placement = reserve(made, pod("new", asks()))
    assert placement.node == "b"
    assert use_of(made, "a", "GPU-0").slots == use_of(made, "b", "GPU-0").slots == 1


@pytest.mark.parametrize("fewer", [0, 1, 3])
def test_a_node_that_comes_back_with_other_cards_keeps_its_holds(fewer: int) -> None:
    made = cluster(node("a", *cards_of(2)))
    reserve(made, pod("new", asks(2)))
    made.set_node(node("a", *cards_of(fewer)))
    made.remove_node("a")
    made.remove_node("a")
    assert made.release("uid-never") is None
    made.set_node(node("a", *cards_of(2)))
    assert [use_of(made, "a", uuid).slots for uuid in ("GPU-0", "GPU-1")] == [1, 1]


@pytest.mark.parametrize(
    "wrong",
    [{"memory_mib": 1 << 63}, {"numa": 1 << 31}, {"slots": 1 << 63}, {"cores_percent": 1 << 63}],
    ids=["memory", "numa", "slots", "compute"],
)
def test_a_node_with_a_number_beyond_the_columns_changes_nothing(wrong: dict[str, int]) -> None:
    made = cluster(node("a", card()))
    made.confirm(hold("other", "a", "GPU-0", memory_mib=100))
    with pytest.raises((ValueError, OverflowError)):
        made.set_node(node("a", replace(card(), **wrong)))  # type: ignore[arg-type]
    assert use_of(made, "a", "GPU-0") == CardUse(slots=1, memory_mib=100)


def test_a_hold_with_a_number_beyond_the_columns_changes_nothing() -> None:
    made = cluster(node("a", card()))
    with pytest.raises((ValueError, OverflowError)):
        made.confirm(hold("other", "a", "GPU-0", memory_mib=1 << 63))
    assert use_of(made, "a", "GPU-0") == CardUse()
    assert not made.holds


def test_an_empty_cluster_answers() -> None:
    made = cluster()
    asking = pod("new", asks())
    assert made.place(asking) is None
    assert made.refusals(asking) == {}
    assert never_fits(made.cards, asking)
