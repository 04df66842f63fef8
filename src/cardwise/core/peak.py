"""What a pod holds: its peak over the phases of its life, as Kubernetes itself counts a pod's requests.

Init containers run one after another, each alone; a sidecar (an init container that keeps running) runs beside all that
follow it; app containers run together. Each of memory, compute and slots has its own peak. It does not shrink when init
containers end: the kubelet may run them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cardwise.core.model import (
    WHOLE_CARD_CORES_PERCENT,
    CardAllocation,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
)


class Amounts(NamedTuple):
    """Cards, and memory and compute over all of them: what quotas count."""

    cards: int
    memory_mib: int
    cores_percent: int


ByFamily = Mapping[str, Amounts]
_Use = tuple[int, int, int]
_NOTHING: _Use = (0, 0, 0)
_NO_AMOUNTS = Amounts(0, 0, 0)


def peak_use(containers: Sequence[ContainerAllocation], exclusive: frozenset[str] = frozenset()) -> dict[str, CardUse]:
    """What a pod with these allocations holds of each card, by UUID.

    A card in `exclusive`, or of which a container has all the compute, is held alone.
    """
    running: dict[str, _Use] = {}
    peak: dict[str, _Use] = {}
    alone: set[str] = set()
    for container in (*_of(containers, app=False), *_of(containers, app=True)):
        beside = dict(running)
        for card in container.cards:
            beside[card.uuid] = _plus(beside.get(card.uuid, _NOTHING), _use(card))
            peak[card.uuid] = _most(peak.get(card.uuid, _NOTHING), beside[card.uuid])
            if card.cores_percent >= WHOLE_CARD_CORES_PERCENT or card.uuid in exclusive:
                alone.add(card.uuid)
        if container.kind is not ContainerKind.INIT:
            running = beside
    return {
        uuid: CardUse(slots=slots, memory_mib=memory, cores_percent=cores, holders=int(uuid in alone))
        for uuid, (slots, memory, cores) in peak.items()
    }


def peak_amounts(containers: Sequence[ContainerAllocation]) -> dict[str, Amounts]:
    """What a pod with these allocations takes of its namespace's quotas, by family: the most of each over its phases."""
    return _peak([container.kind for container in containers], [_given(container) for container in containers])


def least_amounts(containers: Sequence[ContainerRequest]) -> dict[str, Amounts]:
    """The same before any card is chosen: percentages of memory, which depend on the card, count as nothing."""
    return _peak([container.kind for container in containers], [_asked(container) for container in containers])


def phases(kinds: Sequence[ContainerKind]) -> list[list[int]]:
    """Which containers run together over a pod's life, by their places: each init container's time, then the apps'."""
    sidecars: list[int] = []
    found = []
    for place, kind in enumerate(kinds):
        if kind is ContainerKind.INIT:
            found.append([*sidecars, place])
        elif kind is ContainerKind.SIDECAR:
            sidecars.append(place)
    apps = [place for place, kind in enumerate(kinds) if kind is ContainerKind.APP]
    return [*found, [*sidecars, *apps]]


def _given(container: ContainerAllocation) -> dict[str, Amounts]:
    total: dict[str, Amounts] = {}
    for card in container.cards:
        total[card.family] = _sum(total.get(card.family, _NO_AMOUNTS), Amounts(1, card.memory_mib, card.cores_percent))
    return total


def _asked(container: ContainerRequest) -> dict[str, Amounts]:
    return {
        request.family: Amounts(
            request.count, request.count * request.memory_mib, request.count * request.cores_percent
        )
        for request in container.cards
    }


def _peak(kinds: Sequence[ContainerKind], amounts: Sequence[ByFamily]) -> dict[str, Amounts]:
    peak: dict[str, Amounts] = {}
    for together in phases(kinds):
        total: dict[str, Amounts] = {}
        for place in together:
            for family, taken in amounts[place].items():
                total[family] = _sum(total.get(family, _NO_AMOUNTS), taken)
        for family, taken in total.items():
            peak[family] = Amounts(*map(max, peak.get(family, _NO_AMOUNTS), taken))
    return peak


def _sum(a: Amounts, b: Amounts) -> Amounts:
    return Amounts(a.cards + b.cards, a.memory_mib + b.memory_mib, a.cores_percent + b.cores_percent)


def _of(containers: Sequence[ContainerAllocation], *, app: bool) -> list[ContainerAllocation]:
    return [container for container in containers if (container.kind is ContainerKind.APP) is app]


def _use(card: CardAllocation) -> _Use:
    return 1, card.memory_mib, card.cores_percent


def _plus(a: _Use, b: _Use) -> _Use:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _most(a: _Use, b: _Use) -> _Use:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])
