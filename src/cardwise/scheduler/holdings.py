"""The cluster with what goes with every hold: quotas are charged, and what is freed is remembered for those that wait.

Every change of what a pod holds goes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cardwise.core.cluster import Cluster, Hold, hold_of
from cardwise.core.family import Family
from cardwise.core.model import Node, Placement, PodRequest, PodTraits, Refusal
from cardwise.scheduler.quotas import Quotas


@dataclass(slots=True)
class Freed:
    """Where something became free since waiting pods were last asked; `uids` are pods that are to be asked anyway."""

    nodes: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    uids: set[str] = field(default_factory=set)
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.everything or self.nodes or self.namespaces or self.uids)


class Holdings:
    """What pods hold, on which cards, and of which quota. An `alias` is a hold of a pod beside its own one."""

    def __init__(self, families: tuple[Family, ...]) -> None:
        self.families = families
        self.cluster = Cluster(families)
        self.quotas = Quotas(families)
        self.freed = Freed()

    def set_node(self, node: Node) -> int:
        """A node with these cards; gives its column. Whatever is new on it may be free."""
        self.cluster.set_node(node)
        self.freed.nodes.add(node.name)
        return self.cluster.cards.index_of[node.name]

    def confirm(self, hold: Hold, traits: PodTraits | None = None) -> None:
        """The API server shows this; what was held instead is free, where it was something else.

        `traits` say which quotas count the pod; without them all do.
        """
        before = self.cluster.holds.get(hold.uid)
        self.cluster.confirm(hold)
        self._charge(hold, traits)
        if before is not None and (before.node != hold.node or before.use != hold.use):
            self.freed.nodes.add(before.node)

    def reserve(self, request: PodRequest, placement: Placement) -> Refusal | None:
        """Hold a placement, or say why that cannot be."""
        refusal = self.cluster.reserve(request, placement)
        if refusal is None:
            self._charge(self.cluster.holds[request.uid], request.traits)
        return refusal

    def release(self, uid: str) -> Hold | None:
        """The pod holds nothing any more."""
        hold = self.cluster.release(uid)
        if hold is not None:
            self.freed.nodes.add(hold.node)
            self.freed.namespaces |= self.quotas.release(uid)
        return hold

    def rename(self, uid: str, alias: str) -> None:
        """Let what a pod holds be held beside whatever it will hold next. Its quota is charged once."""
        hold = self.cluster.release(uid)
        if hold is not None:
            self.freed.namespaces |= self.quotas.release(uid)
            self.cluster.confirm(_aliased(hold, alias))

    def shadow(self, alias: str, request: PodRequest, placement: Placement) -> None:
        """Hold a placement beside what the pod holds, even beyond what is free now."""
        hold = hold_of(placement, uid=alias, namespace=request.namespace, name=f"{request.name}/{alias}")
        self.cluster.confirm(hold)

    def drop(self, alias: str) -> None:
        """End what was held under an alias."""
        hold = self.cluster.release(alias)
        if hold is not None:
            self.freed.nodes.add(hold.node)

    @contextmanager
    def without(self, aliases: Sequence[str]) -> Iterator[None]:
        """As if these were not held, while the block runs."""
        taken = [hold for hold in map(self.cluster.release, aliases) if hold is not None]
        try:
            yield
        finally:
            for hold in taken:
                self.cluster.confirm(hold)

    @contextmanager
    def tentative(self) -> Iterator[Callable[[PodRequest, Placement], None]]:
        """What is taken in the block is held and charged while it runs, and counts as never held after it."""
        aliases: list[str] = []

        def take(request: PodRequest, placement: Placement) -> None:
            alias = f"{request.uid}/tentative"
            aliases.append(alias)
            self.shadow(alias, request, placement)
            self.quotas.charge(alias, request.namespace, placement.containers, request.traits)

        try:
            yield take
        finally:
            for alias in aliases:
                self.cluster.release(alias)
                self.quotas.release(alias)

    def take_freed(self) -> Freed:
        """What became free since this was last asked."""
        freed, self.freed = self.freed, Freed()
        return freed

    def _charge(self, hold: Hold, traits: PodTraits | None) -> None:
        self.freed.namespaces |= self.quotas.charge(hold.uid, hold.namespace, hold.containers, traits)


def _aliased(hold: Hold, alias: str) -> Hold:
    return Hold(
        uid=alias,
        namespace=hold.namespace,
        name=f"{hold.name}/{alias}",
        node=hold.node,
        use=hold.use,
        containers=hold.containers,
        confirmed=hold.confirmed,
    )
