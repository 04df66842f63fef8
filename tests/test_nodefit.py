"""What kube-scheduler checks itself: which nodes fit, why the others do not, and what a pod counts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.model import Refusal
from cardwise.core.nodefit import AFFINITY_STEP, NO_NODE, NodeFacts, NodeTable, peak_requests
from cardwise.core.nodeselect import Expression, PodRules, Taint, Term, Toleration

GI, MI = 1 << 30, 1 << 20
MOST = (1 << 63) - 1
ANY_NODE = PodRules()


def node(name: str = "n1", allocatable: Mapping[str, int] | None = None, **labels: str) -> NodeFacts:
    return NodeFacts(name=name, labels=labels, allocatable=allocatable)


def tainted(key: str, effect: str = "NoSchedule", value: str = "", unschedulable: bool = False) -> NodeFacts:
    taints = (Taint(key=key, value=value, effect=effect),)
    return NodeFacts(name="n1", taints=taints, unschedulable=unschedulable)


def zone_in(*values: str) -> Term:
    return Term(expressions=(Expression(key="zone", operator="In", values=values),))


def tolerating(key: str, effect: str = "") -> PodRules:
    return PodRules(tolerations=(Toleration(key=key, operator="Exists", effect=effect),))


def why_not(
    facts: NodeFacts, asked: Mapping[str, int], rules: PodRules = ANY_NODE, used: Mapping[str, int] | None = None
) -> list[str]:
    """The refusals' texts, after a check that the mask agrees."""
    table = NodeTable([facts])
    table.add_use(0, used or {})
    refusals = table.refusals(rules, asked, 0)
    assert table.mask(rules, asked).tolist() == [not refusals]
    return [refusal.text for refusal in refusals]


CORDON = "node.kubernetes.io/unschedulable"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"

STATIC: dict[str, tuple[NodeFacts, PodRules, list[str]]] = {
    "plain node, plain pod": (node(), ANY_NODE, []),
    "not ready": (NodeFacts(name="n1", ready=False), ANY_NODE, ["node is not Ready"]),
    "not ready, tolerating everything": (NodeFacts(name="n1", ready=False), tolerating(""), ["node is not Ready"]),
    "unschedulable": (NodeFacts(name="n1", unschedulable=True), ANY_NODE, ["node(s) were unschedulable"]),
    "unschedulable, tolerated": (NodeFacts(name="n1", unschedulable=True), tolerating(CORDON), []),
    "unschedulable, tolerated for another effect": (
        NodeFacts(name="n1", unschedulable=True),
        tolerating(CORDON, "NoExecute"),
        ["node(s) were unschedulable"],
    ),
    "unschedulable with its own taint is one reason": (
        tainted(CORDON, unschedulable=True),
        ANY_NODE,
        ["node(s) were unschedulable"],
    ),
    "the taint alone is a taint": (tainted(CORDON), ANY_NODE, [f"node(s) had untolerated taint {{{CORDON}: }}"]),
    "NoSchedule": (tainted("gpu", value="a"), ANY_NODE, ["node(s) had untolerated taint {gpu: a}"]),
    "NoExecute": (tainted("gpu", "NoExecute"), ANY_NODE, ["node(s) had untolerated taint {gpu: }"]),
    "PreferNoSchedule does not keep off": (tainted("gpu", "PreferNoSchedule"), ANY_NODE, []),
    "taint tolerated": (tainted("gpu"), tolerating("gpu"), []),
    "selector": (node(zone="a"), PodRules(node_selector=(("zone", "b"),)), [MISMATCH]),
    "required affinity": (node(zone="a"), PodRules(required=(zone_in("b"),)), [MISMATCH]),
    "required affinity holds": (node(zone="a"), PodRules(required=(zone_in("b"), zone_in("a"))), []),
    "required affinity without terms": (node(zone="a"), PodRules(required=()), [MISMATCH]),
    "preferred affinity does not keep off": (node(zone="a"), PodRules(preferred=((1, zone_in("b")),)), []),
}


@pytest.mark.parametrize(("facts", "rules", "texts"), STATIC.values(), ids=STATIC)
def test_static_checks(facts: NodeFacts, rules: PodRules, texts: list[str]) -> None:
    assert why_not(facts, {"cpu": 1, "pods": 1}, rules) == texts


def test_all_reasons_are_given_in_the_order_of_the_checks() -> None:
    taints = (Taint(key="a", effect="NoSchedule"), Taint(key="b", value="c", effect="NoExecute"))
    facts = NodeFacts(name="n1", ready=False, unschedulable=True, taints=taints, allocatable={"cpu": 1000, "pods": 0})
    rules = PodRules(node_selector=(("zone", "a"),))
    refusals = NodeTable([facts]).refusals(rules, {"x.io/card": 1, "cpu": 2000, "pods": 1}, 0)
    assert [refusal.code for refusal in refusals] == [
        "NodeNotReady",
        "NodeUnschedulable",
        "NodeTaintUntolerated",
        "NodeTaintUntolerated",
        "NodeAffinityMismatch",
        "NodeTooManyPods",
        "NodeInsufficientResource",
        "NodeInsufficientResource",
    ]
    assert all(refusal.lasting for refusal in refusals)


