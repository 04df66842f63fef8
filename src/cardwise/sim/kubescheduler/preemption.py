"""Which pods would have to leave for a pod, by the scheduler's own arithmetic; the extender may change the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cardwise.core.nodefit import NodeTable
from cardwise.sim.kubescheduler.cycle import Diagnosis, NodeRefusal, own_refusal, unavailable
from cardwise.sim.kubescheduler.extender import Extender, ExtenderError
from cardwise.sim.kubescheduler.objects import Pod
from cardwise.sim.kubescheduler.view import View

NOT_HELPFUL = NodeRefusal(("Preemption is not helpful for scheduling",), lasting=True)
NO_VICTIMS = NodeRefusal(("No preemption victims found for incoming pod",), lasting=True)
NOTHING_CLAIMED = "no new claims to deallocate, "
"""What newer versions say first, about resource claims, where preemption was tried in an orderly way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """What came of it: a node and who leaves it, or a message; `clears`: no node is kept for the pod any more."""

    node: str = ""
    victims: tuple[Pod, ...] = ()
    message: str = ""
    clears: bool = False


Offers = dict[str, list[Pod]]


async def preempt(pod: Pod, view: View, extender: Extender, diagnosis: Diagnosis) -> Preemption:
    """Tries to make room. The victims are not checked again once the extender has named them."""
    if reason := _not_eligible(pod, view, diagnosis):
        return Preemption(message=f"{NOTHING_CLAIMED}preemption: {reason}")
    outcomes = {name: _leaving(pod, view, name) for name in _helpful(view, diagnosis)}
    offers = {name: found for name, found in outcomes.items() if isinstance(found, list) and found}
    emptied = [name for name, found in outcomes.items() if found == []]
    if not offers and emptied:
        return Preemption(message=f'preemption: expected at least one victim pod on node "{emptied[0]}"')
    if not offers:
        refusals = [found for found in outcomes.values() if isinstance(found, NodeRefusal)]
        refusals += [NOT_HELPFUL] * (diagnosis.nodes - len(refusals))
        return Preemption(message=f"{NOTHING_CLAIMED}preemption: {unavailable(diagnosis.nodes, refusals)}", clears=True)
    try:
        chosen = await _asked(pod, view, extender, offers)
    except ExtenderError as error:
        return Preemption(message=f"preemption: {error}")
    if not chosen:
        return Preemption(message="preemption: no candidate node for preemption")
    node = min(chosen, key=lambda name: _cost(chosen[name]))
    return Preemption(node=node, victims=tuple(chosen[node]))


def _not_eligible(pod: Pod, view: View, diagnosis: Diagnosis) -> str:
    """Why the pod may push nobody aside now: it never does, or those that leave for it already have not left yet."""
    if pod.never_preempts:
        return "not eligible due to preemptionPolicy=Never."
    nominated = view.nominated(pod.uid)
    refusal = diagnosis.refusals.get(nominated)
    if not nominated or (refusal is not None and refusal.lasting):
        return ""
    leaving = any(one.terminating and one.priority < pod.priority for one in view.on_node(nominated))
    return "not eligible due to a terminating pod on the nominated node." if leaving else ""


def _helpful(view: View, diagnosis: Diagnosis) -> list[str]:
    """The nodes that were refused for something that may pass."""
    return [name for name, one in diagnosis.refusals.items() if not one.lasting and name in view.nodes]


def _leaving(pod: Pod, view: View, name: str) -> list[Pod] | NodeRefusal:
    """Who has to leave this node (nobody: it is not full by this arithmetic), or why that would not help."""
    lower = [one for one in view.on_node(name) if one.priority < pod.priority]
    if not lower:
        return NO_VICTIMS
    index = view.index(name)
    with view.beside_nominated(pod) as table:
        return _reprieved(pod, table, index, sorted(lower, key=_importance))


def _reprieved(pod: Pod, table: NodeTable, index: int, lower: Sequence[Pod]) -> list[Pod] | NodeRefusal:
    """All leave, then each stays, the most important first, with whom the pod still fits. The table is as before after."""
    for one in lower:
        table.remove_use(index, one.requests)
    refusal = own_refusal(table, pod, index)
    victims = []
    for one in lower:
        table.add_use(index, one.requests)
        if refusal is None and own_refusal(table, pod, index) is not None:
            table.remove_use(index, one.requests)
            victims.append(one)
    for one in victims:
        table.add_use(index, one.requests)
    return victims if refusal is None else refusal


def _importance(pod: Pod) -> tuple[int, float, str]:
    return -pod.priority, pod.started_seconds, pod.full_name  # times are whole seconds


async def _asked(pod: Pod, view: View, extender: Extender, offers: Offers) -> Offers:
    """What the extender leaves of the offers. Raises ExtenderError for an answer that names what is not there."""
    if not extender.asked("preempt", pod):
        return offers
    answer = await extender.preempt(pod, offers)
    chosen: Offers = {}
    for name, uids in answer.items():
        if name not in view.nodes:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        there = {one.uid: one for one in view.on_node(name)}
        for uid in uids:
            if uid not in there:
                claim = (
                    f"claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on that node"
                )
                raise ExtenderError(f"extender: {extender.url} {claim}")
        if not uids:
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
        chosen[name] = [there[uid] for uid in uids]
    return chosen


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int, float]:
    """kube-scheduler's order, budgets left out: highest priority, sum, number, and the youngest of the highest last."""
    highest = max(one.priority for one in victims)
    total = sum(one.priority + (1 << 31) for one in victims)
    return highest, total, len(victims), -min(one.started_seconds for one in victims if one.priority == highest)
