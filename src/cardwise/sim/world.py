"""A snapshot as the engine sees it: cards and holds, kube-scheduler's own amounts, and the pods that wait, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import Node
from cardwise.core.nodefit import NodeFacts, NodeTable
from cardwise.scheduler.admission import Rules
from cardwise.scheduler.inventory import Inventory
from cardwise.sim.snapshot import Snapshot
from cardwise.sim.workloads import expand
from cardwise.wire import names, objects
from cardwise.wire.errors import WireError
from cardwise.wire.nodes import read_node
from cardwise.wire.pods import asks_for_cards, containers_of, read_hold
from cardwise.wire.rules import read_facts, read_requests

MOST_NAMED = 3


@dataclass(slots=True)
class World:
    """The cluster at one moment. Column n of `cluster.cards` and row n of `table` are the same node."""

    rules: Rules
    cluster: Cluster
    table: NodeTable
    inventory: Inventory
    waiting: list[objects.Pod] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    bound: dict[str, dict[str, int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def requests(self, spec: objects.PodSpec) -> dict[str, int]:
        """What kube-scheduler counts for a bound pod. Raises WireError for an amount that is no quantity."""
        return read_requests(spec, {name for family in self.rules.families for name in family.uncounted_resources})

    def amounts(self, spec: objects.PodSpec) -> dict[str, int]:
        """The same without anything managed: counts of cards follow from the request."""
        families = self.rules.families
        return read_requests(spec, {n for f in families for n in (*f.resources, *f.uncounted_resources)})


def build(snapshot: Snapshot, rules: Rules) -> World:
    """The world that a snapshot shows; what is odd in it is in the world's warnings."""
    warnings = list(snapshot.warnings)
    if not snapshot.nodes and not snapshot.pods and not snapshot.workloads:
        warnings.append("there are no nodes and no pods in the input")
    bound = [pod for pod in snapshot.pods if pod.spec.node_name and not pod.ended and _was_bound(pod)]
    holds, unreadable = _holds(bound, rules, warnings)
    nodes = _nodes(snapshot.nodes, rules, unreadable, warnings)
    cluster = Cluster(rules.families)
    for node in nodes:
        cluster.set_node(node)
    for hold in holds:
        cluster.confirm(hold)
    warnings += _lost(cluster, holds)
    world = World(
        rules=rules,
        cluster=cluster,
        table=NodeTable(_facts(snapshot.nodes, nodes, rules, warnings)),
        inventory=Inventory.of(nodes, rules.families),
        waiting=_waiting(snapshot, rules, warnings),
        namespaces=snapshot.namespaces,
        warnings=warnings,
    )
    _count_bound(world, bound)
    return world


def _was_bound(pod: objects.Pod) -> bool:
    """A manifest with a nodeName was bound by nobody: it waits, and admission will say what is wrong with it."""
    return bool(
        pod.metadata.uid
        or pod.metadata.creation_timestamp
        or (pod.status and pod.status.phase)
        or pod.annotations.get(names.ASSIGNED_NODE)
    )


def _holds(bound: Iterable[objects.Pod], rules: Rules, warnings: list[str]) -> tuple[list[Hold], dict[str, list[str]]]:
    """What bound pods hold, and by node the pods there whose records cannot be read."""
    holds: list[Hold] = []
    unreadable: dict[str, list[str]] = {}
    for pod in bound:
        try:
            hold = read_hold(pod, rules.families)
        except WireError as error:
            unreadable.setdefault(pod.spec.node_name, []).append(pod.full_name)
            warnings.append(f"pod {pod.full_name} on node {pod.spec.node_name}: its record cannot be read: {error}")
            continue
        if hold is not None:
            holds.append(hold)
        elif any(asks_for_cards(each, rules.families) for each, _kind in containers_of(pod)):
            warnings.append(_unrecorded(pod))
        elif _has_record(pod, rules):
            warnings.append(f"pod {pod.full_name} has a record of cards and asks for none: it counts for nothing")
    return holds, unreadable


def _has_record(pod: objects.Pod, rules: Rules) -> bool:
    return any(pod.annotations.get(family.allocated_key) for family in rules.families)


def _unrecorded(pod: objects.Pod) -> str:
    node, named = pod.spec.node_name, pod.annotations.get(names.ASSIGNED_NODE)
    if named and named != node:
        why = f"its record names node {named}"
    else:
        why = "no record of its cards: it did not pass through the scheduler"
    return f"pod {pod.full_name} on node {node} holds nothing that counts ({why})"


