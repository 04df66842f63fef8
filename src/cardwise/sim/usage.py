"""What is used of every card, and by whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cardwise.core.cluster import Cluster
from cardwise.core.model import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Cards with their slots, memory and compute, used and in total."""

    cards: int = 0
    slots_used: int = 0
    slots_total: int = 0
    memory_used_mib: int = 0
    memory_total_mib: int = 0
    cores_used_percent: int = 0
    cores_total_percent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUsage:
    """One card. `exclusive`: one pod holds it alone. More used than there is in total is shown as it is."""

    uuid: str
    index: int
    family: str
    model: str
    numa: int
    mode: str
    healthy: bool
    cordoned: bool
    exclusive: bool
    slots_used: int
    slots_total: int
    memory_used_mib: int
    memory_total_mib: int
    cores_used_percent: int
    cores_total_percent: int
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """One node's cards and their sums."""

    node: str
    out_of_service: str
    cards: tuple[CardUsage, ...]
    sums: Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The nodes that have cards, by name, and the sums over all."""

    nodes: tuple[NodeUsage, ...]
    sums: Sums


def usage_of(cluster: Cluster) -> Usage:
    """The cluster's use as it is now; nodes without cards are left out unless they are out of service."""
    nodes = [cluster.cards.node(n) for _name, n in sorted(cluster.cards.index_of.items())]
    found = tuple(_node_usage(cluster, node) for node in nodes if node.cards or node.out_of_service)
    return Usage(nodes=found, sums=_sums(card for node in found for card in node.cards))


def _node_usage(cluster: Cluster, node: Node) -> NodeUsage:
    pods: dict[str, list[str]] = {}
    for hold in cluster.holds_on(node.name):
        for uuid in hold.use:
            pods.setdefault(uuid, []).append(hold.full_name)
    n = cluster.cards.index_of[node.name]
    cards = []
    for k, card in enumerate(node.cards):
        use = cluster.cards.use(n, k)
        cards.append(
            CardUsage(
                uuid=card.uuid,
                index=card.index,
                family=card.family,
                model=card.model,
                numa=card.numa,
                mode=card.mode,
                healthy=card.healthy,
                cordoned=card.uuid in node.cordoned,
                exclusive=use.holders > 0,
                slots_used=use.slots,
                slots_total=card.slots,
                memory_used_mib=use.memory_mib,
                memory_total_mib=card.memory_mib,
                cores_used_percent=use.cores_percent,
                cores_total_percent=card.cores_percent,
                pods=tuple(pods.get(card.uuid, ())),
            )
        )
    return NodeUsage(node=node.name, out_of_service=node.out_of_service, cards=tuple(cards), sums=_sums(cards))


def _sums(cards: Iterable[CardUsage]) -> Sums:
    cards = list(cards)
    return Sums(
        cards=len(cards),
        slots_used=sum(card.slots_used for card in cards),
        slots_total=sum(card.slots_total for card in cards),
        memory_used_mib=sum(card.memory_used_mib for card in cards),
        memory_total_mib=sum(card.memory_total_mib for card in cards),
        cores_used_percent=sum(card.cores_used_percent for card in cards),
        cores_total_percent=sum(card.cores_total_percent for card in cards),
    )
