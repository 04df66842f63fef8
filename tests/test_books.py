"""The books: who holds what adds up after any order of facts, and nothing is granted beyond what a card has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
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
from builders import asks, card, cards_of, cluster, hold, node, pod, use_of
from cardwise.core import cards as cards_module
from cardwise.core.checks import Need
from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import CardUse, ContainerAllocation, Node, Placement, PodRequest
from cardwise.core.shapes import usable

EXAMPLES = settings().max_examples  # of the profile: see conftest.py
of_facts = settings(max_examples=EXAMPLES // 5, stateful_step_count=30)


@given(some.bindings())
def test_a_reservation_is_granted_exactly_where_there_is_room_without_those_it_replaces(case: some.Binding) -> None:
    made = cluster(case.node)
    for running in case.holds:
        made.confirm(running)
    before = dict(made.holds)
    others = [h for h in case.holds if h.uid != case.pod.uid and h.name != case.pod.name]
    room = oracle.has_room(case.node, oracle.in_use((h.node, h.use) for h in others), case.placement)
    assert (made.reserve(case.pod, case.placement) is None) is room
    if room:
        assert set(made.holds) == {case.pod.uid, *(other.uid for other in others)}
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
        for name, known in self.nodes.items():
            n = self.cluster.cards.index_of[name]
            for spot in oracle.spots_of(known, uses):
                expected = uses.get((name, spot.card.uuid), CardUse())
                assert self.cluster.cards.use(n, spot.place) == expected
            assert self.cluster.cards.score[n] == oracle.node_score(known, uses)

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


# -- case by case ----------------------------------------------------------------------------------------------------


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


TAKEN = {
    "slots": (CardUse(slots=2), asks(memory_mib=50)),
    "memory": (CardUse(slots=1, memory_mib=51), asks(memory_mib=50)),
    "compute": (CardUse(slots=1, cores_percent=51), asks(memory_mib=50, cores_percent=50)),
    "held by another": (CardUse(slots=1, holders=1), asks(memory_mib=50)),
    "not idle": (CardUse(slots=1), asks(memory_mib=50, cores_percent=100)),
}
FREE = {
    "slots": CardUse(slots=1),
    "memory": CardUse(slots=1, memory_mib=50),
    "compute": CardUse(slots=1, cores_percent=50),
    "held by another": CardUse(slots=1),
    "not idle": CardUse(),
}


@pytest.mark.parametrize("what", TAKEN)
def test_a_decision_that_is_old_is_refused_by_the_one_thing_that_was_taken_meanwhile(what: str) -> None:
    taken, asked = TAKEN[what]
    made = cluster(node("a", card(slots=2, memory_mib=100)))
    asking = pod("new", asked)
    placement = made.place(asking)
    assert placement is not None
    made.confirm(replace(hold("other", "a"), use={"GPU-0": taken}))
    refusal = made.reserve(asking, placement)
    assert refusal is not None
    assert refusal.code == "CardTaken"
    made.confirm(replace(hold("other", "a"), use={"GPU-0": FREE[what]}))
    assert made.reserve(asking, placement) is None


def test_what_a_pod_held_on_another_node_frees_nothing_here() -> None:
    made = cluster(node("a", card(memory_mib=100)), node("b", card(memory_mib=100)))
    asking = pod("new", asks(memory_mib=60))
    placement = reserve(made, asking)
    assert placement.node == "a"
    made.confirm(hold("other", "b", "GPU-0", memory_mib=60))
    assert made.reserve(asking, replace(placement, node="b")) is not None


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


@pytest.mark.parametrize("changes", range(14))
def test_counts_are_fresh_after_any_number_of_changes(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal keeps four changes: more of them, and what stood in it before is forgotten."""
    monkeypatch.setattr(cards_module, "_JOURNAL_LEAST", 4)
    made = cluster(node("a", card()), node("b", card()))
    need = Need(family="nvidia", count=1, memory_mib=1)
    assert made.shapes.counts(need).tolist() == [1, 1]
    made.set_node(node("a"))
    for _ in range(changes):
        made.set_node(node("b", card()))
    assert made.shapes.counts(need).tolist() == [0, 1]


@pytest.mark.parametrize("more", [1, 62, 63, 200])
def test_counts_know_of_the_nodes_that_came_since(more: int) -> None:
    made = cluster(node("a", card()))
    need = Need(family="nvidia", count=1, memory_mib=1)
    assert made.shapes.counts(need).tolist() == [1]
    for number in range(more):
        made.set_node(node(f"more-{number}", *cards_of(2)))
    assert made.shapes.counts(need).tolist() == [1, *[2] * more]
