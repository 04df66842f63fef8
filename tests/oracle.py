"""The decision as plain loops over plain objects: slow, obvious, and sharing nothing with the core but its nouns.

What runs on the cards is a mapping from (node name, card UUID) to what is in use there. A bound on the search is not
modelled: `Search.tries` says how many choices were made in vain, for tests to keep below the core's bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from cardwise.core.model import (
    Card,
    CardAllocation,
    CardRequest,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    Left,
    Node,
    Placement,
    PodRequest,
    Selection,
)

Uses = Mapping[tuple[str, str], CardUse]
Container = TypeVar("Container", bound=ContainerRequest | ContainerAllocation)


@dataclass
class Spot:
    """A card where it stands, with what is in use of it: `place` counts the node's cards by index, `row` as registered."""

    card: Card
    place: int
    row: int
    cordoned: bool
    slots: int = 0
    memory_mib: int = 0
    cores_percent: int = 0
    holders: int = 0

    def add(self, slots: int, memory_mib: int, cores_percent: int, holders: int) -> None:
        self.slots += slots
        self.memory_mib += memory_mib
        self.cores_percent += cores_percent
        self.holders += holders


def spots_of(node: Node, uses: Uses) -> list[Spot]:
    """The node's cards in the order in which ties fall."""
    rows = sorted(range(len(node.cards)), key=lambda row: (node.cards[row].index, row))
    spots = []
    for place, row in enumerate(rows):
        card = node.cards[row]
        spot = Spot(card, place, row, card.uuid in node.cordoned)
        use = uses.get((node.name, card.uuid), CardUse())
        spot.add(use.slots, use.memory_mib, use.cores_percent, use.holders)
        spots.append(spot)
    return spots


def in_use(holds: Iterable[tuple[str, Mapping[str, CardUse]]]) -> dict[tuple[str, str], CardUse]:
    """What holds, each a node's name and the use by card UUID, add up to."""
    total: dict[tuple[str, str], CardUse] = {}
    for name, by_uuid in holds:
        for uuid, use in by_uuid.items():
            so_far = total.get((name, uuid), CardUse())
            total[name, uuid] = CardUse(
                slots=so_far.slots + use.slots,
                memory_mib=so_far.memory_mib + use.memory_mib,
                cores_percent=so_far.cores_percent + use.cores_percent,
                holders=so_far.holders + use.holders,
            )
    return total


# -- one card ------------------------------------------------------------------------------------------------------


