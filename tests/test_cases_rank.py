"""What users of GPU sharing really hit: which of the cards and nodes that fit is taken. Ids are the cases' numbers."""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import pytest

from cardwise.scheduler.admission import Rules
from cardwise.sim.simulate import simulate
from cardwise.wire.pods import Defaults
from manifests import (
    Object,
    card_record,
    card_records,
    container_object,
    node_object,
    pod_object,
    reasons,
    running_pod,
    simulated,
    using,
    where,
    workload_object,
    world_of,
)

CARD_POLICY = "hami.io/gpu-scheduler-policy"
NODE_POLICY = "hami.io/node-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"


def busy(name: str, uuid: str, mib: int, cores: int = 0, node: str = "n1") -> Object:
    return running_pod(name, node, using((uuid, mib, cores)), gpu=1, gpumem=mib, gpucores=cores)


def small(name: str = "p", **annotations: str) -> Object:
    """A pod of 1000 MiB on one card; `cards` and `nodes` are its policies."""
    keys = {"cards": CARD_POLICY, "nodes": NODE_POLICY, "weights": WEIGHTS}
    return pod_object(name, {keys[key]: text for key, text in annotations.items()}, gpu=1, gpumem=1000)


def card_of(*objects: Any, rules: Rules | None = None) -> str:
    return where(simulated(*objects, rules=rules))["p"][1][0]