KNOWN = {"cpu": 8000, "memory": 16 * GI, "pods": 110, "ephemeral-storage": 10 * GI, "x.io/card": 2}

AMOUNTS: dict[str, tuple[Mapping[str, int] | None, dict[str, int], dict[str, int], list[str]]] = {
    "fits exactly": (KNOWN, {"cpu": 6500}, {"cpu": 1500}, []),
    "cpu": (KNOWN, {"cpu": 6500}, {"cpu": 4000}, ["Insufficient cpu: needs 4000m, 1500m of 8000m free"]),
    "memory in Gi and Mi": (
        KNOWN,
        {"memory": 16 * GI - 512 * MI},
        {"memory": GI},
        ["Insufficient memory: needs 1Gi, 512Mi of 16Gi free"],
    ),
    "memory in bytes": (
        KNOWN,
        {},
        {"memory": 16 * GI + 1},
        ["Insufficient memory: needs 17179869185, 16Gi of 16Gi free"],
    ),
    "memory in Ki": (
        {"memory": 2048},
        {"memory": 2048},
        {"memory": 1024},
        ["Insufficient memory: needs 1Ki, 0 of 2Ki free"],
    ),
    "ephemeral-storage": (
        KNOWN,
        {},
        {"ephemeral-storage": 20 * GI},
        ["Insufficient ephemeral-storage: needs 20Gi, 10Gi of 10Gi free"],
    ),
    "pods": (KNOWN, {"pods": 110}, {"pods": 1}, ["Too many pods: needs 1, 0 of 110 free"]),
    "extended resource": (KNOWN, {"x.io/card": 1}, {"x.io/card": 2}, ["Insufficient x.io/card: needs 2, 1 of 2 free"]),
    "extended resource that the node lacks": (
        KNOWN,
        {},
        {"y.io/card": 1},
        ["Insufficient y.io/card: needs 1, 0 of 0 free"],
    ),
    "hugepages that the node lacks": (
        KNOWN,
        {},
        {"hugepages-2Mi": 4 * MI},
        ["Insufficient hugepages-2Mi: needs 4Mi, 0 of 0 free"],
    ),
    "a missing basic resource is unlimited": ({}, {"cpu": MOST}, {"cpu": MOST, "memory": MOST, "pods": 1}, []),
    "nothing known, nothing checked": (None, {"cpu": 9}, {"cpu": 10**30, "y.io/card": 1, "pods": 1}, []),
    "nothing asked of a full node": (KNOWN, {"cpu": 9000, "x.io/card": 3}, {"cpu": 0, "x.io/card": 0}, []),
    "nothing asked of a resource that the node lacks": (KNOWN, {}, {"y.io/card": 0}, []),
    "more in use than there is": (
        KNOWN,
        {"cpu": 9000},
        {"cpu": 500},
        ["Insufficient cpu: needs 500m, 0m of 8000m free (9000m in use)"],
    ),
    "beyond 64 bits": (
        KNOWN,
        {"cpu": 10**30},
        {"x.io/card": 10**30},
        [f"Insufficient x.io/card: needs {MOST}, 2 of 2 free"],
    ),
    "negative numbers count as 0": ({"cpu": -5}, {"cpu": -5}, {"cpu": -5, "pods": 1}, []),
}


@pytest.mark.parametrize(("allocatable", "used", "asked", "texts"), AMOUNTS.values(), ids=AMOUNTS)
def test_amounts(
    allocatable: Mapping[str, int] | None, used: Mapping[str, int], asked: dict[str, int], texts: list[str]
) -> None:
    assert why_not(node(allocatable=allocatable), asked, used=used) == texts


@pytest.mark.parametrize(
    ("asked", "lasting"),
    [
        pytest.param({"cpu": 8000}, False, id="as large as the node"),
        pytest.param({"cpu": 8001}, True, id="larger than the node"),
        pytest.param({"y.io/card": 1}, True, id="a resource that the node lacks"),
    ],
)
def test_a_shortage_lasts_where_the_node_is_too_small(asked: dict[str, int], lasting: bool) -> None:
    table = NodeTable([node(allocatable=KNOWN)])
    table.add_use(0, {"cpu": 1})
    assert [refusal.lasting for refusal in table.refusals(ANY_NODE, asked, 0)] == [lasting]


