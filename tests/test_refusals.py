"""Refusals: nodes with equal reasons together, and a text for each kind of reason that says no node's numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies as some
from builders import asks, card, cards_of, cluster, hold, node, pod
from cardwise.core.cards import Ints
from cardwise.core.model import CardRequest, Node, PodRequest, Selection
from cardwise.core.refusing import grouped
from strategies import Case

A10 = "NVIDIA A10"


@given(some.cases(), st.lists(st.booleans(), min_size=5, max_size=5))
def test_groups_say_of_each_node_what_is_said_of_it_by_name(case: Case, offered: list[bool]) -> None:
    made = case.cluster()
    among = np.array(offered[: len(case.nodes)], np.bool_)
    groups = made.refusal_groups(case.pod, among)
    columns = [n for _refusal, found in groups for n in found.tolist()]
    assert len(set(columns)) == len(columns)
    assert all(among[n] for n in columns)
    by_name = {made.cards.names[n]: refusal for refusal, found in groups for n in found.tolist()}
    assert by_name == made.refusals(case.pod, among)
    assert len({refusal for refusal, _found in groups}) == len(groups)


@given(some.cases())
def test_equal_checks_are_of_one_kind_which_says_nothing_of_the_node(case: Case) -> None:
    kinds: dict[object, str] = {}
    for refusal in case.cluster().refusals(case.pod).values():
        assert refusal.kind.startswith("node(s) ")
        if " fit (" in refusal.text:
            checks = refusal.container, tuple(name for name, _count in refusal.histogram if name != "fits")
            assert kinds.setdefault(checks, refusal.kind) == refusal.kind


@given(
    st.integers(1, 4).flatmap(
        lambda rows: st.lists(st.tuples(*[st.integers(0, 2) | st.just(1 << 40)] * rows), min_size=1, max_size=12)
    )
)
def test_equal_columns_are_grouped_in_order(columns: list[tuple[int, ...]]) -> None:
    rows: Ints = np.array(columns, np.int64).reshape(len(columns), -1).T
    groups = [group.tolist() for group in grouped(rows)]
    assert sorted(groups) == sorted(
        [place for place, column in enumerate(columns) if column == one] for one in set(columns)
    )


TWO = cards_of(2, memory_mib=1000)
PICKY = Selection(avoid_uuids=("GPU-1",), use_models=("A100",))
KINDS: dict[str, tuple[Node, PodRequest, str]] = {
    "no cards": (node("a"), pod("p", asks(2)), "node(s) without NVIDIA cards"),
    "cards of another family": (node("a", card(family="hygon")), pod("p", asks()), "node(s) without NVIDIA cards"),
    "fewer cards": (node("a", *TWO), pod("p", asks(4)), "node(s) with fewer than 4 NVIDIA cards"),
    "one check": (
        node("a", *TWO),
        pod("p", asks(2, memory_mib=20480)),
        "node(s) without 2 fitting cards: too small (20480 MiB asked)",
    ),
    "one card": (
        node("a", card(healthy=False)),
        pod("p", asks()),
        "node(s) without a fitting card: unhealthy",
    ),
    "several checks, in the order of the table": (
        node("a", card(0, memory_mib=10), card(1), card(2, model=A10), card(3)),
        pod("p", asks(2, memory_mib=20), selections={"nvidia": PICKY}),
        (
            "node(s) without 2 fitting cards: of a model refused by nvidia.com/use-gputype A100;"
            " excluded by nvidia.com/nouse-gpuuuid; too small (20 MiB asked)"
        ),
    ),
    "NUMA": (
        node("a", card(0), card(1, numa=1)),
        pod("p", asks(2), selections={"nvidia": Selection(one_numa=True)}),
        "node(s) without 2 fitting cards on one NUMA node",
    ),
    "not together": (
        node("a", *TWO),
        pod("p", *[asks(memory_percent=60)] * 3),
        "node(s) on which its containers do not fit together",
    ),
    "out of service": (node("a", *TWO, out_of_service="it hurts"), pod("p", asks()), "node(s) out of service"),
}


@pytest.mark.parametrize(("one", "asking", "kind"), KINDS.values(), ids=KINDS)
def test_the_kind_of_a_refusal(one: Node, asking: PodRequest, kind: str) -> None:
    (refusal,) = cluster(one).refusals(asking).values()
    assert refusal.kind == kind
    assert refusal.text != kind


def test_nodes_that_differ_in_numbers_alone_are_of_one_kind_with_texts_of_their_own() -> None:
    made = cluster(*(node(f"n-{k}", *cards_of(k, f"n-{k}")) for k in range(2, 8)))
    for k in range(2, 8):
        made.confirm(hold(f"r-{k}", f"n-{k}", *(f"n-{k}-{q}" for q in range(k - 1)), memory_mib=24000))
    found = made.refusals(pod("new", asks(2, memory_mib=1000)))
    assert {refusal.kind for refusal in found.values()} == {
        "node(s) without 2 fitting cards: with too little free memory (1000 MiB asked)"
    }
    assert len({refusal.text for refusal in found.values()}) == 6


def test_each_container_has_kinds_of_its_own() -> None:
    made = cluster(node("a", *TWO), node("b", *cards_of(2, "B")))
    found = made.refusals(pod("new", asks(memory_mib=2000), asks(memory_mib=50000)))
    assert re.findall(r"\d+ MiB", found["a"].kind) == ["2000 MiB"]
    assert re.findall(r"\d+ MiB", found["b"].kind) == ["50000 MiB"]


HUGE = CardRequest(family="nvidia", count=1, memory_mib=1_000_000)


def test_a_column_without_a_node_is_not_refused() -> None:
    made = cluster(node("a", card()), node("b", card()))
    made.remove_node("a")
    assert [found.tolist() for _refusal, found in made.refusal_groups(pod("new", HUGE))] == [[1]]


def test_few_offered_nodes_are_judged_like_many() -> None:
    made = cluster(*(node(f"n-{k:02}", *cards_of(1 + k % 3, f"n-{k}")) for k in range(40)))
    all_of_them = made.refusals(pod("new", HUGE))
    among = np.arange(40) % 13 == 5
    assert made.refusals(pod("new", HUGE), among) == {f"n-{k:02}": all_of_them[f"n-{k:02}"] for k in (5, 18, 31)}


def test_nothing_is_grouped_where_nothing_is() -> None:
    assert grouped(np.zeros((3, 0), np.int64)) == []
