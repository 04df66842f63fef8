"""Filter where whole nodes are sent: as a cluster autoscaler asks about nodes that may not be there yet. Reserves nothing.

The cards are those that the sent nodes register. Of a node without a register (a template), they follow from the labels of
NVIDIA's feature discovery, which groups of nodes declare: `<count resource>.count`, `.memory` (MiB) and `.product`. What
runs on a node of that name is taken as in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cardwise.core.cluster import Cluster
from cardwise.core.family import Family
from cardwise.core.model import WHOLE_CARD_CORES_PERCENT, Card, Node, Refusal
from cardwise.scheduler.books import Books
from cardwise.scheduler.pods import SeenPod
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.nodes import read_node
from cardwise.wire.quantity import parse_quantity

MOST_CARDS = 64
"""Cards of a node that a label may declare."""


def try_nodes(books: Books, seen: SeenPod, sent: Sequence[objects.Node]) -> str | dict[str, Refusal]:
    """The name of the best of these nodes, or each one's refusal."""
    families = books.holdings.families
    cluster = Cluster(families)
    for node in sent:
        cluster.set_node(_with_declared(read_node(node, families).node, node, families))
        for hold in books.holdings.cluster.holds_on(node.metadata.name):
            if hold.uid != seen.uid:
                cluster.confirm(hold)
    request = books.asked(seen)
    placement = cluster.place(request)
    return placement.node if placement is not None else cluster.refusals(request)


def _with_declared(read: Node, node: objects.Node, families: Iterable[Family]) -> Node:
    if read.cards or read.out_of_service:
        return read
    return replace(read, cards=tuple(card for family in families for card in _declared(node, family)))


def _declared(node: objects.Node, family: Family) -> list[Card]:
    """The cards that a template's labels declare, each with its share of the slots that it says are allocatable."""
    labels = node.metadata.labels or {}
    count = _number(labels.get(f"{family.count_resource}.count"))
    memory_mib = _number(labels.get(f"{family.count_resource}.memory"))
    if not 0 < count <= MOST_CARDS or not memory_mib:
        return []
    allocatable = (node.status and (node.status.allocatable or node.status.capacity)) or {}
    slots = max(1, _number(allocatable.get(family.count_resource)) // count)
    return [
        Card(
            uuid=f"{node.metadata.name}-{family.name}-{index}",
            index=index,
            family=family.name,
            model=labels.get(f"{family.count_resource}.product", ""),
            slots=slots,
            memory_mib=memory_mib,
            cores_percent=WHOLE_CARD_CORES_PERCENT,
        )
        for index in range(count)
    ]


def _number(amount: objects.Amount | None) -> int:
    """A whole number that is not negative; 0 for anything else, which declares nothing."""
    if amount is None:
        return 0
    try:
        value = parse_quantity(amount).value
    except WireError:
        return 0
    return int(value) if value.denominator == 1 and 0 <= value < 1 << 31 else 0