def test_a_full_node_is_not_lasting() -> None:
    table = NodeTable([node(allocatable={"pods": 1})])
    table.add_use(0, {"pods": 1})
    text = "Too many pods: needs 1, 0 of 1 free"
    assert table.refusals(ANY_NODE, {"pods": 1}, 0) == (Refusal(code="NodeTooManyPods", text=text),)


def test_masks_follow_the_order_of_the_nodes() -> None:
    table = NodeTable([node("n1", zone="a"), node("n2", {"cpu": 10}, zone="b"), node("n3", {"cpu": 20}, zone="b")])
    rules = PodRules(required=(zone_in("b"),))
    assert table.mask(rules, {"cpu": 15}).tolist() == [False, False, True]
    assert [facts.name for facts in table.facts] == ["n1", "n2", "n3"]
    assert len(table) == 3


def test_use_counts_on_its_own_node_only() -> None:
    table = NodeTable([node("n1", {"cpu": 10}), node("n2", {"cpu": 10})])
    table.add_use(1, {"cpu": 6, "pods": 1})
    assert table.mask(ANY_NODE, {"cpu": 5}).tolist() == [True, False]


def test_a_mask_belongs_to_its_caller() -> None:
    table = NodeTable([node()])
    table.mask(ANY_NODE, {})[:] = False
    assert table.mask(ANY_NODE, {}).tolist() == [True]


def test_removing_more_than_is_in_use_is_an_error_and_changes_nothing() -> None:
    table = NodeTable([node(allocatable={"cpu": 10})])
    table.add_use(0, {"pods": 1, "cpu": 6})
    with pytest.raises(ValueError, match=r"^node n1: cpu in use is 6m, must be at least 7m$"):
        table.remove_use(0, {"pods": 1, "cpu": 7})
    assert table.mask(ANY_NODE, {"cpu": 5}).tolist() == [False]
    table.remove_use(0, {"pods": 1, "cpu": 6})
    assert table.mask(ANY_NODE, {"cpu": 10}).tolist() == [True]


def test_a_table_without_nodes_answers() -> None:
    table = NodeTable([])
    assert table.mask(ANY_NODE, {"cpu": 1}).tolist() == []
    assert table.preference(ANY_NODE).tolist() == []


def test_many_distinct_rules_stay_right() -> None:
    """One rule per node, as a DaemonSet's pods have, is more than the table remembers."""
    table = NodeTable([node(f"n{index}") for index in range(3)])
    for index in range(1100):
        name = Expression(key="metadata.name", operator="In", values=(f"n{index % 550}",))
        rules = PodRules(required=(Term(fields=(name,)),))
        assert table.mask(rules, {}).tolist() == [index % 550 == own for own in range(3)]


def test_a_node_that_changes_is_looked_at_again_and_what_is_in_use_stays() -> None:
    table = NodeTable([node("n1", {"cpu": 10}, zone="a"), node("n2", {"cpu": 10}, zone="b")])
    rules = PodRules(node_selector=(("zone", "a"),))
    table.add_use(1, {"cpu": 4})
    assert table.mask(rules, {"cpu": 5}).tolist() == [True, False]
    table.set(1, node("n2", {"cpu": 9}, zone="a"))
    table.set(2, node("n3", {"cpu": 5}, zone="a"))
    assert table.mask(rules, {"cpu": 5}).tolist() == [True, True, True]
    assert table.mask(rules, {"cpu": 6}).tolist() == [True, False, False]


@pytest.mark.parametrize("rules", [ANY_NODE, tolerating("")], ids=["plain", "tolerating everything"])
def test_a_place_without_a_node_fits_nothing(rules: PodRules) -> None:
    table = NodeTable([node("n1"), node("n2")])
    table.set(0, NO_NODE)
    assert table.mask(rules, {}).tolist() == [False, True]


def test_what_was_given_out_before_a_change_stays_as_it_was() -> None:
    table = NodeTable([NodeFacts(name="n1", taints=(SOFT,)), node("n2")])
    before = table.preference(ANY_NODE)
    table.set(0, node("n1"))
    assert (before.tolist(), table.preference(ANY_NODE).tolist()) == ([-1, 0], [0, 0])


def test_more_changes_than_are_remembered_stay_right() -> None:
    table = NodeTable([node("n1", zone="a"), node("n2", zone="a")])
    rules = PodRules(node_selector=(("zone", "a"),))
    table.mask(rules, {})
    for change in range(5001):
        table.set(1, node("n2", zone="ab"[change % 2]))
    table.set(0, node("n1", zone="b"))
    assert table.mask(rules, {}).tolist() == [False, True]


@pytest.mark.parametrize("index", [-1, 2])
def test_there_are_no_gaps_in_a_table(index: int) -> None:
    with pytest.raises(IndexError, match=rf"^index is {index}, must be 0 to 1$"):
        NodeTable([node()]).set(index, node())