def _nodes(
    found: Iterable[objects.Node], rules: Rules, unreadable: dict[str, list[str]], warnings: list[str]
) -> list[Node]:
    nodes: list[Node] = []
    where: dict[str, str] = {}
    for each in found:
        reading = read_node(each, rules.families)
        node = reading.node
        warnings += reading.warnings
        if not node.out_of_service and (pods := unreadable.get(node.name)):
            why = f"the record of pod {', '.join(pods[:MOST_NAMED])} cannot be read, so what is free is not known"
            node = replace(node, out_of_service=why, unreadable=tuple(pods))
            warnings.append(f"node {node.name}: out of service: {why}")
        nodes.append(node)
        for card in node.cards:
            if (other := where.setdefault(card.uuid, node.name)) != node.name:
                warnings.append(f"card {card.uuid} is registered by nodes {other} and {node.name}: each counts its own")
    return nodes


def _lost(cluster: Cluster, holds: Iterable[Hold]) -> Iterable[str]:
    for hold in holds:
        if hold.node not in cluster.cards.index_of:
            yield f"pod {hold.full_name} runs on node {hold.node}, which is not in the input"
        elif unknown := cluster.unknown_cards(hold):
            yield f"pod {hold.full_name} holds card {', '.join(unknown)}, which node {hold.node} does not register"


def _facts(found: Iterable[objects.Node], nodes: Iterable[Node], rules: Rules, warnings: list[str]) -> list[NodeFacts]:
    """kube-scheduler's view. Where a count is not in allocatable yet, it is what the node's device plugin will report."""
    facts: list[NodeFacts] = []
    silent: list[str] = []
    for each, node in zip(found, nodes, strict=True):
        try:
            fact = read_facts(each)
        except WireError as error:
            warnings.append(f"node {node.name}: {error}; its amounts are not counted")
            fact = NodeFacts(name=node.name, ready=False)
        if fact.allocatable is not None:
            slots = {
                family.count_resource: sum(card.slots for card in node.cards if card.family == family.name)
                for family in rules.families
                if family.count_resource not in fact.allocatable
            }
            if any(slots.values()):
                silent.append(node.name)
            fact = replace(fact, allocatable={**fact.allocatable, **{name: n for name, n in slots.items() if n}})
        facts.append(fact)
    if silent:
        more = f" and {len(silent) - MOST_NAMED} more" if len(silent) > MOST_NAMED else ""
        warnings.append(
            f"node {', '.join(silent[:MOST_NAMED])}{more}: allocatable does not list the cards' count, which a live"
            " kube-scheduler needs (is the device plugin running?); taken as the sum of their slots"
        )
    return facts


def _waiting(snapshot: Snapshot, rules: Rules, warnings: list[str]) -> list[objects.Pod]:
    """Pods to place, by creation time, then in the order of the files; those without a time come last."""
    placed = [(snapshot.place_of("Pod", pod.metadata), pod) for pod in snapshot.pods if _waits(pod)]
    recorded = sum(bool(pod.metadata.uid) and _has_record(pod, rules) for _place, pod in placed)
    if recorded:
        warnings.append(f"{recorded} waiting pods carry a record of cards from before: it counts for nothing")
    placed += [
        (snapshot.place_of(kind, meta), pod) for kind, meta, pod in expand(snapshot.workloads, snapshot.pods, warnings)
    ]
    return [pod for _place, pod in sorted(placed, key=lambda one: (one[1].metadata.creation_timestamp or "~", one[0]))]


def _waits(pod: objects.Pod) -> bool:
    bound = pod.spec.node_name and _was_bound(pod)
    return not pod.ended and not pod.metadata.deletion_timestamp and not bound


def _count_bound(world: World, bound: Iterable[objects.Pod]) -> None:
    index_of = world.cluster.cards.index_of
    for pod in bound:
        n = index_of.get(pod.spec.node_name)
        if n is None:
            continue
        try:
            requests = world.requests(pod.spec)
        except WireError as error:
            world.warnings.append(f"pod {pod.full_name}: {error}; its amounts are not counted")
            continue
        world.table.add_use(n, requests)
        world.bound[pod.metadata.uid or pod.full_name] = requests
