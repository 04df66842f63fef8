"""The single checks, one by one: what HAMi's pass and refuse, whatever its other checks say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cardwise.core.checks import CHECKS
from cardwise.core.model import CardRequest, Selection
from cardwise.core.plan import steps_of
from hami.fixture import ANY, Golden, InUse, cluster_of, each, each_model, gpu, pod_of, select, want

MEMORY, CORE, UUID = "CardInsufficientMemory", "CardInsufficientCore", "CardUuidMismatch"
SLOTS, TYPE, HEALTH = "CardTimeSlicingExhausted", "CardTypeMismatch", "CardNotHealth"
EXCLUSIVE, COMPUTE = "ExclusiveDeviceAllocateConflict", "CardComputeUnitsExhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class One(Golden[bool]):
    """Whether a card passes HAMi's check with this code, whatever the other checks say."""

    code: str
    card: InUse
    ask: CardRequest
    selection: Selection = ANY


def one(
    name: str, code: str, card: InUse, ask: CardRequest, selection: Selection = ANY, *, passes: bool, differs: str = ""
) -> One:
    ours = not passes if differs else None
    return One(name=name, code=code, card=card, ask=ask, selection=selection, hami=passes, ours=ours, differs=differs)


dev = partial(gpu, slots=100)
plenty, mib_1024, half = gpu("GPU-aaa"), partial(gpu, "dev-0", memory_mib=1024), partial(gpu, "dev-0", (0, 0, 50))
tiny = want(1, 1)
v100, a100 = gpu("dev-0", model="NVIDIA-V100"), gpu("dev-0", model="NVIDIA-A100", mode="hami-core")
SINGLE = [
    one("health: healthy", HEALTH, plenty, tiny, passes=True),
    one("health: unhealthy", HEALTH, gpu("dev-0", healthy=False), tiny, passes=False),
    one("type: A10 is in A100", TYPE, gpu("dev-0", model="NVIDIA A100"), tiny, select(use="A10"), passes=True),
    one(
        "type: used, avoided", TYPE, gpu("d", model="NVIDIA A100"), tiny, select(use="A10", avoid="A100"), passes=False
    ),
    one("type: used, other", TYPE, gpu("d", model="NVIDIA A10"), tiny, select(use="A10", avoid="A100"), passes=True),
    one("type: avoided", TYPE, a100, tiny, select(avoid="A100"), passes=False),
    one("type: not avoided", TYPE, v100, tiny, select(avoid="A100"), passes=True),
    one("type: not used", TYPE, v100, tiny, select(use="A100"), passes=False),
    one("type: empty use", TYPE, a100, tiny, select(use=""), passes=True),
    one("type: blank use", TYPE, a100, tiny, select(use="   "), passes=True),
    one("type: empty avoid", TYPE, a100, tiny, select(avoid=""), passes=True),
    one("type: blank avoid", TYPE, a100, tiny, select(avoid="   "), passes=True),
    one("mode: another", TYPE, a100, tiny, select(modes="mps"), passes=False),
    one("mode: the same", TYPE, a100, tiny, select(modes="hami-core"), passes=True),
    one("uuid: none", UUID, plenty, tiny, passes=True),
    one("uuid: used", UUID, plenty, tiny, select(use_uuids="GPU-aaa,GPU-bbb"), passes=True),
    one("uuid: not used", UUID, gpu("GPU-ccc"), tiny, select(use_uuids="GPU-aaa,GPU-bbb"), passes=False),
    one("uuid: avoided", UUID, plenty, tiny, select(avoid_uuids="GPU-aaa,GPU-bbb"), passes=False),
    one("uuid: not avoided", UUID, gpu("GPU-ccc"), tiny, select(avoid_uuids="GPU-aaa,GPU-bbb"), passes=True),
    one("uuid: empty list", UUID, plenty, tiny, select(use_uuids=""), passes=True),
    one("slots: plenty", SLOTS, dev("dev-0"), tiny, passes=True),
    one("slots: one left", SLOTS, gpu("dev-0", (9, 0, 0)), tiny, passes=True),
    one("slots: none left", SLOTS, gpu("dev-0", (10, 0, 0)), tiny, passes=False),
    one("slots: too many", SLOTS, gpu("dev-0", (15, 0, 0)), tiny, passes=False),
    one("memory: plenty", MEMORY, plenty, want(1, 100), passes=True),
    one("memory: exactly", MEMORY, mib_1024((0, 512, 0)), want(1, 512), passes=True),
    one("memory: one short", MEMORY, mib_1024((0, 512, 0)), want(1, 513), passes=False),
    one("memory: none left", MEMORY, mib_1024((0, 1024, 0)), want(1, 1), passes=False),
    # (HAMi's row with nothing asked has no counterpart: no request here is for no memory, it would have no limit.)
    one("core: plenty", CORE, plenty, want(1, 1, 10), passes=True),
    one("core: exactly", CORE, half(), want(1, 1, 50), passes=True),
    one("core: one short", CORE, half(), want(1, 1, 51), passes=False),
    one("core: none left", CORE, gpu("dev-0", (0, 0, 100)), want(1, 1, 1), passes=False),
    one("core: none left, none asked", CORE, gpu("dev-0", (0, 0, 100)), tiny, passes=True),
    one("core: no total", CORE, gpu("dev-0", cores=0), want(1, 1, 50), passes=False),
    one("core: no total, none asked", CORE, gpu("dev-0", cores=0), tiny, passes=True),
    one("exclusive: shared, not asked", EXCLUSIVE, gpu("dev-0", (5, 0, 0)), want(1, 1, 50), passes=True),
    one("exclusive: free", EXCLUSIVE, plenty, want(1, 1, 100), passes=True),
    one("exclusive: one there", EXCLUSIVE, gpu("dev-0", (1, 0, 0)), want(1, 1, 100), passes=False),
    one("exclusive: ten there", EXCLUSIVE, dev("dev-0", (10, 0, 0)), want(1, 1, 100), passes=False),
    one(
        "exclusive: of scaled compute",
        EXCLUSIVE,
        gpu("dev-0", (5, 0, 0), cores=200),
        want(1, 1, 100),
        passes=True,
        differs="cores 100 hold a card alone, also where its compute is scaled",
    ),
    one("exclusive: 99", EXCLUSIVE, dev("dev-0", (10, 0, 0)), want(1, 1, 99), passes=True),
    one("compute: half left", COMPUTE, half(), tiny, passes=True),
    one("compute: none left", COMPUTE, gpu("dev-0", (0, 0, 100)), tiny, passes=False),
    one("compute: the core check's", COMPUTE, gpu("dev-0", (0, 0, 100)), want(1, 1, 10), passes=True),
    one("compute: no total", COMPUTE, gpu("dev-0", cores=0), tiny, passes=True),
    one("compute: some left", COMPUTE, gpu("dev-0", (0, 0, 30)), tiny, passes=True),
]


@each_model
@each(SINGLE)
def test_each_check_passes_the_cards_that_hamis_passes(golden: One, model: str) -> None:
    cluster = cluster_of({"node-1": [golden.card]}, model)
    (step,) = steps_of(pod_of(golden.ask, selection=golden.selection))
    view = cluster.cards.view()
    answers = ((check.code, check.fails(view, step.need)) for check in CHECKS)
    failed = {code for code, fails in answers if fails is not None and fails.any()}
    assert (golden.code not in failed) is golden.expected
