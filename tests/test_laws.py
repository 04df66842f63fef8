"""Laws of the placement engine: it decides what the oracle decides (that its books add up: test_books.py)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import strategies as some
from builders import card, cluster
from cardwise.core.checks import CHECKS, FITS, NOT_ASKED, fits, verdicts
from cardwise.core.cluster import Hold
from cardwise.core.model import Card, CardUse, ContainerAllocation, Node, Placement
from cardwise.core.peak import peak_amounts, peak_use
from cardwise.core.place import best_first, never_fits
from cardwise.core.plan import EXACT_TRIES, steps_of
from cardwise.core.topology import distinct_sets, linked_set, linked_sets
from strategies import Case

EXAMPLES = settings().max_examples  # of the profile: see conftest.py
half = settings(max_examples=EXAMPLES // 2)
many = settings(max_examples=EXAMPLES * 4)


def small(outcome: oracle.Outcome) -> oracle.Outcome:
    """The oracle's answer, where the bound on the core's search cannot have cut it short."""
    assume(outcome.tries < EXACT_TRIES)
    return outcome


def totals(case: Case) -> dict[tuple[str, str], Card]:
    return {(node.name, card.uuid): card for node in case.nodes for card in node.cards}


# -- the decision --------------------------------------------------------------------------------------------------


@given(some.cases())
def test_place_decides_what_the_oracle_decides(case: Case) -> None:
    expected = small(oracle.decide(case.nodes, case.uses(), case.pod))
    assert case.cluster().place(case.pod) == expected.placement


@many
@given(some.tight_cases())
def test_what_fits_only_on_second_thought_is_placed_as_the_oracle_places_it(case: Case) -> None:
    expected = small(oracle.decide(case.nodes, case.uses(), case.pod))
    made = case.cluster()
    assert made.place(case.pod) == expected.placement
    assert set(made.refusals(case.pod)) == (set() if expected.placement else {"a"})


@many
@given(some.cases_of_quotas())
def test_what_quotas_leave_is_given_as_the_oracle_gives_it_and_never_more(case: Case) -> None:
    expected = small(oracle.decide(case.nodes, case.uses(), case.pod))
    made = case.cluster()
    placement = made.place(case.pod)
    assert placement == expected.placement
    assert set(made.refusals(case.pod)) == (set() if placement else {"a"})
    if placement is not None:
        taken = peak_amounts(placement.containers)["nvidia"]
        assert taken.memory_mib <= (case.pod.quota["nvidia"].memory_mib or 0)
        assert oracle.within_quota(case.pod, placement.containers)


@half
@given(some.cases(), st.data())
def test_place_keeps_to_the_offered_nodes_and_the_soft_rules(case: Case, data: st.DataObject) -> None:
    offered = data.draw(st.lists(st.sampled_from(case.nodes), unique_by=lambda node: node.name))
    wishes = {node.name: data.draw(st.integers(-1, 1)) for node in case.nodes}
    expected = small(oracle.decide(offered, case.uses(), case.pod, wishes))
    made = case.cluster()
    columns = [node.name if node else "" for node in made.cards.nodes]
    among = np.array([name in {node.name for node in offered} for name in columns], np.bool_)
    preference = np.array([wishes[name] for name in columns], np.int64)
    assert made.place(case.pod, among, preference) == expected.placement


@given(some.cases(most_nodes=1))
def test_an_allocation_takes_distinct_cards_and_no_more_than_they_have_free(case: Case) -> None:
    made = case.cluster()
    placement = made.place(case.pod)
    if placement is None:
        return
    for asked, given_ in zip(case.pod.containers, placement.containers, strict=True):
        uuids = [card.uuid for card in given_.cards]
        assert len(uuids) == len(set(uuids)) == sum(request.count for request in asked.cards)
    for uuid, use in oracle.peak(placement).items():
        card = totals(case)[placement.node, uuid]
        used = case.uses().get((placement.node, uuid), CardUse())
        assert used.slots + use.slots <= card.slots
        assert used.memory_mib + use.memory_mib <= card.memory_mib
        assert used.cores_percent + use.cores_percent <= card.cores_percent
        assert not used.holders
    assert made.reserve(case.pod, placement) is None


@half
@given(some.cases())
def test_deciding_changes_nothing(case: Case) -> None:
    made = case.cluster()
    before = {name: column.copy() for name, column in made.cards.columns.items()}
    scores, held, words = made.cards.score.copy(), dict(made.holds), list(made.cards.families.words)
    made.place(case.pod)
    made.refusals(case.pod)
    never_fits(made.cards, case.pod)
    assert all(np.array_equal(column, before[name]) for name, column in made.cards.columns.items())
    assert np.array_equal(made.cards.score, scores)
    assert made.holds == held
    assert set(made.cards.families.words) <= {*words, "nvidia", "hygon"}


@half
@given(some.cases(), st.data())
def test_the_order_in_which_nodes_and_cards_came_changes_nothing(case: Case, data: st.DataObject) -> None:
    shuffled = tuple(_shuffled(node, data) for node in data.draw(st.permutations(case.nodes)))
    assert replace(case, nodes=shuffled).cluster().place(case.pod) == case.cluster().place(case.pod)


def _shuffled(node: Node, data: st.DataObject) -> Node:
    order = data.draw(st.permutations(range(len(node.cards))))
    links = tuple(tuple(node.links[i][j] for j in order) for i in order) if node.links else ()
    return replace(node, cards=tuple(node.cards[k] for k in order), links=links)


GROWTHS = ("slots", "memory_mib", "cores_percent", "card", "node")


@given(some.cases(), st.sampled_from(GROWTHS), st.data())
def test_more_capacity_never_makes_a_pod_unfit(case: Case, what: str, data: st.DataObject) -> None:
    if (
        what == "memory_mib"
    ):  # two percentages of one card are each rounded down: 50 % + 50 % of 5 MiB leave 1, of 4 none
        assume(sum(request.memory_percent > 0 for one in case.pod.containers for request in one.cards) <= 1)
        assume(not case.pod.quota)  # a percentage of a larger card is more, and may be beyond it
    if case.cluster().place(case.pod) is None:
        return
    grown = replace(case, nodes=_grown(case.nodes, what, data))
    small(oracle.decide(grown.nodes, grown.uses(), grown.pod))
    assert grown.cluster().place(case.pod) is not None


def _grown(nodes: tuple[Node, ...], what: str, data: st.DataObject) -> tuple[Node, ...]:
    if what == "node":
        return (*nodes, data.draw(some.nodes("0")))
    at = data.draw(st.integers(0, len(nodes) - 1))
    node = nodes[at]
    if what == "card":
        links = (*((*row, 0) for row in node.links), (0,) * (len(node.cards) + 1)) if node.links else ()
        node = replace(node, cards=(*node.cards, data.draw(some.cards("GPU-new", 9))), links=links)
    else:
        more = data.draw(st.integers(1, 30))
        node = replace(node, cards=tuple(replace(card, **{what: getattr(card, what) + more}) for card in node.cards))
    return (*nodes[:at], node, *nodes[at + 1 :])


@half
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1), st.booleans()), max_size=14), st.data())
def test_nodes_are_tried_by_preference_then_policy_then_name(
    drawn: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    names = data.draw(st.permutations([f"n-{number:02}" for number in range(len(drawn))]))
    policy = data.draw(st.sampled_from(("binpack", "spread")))
    made = cluster(*(Node(name=name, cards=(card(memory_mib=2),)) for name in names))
    for name, (used, _wish, _could) in zip(names, drawn, strict=True):
        made.confirm(Hold(uid=name, namespace="ml", name=name, node=name, use={"GPU-0": CardUse(memory_mib=used)}))
    could = np.array([one[2] for one in drawn], np.bool_)
    wishes = np.array([one[1] for one in drawn], np.int64)
    found = [names[n] for n in best_first(made.cards, could, policy, wishes)]
    keys = {
        name: (-wish, -used if policy == "binpack" else used, name)
        for name, (used, wish, could_it) in zip(names, drawn, strict=True)
        if could_it
    }
    assert found == sorted(keys, key=lambda name: keys[name])


# -- refusals ------------------------------------------------------------------------------------------------------


@given(some.cases(most_nodes=3) | some.cases_of_quotas())
def test_refusals_name_the_nodes_that_cannot_and_whether_waiting_could_help(case: Case) -> None:
    assume(sum(oracle.plan(node, case.uses(), case.pod).tries for node in case.nodes) < EXACT_TRIES)
    idle = (oracle.plan(oracle.emptied(node), {}, replace(case.pod, quota={})) for node in case.nodes)
    assume(sum(outcome.tries for outcome in idle) < EXACT_TRIES)
    found = case.cluster().refusals(case.pod)
    assert {name: refusal.lasting for name, refusal in found.items()} == oracle.refused(
        case.nodes, case.uses(), case.pod
    )
    assert all(refusal.text and refusal.code for refusal in found.values())


@half
@given(some.cases(most_nodes=3) | some.cases_of_quotas())
def test_never_fits_says_whether_the_pod_fits_on_nodes_where_nothing_runs(case: Case) -> None:
    idle = small(oracle.decide(map(oracle.emptied, case.nodes), {}, replace(case.pod, quota={})))
    assert never_fits(case.cluster().cards, case.pod) is (idle.placement is None)


@given(some.cases() | some.cases_of_quotas())
def test_verdicts_and_fits_say_of_each_card_what_the_oracle_says(case: Case) -> None:
    view = case.cluster().cards.view()
    for step, plain in zip(steps_of(case.pod), oracle.steps_of(case.pod), strict=True):
        found, fitting = verdicts(view, step.need), fits(view, step.need)
        assert np.array_equal(fitting, found == FITS)
        for column, node in enumerate(case.nodes):
            spots = oracle.spots_of(node, case.uses())
            expected = [oracle.verdict(spot, plain.request, case.pod, spots) for spot in spots]
            padding = ["not asked"] * (len(found) - len(expected))
            assert [_name(row) for row in found[:, column].tolist()] == expected + padding


def _name(row: int) -> str:
    return {FITS: "fits", NOT_ASKED: "not asked"}.get(row) or CHECKS[row].name


# -- what a pod holds ----------------------------------------------------------------------------------------------


@half
@given(some.cases(most_nodes=1))
def test_a_pod_holds_its_peak_over_the_phases_of_its_life(case: Case) -> None:
    got = tuple(
        ContainerAllocation(
            name=container.name,
            kind=container.kind,
            cards=tuple(oracle.allocation(c, r) for r in container.cards for c in case.nodes[0].cards[: r.count]),
        )
        for container in case.pod.containers
    )
    alone = frozenset(card.uuid for card in case.nodes[0].cards[:1])
    placement = Placement(node="a", containers=got, exclusive=alone)
    assert peak_use(got, alone) == oracle.peak(placement)


# -- topology ------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 7).flatmap(lambda size: st.tuples(some.links_between(size), st.permutations(range(size)))), st.data()
)
def test_the_linked_set_is_the_best_of_all_sets(
    drawn: tuple[tuple[tuple[int, ...], ...], list[int]], data: st.DataObject
) -> None:
    links, order = drawn
    ranked = order[: data.draw(st.integers(1, len(order)))]
    count = data.draw(st.integers(1, len(ranked)))

    def worth(chosen: tuple[int, ...]) -> int:
        if count == 1:
            return -sum(links[chosen[0]][other] for other in ranked if other != chosen[0])
        return sum(links[a][b] for a, b in combinations(chosen, 2))

    best_first = sorted(combinations(ranked, count), key=worth, reverse=True)  # stable: ties keep the order of ranks
    assert linked_set(links, ranked, count) == best_first[0]
    classes = {card: data.draw(st.integers(0, 2)) for card in ranked}
    kinds: dict[tuple[int, ...], tuple[int, ...]] = {}
    for chosen in best_first:
        kinds.setdefault(tuple(sorted(classes[card] for card in chosen)), chosen)
    assert list(linked_sets(links, ranked, count, [classes[card] for card in ranked])) == list(kinds.values())
    in_rank_order: dict[tuple[int, ...], tuple[int, ...]] = {}
    for chosen in combinations(ranked, count):
        in_rank_order.setdefault(tuple(sorted(classes[card] for card in chosen)), chosen)
    assert list(distinct_sets(ranked, count, [classes[card] for card in ranked])) == list(in_rank_order.values())
