"""Decisions at their worst: pods with several containers in front of nodes of which no two are in the same state."""

from __future__ import annotations

import random

import fleet

from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import CardRequest, CardUse, PodRequest
from cardwise.wire.families import FAMILIES


def unlike(nodes: int, seed: int = 42) -> Cluster:
    """Nodes of eight cards, with another use of each card of each."""
    rng = random.Random(seed)
    cluster = Cluster(FAMILIES)
    for number in range(nodes):
        node = fleet.node_of(number)
        cluster.set_node(node)
        for card in node.cards:
            memory_mib = int(card.memory_mib * rng.uniform(0, 0.02))
            use = CardUse(slots=rng.randint(1, 2), memory_mib=memory_mib, cores_percent=rng.randint(0, 5))
            cluster.confirm(
                Hold(uid=card.uuid, namespace="bench", name=card.uuid, node=node.name, use={card.uuid: use})
            )
    return cluster


def misfit(number: int) -> PodRequest:
    """Five containers that take a card each, and eight that pair up on the other three: no sum tells that they cannot."""
    sizes = (*(60 + size for size in range(5)), *(43 + size for size in range(8)))
    requests = (CardRequest(family="nvidia", count=1, memory_percent=size) for size in sizes)
    return fleet.pod_of(f"misfit-{number}", *requests)
