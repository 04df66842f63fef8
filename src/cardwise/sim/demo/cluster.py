"""The demo's nodes: their cards, as a node agent of ours registers them."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cardwise.core.model import Card
from cardwise.sim.kubelet.objects import NodeShape
from cardwise.wire import names
from cardwise.wire.families import NVIDIA
from cardwise.wire.links import encode_links
from cardwise.wire.register import encode_register

LEAST_NODES = 5
NVLINK, PCIE = 600, 20
"""Link scores: pairs of cards beside each other, and all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    name: str
    model: str
    cards: int
    memory_mib: int
    slots: int = 10
    linked: bool = False


A100 = _Kind(name="a100", model="NVIDIA A100-SXM4-80GB", cards=4, memory_mib=81920, linked=True)
L40S = _Kind(name="l40s", model="NVIDIA L40S", cards=2, memory_mib=46068)
A40 = _Kind(name="a40", model="NVIDIA A40", cards=2, memory_mib=46068)
T4 = _Kind(name="t4", model="NVIDIA Tesla T4", cards=4, memory_mib=15360)
P4 = _Kind(name="p4", model="NVIDIA Tesla P4", cards=1, memory_mib=7680, slots=2)

FIRST = (A100, A40, T4, L40S, P4)
MORE = (A100, T4, A40)
"""Kinds of further nodes: what the workload needs to be scarce stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoNode:
    """A node to be played, and its cards."""

    shape: NodeShape
    cards: tuple[Card, ...]


def nodes(count: int, seed: int) -> tuple[DemoNode, ...]:
    """So many nodes, at least LEAST_NODES; the seed makes the cards' UUIDs."""
    chance = random.Random(seed)  # noqa: S311  (names of make-believe cards)
    kinds = [*FIRST, *(MORE[n % len(MORE)] for n in range(count - len(FIRST)))]
    numbers: Counter[str] = Counter()
    made = []
    for kind in kinds:
        made.append(_node(f"{kind.name}-{numbers[kind.name]}", kind, chance))
        numbers[kind.name] += 1
    return tuple(made)


def _node(name: str, kind: _Kind, chance: random.Random) -> DemoNode:
    cards = tuple(_cards(kind, chance))
    annotations = {names.NODE_AGENT: "demo", NVIDIA.register_key: encode_register(cards, "json")}
    if kind.linked:
        annotations[NVIDIA.links_key] = encode_links([card.uuid for card in cards], _links(len(cards)))
    slots = {NVIDIA.count_resource: kind.cards * kind.slots}
    return DemoNode(shape=NodeShape(name=name, extra=slots, annotations=annotations), cards=cards)


def _cards(kind: _Kind, chance: random.Random) -> Iterator[Card]:
    for index in range(kind.cards):
        yield Card(
            uuid=f"GPU-{uuid.UUID(int=chance.getrandbits(128), version=4)}",
            index=index,
            family=NVIDIA.name,
            model=kind.model,
            slots=kind.slots,
            memory_mib=kind.memory_mib,
            cores_percent=100,
            numa=2 * index // kind.cards,
            mode=NVIDIA.default_mode,
        )


def _links(count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(0 if a == b else NVLINK if a // 2 == b // 2 else PCIE for b in range(count)) for a in range(count)
    )
