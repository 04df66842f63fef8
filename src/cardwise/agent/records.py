"""The record of a pod that asks for cards: what it must be, so that its containers can be served. Pure."""

from __future__ import annotations

from cardwise.agent.inventory import Inventory
from cardwise.agent.pods import MIRROR, Asking, NodePod
from cardwise.agent.verdicts import Refused, Why
from cardwise.core.cluster import Hold
from cardwise.core.family import Family
from cardwise.core.model import CardAllocation
from cardwise.wire import names
from cardwise.wire.errors import WireError, shown
from cardwise.wire.pods import read_hold


def record_of(pod: NodePod, family: Family, node: str) -> Hold | Refused:
    """What the pod holds on this node by its record; or why it has none that counts."""
    if not pod.annotations.get(family.allocated_key):
        return _without(pod)
    assigned = pod.annotations.get(names.ASSIGNED_NODE, "")
    if assigned != node:
        text = f"pod {pod.full_name}: annotation {names.ASSIGNED_NODE} is {shown(assigned)}, must be {node}"
        return Refused(why=Why.NODE_WRONG, text=text, pod=pod)
    try:
        hold = read_hold(pod, (family,))
    except (WireError, ValueError) as error:
        return Refused(why=Why.RECORD_UNREADABLE, text=f"pod {pod.full_name}: {error}", pod=pod)
    return _without(pod) if hold is None else hold


def entry_of(hold: Hold, pod: NodePod, container: Asking, cards: Inventory) -> tuple[CardAllocation, ...] | Refused:
    """The container's cards by the record: as many as it asks for, each once, each on this node."""
    where = f"pod {pod.full_name}, container {container.name}"
    entry = next((one.cards for one in hold.containers if one.name == container.name), ())
    if len(entry) != container.count:
        text = f"{where}: its record has {len(entry)} cards, must be {container.count}"
        return Refused(why=Why.COUNT_WRONG, text=text, pod=pod)
    uuids = [card.uuid for card in entry]
    if twice := next((uuid for uuid in uuids if uuids.count(uuid) > 1), ""):
        text = f"{where}: its record has card {shown(twice)} twice, must have each once"
        return Refused(why=Why.RECORD_UNREADABLE, text=text, pod=pod)
    if absent := next((uuid for uuid in uuids if cards.card(uuid) is None), ""):
        text = f"{where}: its record has card {shown(absent)}, which node {hold.node} does not have"
        return Refused(why=Why.CARD_UNKNOWN, text=text, pod=pod)
    return entry


def _without(pod: NodePod) -> Refused:
    if MIRROR in pod.annotations:
        text = f"pod {pod.full_name} is a static pod, which no scheduler places: there are no cards for it"
        return Refused(why=Why.STATIC_POD, text=text, pod=pod)
    cure = "create it with the webhook running, or set schedulerName"
    text = f"pod {pod.full_name} did not pass through Cardwise: it has no record of cards; {cure}"
    return Refused(why=Why.NOT_OURS, text=text, pod=pod)
