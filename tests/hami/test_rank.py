"""In which order cards and nodes are tried, and by which scores: HAMi's tests of its two policy files.

HAMi sorts a list and scans it from its end. The orders here are those of the scan: the card that is tried first stands
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from cardwise.core.cards import score
from cardwise.core.model import CardRequest, Selection, Weights
from cardwise.core.place import best_first
from cardwise.core.policy import card_order, card_scores
from cardwise.wire.errors import WireError
from cardwise.wire.policies import card_policy, scoring_weights
from hami.fixture import (
    ANY,
    SCORED_AS_IS,
    TIES,
    Golden,
    InUse,
    Outcome,
    cluster_of,
    each,
    each_model,
    gpu,
    outcome,
    pod_of,
    select,
    want,
)

Order = tuple[str, ...]
OLD = "HAMi 2.4 sorts by NUMA id first, then by score; HAMi 2.10 by score first, as here"
LOW_NUMA = "the key numa takes the lowest NUMA id first; HAMi scans from the end, so the highest"
BEST_CARD = "between NUMA nodes the best card decides; in HAMi the NUMA id does"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted(Golden[Order]):
    """Cards in the order of their index, and the order in which a policy tries them."""

    policy: str
    cards: Sequence[InUse]


def sorted_by(policy: str, cards: str, hami: str, ours: str = "", differs: str = "") -> Sorted:
    """Cards as `uuid:numa:slots` with blanks between, orders as letters."""
    parts = [text.split(":") for text in cards.split()]
    return Sorted(
        name=f"{policy} of {cards}",
        policy=policy,
        cards=[
            gpu(uuid, (int(used), 0, 0), slots=100, numa=int(numa), index=i)
            for i, (uuid, numa, used) in enumerate(parts)
        ],
        hami=tuple(hami),
        ours=tuple(ours) if ours else None,
        differs=differs,
    )


ORDERS_2_4 = [
    replace(golden, name=f"2.4: {golden.name}")
    for golden in (
        sorted_by("binpack", "a:0:10 b:0:20", "ba"),
        sorted_by("binpack", "a:1:10 b:0:20", "ba"),
        sorted_by("binpack", "a:0:10 b:1:20", "ab", "ba", OLD),
        sorted_by("spread", "a:0:10 b:0:20", "ab"),
        sorted_by("spread", "a:1:10 b:0:20", "ab"),
        sorted_by("spread", "a:0:10 b:1:20", "ba", "ab", OLD),
    )
]
# What the sort rules of 2.10 give, on the same cards and a few more.
FOUR = "a:0:10 b:0:20 c:1:10 d:1:20"
ORDERS = [
    sorted_by("binpack", "a:0:10 b:0:20", "ba"),
    sorted_by("binpack", "a:1:10 b:0:20", "ba"),
    sorted_by("binpack", "a:0:10 b:1:20", "ba"),
    sorted_by("binpack", "a:0:10 b:1:10", "ba", "ab", TIES),
    sorted_by("spread", "a:0:10 b:0:20", "ab"),
    sorted_by("spread", "a:1:10 b:0:20", "ab"),
    sorted_by("spread", "a:0:10 b:1:20", "ab"),
    sorted_by("spread", "a:0:10 b:1:10", "ba", "ab", TIES),
    sorted_by("topology-aware", "a:0:20 b:1:10", "ba"),
    sorted_by("mutex", "a:0:20 b:0:0 c:0:10", "bca"),
    sorted_by("mutex", "a:0:10 b:0:0 c:1:0", "cba", "bca", TIES),
    sorted_by("numa", "a:0:10 b:1:10", "ba", "ab", LOW_NUMA),
    sorted_by("numa,binpack", FOUR, "dcba", "badc", LOW_NUMA),
    sorted_by("numa,spread", FOUR, "cdab", "abcd", LOW_NUMA),
    sorted_by("binpack,numa", FOUR, "dbca", "bdac", LOW_NUMA),
    sorted_by("spread,numa", FOUR, "cadb", "acbd", LOW_NUMA),
    sorted_by("mutex,binpack", "a:0:10 b:0:20", "ba"),
    sorted_by("binpack,binpack", "a:0:10 b:0:20", "ba"),
    sorted_by("binpack,spread", "a:0:10 b:0:20", "ba"),
]


@each_model
@each(ORDERS_2_4 + ORDERS)
def test_cards_are_tried_in_the_order_in_which_hami_scans_them(golden: Sorted, model: str) -> None:
    cluster = cluster_of({"node-1": golden.cards}, model)
    order = card_order(cluster.cards.view(), card_policy(golden.policy).keys, Weights())
    assert tuple(golden.cards[k][0].uuid for k in order) == golden.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Golden[float]):
    """A card, what a request would add to what is in use of it (as HAMi counts it), and the score with both."""

    used: tuple[int, int, int]
    adds: tuple[int, int, int] = (0, 0, 0)
    totals: tuple[int, int, int]
    weights: str = "slot=1,core=1,memory=1"

    def card(self, *, placed: bool) -> InUse:
        used = tuple(a + b for a, b in zip(self.used, self.adds, strict=True)) if placed else self.used
        slots, memory_mib, cores = self.totals
        return gpu("test-device", (used[0], used[1], used[2]), slots=slots, memory_mib=memory_mib, cores=cores)


# Slots, MiB, percent of compute.
card_2_4 = partial(Scored, used=(2, 2048, 1), totals=(10, 8192, 4))
busy_a = partial(Scored, used=(1, 10, 90), adds=(1, 40, 0), totals=(10, 100, 100), differs=SCORED_AS_IS)
busy_b = partial(Scored, used=(7, 20, 10), adds=(1, 40, 0), totals=(10, 100, 100), differs=SCORED_AS_IS)
a100 = partial(Scored, used=(0, 0, 0), totals=(10, 40960, 100), ours=0.0, differs=SCORED_AS_IS)
HEAVY_MEMORY, HEAVY_CORE = "slot=1,core=1,memory=3", "slot=1,core=3,memory=1"
SCORES = [
    card_2_4(name="no request", hami=7.0),
    card_2_4(name="2.4: two requests", adds=(3, 1024, 3), hami=18.75, ours=7.0, differs=SCORED_AS_IS),
    card_2_4(name="2.4: percent and MiB", adds=(3, 200, 4), hami=20.24414, ours=7.0, differs=SCORED_AS_IS),
    card_2_4(name="2.4: percentages count as 0", adds=(3, 0, 4), hami=20.0, ours=7.0, differs=SCORED_AS_IS),
    card_2_4(name="request of the card's type", adds=(1, 1024, 1), hami=11.75, ours=7.0, differs=SCORED_AS_IS),
    Scored(
        name="half of an empty card",
        used=(0, 0, 0),
        adds=(1, 5000, 2),
        totals=(10, 10000, 10),
        hami=8.0,
        ours=0.0,
        differs=SCORED_AS_IS,
    ),
    Scored(name="nothing to share", used=(0, 0, 0), totals=(0, 0, 0), hami=0.0),
    busy_a(name="a", hami=16.0, ours=11.0),
    busy_b(name="b", hami=15.0, ours=10.0),
    busy_a(name="a, memory counts thrice", weights=HEAVY_MEMORY, hami=26.0, ours=13.0),
    busy_b(name="b, memory counts thrice", weights=HEAVY_MEMORY, hami=27.0, ours=14.0),
    busy_a(name="a, compute counts thrice", weights=HEAVY_CORE, hami=34.0, ours=29.0),
    busy_b(name="b, compute counts thrice", weights=HEAVY_CORE, hami=17.0, ours=12.0),
    a100(name="after 2.10: request of the vendor", adds=(1, 20480, 30), hami=9.0),
    a100(name="after 2.10: two containers", adds=(2, 12288, 30), hami=8.0),
]


@each_model
@pytest.mark.parametrize("placed", [False, True], ids=["before", "after"])
@each(SCORES)
def test_a_card_scores_as_in_hami_once_the_request_is_placed(golden: Scored, model: str, *, placed: bool) -> None:
    cluster = cluster_of({"node-1": [golden.card(placed=placed)]}, model)
    scores = card_scores(cluster.cards.view(), scoring_weights(golden.weights))
    assert scores[0, 0] == pytest.approx(golden.hami if placed else golden.expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScored(Golden[float]):
    """A node's cards and its score."""

    cards: list[InUse]


