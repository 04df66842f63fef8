"""What a pod holds: its peak over the phases of its life, as Kubernetes itself counts a pod's requests.

Init containers run one after another, each alone; a sidecar (an init container that keeps running) runs beside all that
follow it; app containers run together. Each of memory, compute and slots has its own peak. It does not shrink when init
containers end: the kubelet may run them again.
"""

from __future__ import annotations

from collections.abc import Sequence

from cardwise.core.model import (
    WHOLE_CARD_CORES_PERCENT,
    CardAllocation,
    CardUse,
    ContainerAllocation,
    ContainerKind,
)

Amounts = tuple[int, int, int]
_NOTHING: Amounts = (0, 0, 0)


def peak_use(containers: Sequence[ContainerAllocation], exclusive: frozenset[str] = frozenset()) -> dict[str, CardUse]:
    """What a pod with these allocations holds of each card, by UUID.

    A card in `exclusive`, or of which a container has all the compute, is held alone.
    """
    running: dict[str, Amounts] = {}
    peak: dict[str, Amounts] = {}
    alone: set[str] = set()
    for container in (*_of(containers, app=False), *_of(containers, app=True)):
        beside = dict(running)
        for card in container.cards:
            beside[card.uuid] = _plus(beside.get(card.uuid, _NOTHING), _amounts(card))
            peak[card.uuid] = _most(peak.get(card.uuid, _NOTHING), beside[card.uuid])
            if card.cores_percent >= WHOLE_CARD_CORES_PERCENT or card.uuid in exclusive:
                alone.add(card.uuid)
        if container.kind is not ContainerKind.INIT:
            running = beside
    return {
        uuid: CardUse(slots=slots, memory_mib=memory, cores_percent=cores, holders=int(uuid in alone))
        for uuid, (slots, memory, cores) in peak.items()
    }


def _of(containers: Sequence[ContainerAllocation], *, app: bool) -> list[ContainerAllocation]:
    return [container for container in containers if (container.kind is ContainerKind.APP) is app]


def _amounts(card: CardAllocation) -> Amounts:
    return 1, card.memory_mib, card.cores_percent


def _plus(a: Amounts, b: Amounts) -> Amounts:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _most(a: Amounts, b: Amounts) -> Amounts:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])
