"""The whole decision, node and cards: the winners of HAMi's Test_Filter and Test_calcScore, and what pods hold then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cardwise.core.cluster import Cluster, Hold, hold_of
from cardwise.core.model import (
    CardAllocation,
    CardRequest,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    PodRequest,
)
from cardwise.core.peak import peak_use
from hami.fixture import TIES, Golden, InUse, cluster_of, each, each_model, gpu, outcome, pod_of, want

Winner = tuple[str, ...]
"""A node's name, then the cards of all containers."""

ROOM = partial(gpu, memory_mib=8000, mode="hami")
TWO_NODES = {
    "node1": [ROOM("device1", (1, 2000, 25)), ROOM("device2", index=1)],
    "node2": [ROOM("device3"), ROOM("device4", (1, 6000, 75), index=1)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered(Golden[Winner]):
    """The policies of a pod that asks for 1000 MiB and 20 % of one card, and where it goes."""

    nodes: str
    cards: str


WINNERS = [
    Filtered(name="pack, pack", nodes="binpack", cards="binpack", hami=("node2", "device4")),
    Filtered(name="pack, spread", nodes="binpack", cards="spread", hami=("node2", "device3")),
    Filtered(name="spread, pack", nodes="spread", cards="binpack", hami=("node1", "device1")),
    Filtered(name="spread, spread", nodes="spread", cards="spread", hami=("node1", "device2")),
]


def winner(cluster: Cluster, pod: PodRequest) -> Winner:
    placement = cluster.place(pod)
    assert placement is not None
    return placement.node, *(card.uuid for container in placement.containers for card in container.cards)


@each_model
@each(WINNERS)
def test_the_winner_is_hamis(golden: Filtered, model: str) -> None:
    cluster = cluster_of(TWO_NODES, model)
    assert winner(cluster, pod_of(want(1, 1000, 20), nodes=golden.nodes, cards=golden.cards)) == golden.expected


@each_model
def test_an_init_container_that_needs_the_idle_card_takes_it(model: str) -> None:
    """HAMi 2.10's fifth winner, node2 and device3, with amounts of our own that device4 lacks.

    The app container then has the card that the kubelet keeps for it.
    """
    pod = pod_of(want(1, 1000, 20), nodes="binpack", cards="binpack")
    init = ContainerRequest(name="init", kind=ContainerKind.INIT, cards=(want(1, 4000, 50),))
    pod = replace(pod, containers=(init, *pod.containers))
    assert winner(cluster_of(TWO_NODES, model), pod) == ("node2", "device3", "device3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Golden[Winner]):
    """One node's cards, and what each container of a pod asks for; None where it asks for nothing."""

    node: list[InUse]
    asks: Sequence[CardRequest | None]


uuid1, uuid2 = partial(ROOM, "uuid1"), partial(ROOM, "uuid2")
HALF = (5, 4000, 50)
ASK, TWO = want(1, 1000, 30), want(2, 1000, 30)
PLANNED = [
    Planned(name="one card", node=[uuid1()], asks=[ASK], hami=("uuid1",)),
    Planned(name="half of it in use", node=[uuid1(HALF)], asks=[ASK], hami=("uuid1",)),
    Planned(name="two cards", node=[uuid1(), uuid2()], asks=[ASK], hami=("uuid2",), ours=("uuid1",), differs=TIES),
    Planned(name="half of one of two", node=[uuid1(), uuid2(HALF)], asks=[ASK], hami=("uuid1",)),
    Planned(
        name="both of two",
        node=[uuid1(), uuid2()],
        asks=[TWO],
        hami=("uuid2", "uuid1"),
        ours=("uuid1", "uuid2"),
        differs=TIES,
    ),
    Planned(
        name="both of two, half in use",
        node=[uuid1(HALF), uuid2(HALF)],
        asks=[TWO],
        hami=("uuid2", "uuid1"),
        ours=("uuid1", "uuid2"),
        differs=TIES,
    ),
    Planned(name="only the first container asks", node=[uuid1()], asks=[ASK, None], hami=("uuid1",)),
    Planned(name="only the second container asks", node=[uuid1()], asks=[None, ASK], hami=("uuid1",)),
    Planned(name="two containers", node=[uuid1()], asks=[ASK, want(1, 1000, 40)], hami=("uuid1", "uuid1")),
    Planned(name="two containers, the other node", node=[uuid2()], asks=[ASK, want(1, 1000, 40)], hami=("uuid2",) * 2),
]


@each_model
@each(PLANNED)
def test_containers_get_hamis_cards(golden: Planned, model: str) -> None:
    assert outcome(cluster_of({"node1": golden.node}, model), pod_of(*golden.asks)) == golden.expected


@each_model
def test_each_family_of_a_container_gets_its_own_cards(model: str) -> None:
    node = [gpu("uuid-a", slots=4), gpu("uuid-b", slots=4, index=1, family="hygon")]
    both = ContainerRequest(name="both", cards=(want(1, 1024, 1), want(1, 1024, 1, family="hygon")))
    placement = cluster_of({"node-1": node}, model).place(replace(pod_of(), containers=(both,)))
    assert placement is not None
    assert [(card.family, card.uuid) for card in placement.containers[0].cards] == [
        ("nvidia", "uuid-a"),
        ("hygon", "uuid-b"),
    ]


def allocated(uuid: str, memory_mib: int, cores: int, family: str = "nvidia") -> CardAllocation:
    return CardAllocation(family=family, uuid=uuid, index=0, memory_mib=memory_mib, cores_percent=cores)


@each_model
def test_two_pods_with_the_same_cards_are_counted_twice(model: str) -> None:
    cluster = cluster_of({"node1": [gpu("GPU0", memory_mib=1024), gpu("GPU1", memory_mib=1024, index=1)]}, model)
    containers = (ContainerAllocation(name="c", cards=(allocated("GPU0", 100, 10),)),)
    for name in ("test1", "test2"):
        use = peak_use(containers)
        cluster.confirm(Hold(uid=name, namespace="default", name=name, node="node1", use=use, containers=containers))
    n = cluster.cards.index_of["node1"]
    assert cluster.cards.use(n, 0) == CardUse(slots=2, memory_mib=200, cores_percent=20)
    assert cluster.cards.use(n, 1) == CardUse()


@each_model
def test_a_placement_adds_one_slot_and_its_sizes(model: str) -> None:
    cluster = cluster_of({"node-1": [gpu("dev-0", (0, 2000, 15))]}, model)
    pod = pod_of(want(1, 1024, 50))
    placement = cluster.place(pod)
    assert placement is not None
    assert hold_of(placement, uid="pod", namespace="ml", name="pod").use == {
        "dev-0": CardUse(slots=1, memory_mib=1024, cores_percent=50)
    }
    assert cluster.reserve(pod, placement) is None
    assert cluster.cards.use(0, 0) == CardUse(slots=1, memory_mib=3024, cores_percent=65)


# -- what a pod holds -------------------------------------------------------------------------------------------------

Use = Mapping[str, tuple[int, int, int]]
"""Slots, MiB and percent of compute by UUID."""

KINDS = {"i": ContainerKind.INIT, "s": ContainerKind.SIDECAR, "a": ContainerKind.APP}
NO_SHRINKING = "held until the pod ends: the kubelet may run the init containers again; HAMi shrinks once they are done"
SIDECARS = "after 2.10: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Golden[Use]):
    """Containers by kind (i, s, a), each with its cards, and what the pod holds of every card."""

    containers: Sequence[tuple[str, Sequence[CardAllocation]]]


def on_gpu0(size: str) -> CardAllocation:
    memory_mib, cores = size.split("/")
    return allocated("gpu0", int(memory_mib), int(cores))


def held(name: str, containers: str, slots: int, memory_mib: int, cores: int) -> Held:
    """Containers that share the card gpu0, as `kind MiB/cores` with commas between; `kind` alone has no card."""
    parts = [text.split() for text in containers.split(",")]
    return Held(
        name=name,
        containers=[(kind, [on_gpu0(size) for size in sizes]) for kind, *sizes in parts],
        hami={"gpu0": (slots, memory_mib, cores)},
    )


def steady(golden: Held, slots: int, memory_mib: int, cores: int) -> Held:
    """The same pod once its init containers are done."""
    return replace(
        golden,
        name=f"{golden.name}, then steady",
        hami={"gpu0": (slots, memory_mib, cores)},
        ours=golden.hami,
        differs=NO_SHRINKING,
    )


MIXED = held("init and app", "i 500/50, a 100/10", 1, 500, 50)
BIG_INIT = held("init and two apps", "i 999/99, a 100/10, a 200/20", 2, 999, 99)
SHRINKS = held(SIDECARS + "sidecar, init and app", "s 2000/10, i 20000/60, a 10000/30", 2, 22000, 70)
LATE = held(SIDECARS + "init, sidecar and app", "i 20000/60, s 2000/10, a 10000/30", 2, 20000, 60)

ONE_CARD = [
    held("apps only", "a 100/10, a 200/20", 2, 300, 30),
    held("inits only", "i 100/10, i 200/30", 1, 200, 30),
    MIXED,
    held("init larger", "i 1000/80, a 200/20", 1, 1000, 80),
    held("apps larger", "i 100/10, a 200/20, a 300/30", 2, 500, 50),
    held("three inits", "i 100/10, i 300/30, i 200/20, a 50/5", 1, 300, 30),
    held("three apps", "a 100/10, a 100/10, a 100/10", 3, 300, 30),
    held("init like the app", "i 4000/40, a 4000/40", 1, 4000, 40),
    steady(MIXED, 1, 100, 10),
    steady(BIG_INIT, 2, 300, 30),
    held(SIDECARS + "sidecar beside the app", "s 4000/40, a 4000/40", 2, 8000, 80),
    held(SIDECARS + "sidecars only", "s 3000/10, s 5000/20, a 1000/5", 3, 9000, 35),
    held(SIDECARS + "init before the sidecar", "i 5000/50, s 8000/80, a", 1, 8000, 80),
    held(SIDECARS + "sidecar beside the init", "s 8000/80, i 5000/50, a", 2, 13000, 130),
    held(SIDECARS + "init, sidecar, init and app", "i 5000/10, s 3000/30, i 4000/20, a 1000/5", 2, 7000, 50),
    SHRINKS,
    steady(SHRINKS, 2, 12000, 40),
    LATE,
    steady(LATE, 2, 12000, 40),
]

SEVERAL_CARDS = [
    Held(
        name="two families",
        containers=[
            ("i", [allocated("gpu0", 500, 50), allocated("xpu0", 200, 20, "kunlun")]),
            ("a", [allocated("gpu0", 100, 10), allocated("xpu0", 300, 30, "kunlun")]),
        ],
        hami={"gpu0": (1, 500, 50), "xpu0": (1, 300, 30)},
    ),
    Held(
        name="two cards in each container",
        containers=[
            ("i", [allocated("gpu0", 200, 20), allocated("gpu1", 300, 30)]),
            ("a", [allocated("gpu0", 100, 10), allocated("gpu1", 150, 15)]),
        ],
        hami={"gpu0": (1, 200, 20), "gpu1": (1, 300, 30)},
    ),
    Held(name="no cards", containers=[("i", []), ("i", []), ("a", []), ("a", [])], hami={}),
    Held(
        name=SIDECARS + "each card for itself",
        containers=[
            ("s", [allocated("gpu0", 2000, 10)]),
            ("i", [allocated("gpu1", 7000, 70)]),
            ("a", [allocated("gpu0", 3000, 30)]),
        ],
        hami={"gpu0": (2, 5000, 40), "gpu1": (1, 7000, 70)},
    ),
]


@each(ONE_CARD + SEVERAL_CARDS)
def test_a_pod_holds_the_peak_that_hami_counts(golden: Held) -> None:
    use = peak_use(
        [
            ContainerAllocation(name=f"c{i}", kind=KINDS[kind], cards=tuple(cards))
            for i, (kind, cards) in enumerate(golden.containers)
        ]
    )
    assert {uuid: (one.slots, one.memory_mib, one.cores_percent) for uuid, one in use.items()} == golden.expected