def memory_needed(request: CardRequest, card: Card) -> int:
    """MiB that a request takes of a card."""
    if request.memory_mib > 0:
        return request.memory_mib
    return max(1, card.memory_mib * request.memory_percent // 100)


def is_exclusive(request: CardRequest, pod: PodRequest) -> bool:
    """Whether a request holds its cards alone."""
    return pod.card_policy.idle or request.cores_percent >= 100


def model_wanted(model: str, selection: Selection) -> bool:
    """Whether a model contains one of the wanted words, if there are any, and none of the unwanted."""
    low = model.lower()
    for word in selection.avoid_models:
        if word.lower() in low:
            return False
    return not selection.use_models or any(word.lower() in low for word in selection.use_models)


def uuid_wanted(uuid: str, selection: Selection) -> bool:
    """Whether a card is among the wanted, if there are any, and not among the unwanted."""
    return uuid not in selection.avoid_uuids and (not selection.use_uuids or uuid in selection.use_uuids)


def failures(spot: Spot, request: CardRequest, pod: PodRequest, spots: Sequence[Spot]) -> list[str]:
    """Every check that the card fails, in the order of the table; `spots` are all cards of its node."""
    card = spot.card
    selection = pod.selections.get(request.family, Selection())
    memory = memory_needed(request, card)
    cores = request.cores_percent
    table = [
        ("health", not card.healthy),
        ("cordon", spot.cordoned),
        ("model", not model_wanted(card.model, selection)),
        ("mode", bool(selection.modes) and bool(card.mode) and card.mode not in selection.modes),
        ("partition", card.partitioned),
        ("uuid", not uuid_wanted(card.uuid, selection)),
        ("card-memory", memory > card.memory_mib),
        ("card-cores", cores > 0 and cores > card.cores_percent),
        ("card-slots", card.slots < 1),
        ("quota", beyond_quota(spot, request, pod, spots)),
        ("slots", spot.slots + 1 > card.slots),
        ("idle", pod.card_policy.idle and spot.slots > 0),
        ("memory", spot.memory_mib + memory > card.memory_mib),
        ("cores", cores > 0 and spot.cores_percent + cores > card.cores_percent),
        ("exclusive", is_exclusive(request, pod) and spot.slots > 0),
        ("held", spot.holders > 0),
        ("compute", cores == 0 and spot.cores_percent > 0 and spot.cores_percent >= card.cores_percent),
    ]
    return [name for name, failed in table if failed]


def verdict(spot: Spot, request: CardRequest, pod: PodRequest, spots: Sequence[Spot]) -> str:
    """The first check that the card fails, "fits", or "not asked" for a card of another family."""
    if spot.card.family != request.family:
        return "not asked"
    return next(iter(failures(spot, request, pod, spots)), "fits")


# -- quotas --------------------------------------------------------------------------------------------------------


def peak_of(pod: PodRequest, family: str, take: Callable[[CardRequest], int]) -> int:
    """The most that any phase of the pod's life takes of a family."""
    return max(sum(take(r) for c in phase for r in c.cards if r.family == family) for phase in phases(pod.containers))


def surely_beyond(pod: PodRequest, family: str) -> bool:
    """Whether what a pod asks in plain numbers is more than its quotas leave, whatever the cards."""
    left = pod.quota.get(family, Left())
    limits = [
        (left.cards, peak_of(pod, family, lambda request: request.count)),
        (left.memory_mib, peak_of(pod, family, lambda request: request.count * request.memory_mib)),
        (left.cores_percent, peak_of(pod, family, lambda request: request.count * request.cores_percent)),
    ]
    return any(most is not None and asked > most for most, asked in limits)


def memory_left(request: CardRequest, pod: PodRequest) -> int | None:
    """MiB that quotas leave for all cards of one request by percentage, when its pod's plain numbers are taken off."""
    left = pod.quota.get(request.family, Left()).memory_mib
    if left is None or not request.memory_percent:
        return None
    together = [phase for phase in phases(pod.containers) if any(r is request for c in phase for r in c.cards)]
    plain = [
        sum(r.count * r.memory_mib for c in phase for r in c.cards if r.family == request.family) for phase in together
    ]
    return left - max(plain)


def beyond_quota(spot: Spot, request: CardRequest, pod: PodRequest, spots: Sequence[Spot]) -> bool:
    """Whether quotas keep the pod off a card: by all it asks, or as this card and the smallest others are too much."""
    if surely_beyond(pod, request.family):
        return True
    left = memory_left(request, pod)
    if left is None:
        return False
    free = replace(pod, quota={})
    near = [other for other in spots if other.card.numa == spot.card.numa or not one_numa(request, pod)]
    others = [
        memory_needed(request, other.card)
        for other in near
        if other is not spot and verdict(other, request, free, spots) == "fits"
    ]
    return memory_needed(request, spot.card) + sum(sorted(others)[: request.count - 1]) > left


def one_numa(request: CardRequest, pod: PodRequest) -> bool:
    """Whether all cards of a request must be on one NUMA node."""
    return pod.selections.get(request.family, Selection()).one_numa


def within_quota(pod: PodRequest, containers: Sequence[ContainerAllocation]) -> bool:
    """Whether a pod that gets these cards stays within its quotas in every phase of its life."""
    for phase in phases(containers):
        for family, left in pod.quota.items():
            cards = [card for container in phase for card in container.cards if card.family == family]
            limits = [
                (left.cards, len(cards)),
                (left.memory_mib, sum(card.memory_mib for card in cards)),
                (left.cores_percent, sum(card.cores_percent for card in cards)),
            ]
            if any(most is not None and taken > most for most, taken in limits):
                return False
    return True


# -- order ---------------------------------------------------------------------------------------------------------


def share(used: int, total: int) -> float:
    """Used ÷ total; what has no total counts nothing."""
    return used / total if total > 0 else 0.0


def node_score(node: Node, uses: Uses) -> float:
    """How busy a node is."""
    spots = spots_of(node, uses)
    slots = share(sum(spot.slots for spot in spots), sum(spot.card.slots for spot in spots))
    memory = share(sum(spot.memory_mib for spot in spots), sum(spot.card.memory_mib for spot in spots))
    cores = share(sum(spot.cores_percent for spot in spots), sum(spot.card.cores_percent for spot in spots))
    return 10 * (slots + memory + cores)


def card_score(spot: Spot, pod: PodRequest) -> float:
    """How busy a card is, weighted as the pod wishes."""
    slots = pod.weights.slots * share(spot.slots, spot.card.slots)
    cores = pod.weights.cores * share(spot.cores_percent, spot.card.cores_percent)
    memory = pod.weights.memory * share(spot.memory_mib, spot.card.memory_mib)
    return 10 * (slots + cores + memory)


def rank_key(spot: Spot, pod: PodRequest, early: Collection[int]) -> list[float]:
    """What cards are sorted by: those in `early` first, then the keys of the policy, then the index."""
    of_key = {"spread": card_score(spot, pod), "binpack": -card_score(spot, pod), "numa": float(spot.card.numa)}
    keys = [of_key[key] for key in pod.card_policy.keys or ("spread",)]
    return [0.0 if spot.place in early else 1.0, *keys, float(spot.place)]


def linked(node: Node, chosen: Sequence[Spot], others: Sequence[Spot]) -> int:
    """The sum of links inside the set; for one card, minus the sum of its links to the others that fit."""
    if not node.links:
        return 0
    if len(chosen) == 1:
        return -sum(node.links[chosen[0].row][other.row] for other in others if other is not chosen[0])
    return sum(node.links[one.row][other.row] for one, other in combinations(chosen, 2))


# -- one node ------------------------------------------------------------------------------------------------------


@dataclass
class Step:
    """One request of one container."""

    container: int
    kind: ContainerKind
    request: CardRequest


@dataclass
class Search:
    """Trying a pod on one node: `chosen` is what each step got so far, `tries` how many choices were made in vain."""

    node: Node
    pod: PodRequest
    spots: list[Spot]
    steps: list[Step]
    chosen: list[tuple[Spot, ...]] = field(default_factory=list)
    tries: int = 0

    def fill(self, at: int) -> bool:
        """Give the steps from `at` on the first choices, in order of preference, with which all find their cards."""
        if at == len(self.steps):
            return True
        step = self.steps[at]
        for choice in self.choices(at):
            self.chosen.append(choice)
            if not within_quota(self.pod, self.containers()):
                self.chosen.pop()
                self.tries += 1
                continue
            self.take(step, choice, 1)
            if self.fill(at + 1):
                return True
            self.take(step, choice, -1)
            self.chosen.pop()
            self.tries += 1
            if step.kind is ContainerKind.INIT:
                return False  # what it got is free again when the next starts: another choice changes nothing
        return False

    def take(self, step: Step, choice: Sequence[Spot], sign: int) -> None:
        """Count what runs beside all that follow: everything but init containers."""
        if step.kind is not ContainerKind.INIT:
            alone = int(is_exclusive(step.request, self.pod))
            for spot in choice:
                memory = memory_needed(step.request, spot.card)
                spot.add(sign, sign * memory, sign * step.request.cores_percent, sign * alone)

    def choices(self, at: int) -> list[tuple[Spot, ...]]:
        """Every set of cards that the step could take, best first."""
        step = self.steps[at]
        request = step.request
        early = self.own_init_cards(at)
        fitting = [spot for spot in self.spots if verdict(spot, request, self.pod, self.spots) == "fits"]
        fitting.sort(key=lambda spot: rank_key(spot, self.pod, early))
        together = one_numa(request, self.pod)
        found = []
        for places in combinations(range(len(fitting)), request.count):
            choice = tuple(fitting[place] for place in places)
            if together and len({spot.card.numa for spot in choice}) > 1:
                continue
            others = [spot for spot in fitting if not together or spot.card.numa == choice[0].card.numa]
            links = linked(self.node, choice, others) if self.pod.card_policy.linked else 0
            found.append((-links, places, choice))
        found.sort(key=lambda one: one[:2])
        return [choice for _links, _places, choice in found]

    def containers(self) -> tuple[ContainerAllocation, ...]:
        """What each container got so far."""
        containers = []
        for number, container in enumerate(self.pod.containers):
            got = []
            for step, choice in zip(self.steps, self.chosen, strict=False):
                if step.container == number:
                    got += [allocation(spot.card, step.request) for spot in choice]
            containers.append(ContainerAllocation(name=container.name, kind=container.kind, cards=tuple(got)))
        return tuple(containers)

    def own_init_cards(self, at: int) -> set[int]:
        """Cards of the pod's init containers, which its app containers take first."""
        if self.steps[at].kind is not ContainerKind.APP:
            return set()
        done = zip(self.steps[:at], self.chosen, strict=True)
        return {spot.place for step, choice in done if step.kind is ContainerKind.INIT for spot in choice}


def steps_of(pod: PodRequest) -> list[Step]:
    """The requests in the order in which they are placed: those of init containers and sidecars, then of apps."""
    steps = [
        Step(number, container.kind, request)
        for number, container in enumerate(pod.containers)
        for request in container.cards
    ]
    return [s for s in steps if s.kind is not ContainerKind.APP] + [s for s in steps if s.kind is ContainerKind.APP]


@dataclass
class Outcome:
    """What became of a pod on a node, or on all of them."""

    placement: Placement | None
    tries: int = 0


def plan(node: Node, uses: Uses, pod: PodRequest) -> Outcome:
    """The pod's cards on one node, if it finds them there."""
    search = Search(node, pod, spots_of(node, uses), steps_of(pod))
    if node.out_of_service or not search.fill(0):
        return Outcome(None, search.tries)
    exclusive = {
        spot.card.uuid
        for step, choice in zip(search.steps, search.chosen, strict=True)
        for spot in choice
        if is_exclusive(step.request, pod)
    }
    placement = Placement(node=node.name, containers=search.containers(), exclusive=frozenset(exclusive))
    return Outcome(placement, search.tries)


def allocation(card: Card, request: CardRequest) -> CardAllocation:
    """What a request takes of a card."""
    return CardAllocation(
        family=card.family,
        uuid=card.uuid,
        index=card.index,
        memory_mib=memory_needed(request, card),
        cores_percent=request.cores_percent,
    )


# -- all nodes -----------------------------------------------------------------------------------------------------


def decide(nodes: Iterable[Node], uses: Uses, pod: PodRequest, wishes: Mapping[str, int] | None = None) -> Outcome:
    """Where the pod goes: the first node, best first, on which it finds its cards. `wishes` rank before the policy."""

    def key(node: Node) -> tuple[float, float, str]:
        score = node_score(node, uses)
        return -(wishes or {}).get(node.name, 0), -score if pod.node_policy == "binpack" else score, node.name

    tries = 0
    for node in sorted(nodes, key=key):
        outcome = plan(node, uses, pod)
        tries += outcome.tries
        if outcome.placement is not None:
            return Outcome(outcome.placement, tries)
    return Outcome(None, tries)


def refused(nodes: Iterable[Node], uses: Uses, pod: PodRequest) -> dict[str, bool]:
    """The nodes that cannot take the pod, and whether they could not even with nothing running anywhere."""
    return {
        node.name: plan(emptied(node), {}, replace(pod, quota={})).placement is None
        for node in nodes
        if plan(node, uses, pod).placement is None
    }


def emptied(node: Node) -> Node:
    """The node when no pod is left there: what the unreadable record of a pod keeps shut is open then."""
    return replace(node, out_of_service="", unreadable=()) if node.unreadable else node


# -- what a pod holds ----------------------------------------------------------------------------------------------


def phases(containers: Sequence[Container]) -> list[list[Container]]:
    """Which containers run together, over a pod's life."""
    sidecars: list[Container] = []
    found: list[list[Container]] = []
    for container in containers:
        if container.kind is ContainerKind.INIT:
            found.append([*sidecars, container])
        elif container.kind is ContainerKind.SIDECAR:
            sidecars.append(container)
    apps = [container for container in containers if container.kind is ContainerKind.APP]
    return [*found, [*sidecars, *apps]]


def peak(placement: Placement) -> dict[str, CardUse]:
    """What a pod holds of each card: of slots, memory and compute the most that any phase uses."""
    everything = [card for container in placement.containers for card in container.cards]
    found = {}
    for uuid in {card.uuid for card in everything}:
        together = [
            [card for container in phase for card in container.cards if card.uuid == uuid]
            for phase in phases(placement.containers)
        ]
        alone = uuid in placement.exclusive or any(c.uuid == uuid and c.cores_percent >= 100 for c in everything)
        found[uuid] = CardUse(
            slots=max(len(cards) for cards in together),
            memory_mib=max(sum(card.memory_mib for card in cards) for cards in together),
            cores_percent=max(sum(card.cores_percent for card in cards) for cards in together),
            holders=int(alone),
        )
    return found


def has_room(node: Node, uses: Uses, placement: Placement) -> bool:
    """Whether what a pod is to hold stays within the totals, with nobody beside a pod that holds a card alone."""
    cards = {card.uuid: card for card in node.cards}
    if placement.node != node.name or node.out_of_service:
        return False
    for uuid, use in peak(placement).items():
        if uuid not in cards:
            return False
        used = uses.get((node.name, uuid), CardUse())
        if used.holders or (use.holders and used.slots):
            return False
        if used.slots + use.slots > cards[uuid].slots:
            return False
        if used.memory_mib + use.memory_mib > cards[uuid].memory_mib:
            return False
        if used.cores_percent + use.cores_percent > cards[uuid].cores_percent:
            return False
    return True
