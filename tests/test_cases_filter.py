"""What users of GPU sharing really hit: which cards can take a pod. The ids are the numbers of the cases."""

from __future__ import annotations

from typing import Any

import pytest

from cardwise.sim.simulate import simulate
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
    world_of,
)


def outcome(*objects: Any) -> tuple[dict[str, tuple[str, list[str]]], dict[str, str]]:
    result = simulated(*objects)
    return where(result), reasons(result)


def used_up(name: str, uuid: str, mib: int, cores: int = 0, node: str = "n1") -> Object:
    """A running pod that holds so much of one card."""
    return running_pod(name, node, using((uuid, mib, cores)), gpu=1, gpumem=max(mib, 1), gpucores=cores)


ONE = node_object("n1", card_records(1))
TWO = node_object("n1", card_records(2))

PLACED = [
    pytest.param([ONE, pod_object("p", gpu=1)], ["GPU-0"], id="case-19-whole-card-by-default"),
    pytest.param(
        [TWO, pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-1"}, gpu=1)], ["GPU-1"], id="case-29-the-uuid-asked"
    ),
    pytest.param(
        [
            node_object("n1", card_records(3)),
            pod_object("p", {"nvidia.com/use-gpuuuid": " GPU-2 , GPU-0,GPU-2 "}, gpu=2, gpumem=1),
        ],
        ["GPU-0", "GPU-2"],
        id="case-30-two-of-two-with-blanks-and-duplicates",
    ),
    pytest.param(
        [
            node_object("n1", card_records(4)),
            pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-1,GPU-2,GPU-3"}, gpu=1, gpumem=1),
        ],
        ["GPU-1"],
        id="case-30-one-of-three",
    ),
    pytest.param(
        [
            TWO,
            pod_object(
                "p", {"nvidia.com/use-gpuuuid": "GPU-0,GPU-1", "nvidia.com/nouse-gpuuuid": " GPU-1"}, gpu=1, gpumem=1
            ),
        ],
        ["GPU-0"],
        id="case-31-both-lists-apply",
    ),
    pytest.param(
        [node_object("n1", [card_record("GPU-0", health=False), card_record("GPU-1", 1)]), pod_object("p", gpu=1)],
        ["GPU-1"],
        id="case-32-the-healthy-one",
    ),
    pytest.param(
        [ONE, pod_object("p", containers=[container_object(n, gpu=1, gpumem=12000) for n in ("a", "b")])],
        ["GPU-0", "GPU-0"],
        id="case-37-two-containers-that-fit-together",
    ),
    pytest.param([ONE, used_up("r", "GPU-0", 1, 90), pod_object("p", gpu=1, gpumem=1)], ["GPU-0"], id="case-24-at-90"),
    pytest.param(
        [
            node_object("n1", [card_record("GPU-0", mode="mig"), card_record("GPU-1", 1)]),
            pod_object("p", {"nvidia.com/vgpu-mode": "hami-core"}, gpu=1, gpumem=1),
        ],
        ["GPU-1"],
        id="case-39-shared-mode",
    ),
    pytest.param(
        [
            node_object("n1", [card_record("GPU-0", mode="mig"), card_record("GPU-1", 1)]),
            pod_object("p", gpu=1, gpumem=1),
        ],
        ["GPU-1"],
        id="case-39-mode-unset",
    ),
    pytest.param(
        [
            node_object("n1", card_records(8), annotations={"hami.io/device-cordon": "GPU-0,GPU-1, GPU-3"}),
            pod_object("p", gpu=5, gpumem=1),
        ],
        ["GPU-2", "GPU-4", "GPU-5", "GPU-6", "GPU-7"],
        id="case-41-cordoned-cards-left-out",
    ),
    pytest.param([ONE, pod_object("p", gpu=1, gpumem="16Gi")], ["GPU-0"], id="case-26-gibibytes"),
]


@pytest.mark.parametrize(("objects", "cards"), PLACED)
def test_gets_exactly_these_cards(objects: list[Any], cards: list[str]) -> None:
    placed, pending = outcome(*objects)
    assert pending == {}
    assert placed["p"] == ("n1", cards)


PENDING = [
    pytest.param([ONE, used_up("r", "GPU-0", 1), pod_object("p", gpu=1)], "too little free memory", id="case-19"),
    pytest.param([ONE, pod_object("p", gpu=2)], "needs 2 distinct NVIDIA cards, node has 1", id="case-20"),
    pytest.param(
        [
            node_object("n1", card_records(1, count=3)),
            *(used_up(f"r{n}", "GPU-0", 1) for n in range(3)),
            pod_object("p", gpu=1, gpumem=1),
        ],
        "without a free slot",
        id="case-21",
    ),
    pytest.param(
        [
            node_object("n1", card_records(1, count=2)),
            *(used_up(f"r{n}", "GPU-0", 1) for n in range(3)),
            pod_object("p", gpu=1, gpumem=1),
        ],
        "without a free slot",
        id="case-22-fewer-slots-than-in-use",
    ),
    pytest.param(
        [ONE, used_up("r", "GPU-0", 1, 99), used_up("s", "GPU-0", 1, 1), pod_object("p", gpu=1, gpumem=1)],
        "with all compute in use",
        id="case-24-zero-cores-on-a-full-card",
    ),
    pytest.param(
        [ONE, used_up("r", "GPU-0", 24576), pod_object("p", gpu=1, gpumem="16Gi")],
        "16384 MiB asked",
        id="case-26-full-card",
    ),
    pytest.param(
        [TWO, pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-0"}, gpu=2, gpumem=1)],
        "excluded by nvidia.com/use-gpuuuid",
        id="case-30-two-of-one",
    ),
    pytest.param(
        [node_object("n1", [card_record("GPU-0", health=False), card_record("GPU-1", 1)]), pod_object("p", gpu=2)],
        "1 unhealthy",
        id="case-32",
    ),
    pytest.param(
        [ONE, pod_object("p", containers=[container_object(n, gpu=1, gpumem=13000) for n in ("a", "b")])],
        "not all of them together",
        id="case-37",
    ),
    pytest.param(
        [node_object("n1", card_records(1, mode="mig")), pod_object("p", gpu=1, gpumem=1)],
        "partitioned in hardware",
        id="case-39",
    ),
    pytest.param(
        [
            node_object("n1", card_records(1, mode="mig")),
            pod_object("p", {"nvidia.com/vgpu-mode": "mig"}, gpu=1, gpumem=1),
        ],
        "partitioned in hardware",
        id="case-39-mig-mode-is-not-handed-out-yet",
    ),
    pytest.param(
        [
            node_object("n1", [], status={"allocatable": {"nvidia.com/mig-2g.10gb": 3}}),
            pod_object("p", gpu=1, gpumem=1),
        ],
        "nvidia.com/gpu",
        id="case-40-partitioned-by-others",
    ),
    pytest.param(
        [
            node_object("n1", card_records(8), annotations={"hami.io/device-cordon": "GPU-0,GPU-1,GPU-3"}),
            pod_object("p", gpu=6, gpumem=1),
        ],
        "3 cordoned",
        id="case-41",
    ),
]


@pytest.mark.parametrize(("objects", "says"), PENDING)
def test_waits_and_says_why(objects: list[Any], says: str) -> None:
    placed, pending = outcome(*objects)
    assert placed == {}
    assert says in pending["p"]
    assert "101" not in pending["p"]


def test_case_15_pods_that_cannot_fit_stop_nobody() -> None:
    impossible = [pod_object(f"many-{n}", gpu=4) for n in range(50)]
    impossible += [pod_object(f"large-{n}", gpu=1, gpumem=2**31 - 1) for n in range(50)]
    placed, pending = outcome(TWO, *impossible, pod_object("good", gpu=2))
    assert placed == {"good": ("n1", ["GPU-0", "GPU-1"])}
    assert len(pending) == 100


def test_case_17_an_asymmetric_link_is_warned_about_and_the_choice_is_the_same_each_time() -> None:
    links = [{"uuid": "GPU-0", "score": {"GPU-1": 2}}, {"uuid": "GPU-1", "score": {"GPU-0": 1}}]
    objects = (
        node_object("n1", card_records(2), links=links),
        pod_object("p", {"hami.io/gpu-scheduler-policy": "topology-aware"}, gpu=2, gpumem=1),
    )
    world = world_of(*objects)
    assert any("score 2 one way and 1 the other" in warning for warning in world.warnings)
    assert where(simulate(world)) == outcome(*objects)[0] == {"p": ("n1", ["GPU-0", "GPU-1"])}


def test_case_21_slots_end_after_as_many_pods() -> None:
    pods = [pod_object(f"p{n}", gpu=1, gpumem=1) for n in range(4)]
    placed, pending = outcome(node_object("n1", card_records(1, count=3)), *pods)
    assert sorted(placed) == ["p0", "p1", "p2"]
    assert list(pending) == ["p3"]


@pytest.mark.parametrize(
    ("asked", "mib", "cores"),
    [
        pytest.param({}, 24576, 100, id="case-25-whole-card"),
        pytest.param({"percent": 50}, 12288, 0, id="case-25-half"),
        pytest.param({"gpumem": "16Gi"}, 16384, 0, id="case-26-16Gi"),
        pytest.param({"gpumem": "8Gi"}, 8192, 0, id="case-27-8Gi"),
        pytest.param({"gpumem": "5k"}, 5000, 0, id="case-27-5k"),
        pytest.param({"gpumem": 0}, 24576, 100, id="case-26-zero-is-the-whole-card"),
    ],
)
def test_the_share_that_is_charged(asked: dict[str, Any], mib: int, cores: int) -> None:
    world = world_of(ONE, pod_object("p", gpu=1, **asked))
    [placed] = simulate(world).placed
    [card] = placed.placement.containers[0].cards
    use = world.cluster.cards.use(0, 0)
    assert (card.memory_mib, card.cores_percent) == (use.memory_mib, use.cores_percent) == (mib, cores)


@pytest.mark.parametrize("memory", [2147483648, -1, "-8Gi", "8G", "16384Pi", "1.5"])
def test_case_26_memory_that_cannot_be_meant_gets_no_card(memory: object) -> None:
    placed, pending = outcome(ONE, pod_object("p", gpu=1, gpumem=memory))
    assert placed == {}
    assert f"nvidia.com/gpumem is {memory}, must be" in pending["p"]


def test_case_34_each_card_by_its_own_size() -> None:
    cards = [*card_records(7), card_record("GPU-7", 7, devmem=24268)]
    [placed] = simulated(node_object("n1", cards), pod_object("p", gpu=8, percent=100)).placed
    assert sorted(card.memory_mib for card in placed.placement.containers[0].cards) == [24268, *[24576] * 7]


def test_case_35_percentages_are_floored() -> None:
    world = world_of(node_object("n1", card_records(1, devmem=32768)), pod_object("p", gpu=1, percent=10))
    [placed] = simulate(world).placed
    assert placed.placement.containers[0].cards[0].memory_mib == 3276 == world.cluster.cards.use(0, 0).memory_mib


def test_case_36_two_halves_and_no_third() -> None:
    placed, pending = outcome(ONE, *(pod_object(f"p{n}", gpu=1, gpumem=12288) for n in range(3)))
    assert sorted(placed) == ["p0", "p1"]
    assert "too little free memory" in pending["p2"]


def test_case_41_a_pod_on_a_newly_cordoned_card_stays_counted() -> None:
    node = node_object("n1", card_records(2), annotations={"hami.io/device-cordon": "GPU-0"})
    world = world_of(node, used_up("r", "GPU-0", 5000))
    assert world.cluster.cards.use(0, 0).memory_mib == 5000
