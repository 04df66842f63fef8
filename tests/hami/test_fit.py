"""Which cards take a request, and why the others do not: HAMi's tests of Fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cardwise.core.model import CardRequest, Selection
from cardwise.wire.lists import comma_list
from hami.fixture import (
    ANY,
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

MEMORY, CORE, UUID = "CardInsufficientMemory", "CardInsufficientCore", "CardUuidMismatch"
SLOTS, TYPE, HEALTH = "CardTimeSlicingExhausted", "CardTypeMismatch", "CardNotHealth"
EXCLUSIVE, COMPUTE = "ExclusiveDeviceAllocateConflict", "CardComputeUnitsExhausted"
TOO_FEW_FIT, TOO_FEW, NUMA = "AllocatedCardsInsufficientRequest", "NodeInsufficientDevice", "NumaNotFit"

FEWER = "a node with fewer cards than are asked for is refused for that, as HAMi does one step before its Fit"
NO_REASON = "cards that fit are no reason to refuse"
OTHER_FAMILY = "cards of another family are no candidates, so no reasons either"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Golden[Outcome]):
    """One node's cards and one container's request."""

    cards: list[InUse]
    ask: CardRequest
    selection: Selection = ANY
    policy: str = "spread"
    cordoned: str = ""


dev = partial(gpu, slots=100, memory_mib=1280)
small = partial(gpu, slots=100, memory_mib=128)
four = partial(gpu, slots=4, cores=4, numa=1)
kinds = partial(gpu, slots=4, numa=1)

DEVICES_FIT = [
    Fit(
        name="fits",
        cards=[small("dev-0"), small("dev-1")],
        ask=want(1, 64, 50),
        hami=("dev-1",),
        ours=("dev-0",),
        differs=TIES,
    ),
    Fit(name="memory", cards=[small("dev-0")], ask=want(1, 512, 50), hami={MEMORY: 1}),
    Fit(name="core", cards=[gpu("dev-0", (0, 0, 100), memory_mib=1024)], ask=want(1, 512, 50), hami={CORE: 1}),
    Fit(
        name="type",
        cards=[small("dev-0")],
        ask=want(1, 512, 50, family="hygon"),
        hami={TYPE: 1},
        ours={TOO_FEW: 1},
        differs=OTHER_FAMILY,
    ),
    Fit(
        name="use-uuid",
        cards=[dev("dev-1")],
        ask=want(2, 512, 50),
        selection=select(use_uuids="dev-0"),
        hami={UUID: 1},
        ours={UUID: 1, TOO_FEW: 1},
        differs=FEWER,
    ),
    Fit(
        name="nouse-uuid",
        cards=[dev("dev-0")],
        ask=want(2, 512, 50),
        selection=select(avoid_uuids="dev-0"),
        hami={UUID: 1},
        ours={UUID: 1, TOO_FEW: 1},
        differs=FEWER,
    ),
    Fit(name="slots", cards=[dev("dev-0", (100, 0, 0))], ask=want(1, 512, 50), hami={SLOTS: 1}),
    Fit(
        name="core-over-100",
        cards=[dev("dev-0")],
        ask=want(1, 512, 120),
        hami=("dev-0",),
        ours={CORE: 1},
        differs="cores over 100 are refused at admission, not cut; what got past fits no card",
    ),
    Fit(name="exclusive", cards=[dev("dev-0", (20, 0, 0))], ask=want(1, 512, 100), hami={EXCLUSIVE: 1}),
    Fit(name="compute", cards=[dev("dev-0", (20, 0, 100))], ask=want(1, 512), hami={COMPUTE: 1}),
    Fit(
        name="too-few-cards",
        cards=[dev("dev-0", (20, 0, 10))],
        ask=want(2, 512, 20),
        hami={TOO_FEW_FIT: 1},
        ours={TOO_FEW: 1},
        differs=FEWER,
    ),
    Fit(
        name="too-few-of-several-cards",
        cards=[dev("dev-0"), dev("dev-1", index=1)],
        ask=want(3, 512, 20),
        hami={TOO_FEW_FIT: 2},
        ours={TOO_FEW: 1},
        differs=FEWER,
    ),
    Fit(name="percentage", cards=[dev("dev-0", (20, 0, 10))], ask=want(1, cores=20, percent=10), hami=("dev-0",)),
    Fit(
        name="health",
        cards=[dev("dev-0", (20, 0, 10), healthy=False)],
        ask=want(1, cores=20, percent=10),
        hami={HEALTH: 1},
    ),
]

THREE_NUMA = [gpu("dev-0", numa=1), gpu("dev-1", numa=1, index=1), gpu("dev-2", index=2)]
ONE_IDLE = [gpu("used", (1, 0, 0)), gpu("idle", index=1)]

MORE_FIT = [
    Fit(
        name="cordoned-sibling",
        cards=[small("dev-0"), small("dev-1")],
        ask=want(1, 64, 50),
        cordoned="dev-1, ",
        hami=("dev-0",),
    ),
    Fit(
        name="cordoned-all",
        cards=[small("dev-0"), small("dev-1")],
        ask=want(1, 64, 50),
        cordoned="dev-0,dev-1",
        hami={"CardCordoned": 2},
    ),
    Fit(
        name="cordoned-in-use",
        cards=[small("dev-0"), small("dev-1", (1, 64, 50))],
        ask=want(1, 64, 50),
        cordoned="dev-1",
        hami=("dev-0",),
    ),
    Fit(
        name="numa-switching",
        cards=THREE_NUMA,
        ask=want(2, 100, 10),
        selection=select(numa=True),
        hami=("dev-1", "dev-0"),
        ours=("dev-0", "dev-1"),
        differs=TIES,
    ),
    Fit(
        name="numa-too-small",
        cards=[gpu("dev-0", numa=1), gpu("dev-1", index=1), gpu("dev-2", index=2)],
        ask=want(3, 100, 10),
        selection=select(numa=True),
        hami={NUMA: 1},
    ),
    Fit(
        name="numa-kept-together",
        cards=[gpu("a-n0", (5, 0, 0)), gpu("b-n0", (1, 0, 0)), gpu("c-n1", (3, 0, 0), numa=1)],
        ask=want(2, 100, 10),
        selection=select(numa=True),
        hami=("b-n0", "a-n0"),
    ),
    Fit(
        name="score-before-numa",
        cards=[gpu("p-n0", (1, 0, 0)), gpu("q-n1", (8, 0, 0), numa=1), gpu("r-n1", (5, 0, 0), numa=1)],
        ask=want(1, 100, 10),
        hami=("p-n0",),
    ),
    Fit(name="mutex-takes-idle", cards=ONE_IDLE, ask=want(1, 100, 10), policy="mutex", hami=("idle",)),
    Fit(name="mutex-two", cards=ONE_IDLE, ask=want(2, 100, 10), policy="mutex", hami={EXCLUSIVE: 1}),
    Fit(
        name="mutex-before-memory",
        cards=[gpu("dev-0", (1, 8192, 0))],
        ask=want(1, 100, 10),
        policy="mutex",
        hami={EXCLUSIVE: 1},
    ),
    Fit(
        name="three-cards-count",
        cards=[gpu(f"dev-{i}", (0, 80, 0), memory_mib=100, index=i) for i in range(3)],
        ask=want(1, 50, 10),
        hami={MEMORY: 3},
    ),
    Fit(
        name="topology-too-few-fit",
        cards=[gpu(f"dev-{i}", index=i, healthy=i < 3) for i in range(4)],
        ask=want(4, 100, 10),
        policy="topology-aware",
        hami={TOO_FEW_FIT: 1},
        ours={HEALTH: 1},
        differs=NO_REASON,
    ),
    Fit(
        name="no-cards",
        cards=[],
        ask=want(1, 100, 10),
        hami={},
        ours={TOO_FEW: 1},
        differs="a refusal always has a code",
    ),
    Fit(
        name="health-before-type",
        cards=[gpu("dev-0", model="WrongType", healthy=False)],
        ask=want(1, 100, 10),
        selection=select(use="NonMatchingModel"),
        hami={HEALTH: 1},
    ),
    Fit(
        name="uuid-before-slots",
        cards=[gpu("GPU-other", (5, 0, 0), slots=0)],
        ask=want(1),
        selection=select(use_uuids="GPU-aaa"),
        hami={UUID: 1},
    ),
    Fit(
        name="slots-before-memory",
        cards=[gpu("dev-0", (5, 100, 0), slots=5, memory_mib=100)],
        ask=want(1, 50),
        hami={SLOTS: 1},
    ),
    Fit(
        name="memory-before-core",
        cards=[gpu("dev-0", (0, 80, 95), memory_mib=100)],
        ask=want(1, 50, 50),
        hami={MEMORY: 1},
    ),
    Fit(name="core-before-exclusive", cards=[gpu("dev-0", (5, 0, 95))], ask=want(1, 100, 100), hami={CORE: 1}),
]

CERTAIN_DEVICE = [
    Fit(name="allocated", cards=[four("test-0", (1, 2048, 1))], ask=want(1, 1024, 1), hami=("test-0",)),
    Fit(
        name="other-family",
        cards=[four("test-0", (1, 2048, 1))],
        ask=want(1, 1024, 1, family="hygon"),
        hami={TYPE: 1},
        ours={TOO_FEW: 1},
        differs=OTHER_FAMILY,
    ),
    Fit(name="more-used-than-slots", cards=[four("test-0", (5, 2048, 1))], ask=want(1, 1024, 1), hami={SLOTS: 1}),
    Fit(name="core-200", cards=[four("test-0", (1, 2048, 1))], ask=want(1, 1024, 200), hami={CORE: 1}),
    Fit(
        name="memory-used-up",
        cards=[four("test-0", (1, 8000, 1), memory_mib=8000)],
        ask=want(1, cores=100, percent=100),
        hami={MEMORY: 1},
        ours={CORE: 1},
        differs="lasting checks first: a card of 4 % never gives 100 %, its memory may come free",
    ),
    Fit(
        name="whole-card-in-use",
        cards=[gpu("test-0", (1, 2048, 0), slots=4, numa=1)],
        ask=want(1, 100, 100),
        hami={EXCLUSIVE: 1},
    ),
    Fit(
        name="core-0-on-a-full-card",
        cards=[gpu("test-0", (1, 2048, 1), slots=4, cores=1, numa=1)],
        ask=want(1, 1024),
        hami={COMPUTE: 1},
    ),
    Fit(
        name="uuid",
        cards=[four("test-0", (1, 2048, 1))],
        ask=want(1, 1024, 1),
        selection=select(use_uuids="abc"),
        hami={UUID: 1},
    ),
    Fit(
        name="numa",
        cards=[four("test-0", (1, 2048, 1), numa=0), four("test-1", (1, 2048, 1))],
        ask=want(2, 1024, 1),
        selection=select(use="NVIDIA", numa=True),
        hami={NUMA: 1, TOO_FEW_FIT: 1},
        ours={NUMA: 1},
        differs=NO_REASON,
    ),
    Fit(
        name="every-kind-of-reason",
        cards=[
            kinds("a", (1, 2048, 1), numa=0, family="hygon"),
            kinds("f", (1, 2048, 1), numa=0, family="metax"),
            *(kinds(uuid, (1, 2048, 1)) for uuid in "bqi"),
            *(kinds(uuid, (4, 2048, 1)) for uuid in "cjul"),
            *(kinds(uuid, (1, 8048, 1)) for uuid in "dm"),
            kinds("e", (1, 2048, 90)),
        ],
        ask=want(2, 1024, 20),
        selection=select(use_uuids="a,f,c,d,e,g,h,j,l,u,m"),
        hami={UUID: 3, SLOTS: 4, MEMORY: 2, CORE: 1},
    ),
    Fit(
        name="more-cards-than-the-node-has",
        cards=[four("test-1", (1, 2048, 1))],
        ask=want(2, 1024, 1),
        hami={TOO_FEW: 1},
    ),
]


@each_model
@each(DEVICES_FIT + MORE_FIT + CERTAIN_DEVICE)
def test_the_cards_or_the_reasons_are_hamis(golden: Fit, model: str) -> None:
    cluster = cluster_of({"node-1": golden.cards}, model, cordoned=comma_list(golden.cordoned))
    pod = pod_of(golden.ask, selection=golden.selection, cards=golden.policy)
    assert outcome(cluster, pod) == golden.expected
