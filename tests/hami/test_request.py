"""What a container's amounts ask for, and what it is then booked with: HAMi's request generation and its admission.

Amounts are limits; the rows in which HAMi finds them in requests are the same here, once the two are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cardwise.core.family import Asked, Family, ask
from cardwise.wire.families import NVIDIA
from cardwise.wire.quantity import parse_quantity
from hami.fixture import Golden, cluster_of, each, each_model, gpu, pod_of, reasons

Amounts = Mapping[str, str]
Request = tuple[int, int, int, int] | str
"""Count, MiB, percent of memory, percent of compute; else the resource that is refused, or "" where nothing is asked."""

COUNT, MEMORY, PERCENT, CORES = NVIDIA.count_resource, *NVIDIA.size_resources
BY_WEBHOOK = "a whole card is exclusive at once; in HAMi its webhook writes the cores before"
OVER_100 = "a percentage over 100 is refused, as by HAMi's webhook and by its releases after 2.10; 2.10 cuts it"
NEGATIVE = "a negative percentage is refused, as by HAMi's releases after 2.10; 2.10 takes it as not set"
BYTES = "a binary suffix is bytes; HAMi refuses the number as too large, and takes the pod for one that asks nothing"
WHOLE_IS_EXCLUSIVE = "the whole card is exclusive however it is asked for; HAMi leaves it shared where 0 % is written"


def asked_of(amounts: Amounts, family: Family = NVIDIA) -> Asked:
    """What these amounts ask of a family, by the short names of its resources."""
    names = {"gpu": family.count_resource, "mem": family.memory_resource}
    names |= {"pct": family.memory_percent_resource, "cores": family.cores_resource}
    return ask(family, {names[short]: parse_quantity(text) for short, text in amounts.items()})


def request_of(asked: Asked) -> Request:
    """The request, the refused resource, or nothing."""
    if asked.faults:
        return asked.faults[0].field
    request = asked.request
    return (request.count, request.memory_mib, request.memory_percent, request.cores_percent) if request else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Req(Golden[Request]):
    """Amounts, and the request that they are."""

    amounts: Amounts
    family: Family = NVIDIA


def req(
    name: str, amounts: Amounts, hami: Request, ours: Request | None = None, differs: str = "", family: Family = NVIDIA
) -> Req:
    return Req(name=name, amounts=amounts, hami=hami, ours=ours, differs=differs, family=family)


FACTOR = replace(NVIDIA, memory_factor=2)
MIB_512 = replace(NVIDIA, default_memory_mib=512)
GENERATED = [
    req("count", {"gpu": "1"}, (1, 0, 100, 0), (1, 0, 100, 100), BY_WEBHOOK),
    req("memory", {"gpu": "2", "mem": "4096"}, (2, 4096, 0, 0)),
    req("percentage", {"gpu": "1", "pct": "50"}, (1, 0, 50, 0)),
    req("percentage-150", {"gpu": "1", "pct": "150"}, (1, 0, 100, 0), PERCENT, OVER_100),
    req("percentage-2^32+50", {"gpu": "1", "pct": "4294967346"}, (1, 0, 100, 0), PERCENT, OVER_100),
    req("percentage-101", {"gpu": "1", "pct": "101"}, (1, 0, 100, 0), PERCENT, OVER_100),
    req("cores", {"gpu": "1", "cores": "50"}, (1, 0, 100, 50)),
    req("nothing", {}, ""),
    req("percentage-0", {"gpu": "1", "pct": "0"}, (1, 0, 100, 0), (1, 0, 100, 100), WHOLE_IS_EXCLUSIVE),
    req("percentage-negative", {"gpu": "1", "pct": "-1"}, (1, 0, 100, 0), PERCENT, NEGATIVE),
    req("memory-wins", {"gpu": "1", "mem": "2000", "pct": "0"}, (1, 2000, 0, 0)),
    req("16Gi", {"gpu": "1", "mem": "16Gi"}, "", (1, 16384, 0, 0), BYTES),
    req("16.0Gi", {"gpu": "1", "mem": "16.0Gi"}, "", (1, 16384, 0, 0), BYTES),
    req("factor", {"gpu": "1", "mem": "1024"}, (1, 2048, 0, 0), family=FACTOR),
    req("factor-1Gi", {"gpu": "1", "mem": "1Gi"}, "", (1, 1024, 0, 0), BYTES, FACTOR),
    req("default-memory", {"gpu": "1"}, (1, 512, 0, 0), family=MIB_512),
    req("default-memory, percentage 0", {"gpu": "1", "pct": "0"}, (1, 512, 0, 0), family=MIB_512),
    req("default-memory, memory 0", {"gpu": "1", "mem": "0"}, (1, 512, 0, 0), family=MIB_512),
    req(
        "count-0",
        {"gpu": "0", "mem": "100", "cores": "10"},
        "",
        COUNT,
        "sizes of no card are a mistake; HAMi's webhook claims the pod, its filter then lets it pass everywhere",
    ),
]


@each(GENERATED)
def test_amounts_become_the_request_that_they_are_to_hami(golden: Req) -> None:
    assert request_of(asked_of(golden.amounts, golden.family)) == golden.expected


PERCENTAGES = [
    Golden(name=text, hami=text in {"0", "50", "100"})
    for text in ("0", "50", "100", "50m", "50.5", "99.1", "101", "150", "-1")
]


@each(PERCENTAGES)
def test_admission_takes_the_percentages_that_hamis_takes(golden: Golden[bool]) -> None:
    assert (not asked_of({"gpu": "1", "pct": golden.name}).faults) is golden.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Golden[dict[str, int]]):
    """Amounts, and which of count and cores admission writes beside them."""

    amounts: Amounts = field(default_factory=dict)
    family: Family = NVIDIA


CUSTOM = replace(
    NVIDIA,
    count_resource="hami.io/gpu",
    memory_resource="hami.io/gpumem",
    memory_percent_resource="hami.io/gpumem-percentage",
    cores_resource="hami.io/gpucores",
)
NO_MEMORY_NAME = replace(NVIDIA, memory_resource="")
WRITTEN = [
    Written(name="percentage 100", amounts={"gpu": "1", "pct": "100"}, hami={CORES: 100}),
    Written(name="percentage 50", amounts={"gpu": "1", "pct": "50"}, hami={}),
    Written(name="percentage 99.1", amounts={"gpu": "1", "pct": "99.1"}, hami={}),
    Written(name="no memory", amounts={"gpu": "1"}, hami={CORES: 100}),
    Written(name="cores 70", amounts={"gpu": "1", "cores": "70"}, hami={}),
    Written(name="cores 55", amounts={"gpu": "1", "cores": "55"}, hami={}),
    Written(name="memory", amounts={"gpu": "1", "mem": "8192"}, hami={}),
    Written(name="no memory resource", amounts={"gpu": "1"}, family=NO_MEMORY_NAME, hami={CORES: 100}),
    Written(name="own names", amounts={"gpu": "1", "pct": "100"}, family=CUSTOM, hami={"hami.io/gpucores": 100}),
    Written(
        name="default memory",
        amounts={"gpu": "1"},
        family=MIB_512,
        hami={CORES: 100},
        ours={},
        differs="a default memory is a part of the card, so others may have the rest",
    ),
    Written(name="count from cores", amounts={"cores": "1"}, hami={COUNT: 1}),
    Written(name="count from memory", amounts={"mem": "1"}, hami={COUNT: 1}),
    Written(name="count from percentage", amounts={"pct": "1"}, hami={COUNT: 1}),
    Written(name="nothing asked", hami={}),
]


@each(WRITTEN)
def test_admission_writes_what_hamis_webhook_writes(golden: Written) -> None:
    assert dict(asked_of(golden.amounts, golden.family).defaults) == golden.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked(Golden[int | str]):
    """Amounts, and the MiB of one card that they are booked with; else the code, or the resource that is refused."""

    amounts: Amounts
    memory_mib: int = 8192
    used_mib: int = 0


def percentage(text: str, hami: int | str) -> Booked:
    refused = isinstance(hami, str)
    return Booked(
        name=f"after 2.10: {text} %" if refused else f"{text} %",
        amounts={"gpu": "1", "pct": text},
        hami=hami,
        ours=PERCENT if refused else None,
        differs="refused at admission, before any card is looked at" if refused else "",
    )


NO_MEMORY = "CardInsufficientMemory"
ZERO = {"gpu": "1", "pct": "0"}
BOOKED = [
    percentage("50", 4096),
    percentage("100", 8192),
    percentage("0", 8192),
    *(percentage(text, NO_MEMORY) for text in ("101", "150", "-1", "50m", "99.1")),
    Booked(name="0 % is the whole card", amounts=ZERO, memory_mib=11264, hami=11264),
    Booked(name="0 % of a card in use", amounts=ZERO, memory_mib=11264, used_mib=11260, hami=NO_MEMORY),
    Booked(name="memory wins", amounts={"gpu": "1", "mem": "2048", "pct": "50"}, hami=2048),
    Booked(name="100 % of 16 GiB", amounts={"gpu": "1", "pct": "100"}, memory_mib=16384, hami=16384),
    Booked(name="25 % of 8 GiB", amounts={"gpu": "1", "pct": "25"}, hami=2048),
]


@each_model
@each(BOOKED)
def test_a_card_is_booked_with_the_memory_that_hami_books(golden: Booked, model: str) -> None:
    asked = asked_of(golden.amounts)
    cluster = cluster_of({"node-1": [gpu("dev-0", (0, golden.used_mib, 0), memory_mib=golden.memory_mib)]}, model)
    pod = pod_of(asked.request)
    placement = None if asked.faults else cluster.place(pod)
    booked: int | str
    if placement is not None:
        booked = placement.containers[0].cards[0].memory_mib
    else:
        booked = asked.faults[0].field if asked.faults else next(iter(reasons(cluster.refusals(pod)["node-1"])))
    assert booked == golden.expected
