"""Laws of trying many nodes: looking ahead changes no answer, sums never refuse what fits, first choices are real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import strategies as some
from builders import asks, card, cards_of, cluster, node, pod
from cardwise.core import tries
from cardwise.core.cards import Bools
from cardwise.core.cluster import Cluster
from cardwise.core.model import Card, CardRequest, ContainerKind, Node, PodRequest
from cardwise.core.place import MOST_MISSES
from cardwise.core.plan import EXACT_TRIES, Budget, plan, plan_on, running, steps_of
from cardwise.core.sieve import enough
from cardwise.core.tries import first_choice_does, largest_first
from strategies import Case

many = settings(max_examples=settings().max_examples * 2)
any_case = some.cases() | some.tight_cases()


@contextmanager
def looking_ahead_at_once() -> Iterator[None]:
    """As if the first few nodes had been tried in vain already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tries, "ONE_BY_ONE", 0)
        yield


@contextmanager
def without_a_search() -> Iterator[None]:
    """As if all tries were used up already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tries, "Budget", lambda: Budget(tries=0))
        yield


# -- looking ahead -------------------------------------------------------------------------------------------------


@many
@given(any_case)
def test_looking_ahead_changes_no_decision(case: Case) -> None:
    expected = oracle.decide(case.nodes, case.uses(), case.pod)
    assume(expected.tries < EXACT_TRIES)
    with looking_ahead_at_once():
        assert case.cluster().place(case.pod) == expected.placement


@given(some.cases(most_nodes=3) | some.tight_cases())
def test_looking_ahead_changes_no_refusal(case: Case) -> None:
    expected = case.cluster().refusals(case.pod)
    with looking_ahead_at_once():
        assert case.cluster().refusals(case.pod) == expected


@many
@given(any_case)
def test_sums_refuse_no_node_that_fits(case: Case) -> None:
    fits = [oracle.plan(replace(one, out_of_service=""), case.uses(), case.pod).placement for one in case.nodes]
    could = enough(case.cluster().cards.view(), running(steps_of(case.pod)))
    assert all(may or placement is None for may, placement in zip(could.tolist(), fits, strict=True))


ONE = card(memory_mib=1000)
SUMS = {
    "more cards than slots": ([asks(memory_mib=1)] * 3, replace(ONE, slots=2), False),
    "memory over all cards": ([asks(memory_mib=600), asks(memory_mib=300), asks(memory_mib=300)], ONE, False),
    "percentages over all cards": ([asks(memory_percent=60), asks(memory_percent=41)], ONE, False),
    "percentages rounded down": ([asks(memory_percent=50), asks(memory_percent=51)], replace(ONE, memory_mib=9), True),
    "compute": ([asks(memory_mib=1, cores_percent=60), asks(memory_mib=1, cores_percent=50)], ONE, False),
    "two of at least one size": ([asks(memory_mib=501), asks(memory_mib=600)], replace(ONE, memory_mib=1001), False),
    "two alone on one card": ([asks(memory_mib=1, cores_percent=100)] * 2, replace(ONE, cores_percent=200), False),
    "as much as there is": ([asks(memory_mib=600), asks(memory_mib=400)], ONE, True),
}


@pytest.mark.parametrize(("asking", "one", "expected"), SUMS.values(), ids=SUMS)
def test_sums_tell_of_one_card_whether_it_is_enough(asking: list[CardRequest], one: Card, expected: bool) -> None:
    needs = running(steps_of(pod("new", *asking)))
    assert enough(cluster(node("a", one)).cards.view(), needs).tolist() == [expected]


def test_a_container_takes_no_card_twice() -> None:
    """One card has room for all, the three others for one each: that is not enough for three times three."""
    made = cluster(node("a", card(0), *(card(k, slots=1) for k in (1, 2, 3))))
    needs = running(steps_of(pod("new", *[asks(3, memory_mib=1)] * 3)))
    assert enough(made.cards.view(), needs).tolist() == [False]
    assert enough(made.cards.view(), needs[1:]).tolist() == [False]
    assert enough(made.cards.view(), needs[2:]).tolist() == [True]


# -- first choices -------------------------------------------------------------------------------------------------


def unlinked(asking: PodRequest) -> PodRequest:
    return replace(asking, card_policy=replace(asking.card_policy, linked=False))


@many
@given(any_case)
def test_a_first_choice_does_exactly_where_planning_without_a_search_finds_cards(case: Case) -> None:
    made, asking = case.cluster(), unlinked(case.pod)
    for steps in (steps_of(asking), largest_first(steps_of(asking))):
        found = first_choice_does(made.cards.view(np.arange(made.cards.width)), asking, steps)
        spent = (plan(made.cards, n, asking, steps, budget=Budget(tries=0)) for n in range(made.cards.width))
        assert found.tolist() == [placement is not None for placement in spent]


@many
@given(any_case)
def test_what_is_found_without_a_search_takes_no_more_than_is_free(case: Case) -> None:
    made = case.cluster()
    with without_a_search():
        placement = made.place(case.pod)
    if placement is not None:
        assert oracle.decide(case.nodes, case.uses(), case.pod).placement is not None
        assert [one.name for one in placement.containers] == [one.name for one in case.pod.containers]
        assert made.reserve(case.pod, placement) is None


@given(some.pods())
def test_the_largest_stand_first_among_containers_that_run_together_alone(asking: PodRequest) -> None:
    steps = steps_of(asking)
    found = largest_first(steps)
    others = [step for step in steps if step.kind is not ContainerKind.APP]
    assert sorted(map(repr, found)) == sorted(map(repr, steps))
    assert list(found[: len(others)]) == others


def test_a_view_is_left_as_it_was_by_planning_in_vain() -> None:
    made = cluster(node("a", *cards_of(2)))
    asking = pod("new", asks(memory_percent=60), asks(memory_percent=60), asks(memory_percent=60))
    view = made.cards.view().copy_use()
    assert plan_on(view, made.cards, 0, asking, steps_of(asking)) is None
    assert not view.slots_used.any()


# -- nodes that are asked for one by one -----------------------------------------------------------------------------


@dataclass
class Asked:
    """Offered nodes, and which were asked for."""

    nodes: Bools
    one_by_one: list[int] = field(default_factory=list)
    masks: int = 0

    def __call__(self, n: int, /) -> bool:
        self.one_by_one.append(n)
        return bool(self.nodes[n])

    def mask(self) -> Bools:
        self.masks += 1
        return self.nodes


@given(some.cases(), st.lists(st.booleans(), min_size=5, max_size=5), st.sampled_from((1, 2, 8)))
def test_asking_one_by_one_decides_what_a_mask_decides(case: Case, offered: list[bool], misses: int) -> None:
    made = case.cluster()
    nodes = np.array(offered[: len(case.nodes)], np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cardwise.core.place.MOST_MISSES", misses)
        assert made.place(case.pod, offered=Asked(nodes)) == made.place(case.pod, nodes)


def thirty() -> Cluster:
    return cluster(*(Node(name=f"n-{k:02}", cards=(card(),)) for k in range(30)))


def test_only_the_best_node_is_asked_for_where_it_is_offered() -> None:
    offered = Asked(np.ones(30, np.bool_))
    assert thirty().place(pod("new", asks(memory_mib=1)), offered=offered) is not None
    assert (offered.one_by_one, offered.masks) == ([0], 0)


def test_after_some_misses_all_that_are_offered_are_looked_up() -> None:
    offered = Asked(np.arange(30) >= 20)
    placement = thirty().place(pod("new", asks(memory_mib=1)), offered=offered)
    assert placement is not None
    assert placement.node == "n-20"
    assert (len(offered.one_by_one), offered.masks) == (MOST_MISSES, 1)


def test_a_node_is_not_asked_for_that_cannot_take_the_pod_anyhow() -> None:
    offered = Asked(np.ones(30, np.bool_))
    assert thirty().place(pod("new", asks(2, memory_mib=1)), offered=offered) is None
    assert offered.one_by_one == []
