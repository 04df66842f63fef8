"""A pod in front of a cluster: what simulating and explaining both ask, kube-scheduler's own rules included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cardwise.core.cards import Bools, Ints
from cardwise.core.cluster import Cluster
from cardwise.core.family import Family
from cardwise.core.model import ContainerKind, Placement, PodRequest, Refusal
from cardwise.core.nodefit import NodeTable, peak_requests
from cardwise.core.nodeselect import PodRules
from cardwise.core.plan import plan, steps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A pod, what it says about nodes, and the cluster. Column n of the cards and row n of the table are one node.

    `amounts` are the pod's requests without any managed resource; the counts of cards are added from the request itself,
    so that a scene with another request is a scene with other counts.
    """

    cluster: Cluster
    table: NodeTable
    pod: PodRequest
    rules: PodRules = PodRules()
    amounts: Mapping[str, int] = field(default_factory=dict)

    def asking(self, pod: PodRequest) -> Scene:
        """The same scene with another request."""
        return replace(self, pod=pod)

    def requests(self) -> dict[str, int]:
        """What kube-scheduler counts for the pod, counts of cards included."""
        return {**self.amounts, **counts(self.pod, self.cluster.families)}

    def allowed(self) -> Bools:
        """The nodes that kube-scheduler would leave over."""
        return self.table.mask(self.rules, self.requests())

    def preference(self) -> Ints | None:
        """The pod's soft rules per node, or None where they make no difference."""
        wishes = self.table.preference(self.rules)
        return wishes if len(wishes) and np.any(wishes != wishes[0]) else None

    def place(self) -> Placement | None:
        """Where the pod goes now, or None."""
        return self.cluster.place(self.pod, self.allowed(), self.preference())

    def place_without(self, n: int, uid: str, amounts: Mapping[str, int]) -> Placement | None:
        """The pod's cards on one node if one pod there had ended, with the amounts that kube-scheduler counts for it."""
        self.table.remove_use(n, amounts)
        try:
            refused = self.table.refusals(self.rules, self.requests(), n)
        finally:
            self.table.add_use(n, amounts)
        if refused:
            return None
        return plan(self.cluster.cards, n, self.pod, steps_of(self.pod), freed=self.cluster.holds[uid].use)

    def fits_cards_of(self, n: int) -> bool:
        """Whether the pod fits on this node now, were it in service."""
        return not self.rule_refusals(n) and plan(self.cluster.cards, n, self.pod, steps_of(self.pod)) is not None

    def rule_refusals(self, n: int) -> tuple[Refusal, ...]:
        """What kube-scheduler's own rules say against a node."""
        return self.table.refusals(self.rules, self.requests(), n)


def counts(pod: PodRequest, families: Mapping[str, Family]) -> dict[str, int]:
    """Counts of cards per resource at the pod's peak, as kube-scheduler counts them."""
    by_container = [
        (container.kind, {families[request.family].count_resource: request.count for request in container.cards})
        for container in pod.containers
    ]
    init = [(kind is ContainerKind.SIDECAR, asked) for kind, asked in by_container if kind is not ContainerKind.APP]
    apps = [asked for kind, asked in by_container if kind is ContainerKind.APP]
    return peak_requests(init, apps, {})