uuid1 = partial(gpu, "uuid1", memory_mib=8000)
uuid2 = partial(gpu, "uuid2", memory_mib=8000)
HALF = (5, 4000, 50)
NODE_SCORES = [
    NodeScored(name="no capacity", cards=[gpu("device1", slots=0, memory_mib=0, cores=0)], hami=0.0),
    NodeScored(name="no cards", cards=[], hami=0.0),
    NodeScored(
        name="two kinds of cards",
        cards=[
            gpu("device1", (50, 100, 100), slots=100, memory_mib=100),
            gpu("device2", (75, 200, 200), slots=150, memory_mib=200, cores=200, numa=1, index=1, healthy=False),
        ],
        hami=25.0,
    ),
    NodeScored(name="idle card", cards=[uuid1()], hami=0.0),
    NodeScored(name="half of a card in use", cards=[uuid1(HALF)], hami=15.0),
    NodeScored(name="half of one of two", cards=[uuid1(), uuid2(HALF)], hami=7.5),
    NodeScored(name="half of each of two", cards=[uuid1(HALF), uuid2(HALF)], hami=15.0),
]


@each_model
@each(NODE_SCORES)
def test_a_node_scores_as_in_hami(golden: NodeScored, model: str) -> None:
    cluster = cluster_of({"node-1": golden.cards}, model)
    assert cluster.cards.score[cluster.cards.index_of["node-1"]] == pytest.approx(golden.expected)


def test_a_score_is_ten_times_the_sum_of_the_shares() -> None:
    assert score(125, 250, 300, 300, 300, 300) == pytest.approx(25.0)


