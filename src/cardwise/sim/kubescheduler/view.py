"""The cluster as the scheduler believes it to be: what it watched, and the pods that it has assumed on a node since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cardwise.core.nodefit import NodeTable
from cardwise.sim.kubescheduler.objects import Node, Pod


class View:
    """Pods by uid and nodes by name. A pod that is assumed counts on its node until it is seen there, or forgotten."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self._assumed: dict[str, str] = {}
        self._nominated: dict[str, str] = {}
        self._counted: dict[str, tuple[str, Pod]] = {}
        self._index: dict[str, int] = {}
        self._table: NodeTable | None = None

    def set_node(self, node: Node) -> bool:
        """The node is like this now; whether anything is new that scheduling reads."""
        old = self.nodes.get(node.facts.name)
        self.nodes[node.facts.name] = node
        if old is None or old.facts != node.facts:
            self._table = None
        return old != node

    def remove_node(self, name: str) -> None:
        """The node is gone."""
        self.nodes.pop(name, None)
        self._table = None

    def set_pod(self, pod: Pod) -> Pod | None:
        """The pod is like this now; what it was before."""
        old = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        if pod.node:
            self._assumed.pop(pod.uid, None)
        if pod.node or (old is not None and old.nominated and not pod.nominated):
            self._nominated.pop(pod.uid, None)
        elif pod.nominated:
            self._nominated[pod.uid] = pod.nominated
        self._recount(pod.uid)
        return old

    def remove_pod(self, uid: str) -> None:
        """The pod is gone, or has ended."""
        for known in (self.pods, self._assumed, self._nominated):
            known.pop(uid, None)
        self._recount(uid)

    def assume(self, uid: str, node: str) -> None:
        """A bind of this pod is on its way."""
        self._assumed[uid] = node
        self._recount(uid)

    def forget(self, uid: str) -> None:
        """The bind came to nothing."""
        self._assumed.pop(uid, None)
        self._recount(uid)

    def nominate(self, uid: str, node: str) -> None:
        """Pods leave this node for the pod; "" takes that back."""
        self._nominated[uid] = node

    def nominated(self, uid: str) -> str:
        """The node on which room is being made for the pod; "" where none is."""
        return self._nominated.get(uid, "")

    def node_of(self, uid: str) -> str:
        """Where the pod is, or is assumed to be; "" while it is nowhere."""
        pod = self.pods.get(uid)
        return self._assumed.get(uid, "") or (pod.node if pod is not None else "")

    def on_node(self, name: str) -> list[Pod]:
        """The pods there, those assumed included."""
        return [pod for node, pod in self._counted.values() if node == name]

    def waiting_for(self, name: str) -> list[Pod]:
        """The pods that are nowhere yet and for which room is made on this node."""
        return [self.pods[uid] for uid, node in self._nominated.items() if node == name and uid in self.pods]

    def index(self, name: str) -> int:
        """The node's row in the table."""
        self.table()
        return self._index[name]

    def table(self) -> NodeTable:
        """The nodes and what is in use on them."""
        if self._table is None:
            self._table = NodeTable([node.facts for node in self.nodes.values()])
            self._index = {name: number for number, name in enumerate(self.nodes)}
            for node, pod in self._counted.values():
                if node in self._index:
                    self._table.add_use(self._index[node], pod.requests)
        return self._table

    @contextmanager
    def beside_nominated(self, pod: Pod) -> Iterator[NodeTable]:
        """The table with the pods counted, within the block, that this one may not push aside on their nodes."""
        table = self.table()
        added = [
            (self._index[node], other.requests)
            for uid, node in self._nominated.items()
            if uid != pod.uid
            and node in self._index
            and (other := self.pods.get(uid)) is not None
            and not self.node_of(uid)
            and other.priority >= pod.priority
        ]
        for index, requests in added:
            table.add_use(index, requests)
        try:
            yield table
        finally:
            for index, requests in added:
                table.remove_use(index, requests)

    def _recount(self, uid: str) -> None:
        """Counts the pod where it is now; with the requests that it has now."""
        node, was = self.node_of(uid), self._counted.pop(uid, None)
        if was is not None and self._table is not None and was[0] in self._index:
            self._table.remove_use(self._index[was[0]], was[1].requests)
        if node:
            self._counted[uid] = (node, self.pods[uid])
            if self._table is not None and node in self._index:
                self._table.add_use(self._index[node], self.pods[uid].requests)
