"""The placement engine at its edges: what few clusters have, and what no request should say."""

from __future__ import annotations

import pytest

from builders import all_linked, asks, card, cards_of, cluster, container, hold, node, pod, uuids
from cardwise.core.model import (
    CardRequest,
    ContainerKind,
)
from cardwise.core.place import never_fits
from cardwise.core.plan import plan_on, steps_of
from cardwise.core.topology import linked_set

HUGE = (1, 2, 3, 40_000, 1 << 31, 1 << 63, 1 << 80)


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


def test_an_empty_cluster_answers() -> None:
    made = cluster()
    asking = pod("new", asks())
    assert made.place(asking) is None
    assert made.refusals(asking) == {}
    assert never_fits(made.cards, asking)
