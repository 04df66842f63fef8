"""Laws of the placement engine: it decides what the oracle decides, and its books always add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import oracle
import strategies as some
from builders import card, cluster
from cardwise.core import cards as cards_module
from cardwise.core.checks import CHECKS, FITS, NOT_ASKED, Need, fits, need_of, verdicts
from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import Card, CardUse, ContainerAllocation, Node, Placement, PodRequest, Selection
from cardwise.core.peak import peak_use
from cardwise.core.place import best_first, never_fits
from cardwise.core.plan import MOST_TRIES
from cardwise.core.shapes import usable
from cardwise.core.topology import distinct_sets, linked_set, linked_sets
from strategies import Case

EXAMPLES = settings().max_examples  # of the profile: see conftest.py
half = settings(max_examples=EXAMPLES // 2)
many = settings(max_examples=EXAMPLES * 4)
of_facts = settings(max_examples=EXAMPLES // 5, stateful_step_count=30)


def small(outcome: oracle.Outcome) -> oracle.Outcome:
    """The oracle's answer, where the bound on the core's search cannot have cut it short."""
    assume(outcome.tries < MOST_TRIES)
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


@given(some.cases(most_nodes=3))
def test_refusals_name_the_nodes_that_cannot_and_whether_waiting_could_help(case: Case) -> None:
    for node in case.nodes:
        small(oracle.plan(node, case.uses(), case.pod))
        small(oracle.plan(node, {}, case.pod))
    found = case.cluster().refusals(case.pod)
    assert {name: refusal.lasting for name, refusal in found.items()} == oracle.refused(
        case.nodes, case.uses(), case.pod
    )
    assert all(refusal.text and refusal.code for refusal in found.values())


@half
@given(some.cases(most_nodes=3))
def test_never_fits_says_whether_the_pod_fits_on_nodes_where_nothing_runs(case: Case) -> None:
    idle = small(oracle.decide(case.nodes, {}, case.pod))
    assert never_fits(case.cluster().cards, case.pod) is (idle.placement is None)


@given(some.cases())
def test_verdicts_and_fits_say_of_each_card_what_the_oracle_says(case: Case) -> None:
    view = case.cluster().cards.view()
    for request in (request for container in case.pod.containers for request in container.cards):
        need = need_of(request, case.pod.selections.get(request.family, Selection()), case.pod.card_policy)
        found, fitting = verdicts(view, need), fits(view, need)
        assert np.array_equal(fitting, found == FITS)
        for column, node in enumerate(case.nodes):
            expected = [oracle.verdict(spot, request, case.pod) for spot in oracle.spots_of(node, case.uses())]
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


# -- books ---------------------------------------------------------------------------------------------------------


@given(some.bindings())
def test_a_reservation_is_granted_exactly_where_there_is_room_without_those_it_replaces(case: some.Binding) -> None:
    made = cluster(case.node)
    for hold in case.holds:
        made.confirm(hold)
    before = dict(made.holds)
    others = [h for h in case.holds if h.uid != case.pod.uid and h.name != case.pod.name]
    room = oracle.has_room(case.node, oracle.in_use((h.node, h.use) for h in others), case.placement)
    assert (made.reserve(case.pod, case.placement) is None) is room
    if room:
        assert set(made.holds) == {case.pod.uid, *(hold.uid for hold in others)}
        assert made.holds[case.pod.uid].use == oracle.peak(case.placement)
    else:
        assert made.holds == before


class Books(RuleBasedStateMachine):
    """A cluster under facts in any order, beside plain books of the same: which nodes there are, and who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Cluster = cluster()
        self.nodes: dict[str, Node] = {}
        self.holds: dict[str, tuple[str, str, Mapping[str, CardUse]]] = {}

    def uses(self) -> dict[tuple[str, str], CardUse]:
        return oracle.in_use((node, use) for _name_, node, use in self.holds.values())

    def keep(self, uid: str, name: str, node: str, use: Mapping[str, CardUse]) -> None:
        """A pod holds this; another pod that held under its name is gone."""
        self.holds = {other: held for other, held in self.holds.items() if other != uid and held[0] != name}
        self.holds[uid] = (name, node, use)

    @rule(node=st.sampled_from(some.NODES).flatmap(some.nodes))
    def set_node(self, node: Node) -> None:
        self.cluster.set_node(node)
        self.nodes[node.name] = node

    @rule(name=st.sampled_from((*some.NODES, "never there")))
    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)
        self.nodes.pop(name, None)

    @rule(hold=st.integers(0, 5).flatmap(some.holds), name=st.integers(0, 5))
    def confirm(self, hold: Hold, name: int) -> None:
        hold = replace(hold, name=f"running-{name}")
        self.cluster.confirm(hold)
        self.keep(hold.uid, hold.name, hold.node, hold.use)

    @rule(number=st.integers(0, 5))
    def release(self, number: int) -> None:
        held = self.cluster.release(f"uid-{number}")
        expected = self.holds.pop(f"uid-{number}", None)
        assert (held and held.use) == (expected and expected[2])

    @rule(pod=some.pods(most=2), number=st.integers(0, 5))
    def reserve_what_place_decides(self, pod: PodRequest, number: int) -> None:
        self.try_to_reserve(replace(pod, uid=f"uid-{number}", name=f"running-{number}"))

    @rule(pod=some.pods(most=2), number=st.integers(0, 5), where=st.sampled_from((*some.NODES, "never there")))
    def reserve_at_random(self, pod: PodRequest, number: int, where: str) -> None:
        """As a bind whose decision is old: the node may have changed, or be gone."""
        pod = replace(pod, uid=f"uid-{number}", name=f"running-{number}")
        spots = oracle.spots_of(self.nodes.get(where, Node(name=where)), {})
        containers = tuple(
            ContainerAllocation(
                name=one.name,
                kind=one.kind,
                cards=tuple(oracle.allocation(s.card, r) for r in one.cards for s in spots[: r.count]),
            )
            for one in pod.containers
        )
        self.try_to_reserve(pod, Placement(node=where, containers=containers))

    def try_to_reserve(self, pod: PodRequest, placement: Placement | None = None) -> None:
        decided = placement is None
        placement = placement or self.cluster.place(pod)
        if placement is None:
            return
        before = self.holds.get(pod.uid)
        refusal = self.cluster.reserve(pod, placement)
        assert not (decided and refusal), "what place decides can be reserved"
        if refusal is None:
            self.nothing_is_exceeded(pod, placement)
            self.keep(pod.uid, pod.name, placement.node, oracle.peak(placement))
        else:
            assert self.holds.get(pod.uid) == before

    def nothing_is_exceeded(self, pod: PodRequest, placement: Placement) -> None:
        """No sum over all other holds goes beyond a total, and nobody sits on a card that is held alone."""
        self.holds = {uid: held for uid, held in self.holds.items() if uid != pod.uid and held[0] != pod.name}
        assert oracle.has_room(self.nodes[placement.node], self.uses(), placement)

    @invariant()
    def columns_are_what_the_holds_add_up_to(self) -> None:
        uses = self.uses()
        assert set(self.cluster.cards.index_of) == set(self.nodes)
        for name, node in self.nodes.items():
            n = self.cluster.cards.index_of[name]
            for spot in oracle.spots_of(node, uses):
                expected = uses.get((name, spot.card.uuid), CardUse())
                assert self.cluster.cards.use(n, spot.place) == expected
            assert self.cluster.cards.score[n] == oracle.node_score(node, uses)

    @invariant()
    def holds_are_the_same(self) -> None:
        assert {uid: (h.name, h.node, h.use) for uid, h in self.cluster.holds.items()} == self.holds
        by_node = sorted(h.uid for name in {n for _, n, _ in self.holds.values()} for h in self.cluster.holds_on(name))
        assert by_node == sorted(self.holds)

    def teardown(self) -> None:
        """When all is released, nothing is in use."""
        for uid in list(self.holds):
            self.cluster.release(uid)
        cards = self.cluster.cards
        assert not any(cards.columns[name].any() for name in ("slots_used", "memory_used_mib", "cores_used_percent"))
        assert not cards.columns["holders"].any()
        assert not cards.score.any()
        assert not self.cluster.holds


