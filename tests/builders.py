"""Short builders with defaults, so that a test names only what it is about, and short readers of what comes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import (
    Card,
    CardRequest,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    Links,
    Node,
    Placement,
    PodRequest,
)
from cardwise.wire.families import FAMILIES

A100 = "NVIDIA A100-SXM4-80GB"


def card(
    index: int = 0,
    uuid: str = "",
    memory_mib: int = 24576,
    cores_percent: int = 100,
    slots: int = 10,
    model: str = A100,
    family: str = "nvidia",
    **rest: Any,
) -> Card:
    """One card; its UUID is GPU-<index> where none is given."""
    return Card(
        index=index,
        uuid=uuid or f"GPU-{index}",
        memory_mib=memory_mib,
        cores_percent=cores_percent,
        slots=slots,
        model=model,
        family=family,
        **rest,
    )


def cards_of(count: int, prefix: str = "GPU", **rest: Any) -> tuple[Card, ...]:
    """So many like cards: <prefix>-0, <prefix>-1 and on."""
    return tuple(card(index, f"{prefix}-{index}", **rest) for index in range(count))


def node(name: str, *cards: Card, links: Links = (), cordoned: Iterable[str] = (), out_of_service: str = "") -> Node:
    """A node with these cards."""
    return Node(name=name, cards=cards, links=links, cordoned=frozenset(cordoned), out_of_service=out_of_service)


def asks(
    count: int = 1, memory_mib: int = 0, memory_percent: int = 0, cores_percent: int = 0, family: str = "nvidia"
) -> CardRequest:
    """A request; all of a card's memory where neither MiB nor percent is given (its compute is asked only if said)."""
    if not memory_mib and not memory_percent:
        memory_percent = 100
    return CardRequest(
        family=family, count=count, memory_mib=memory_mib, memory_percent=memory_percent, cores_percent=cores_percent
    )


def container(name: str, *requests: CardRequest, kind: ContainerKind = ContainerKind.APP) -> ContainerRequest:
    """A container that asks for all of these."""
    return ContainerRequest(name=name, kind=kind, cards=requests)


def pod(
    name: str, *asking: CardRequest | ContainerRequest, namespace: str = "ml", uid: str = "", **rest: Any
) -> PodRequest:
    """A pod with uid uid-<name>; a bare request is an app container of its own, named c0, c1 and on by its place."""
    containers = tuple(
        one if isinstance(one, ContainerRequest) else container(f"c{place}", one) for place, one in enumerate(asking)
    )
    return PodRequest(namespace=namespace, name=name, uid=uid or f"uid-{name}", containers=containers, **rest)


def cluster(*nodes: Node) -> Cluster:
    """A cluster of every family with these nodes."""
    made = Cluster(FAMILIES)
    for one in nodes:
        made.set_node(one)
    return made


def hold(
    name: str,
    on: str,
    *uuids: str,
    namespace: str = "ml",
    uid: str = "",
    containers: tuple[ContainerAllocation, ...] = (),
    confirmed: bool = True,
    **use: int,
) -> Hold:
    """What the pod of this name holds on node `on`: of each card one slot and `use` (fields of `CardUse`)."""
    held = CardUse(**({"slots": 1} | use))
    return Hold(
        uid=uid or f"uid-{name}",
        namespace=namespace,
        name=name,
        node=on,
        use=dict.fromkeys(uuids, held),
        containers=containers,
        confirmed=confirmed,
    )


def uuids(placement: Placement | None) -> list[list[str]]:
    """The UUIDs of each container; no containers where the pod found no place."""
    return [[one.uuid for one in got.cards] for got in placement.containers] if placement else []


def use_of(made: Cluster, on: str, uuid: str) -> CardUse:
    """What is in use of a card, which must be there."""
    n = made.cards.index_of[on]
    place = made.cards.position(n, uuid)
    assert place is not None
    return made.cards.use(n, place)


def all_linked(size: int, score: int = 10) -> Links:
    """Link scores that are the same between any two cards."""
    return tuple(tuple(0 if i == j else score for j in range(size)) for i in range(size))
