"""What a node's cards carry by the agent's own view, before it gives more of them: the last line after the scheduler. Pure.

A pod counts if it may have containers: the kubelet lists it, something was given to it, or it runs. One that is bound and
was not asked for yet has nothing; it is looked at when its turn comes. A pod counts with the greater of what its record and
its grants say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cardwise.agent.grants import use_of
from cardwise.agent.pods import NodePod
from cardwise.agent.records import record_of
from cardwise.agent.verdicts import Refused
from cardwise.agent.view import View
from cardwise.core.cluster import Hold
from cardwise.core.family import Family
from cardwise.core.model import Card, CardUse

Use = Mapping[str, CardUse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one pod holds, by UUID."""

    full_name: str
    use: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A card that would carry more than it has: the sentence, and the pods that are on it (full names)."""

    text: str
    pods: tuple[str, ...]


def carried(view: View, family: Family, without: str) -> list[Carried]:
    """What pods hold of the node's cards, all but the one with this uid."""
    shown = [pod for pod in (*view.pods, *view.gone) if pod.uid != without and not pod.ended and _may_run(view, pod)]
    known = {pod.uid for pod in (*view.pods, *view.gone)} | {without}
    return [*(_of_pod(view, pod, family) for pod in shown), *_of_grants(view, known)]


def excess(hold: Hold, others: Iterable[Carried], cards: Iterable[Card]) -> Excess | None:
    """The first card that this hold, beside what the others carry, would take beyond what it has; None if there is none."""
    others = tuple(others)
    for card in cards:
        use = hold.use.get(card.uuid)
        if use is None:
            continue
        beside = [one for one in others if card.uuid in one.use]
        if text := _over(card, use, [one.use[card.uuid] for one in beside]):
            pods = tuple(one.full_name for one in beside)
            return Excess(text=f"card {card.uuid} {text}{_beside(pods)}", pods=pods)
    return None


def _may_run(view: View, pod: NodePod) -> bool:
    running = pod.status is not None and pod.status.phase == "Running"
    return running or bool(view.granted(pod.uid)) or bool(view.entries(pod.full_name))


def _of_pod(view: View, pod: NodePod, family: Family) -> Carried:
    record = record_of(pod, family, view.node)
    recorded: Use = {} if isinstance(record, Refused) else record.use
    return Carried(full_name=pod.full_name, use=_most(recorded, use_of(view.granted(pod.uid).values())))


def _of_grants(view: View, known: set[str]) -> Iterator[Carried]:
    """Pods of which nothing is left but what was given to them."""
    for uid, granted in view.grants.items():
        full_name = next((grant.full_name for grant in granted.values()), "")
        if uid not in known and view.lives(uid, full_name):
            yield Carried(full_name=full_name, use=use_of(granted.values()))


def _most(one: Use, other: Use) -> dict[str, CardUse]:
    nothing = CardUse()
    return {uuid: _greater(one.get(uuid, nothing), other.get(uuid, nothing)) for uuid in one.keys() | other.keys()}


def _greater(one: CardUse, other: CardUse) -> CardUse:
    return CardUse(
        slots=max(one.slots, other.slots),
        memory_mib=max(one.memory_mib, other.memory_mib),
        cores_percent=max(one.cores_percent, other.cores_percent),
        holders=max(one.holders, other.holders),
    )


def _over(card: Card, use: CardUse, beside: list[CardUse]) -> str:
    """What is too much, as the sentence goes on after the card's name; empty if nothing is."""
    amounts = (
        (sum(one.memory_mib for one in beside) + use.memory_mib, card.memory_mib, "MiB"),
        (sum(one.cores_percent for one in beside) + use.cores_percent, card.cores_percent, "% of its compute"),
        (sum(one.slots for one in beside) + use.slots, card.slots, "slots"),
    )
    for total, most, what in amounts:
        if total > most:
            return f"would have {total} {what} in use, must be at most {most}"
    alone = use.holders or any(one.holders for one in beside)
    return "is held alone, and would be shared" if alone and beside else ""


def _beside(pods: tuple[str, ...]) -> str:
    if not pods:
        return ""
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f" (on it: {', '.join(pods[:3])}{more})"
