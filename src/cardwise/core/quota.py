"""What is left of a namespace's quotas, as one pod's requests have to see it.

What a pod surely takes is judged before any card is looked at: numbers of cards, compute, and memory in MiB. Memory in
percent depends on the card, so there each card is judged, and the cards of a pod together while they are chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cardwise.core.cards import Bools, Ints
from cardwise.core.model import CardRequest, Left, PodRequest
from cardwise.core.peak import Amounts, least_amounts, phases

_ABSENT = np.iinfo(np.int64).max


class Bound(NamedTuple):
    """The most memory that one container's cards may have together (0: nothing fits), and the sentence that says so."""

    memory_mib: int
    says: str


def quota_bound(pod: PodRequest, place: int, request: CardRequest) -> Bound | None:
    """What the quotas allow one request of the container at this place of a pod, or None where they make no difference."""
    left = pod.quota.get(request.family)
    if left is None:
        return None
    beyond = exceeded(left, least_amounts(pod.containers)[request.family])
    if beyond:
        return Bound(0, " and ".join(beyond))
    if left.memory_mib is None or request.memory_mib:
        return None
    beside = _surely_beside(pod, place, request.family)
    others = f" beside {beside} MiB" if beside else ""
    return Bound(max(0, left.memory_mib - beside), f"{left.says[1]}, {_percent(request)}{others} asked")


def exceeded(left: Left, asked: Amounts) -> tuple[str, ...]:
    """A sentence for each amount of which more is asked than is left. Who asks for none of it exceeds nothing."""
    limits = (left.cards, left.memory_mib, left.cores_percent)
    return tuple(
        f"{says}, {amount} asked"
        for most, says, amount in zip(limits, left.says, asked, strict=True)
        if most is not None and amount > max(0, most)
    )


def memory_limits(pod: PodRequest) -> dict[str, int]:
    """MiB that the pod may take at its peak, of each family of which that depends on the cards that are chosen."""
    by_percent = {request.family for each in pod.containers for request in each.cards if request.memory_percent}
    limits = {family: left.memory_mib for family, left in pod.quota.items() if family in by_percent}
    return {family: most for family, most in limits.items() if most is not None}


def smallest_others(amounts: Ints, usable: Bools, groups: Ints, count: int) -> Ints:
    """For each card, what the `count` smallest usable others of its node and group come to, as far as there are so many.

    Cards are rows and nodes are columns.
    """
    depth, width = usable.shape
    sums = np.zeros(usable.shape, np.int64)
    for group in np.unique(groups[usable]).tolist():
        members = usable & (groups == group)
        sizes = np.full((max(depth, count + 1), width), _ABSENT)
        np.copyto(sizes[:depth], amounts, where=members)
        sizes.sort(axis=0)
        among = members & (amounts <= sizes[count - 1])
        present = np.where(sizes == _ABSENT, 0, sizes)
        smallest, next_one = present[:count].sum(axis=0), present[count]
        sums = np.where(groups == group, np.where(among, smallest - amounts + next_one, smallest), sums)
    return sums


def _surely_beside(pod: PodRequest, place: int, family: str) -> int:
    """The most MiB that the other containers ask for in plain numbers while this one runs."""
    kinds = [container.kind for container in pod.containers]
    return max(
        sum(_plain_mib(pod, other, family) for other in together) for together in phases(kinds) if place in together
    )


def _plain_mib(pod: PodRequest, place: int, family: str) -> int:
    cards = pod.containers[place].cards
    return sum(request.count * request.memory_mib for request in cards if request.family == family)


def _percent(request: CardRequest) -> str:
    cards = "one card" if request.count == 1 else f"{request.count} cards"
    return f"{request.memory_percent} % of {cards}"