NODE_ORDERS = [
    Golden(name="spread 20 10", hami=("node2", "node1")),
    Golden(name="spread 10 20", hami=("node1", "node2")),
    Golden(name="binpack 10 20", hami=("node2", "node1")),
    Golden(name="binpack 20 10", hami=("node1", "node2")),
]


@each_model
@each(NODE_ORDERS)
def test_nodes_are_tried_in_hamis_order(golden: Golden[tuple[str, str]], model: str) -> None:
    policy, *scores = golden.name.split()
    nodes = {f"node{i}": [gpu("card", (int(used), 0, 0), slots=100)] for i, used in enumerate(scores, start=1)}
    cards = cluster_of(nodes, model).cards
    order = best_first(cards, np.ones(cards.width, np.bool_), policy)
    assert tuple(cards.node(n).name for n in order) == golden.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Golden[Outcome]):
    """One node's cards, a request, and the cards that it gets."""

    policy: str
    cards: list[InUse]
    ask: CardRequest
    weights: str = ""
    selection: Selection = ANY


PAIR = [
    gpu("gpu-a", (1, 10, 90), memory_mib=100),
    gpu("gpu-b", (7, 20, 10), memory_mib=100, index=1),
]
THREE = [gpu("gpu-idle"), gpu("gpu-mid", (2, 4096, 50), index=1), gpu("gpu-busy", (3, 6144, 75), index=2)]
MIXED = [
    gpu("gpu-40g", memory_mib=40960, model="NVIDIA A100-SXM4-40GB"),
    gpu("gpu-80g", (1, 4096, 5), memory_mib=81920, index=1, model="NVIDIA A100-SXM4-80GB"),
]
ON_NUMA = [gpu("a-n0", (10, 0, 0), slots=100), gpu("b-n0", (15, 0, 0), slots=100, index=1)]
ON_NUMA += [gpu("c-n1", (20, 0, 0), slots=100, numa=1, index=2)]
BOUND = select(numa=True)
CHOSEN = [
    Chosen(name="weights: none", policy="binpack", cards=PAIR, ask=want(1, percent=40), hami=("gpu-a",)),
    Chosen(
        name="weights: memory",
        policy="binpack",
        weights=HEAVY_MEMORY,
        cards=PAIR,
        ask=want(1, percent=40),
        hami=("gpu-b",),
    ),
    Chosen(name="binpack", policy="binpack", cards=THREE, ask=want(1, 1024, 10), hami=("gpu-busy",)),
    Chosen(name="spread", policy="spread", cards=THREE, ask=want(1, 1024, 10), hami=("gpu-idle",)),
    Chosen(
        name="after 2.10: cards of two sizes",
        policy="binpack",
        cards=MIXED,
        ask=want(1, 20480, 30),
        hami=("gpu-40g",),
        ours=("gpu-80g",),
        differs=SCORED_AS_IS,
    ),
    Chosen(
        name="numa-bind and binpack",
        policy="binpack",
        selection=BOUND,
        cards=ON_NUMA,
        ask=want(1, 100),
        hami=("b-n0",),
        ours=("c-n1",),
        differs=BEST_CARD,
    ),
    Chosen(
        name="numa-bind and spread",
        policy="spread",
        selection=BOUND,
        cards=ON_NUMA,
        ask=want(1, 100),
        hami=("c-n1",),
        ours=("a-n0",),
        differs=BEST_CARD,
    ),
]


@each_model
@each(CHOSEN)
def test_the_policy_chooses_hamis_card(golden: Chosen, model: str) -> None:
    cluster = cluster_of({"node-1": golden.cards}, model)
    pod = pod_of(golden.ask, cards=golden.policy, weights=golden.weights, selection=golden.selection)
    assert outcome(cluster, pod) == golden.expected


WEIGHTS = [
    Golden(name="slot=1,core=2,memory=3", hami=(1, 2, 3)),
    Golden(name=" memory = 3, slot = 1, core = 0 ", hami=(1, 0, 3)),
]
NO_WEIGHTS = {
    "empty": "",
    "one missing": "slot=1,memory=3",
    "no value": "slot=1,core,memory=3",
    "no number": "slot=1,core=high,memory=3",
    "negative": "slot=1,core=-1,memory=3",
    "unknown": "slot=1,bandwidth=2,memory=3",
    "twice": "slot=1,slot=2,memory=3",
    "all zero": "slot=0,core=0,memory=0",
}


@each(WEIGHTS)
def test_weights_are_read_as_hami_reads_them(golden: Golden[tuple[int, int, int]]) -> None:
    weights = scoring_weights(golden.name)
    assert (weights.slots, weights.cores, weights.memory) == golden.expected


@pytest.mark.parametrize("text", NO_WEIGHTS.values(), ids=NO_WEIGHTS.keys())
def test_weights_that_hami_refuses_are_refused(text: str) -> None:
    with pytest.raises(WireError, match="must be slot=N,core=N,memory=N"):
        scoring_weights(text)
