"""The pods and nodes of both machines: few sizes, so that cards fill up and pods wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cardwise.wire import names
from cardwise.wire.families import NVIDIA
from manifests import card_record, container_object, node_object, pod_object

from .memory_api import Json

T = TypeVar("T")

CARD_MIB = 10
CARD_SLOTS = 3
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}
SHAPES: tuple[Callable[[str], Json], ...] = (
    lambda name: pod_object(name, gpu=1, percent=100, gpucores=100),
    lambda name: pod_object(name, gpu=1, gpumem=6),
    lambda name: pod_object(name, gpu=1, percent=50, gpucores=50),
    lambda name: pod_object(name, gpu=2, gpumem=6),
    lambda name: pod_object(name, {names.CARD_POLICY: "mutex"}, gpu=1, gpumem=2),
    lambda name: pod_object(
        name,
        init=[container_object("load", gpu=1, gpumem=8)],
        containers=[container_object("a", gpu=1, gpumem=3), container_object("b", gpu=1, gpumem=3)],
    ),
)


def node_with(name: str, cards: int, *, hami: bool = False) -> Json:
    """A ready node with so many like cards. `hami`: HAMi's plugin serves it, else our agent."""
    records = [card_record(f"{name}-{n}", n, devmem=CARD_MIB, count=CARD_SLOTS) for n in range(cards)]
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {NVIDIA.count_resource: str(cards * CARD_SLOTS), **ROOM},
    }
    return node_object(name, records, annotations={} if hami else {names.NODE_AGENT: "v1"}, status=ready)


def change_first_card(node: Json, cards: list[Json], change: str) -> None:
    """The first card is lost, has less memory or slots, or is ill; or the node's device plugin is gone; or nothing is."""
    match change:
        case "lost":
            del cards[0]
        case "shrunk":
            cards[0]["devmem"] = CARD_MIB // 2
        case "ill":
            cards[0]["health"] = False
        case "fewer":
            cards[0]["count"] = 1
        case "no plugin":
            node["status"]["allocatable"][NVIDIA.count_resource] = "0"


CHANGES = ("lost", "shrunk", "ill", "fewer", "no plugin", "whole", "whole")


def one(items: Sequence[T], pick: int) -> T:
    """The one that a number chooses."""
    return items[pick % len(items)]
