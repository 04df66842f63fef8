"""The nodes as they were last seen: cards, kube-scheduler's view of them, and which are out of service and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cardwise.core.cards import Ints
from cardwise.core.model import Node
from cardwise.core.nodefit import NodeFacts, NodeTable
from cardwise.core.nodeselect import PREFER_NO_SCHEDULE, PodRules
from cardwise.scheduler.holdings import Holdings
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.nodes import read_node
from cardwise.wire.rules import read_facts

MOST_NAMED = 3
_NOWHERE = NodeFacts(name="", ready=False)


@dataclass(slots=True)
class _Seen:
    node: Node
    cards_key: object
    facts_key: object
    unreadable: dict[str, str] = field(default_factory=dict)


class Nodes:
    """Column n of the cards and row n of `table` are the same node; the table knows no amounts, which are kube-scheduler's.

    What a node says is only read again where it differs: kubelets report thousands of times a minute.
    """

    def __init__(self, holdings: Holdings) -> None:
        self.table = NodeTable(())
        self.warnings: list[str] = []
        self._holdings = holdings
        self._seen: dict[str, _Seen] = {}
        self._unreadable: dict[str, dict[str, str]] = {}
        self._disliked: set[str] = set()

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def names(self) -> list[str]:
        """Every node's name."""
        return list(self._seen)

    @property
    def out_of_service(self) -> int:
        """How many take no new pods."""
        cards = self._holdings.cluster.cards
        return len(self._seen) - int(cards.in_service[: cards.width].sum())

    def see(self, node: objects.Node) -> bool:
        """A node is there, or other than before. Gives whether its cards are other than before."""
        name = node.metadata.name
        before = self._seen.get(name)
        cards_key, facts_key = self._cards_key(node), _facts_key(node)
        if before is None or before.cards_key != cards_key:
            reading = read_node(node, self._holdings.families)
            self.warnings += reading.warnings
            self._seen[name] = _Seen(reading.node, cards_key, facts_key)
            self._put(name)
            self._set_facts(node)
            return True
        if before.facts_key != facts_key:
            before.facts_key = facts_key
            self._set_facts(node)
            self._holdings.freed.nodes.add(name)
        return False

    def gone(self, name: str) -> None:
        """A node is gone; what pods hold there is kept until they are gone too."""
        if self._seen.pop(name, None) is None:
            return
        cards = self._holdings.cluster.cards
        self.table.set(cards.index_of[name], _NOWHERE)
        self._holdings.cluster.remove_node(name)
        self._disliked.discard(name)

    def cannot_read(self, name: str, uid: str, pod: str) -> None:
        """What this pod holds on the node is not known, so nobody new gets there."""
        pods = self._unreadable.setdefault(name, {})
        if pods.get(uid) != pod:
            pods[uid] = pod
            self._put(name)

    def can_read(self, name: str, uid: str) -> None:
        """The pod's record could be read, or the pod is gone."""
        pods = self._unreadable.get(name)
        if pods is None or pods.pop(uid, None) is None:
            return
        if not pods:
            del self._unreadable[name]
        self._put(name)

    def may_prefer(self, spec: objects.PodSpec) -> bool:
        """Whether soft rules can make any difference for a pod: most have none, and most nodes no such taint."""
        affinity = spec.affinity and spec.affinity.node_affinity
        return bool(self._disliked or (affinity and affinity.preferred))

    def preference(self, rules: PodRules) -> Ints | None:
        """How well each column's node meets the pod's soft rules, or None where they make no difference."""
        wishes = self.table.preference(rules)
        return wishes if len(wishes) and (wishes != wishes[0]).any() else None

    def _put(self, name: str) -> None:
        seen = self._seen.get(name)
        if seen is None:
            return
        node, pods = seen.node, self._unreadable.get(name, {})
        if pods and not node.out_of_service:
            named = ", ".join(list(pods.values())[:MOST_NAMED])
            why = f"the record of pod {named} cannot be read, so what is free is not known"
            node = replace(node, out_of_service=why, unreadable=tuple(pods.values()))
            self.warnings.append(f"node {name}: out of service: {why}")
        self._holdings.set_node(node)

    def _set_facts(self, node: objects.Node) -> None:
        name = node.metadata.name
        try:
            facts = replace(read_facts(node), allocatable=None)
        except WireError as error:
            self.warnings.append(f"node {name}: {error}; it is taken as not ready")
            facts = NodeFacts(name=name, ready=False)
        self.table.set(self._holdings.cluster.cards.index_of[name], facts)
        if any(taint.effect == PREFER_NO_SCHEDULE for taint in facts.taints):
            self._disliked.add(name)
        else:
            self._disliked.discard(name)

    def _cards_key(self, node: objects.Node) -> object:
        annotations = node.metadata.annotations or {}
        allocatable = (node.status and node.status.allocatable) or {}
        return [
            (
                annotations.get(family.register_key),
                annotations.get(family.links_key),
                annotations.get(family.cordon_key),
                allocatable.get(family.count_resource),
            )
            for family in self._holdings.families
        ]


def _facts_key(node: objects.Node) -> object:
    spec, status = node.spec or objects.NodeSpec(), node.status or objects.NodeStatus()
    ready = next((each.status for each in status.conditions or () if each.type == "Ready"), "")
    return node.metadata.labels, spec.taints, spec.unschedulable, ready