class Counts(Books):
    """The same, asking now and then how many cards fit; the answers must be those of a look at everything."""

    asked = st.shared(st.lists(some.needs(), min_size=3, max_size=3), key="needs").map(
        lambda drawn: [*drawn, Need(family="nvidia", count=1, memory_mib=1)]  # one that most cards fit
    )

    may_grow = False

    @initialize(may_grow=st.sampled_from((False, False, False, True)))
    def start(self, may_grow: bool) -> None:
        self.may_grow = may_grow

    @precondition(lambda self: self.may_grow and "more-0" not in self.nodes)
    @rule()
    def grow(self) -> None:
        """More nodes than there was room for at first; the journal keeps more changes then."""
        for number in range(70):
            self.set_node(Node(name=f"more-{number}", cards=(card(memory_mib=20),)))

    @rule(node=st.sampled_from(some.NODES).flatmap(some.nodes), times=st.integers(8, 20))
    def change_often(self, node: Node, times: int) -> None:
        """More changes than the journal keeps."""
        for _ in range(times):
            self.set_node(node)

    @rule(needs=asked)
    def count(self, needs: list[Need]) -> None:
        for need in needs:
            fresh = usable(self.cluster.cards.view(), need)
            assert np.array_equal(self.cluster.shapes.counts(need), fresh)


def test_books_add_up_after_any_order_of_facts() -> None:
    run_state_machine_as_test(Books, settings=of_facts)


def test_remembered_counts_are_those_of_a_fresh_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards_module, "_JOURNAL_LEAST", 8)
    run_state_machine_as_test(Counts, settings=of_facts)