NUMA = [
    node_object("n1", [card_record(f"GPU-{n}", n, numa=n // 2) for n in range(4)]),
    *(busy(f"r{n}", f"GPU-{n}", mib) for n, mib in enumerate((22000, 17000, 7000, 2400))),
]
HALF = [node_object("n1", card_records(2)), busy("r", "GPU-0", 12000)]
HALF_OF_DCU: Object = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 8000}
PART_OF_DCU: Object = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 100, "hygon.com/dcucores": 10}
DCU_HALF = [
    node_object("n1", "DCU-0,4,16384,100,Z100,0,true:DCU-1,4,16384,100,Z100,0,true:", key="hami.io/node-dcu-register"),
    running_pod(
        "r",
        "n1",
        "",
        annotations={"hami.io/dcu-devices-allocated": "DCU-0,DCU,8000,0:;"},
        containers=[container_object(**HALF_OF_DCU)],
    ),
]


def dcu(policy: str) -> Object:
    asking = container_object(**PART_OF_DCU)
    return pod_object("p", {CARD_POLICY: policy}, containers=[asking])


@pytest.mark.parametrize(
    ("objects", "card"),
    [
        pytest.param([*NUMA, small(cards="spread")], "GPU-3", id="case-45-spread"),
        pytest.param([*NUMA, small(cards="binpack")], "GPU-0", id="case-45-binpack"),
        pytest.param([*NUMA, small(cards="numa,spread")], "GPU-1", id="case-45-numa-when-asked"),
        pytest.param([*HALF, small(cards="binpack")], "GPU-0", id="case-46-binpack-nvidia"),
        pytest.param([*HALF, small(cards="spread")], "GPU-1", id="case-46-spread-nvidia"),
        pytest.param([*DCU_HALF, dcu("binpack")], "DCU-0", id="case-46-binpack-hygon"),
        pytest.param([*DCU_HALF, dcu("spread")], "DCU-1", id="case-46-spread-hygon"),
        pytest.param([*HALF, small(cards="binpack")], "GPU-0", id="case-62-the-second-pod-joins"),
    ],
)
def test_takes_this_card(objects: list[Any], card: str) -> None:
    assert card_of(*objects) == card


def test_case_47_a_misspelt_policy_is_warned_about_and_the_default_used() -> None:
    packed = Rules(defaults=Defaults(node_policy="binpack"))
    nodes = [node_object("n1", card_records(1)), node_object("n2", card_records(1, "X"))]
    result = simulated(*nodes, busy("r", "X-0", 100, node="n2"), small(nodes="spraed"), rules=packed)
    assert where(result)["p"][0] == "n2"
    assert any("is spraed, must be one of binpack, spread; the default is used" in text for text in result.warnings)


@pytest.mark.parametrize("typo", ["Spread", "binpak", "topology", ""])
def test_case_51_a_misspelt_card_policy_is_warned_about(typo: str) -> None:
    result = simulated(*HALF, small(cards=typo))
    assert where(result)["p"][1] == ["GPU-1"]
    assert any(CARD_POLICY in text and "the default is used" in text for text in result.warnings)


def test_case_49_binpack_fills_the_busy_node() -> None:
    free = node_object("a", card_records(8, "A"))
    part = node_object("b", card_records(8, "B"))
    running = [busy(f"r{n}", f"B-{n}", 24576, 100, node="b") for n in range(5)]
    assert where(simulated(free, part, *running, pod_object("p", gpu=1)))["p"][0] == "b"


def test_case_50_spread_takes_nodes_of_any_size_in_turn() -> None:
    nodes = [node_object("big", card_records(3, "A")), node_object("small", card_records(1, "B"))]
    placed = where(simulated(*nodes, small("p", nodes="spread"), small("q", nodes="spread")))
    assert {node for node, _cards in placed.values()} == {"big", "small"}


def test_case_51_eight_pods_on_eight_cards() -> None:
    placed = where(simulated(node_object("n1", card_records(8)), *(small(f"p{n}", cards="spread") for n in range(8))))
    assert len({cards[0] for _node, cards in placed.values()}) == 8


def test_case_52_a_wish_on_the_job_itself_has_no_effect_and_this_is_said() -> None:
    job = workload_object("Job", "train", small(), annotations={CARD_POLICY: "binpack"})
    world = world_of(*HALF, job)
    assert where(simulate(world))["train-0"][1] == ["GPU-1"]
    assert any("Job ml/train: annotation hami.io/gpu-scheduler-policy has no effect" in w for w in world.warnings)


def test_case_54_mutex_first_keeps_neighbours_off() -> None:
    result = simulated(node_object("n1", card_records(1)), small("m", cards="mutex"), small("s"))
    assert list(where(result)) == ["m"]
    assert "held alone by another pod" in reasons(result)["s"]


def test_case_54_mutex_later_takes_another_card() -> None:
    result = simulated(node_object("n1", card_records(2)), small("s"), small("m", cards="mutex"))
    assert where(result) == {"s": ("n1", ["GPU-0"]), "m": ("n1", ["GPU-1"])}


def test_case_54_mutex_that_runs_already_is_held() -> None:
    held = {"cardwise.io/exclusive-cards": "GPU-0"}
    running = running_pod("m", "n1", using(("GPU-0", 1000, 0)), annotations=held, gpu=1, gpumem=1000)
    result = simulated(node_object("n1", card_records(1)), running, small("s"))
    assert "held alone" in reasons(result)["s"]


@pytest.mark.parametrize("links", [None, []])
def test_case_55_topology_without_link_data_spreads_over_cards_quickly(links: list[Object] | None) -> None:
    node = node_object("n1", card_records(16, count=7), links=links)
    world = world_of(node, pod_object("p", {CARD_POLICY: "topology-aware"}, gpu=4, gpumem=1))
    begin = time.perf_counter()
    placed = where(simulate(world))
    assert placed["p"][1] == [f"GPU-{n}" for n in range(4)]
    assert time.perf_counter() - begin < 0.5


def test_case_56_weights_decide_between_slots_and_memory() -> None:
    many = [busy(f"r{n}", "GPU-0", 100) for n in range(3)]
    node = node_object("n1", card_records(2))
    objects = [node, *many, busy("big", "GPU-1", 6000)]
    assert card_of(*objects, small(cards="binpack", weights="slot=1,core=1,memory=1")) == "GPU-1"
    assert card_of(*objects, small(cards="binpack")) == "GPU-1"
    assert card_of(*objects, small(cards="binpack", weights="slot=3,core=1,memory=1")) == "GPU-0"
    assert card_of(*objects, small(cards="binpack", weights="slot=1,core=1,memory=3")) == "GPU-1"


@pytest.mark.parametrize("weights", ["slot=1", "slot=-1,core=1,memory=1", "1:1:3", "slot=0,core=0,memory=0", ""])
def test_case_56_weights_that_cannot_be_read_are_refused(weights: str) -> None:
    assert f"annotation {WEIGHTS} is" in reasons(simulated(*HALF, small(weights=weights)))["p"]


PAIRED = [
    {
        "uuid": f"GPU-{n}",
        "score": {f"GPU-{m}": 50 if n // 2 == m // 2 else 10 for m in range(8) if m != n},
    }
    for n in range(8)
]


def test_case_59_single_cards_leave_the_pairs_whole() -> None:
    policy = {CARD_POLICY: "topology-aware"}
    pods = [pod_object(f"s{n}", policy, gpu=1) for n in range(4)] + [
        pod_object(f"d{n}", policy, gpu=2) for n in range(2)
    ]
    placed = where(simulated(node_object("n1", card_records(8), links=PAIRED), *pods))
    pairs = {frozenset((f"GPU-{n}", f"GPU-{n + 1}")) for n in range(0, 8, 2)}
    assert {frozenset(placed[name][1]) for name in ("d0", "d1")} <= pairs


def test_case_59_a_pair_is_taken_out_of_what_is_free() -> None:
    running = [busy(f"r{n}", f"GPU-{n}", 24576, 100) for n in (0, 3, 4)]
    wish = pod_object("p", {CARD_POLICY: "topology-aware"}, gpu=2)
    assert where(simulated(node_object("n1", card_records(8), links=PAIRED), *running, wish))["p"][1] == [
        "GPU-6",
        "GPU-7",
    ]


def test_case_60_a_container_gets_distinct_cards() -> None:
    running = busy("r", "GPU-0", 100)
    placed = where(simulated(node_object("n1", card_records(2)), running, pod_object("p", gpu=2, gpumem=1000)))
    assert sorted(placed["p"][1]) == ["GPU-0", "GPU-1"]


@pytest.mark.parametrize(("policy", "cards"), [("binpack", 1), ("spread", 2)])
def test_case_60_containers_of_a_pod_share_a_card_or_not_by_policy(policy: str, cards: int) -> None:
    two = [container_object(name, gpu=1, gpumem=1000) for name in ("a", "b")]
    placed = where(
        simulated(node_object("n1", card_records(2)), pod_object("p", {CARD_POLICY: policy}, containers=two))
    )
    assert len(set(placed["p"][1])) == cards


def test_case_61_two_pods_spread_over_two_cards() -> None:
    placed = where(
        simulated(node_object("n1", card_records(2)), small("p", cards="spread"), small("q", cards="spread"))
    )
    assert all(a[1] != b[1] for a, b in combinations(placed.values(), 2))


def test_case_62_binpack_joins_the_card_in_use() -> None:
    placed = where(simulated(node_object("n1", card_records(4)), *(small(f"p{n}", cards="binpack") for n in range(3))))
    assert {cards[0] for _node, cards in placed.values()} == {"GPU-0"}
