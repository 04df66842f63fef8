"""Laws of the node table: mask and refusals agree, changes tell, and asking for less never fits less."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cardwise.core.nodefit import NO_NODE, NodeFacts, NodeTable
from cardwise.core.nodeselect import Expression, PodRules, Taint, Term, Toleration

ANY_NODE = PodRules()
CORDON = "node.kubernetes.io/unschedulable"
MOST = (1 << 63) - 1
Amounts = dict[str, int]

resources = st.sampled_from(("cpu", "memory", "x.io/card", "hugepages-2Mi", "pods"))
edges = st.one_of(st.integers(-2, 6), st.sampled_from((MOST - 1, MOST, MOST + 1, 10**30)))
requests = st.dictionaries(resources, edges)
keys, values = st.sampled_from(("k", "l", CORDON)), st.sampled_from(("", "a", "3"))
effects = st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule"))
taints = st.builds(Taint, key=keys, value=values, effect=effects)
facts_of_nodes = st.builds(
    NodeFacts,
    name=st.sampled_from(("n1", "n2")),
    labels=st.dictionaries(keys, values),
    taints=st.lists(taints, max_size=2).map(tuple),
    unschedulable=st.booleans(),
    ready=st.sampled_from((True, True, True, False)),
    allocatable=st.none() | requests,
)
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "?"))
expressions = st.builds(Expression, key=keys, operator=operators, values=st.lists(values, max_size=2).map(tuple))
names = st.builds(Expression, key=st.just("metadata.name"), operator=operators, values=st.just(("n1",)))
terms = st.builds(
    Term, expressions=st.lists(expressions, max_size=2).map(tuple), fields=st.lists(names, max_size=1).map(tuple)
)
tolerations = st.builds(
    Toleration,
    key=keys | st.just(""),
    operator=st.sampled_from(("", "Equal", "Exists", "Gt", "Lt")),
    value=values,
    effect=effects | st.just(""),
)
pod_rules = st.builds(
    PodRules,
    node_selector=st.lists(st.tuples(keys, values), max_size=1).map(tuple),
    required=st.none() | st.lists(terms, max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=3).map(tuple),
)
several_nodes = st.lists(facts_of_nodes, min_size=1, max_size=3)


@settings(max_examples=300)
@given(several_nodes, st.lists(requests, max_size=3), pod_rules, requests, st.booleans())
def test_mask_and_refusals_agree(
    facts: list[NodeFacts], uses: list[Amounts], rules: PodRules, asked: Amounts, early: bool
) -> None:
    """Whether the columns are made before or after the use is counted."""
    table = NodeTable(facts)
    if early:
        table.mask(rules, asked)
    for index, used in enumerate(uses):
        table.add_use(index % len(facts), used)
    fits = [not table.refusals(rules, asked, index) for index in range(len(facts))]
    assert table.mask(rules, asked).tolist() == fits


@given(several_nodes, st.permutations(range(4)), st.lists(requests, min_size=4, max_size=4), requests)
def test_remove_use_is_the_inverse_of_add_use(
    facts: list[NodeFacts], order: list[int], uses: list[Amounts], asked: Amounts
) -> None:
    """Whatever the sizes and the order, only what was not taken back counts."""
    table, expected = NodeTable(facts), NodeTable(facts)
    expected.add_use(0, uses[0])
    for used in uses:
        table.add_use(0, used)
    table.mask(ANY_NODE, asked)
    for which in order:
        if which != 0:
            table.remove_use(0, uses[which])
    assert table.refusals(ANY_NODE, asked, 0) == expected.refusals(ANY_NODE, asked, 0)
    assert table.mask(ANY_NODE, asked).tolist() == expected.mask(ANY_NODE, asked).tolist()


@given(several_nodes, pod_rules, requests)
def test_a_request_that_fits_still_fits_when_less_is_asked(
    facts: list[NodeFacts], rules: PodRules, asked: Amounts
) -> None:
    table = NodeTable(facts)
    less = {name: amount - 1 for name, amount in asked.items()}
    assert not (table.mask(rules, asked) & ~table.mask(rules, less)).any()


@dataclass
class Watched:
    """A table that changes, beside what a fresh one is made from."""

    table: NodeTable
    facts: list[NodeFacts]
    uses: list[list[Amounts]] = field(default_factory=list)

    def set(self, index: int, facts: NodeFacts) -> None:
        self.table.set(index, facts)
        if index == len(self.facts):
            self.facts.append(facts)
            self.uses.append([])
        self.facts[index] = facts

    def use(self, index: int, amounts: Amounts) -> None:
        self.table.add_use(index, amounts)
        self.uses[index].append(amounts)

    def end(self, index: int) -> None:
        if self.uses[index]:
            self.table.remove_use(index, self.uses[index].pop(0))

    def fresh(self) -> NodeTable:
        made = NodeTable(self.facts)
        for index, used in enumerate(self.uses):
            for amounts in used:
                made.add_use(index, amounts)
        return made


steps = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 4), facts_of_nodes | st.just(NO_NODE)),
    st.tuples(st.just("use"), st.integers(0, 4), requests),
    st.tuples(st.just("end"), st.integers(0, 4)),
    st.tuples(st.just("look"), st.integers(0, 2)),
)


def answers(table: NodeTable, rules: PodRules, asked: Amounts) -> tuple[object, ...]:
    refusals = [table.refusals(rules, asked, index) for index in range(len(table))]
    return table.facts, table.mask(rules, asked).tolist(), table.preference(rules).tolist(), refusals


@settings(max_examples=300)
@given(
    st.lists(facts_of_nodes, max_size=2),
    st.lists(steps, max_size=12),
    st.lists(pod_rules, min_size=3, max_size=3),
    st.lists(requests, min_size=3, max_size=3),
)
def test_a_table_after_any_changes_is_a_table_made_anew(
    facts: list[NodeFacts], changes: list[tuple[Any, ...]], rules: list[PodRules], asked: list[Amounts]
) -> None:
    watched = Watched(NodeTable(facts), [*facts], [[] for _ in facts])
    for what, at, *values in changes:
        if what == "look":
            answers(watched.table, rules[at], asked[at])
        elif what == "set":
            watched.set(min(at, len(watched.facts)), *values)
        elif watched.facts:
            getattr(watched, what)(at % len(watched.facts), *values)
    for one, amounts in zip(rules, asked, strict=True):
        assert answers(watched.table, one, amounts) == answers(watched.fresh(), one, amounts)