SOFT = Taint(key="busy", effect="PreferNoSchedule")


def test_preference_is_affinity_first_then_fewer_soft_taints() -> None:
    facts = [
        NodeFacts(name="a1", labels={"zone": "a"}),
        NodeFacts(name="a2", labels={"zone": "a"}, taints=(SOFT, Taint(key="old", effect="PreferNoSchedule"))),
        NodeFacts(name="b1", labels={"zone": "b"}),
        NodeFacts(name="c1", taints=(SOFT, Taint(key="gpu", effect="NoSchedule"))),
    ]
    rules = PodRules(preferred=((10, zone_in("a")), (5, zone_in("a", "b")), (90, Term())))
    expected = [15 * AFFINITY_STEP, 15 * AFFINITY_STEP - 2, 5 * AFFINITY_STEP, -1]
    assert NodeTable(facts).preference(rules).tolist() == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(ANY_NODE, -1, id="not tolerated"),
        pytest.param(tolerating("busy"), 0, id="tolerated for every effect"),
        pytest.param(tolerating("busy", "PreferNoSchedule"), 0, id="tolerated for its effect"),
        pytest.param(tolerating("busy", "NoSchedule"), -1, id="tolerated for another effect"),
    ],
)
def test_tolerated_soft_taints_do_not_count(rules: PodRules, expected: int) -> None:
    assert NodeTable([NodeFacts(name="n1", taints=(SOFT,))]).preference(rules).tolist() == [expected]


def test_preference_is_zero_without_soft_rules_and_cannot_be_changed() -> None:
    table = NodeTable([node(), tainted("gpu")])
    preference = table.preference(ANY_NODE)
    assert preference.dtype == np.int64
    assert preference.tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        preference[0] = 1


Amounts = dict[str, int]
Init = list[tuple[bool, Amounts]]


def simulated_peak(init: Init, apps: Sequence[Amounts], overhead: Amounts) -> Amounts:
    """What runs at each moment of a pod's life, and the most of it, resource by resource."""
    moments: list[list[Amounts]] = []
    beside: list[Amounts] = []
    for always, requests in init:
        moments.append([*beside, requests])
        if always:
            beside.append(requests)
    moments.append([*beside, *apps])
    names = {name for moment in moments for requests in moment for name in requests} | set(overhead)
    most = {name: max(sum(each.get(name, 0) for each in moment) for moment in moments) for name in names}
    return {name: amount + overhead.get(name, 0) for name, amount in most.items()} | {"pods": 1}


RESOURCES = ("cpu", "memory", "x.io/card", "hugepages-2Mi")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9))
inits: st.SearchStrategy[Init] = st.lists(st.tuples(st.booleans(), amounts), max_size=5)


@given(inits, st.lists(amounts, max_size=4), amounts)
def test_peak_is_the_most_that_runs_at_once(init: Init, apps: list[Amounts], overhead: Amounts) -> None:
    assert peak_requests(init, apps, overhead) == simulated_peak(init, apps, overhead)


PEAKS: dict[str, tuple[Init, list[Amounts], Amounts, Amounts]] = {
    "app containers add up": ([], [{"cpu": 1}, {"cpu": 2, "memory": 5}], {}, {"cpu": 3, "memory": 5}),
    "the largest init container": ([(False, {"cpu": 7}), (False, {"cpu": 5})], [{"cpu": 3}], {}, {"cpu": 7}),
    "a sidecar stays beside the apps": ([(True, {"cpu": 2})], [{"cpu": 3}], {}, {"cpu": 5}),
    "a sidecar stays beside later init containers": ([(True, {"cpu": 2}), (False, {"cpu": 4})], [], {}, {"cpu": 6}),
    "a sidecar is not beside earlier ones": ([(False, {"cpu": 4}), (True, {"cpu": 2})], [], {}, {"cpu": 4}),
    "overhead comes on top": ([(False, {"cpu": 4})], [{"cpu": 1}], {"cpu": 1, "memory": 2}, {"cpu": 5, "memory": 2}),
    "an empty pod is a pod": ([], [], {}, {}),
}


@pytest.mark.parametrize(("init", "apps", "overhead", "peak"), PEAKS.values(), ids=PEAKS)
def test_peak_requests(init: Init, apps: list[Amounts], overhead: Amounts, peak: Amounts) -> None:
    assert peak_requests(init, apps, overhead) == peak | {"pods": 1}


def test_pod_level_requests_replace_the_sum_before_overhead() -> None:
    pod_level = {"cpu": 5, "hugepages-2Mi": 4, "x.io/card": 9}
    peak = peak_requests([], [{"cpu": 1, "memory": 3, "x.io/card": 2}], {"cpu": 1}, pod_level)
    assert peak == {"cpu": 6, "memory": 3, "x.io/card": 2, "hugepages-2Mi": 4, "pods": 1}
