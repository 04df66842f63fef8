"""One Allocate, decided: for whom it is, and what that container is given. Pure.

    decide → Granted (kept by the ledger, then answered) | Refused | LookAgain (read, list, decide again; at last, refused)

The pod's record says which cards. The device ids only say how many: the kubelet picks them, and may have reasons to pick
others than those that the scheduler chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cardwise.agent.device_ids import card_of
from cardwise.agent.grants import Given, Grant
from cardwise.agent.identity import Meant, meant, or_read
from cardwise.agent.inventory import Inventory
from cardwise.agent.pods import NodePod, priority_of, variables_of
from cardwise.agent.records import entry_of, record_of
from cardwise.agent.response import AnswerSettings, Recipient, answer, in_cuda_order, overruled
from cardwise.agent.sums import carried, excess
from cardwise.agent.verdicts import LookAgain, Refused, Why
from cardwise.agent.view import View
from cardwise.core.cluster import Hold
from cardwise.core.family import Family
from cardwise.core.model import CardAllocation
from cardwise.wire.errors import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an agent gives: a family's cards, those that its node has, and how."""

    family: Family
    cards: Inventory
    settings: AnswerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What to keep, and then to answer.

    `again`: the container was answered before, and gets the same. `other_ids`: the kubelet counts slots of other cards than
    the record has, which is only to be counted. `overruled` are variables that the container sets otherwise itself.
    """

    pod: NodePod
    grant: Grant
    again: bool = False
    other_ids: bool = False
    overruled: tuple[str, ...] = ()


def decide(view: View, device_ids: Sequence[str], rules: Rules) -> Granted | Refused | LookAgain:
    """What becomes of an Allocate for these devices."""
    if (refused := _impossible(view, device_ids, rules.cards)) is not None:
        return refused
    found = meant(view, len(device_ids))
    if not isinstance(found, Meant):
        return found
    given = _given(view, found, tuple(device_ids), rules)
    return or_read(view, given) if isinstance(given, Refused) else given


def _impossible(view: View, device_ids: Sequence[str], cards: Inventory) -> Refused | None:
    if not device_ids:
        return Refused(why=Why.NOTHING_ASKED, text=f"the kubelet asks for 0 {view.resource}, must be at least 1")
    if unknown := next((one for one in device_ids if cards.card(card_of(one)) is None), ""):
        text = f"the kubelet asks for device {shown(unknown)}, which is of no card of node {view.node}"
        return Refused(why=Why.DEVICE_UNKNOWN, text=text)
    return None


def _given(view: View, found: Meant, device_ids: tuple[str, ...], rules: Rules) -> Granted | Refused | LookAgain:
    pod, container = found.pod, found.container
    hold = record_of(pod, rules.family, view.node)
    if isinstance(hold, Refused):
        return hold
    entry = entry_of(hold, pod, container, rules.cards)
    if isinstance(entry, Refused):
        return entry
    before = view.granted(pod.uid).get(container.name)
    if before is not None:
        return _same(view, found, _cards(hold, entry), before, device_ids)
    if (sick := _unhealthy(found, entry, rules.cards)) is not None:
        return sick
    if (full := _beyond(view, found, hold, rules)) is not None:
        return full
    return _new(view, found, _cards(hold, entry), device_ids, rules)


def _same(
    view: View, found: Meant, cards: tuple[Given, ...], before: Grant, device_ids: tuple[str, ...]
) -> Granted | Refused:
    """What the container was answered before, if its record still says so. No sum is looked at: nothing more is given."""
    if cards != before.cards:
        where = f"pod {found.pod.full_name}, container {before.container}"
        text = f"{where}: its record is not what it was given its cards by: it was changed since"
        return Refused(why=Why.RECORD_CHANGED, text=text, pod=found.pod)
    grant = replace(before, kubelet=view.kubelet, device_ids=device_ids)
    return Granted(pod=found.pod, grant=grant, again=True, other_ids=_others(grant))


def _unhealthy(found: Meant, entry: Sequence[CardAllocation], cards: Inventory) -> Refused | None:
    for each in entry:
        card = cards.card(each.uuid)
        if card is not None and not card.card.healthy:
            where = f"pod {found.pod.full_name}, container {found.container.name}"
            text = f"{where}: card {each.uuid} is unhealthy: {card.found.fault}"
            return Refused(why=Why.CARD_UNHEALTHY, text=text, pod=found.pod)
    return None


def _beyond(view: View, found: Meant, hold: Hold, rules: Rules) -> Refused | LookAgain | None:
    """Whether the pod's cards would carry more than they have. Those that are in its way are read first."""
    others = carried(view, rules.family, hold.uid)
    over = excess(hold, others, [each.card for each in rules.cards.cards])
    if over is None:
        return None
    refused = Refused(why=Why.CARD_TAKEN, text=f"pod {found.pod.full_name}: {over.text}", pod=found.pod)
    unread = tuple(name for name in dict.fromkeys((*over.pods, hold.full_name)) if name not in view.read)
    return LookAgain(read=unread, otherwise=refused) if unread else refused


def _cards(hold: Hold, entry: Sequence[CardAllocation]) -> tuple[Given, ...]:
    return tuple(
        Given(
            uuid=card.uuid,
            memory_mib=card.memory_mib,
            cores_percent=card.cores_percent,
            alone=hold.use[card.uuid].holders > 0,
        )
        for card in entry
    )


def _new(
    view: View, found: Meant, cards: tuple[Given, ...], device_ids: tuple[str, ...], rules: Rules
) -> Granted | Refused:
    pod, container = found.pod, found.container
    to = Recipient(
        uid=pod.uid,
        container=container.name,
        variables=variables_of(pod, container.name),
        priority=priority_of(pod, container.name, rules.family),
    )
    given = answer(rules.settings, to, in_cuda_order(cards, rules.cards))
    if isinstance(given, str):
        text = f"pod {pod.full_name}, container {container.name}: {given}"
        return Refused(why=Why.NO_DEVICE_FILE, text=text, pod=pod)
    grant = Grant(
        namespace=pod.namespace,
        name=pod.metadata.name,
        uid=pod.uid,
        container=container.name,
        kind=container.kind,
        place=container.place,
        family=rules.family.name,
        cards=cards,
        device_ids=device_ids,
        kubelet=view.kubelet,
        first_kubelet=view.kubelet,
        answer=given,
    )
    return Granted(pod=pod, grant=grant, other_ids=_others(grant), overruled=overruled(given, to))


def _others(grant: Grant) -> bool:
    return sorted(map(card_of, grant.device_ids)) != sorted(card.uuid for card in grant.cards)
