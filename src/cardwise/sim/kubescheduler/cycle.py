"""One pod's way to a node: the scheduler's own checks, then the extender's, then the choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cardwise.core.nodefit import INSUFFICIENT_RESOURCE, TOO_MANY_PODS, NodeTable
from cardwise.sim.kubescheduler.extender import Extender, ExtenderError
from cardwise.sim.kubescheduler.objects import Pod
from cardwise.sim.kubescheduler.view import View

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why a node does not take a pod; `lasting`: preemption would not help."""

    reasons: tuple[str, ...]
    lasting: bool


@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """Why no node takes a pod: by node, and whether the extender had a part in it."""

    nodes: int
    refusals: dict[str, NodeRefusal] = field(default_factory=dict)
    by_extender: bool = False

    def message(self, preemption: str) -> str:
        """What kube-scheduler writes into event and condition; `preemption` says what came of trying that."""
        if not self.nodes:
            return NO_NODES
        return f"{unavailable(self.nodes, self.refusals.values())} {preemption}".strip()


def unavailable(nodes: int, refusals: Iterable[NodeRefusal]) -> str:
    """The sentence that counts nodes by reason."""
    counted = Counter(reason for refusal in refusals for reason in refusal.reasons)
    told = ", ".join(sorted(f"{number} {reason}" for reason, number in counted.items()))
    return f"0/{nodes} nodes are available:" + (f" {told}." if told else "")


async def choose(pod: Pod, view: View, extender: Extender, turn: int) -> str | Diagnosis:
    """The node for the pod, or why there is none. `turn` rotates the order of nodes. Raises ExtenderError.

    The node on which room was made for the pod is asked about first and alone.
    """
    nominated = view.nominated(pod.uid)
    if nominated in view.nodes:
        try:
            found = await _feasible(pod, view, extender, [nominated], Diagnosis(nodes=len(view.nodes)))
        except ExtenderError:
            found = []
        if found:
            return nominated
    diagnosis = Diagnosis(nodes=len(view.nodes))
    found = await _feasible(pod, view, extender, _rotated(list(view.nodes), turn), diagnosis)
    if not found:
        return diagnosis
    return found[0] if len(found) == 1 else await _best(pod, extender, found)


def own_refusal(table: NodeTable, pod: Pod, index: int) -> NodeRefusal | None:
    """Why the scheduler's own checks refuse a node, as far as the first that does; None where none does."""
    found = table.refusals(pod.rules, pod.requests, index)
    if not found:
        return None
    amounts = (TOO_MANY_PODS, INSUFFICIENT_RESOURCE)
    if found[0].code not in amounts:
        return NodeRefusal((found[0].text,), lasting=True)
    short = [one for one in found if one.code in amounts]
    reasons = tuple(one.text.partition(": needs ")[0] for one in short)
    return NodeRefusal(reasons, lasting=any(one.lasting for one in short))


async def _feasible(
    pod: Pod, view: View, extender: Extender, nodes: Sequence[str], diagnosis: Diagnosis
) -> Sequence[str]:
    """Those nodes that neither the scheduler nor the extender refuses; the diagnosis is told of the others."""
    passing = []
    with view.beside_nominated(pod) as table:
        mask = table.mask(pod.rules, pod.requests)
        for name in nodes:
            index = view.index(name)
            refusal = None if mask[index] else own_refusal(table, pod, index)
            if refusal is None:
                passing.append(name)
            else:
                diagnosis.refusals[name] = refusal
    if not passing or not extender.asked("filter", pod):
        return passing
    answer = await extender.filter(pod, passing)
    diagnosis.by_extender = True
    _note(diagnosis, answer.failed_nodes or {}, lasting=False)
    _note(diagnosis, answer.failed_and_unresolvable_nodes or {}, lasting=True)
    return answer.node_names or ()


def _note(diagnosis: Diagnosis, failed: Mapping[str, str], *, lasting: bool) -> None:
    for name, reason in failed.items():
        diagnosis.refusals[name] = NodeRefusal((reason,), lasting)


async def _best(pod: Pod, extender: Extender, nodes: Sequence[str]) -> str:
    """The first of those with the extender's best score. An extender that fails here has no say."""
    scores: dict[str, int] = {}
    if extender.asked("prioritize", pod):
        try:
            scores = await extender.prioritize(pod, nodes)
        except ExtenderError:
            scores = {}
    return max(nodes, key=lambda name: scores.get(name, 0))


def _rotated(names: list[str], turn: int) -> list[str]:
    start = turn % len(names) if names else 0
    return names[start:] + names[:start]
