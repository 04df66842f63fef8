"""The smallest single changes that would make a pod fit. Every one of them was planned before it is told.

Finding them takes many decisions, so they come step by step: a None between two steps is a moment for other work. What a
step needs of the cluster it reads anew, so the cluster may change meanwhile; a change then tells how it was a moment ago.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cardwise.core.checks import Need
from cardwise.core.cluster import Hold
from cardwise.core.family import Family
from cardwise.core.model import CardRequest, Selection
from cardwise.core.plan import count_in, steps_of
from cardwise.core.scene import Scene
from cardwise.core.shapes import usable

MOST_MODELS = 3
MOST_TRIED = 100
MOST_ENDS = 200
HOLDS_A_STEP = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change, in words a user can act on, and the node that then takes the pod."""

    change: str
    node: str


Steps = Iterator[Change | None]


def changes(scene: Scene, bound: Mapping[str, Mapping[str, int]]) -> tuple[Change, ...]:
    """For each kind of change the smallest that helps, alone; () where none does.

    `bound` are the amounts that kube-scheduler counts for each running pod, by uid.
    """
    return tuple(change for change in each_change(scene, bound, most_ends=None) if change is not None)


def each_change(scene: Scene, bound: Mapping[str, Mapping[str, int]], *, most_ends: int | None = MOST_ENDS) -> Steps:
    """The same, one by one as they are found; None where a step is over and nothing was found.

    At most `most_ends` running pods (None: all) are tried for whether their ending helps, those with the smallest holds
    of all whose cards would then do. A step is a decision, or a look at some hundreds of holds.
    """
    yield from _smaller(scene)
    yield from _freer(scene)
    yield from _ending(scene, bound, most_ends)


def _smaller(scene: Scene) -> Steps:
    """Less memory, fewer cores, fewer cards, for one container at a time."""
    families = scene.cluster.families
    for at, container in enumerate(scene.pod.containers):
        for request in container.cards:
            where = f"container {container.name}: " if len(scene.pod.containers) > 1 else ""
            for size in _sizes(request, families[request.family]):
                most = yield from _most(size.least, size.now, _Replaced(scene, at, request, size.make))
                if most is not None:
                    value, node = most
                    now = f"{size.now}{size.unit}"
                    yield Change(change=f"{where}{size.resource} {value}{size.unit} instead of {now}", node=node)


Make = Callable[[int], CardRequest]


@dataclass(frozen=True, slots=True)
class _Size:
    """One amount of a request: what is asked now, the least that means anything, and the request with less of it."""

    resource: str
    unit: str
    now: int
    least: int
    make: Make


def _sizes(request: CardRequest, family: Family) -> Iterator[_Size]:
    # Cores that follow from the whole card are no longer asked once less than the whole card is.
    part = replace(request, cores_percent=family.default_cores_percent) if request.cores_by_default else request
    if request.memory_mib:
        yield _Size(family.memory_resource, " MiB", request.memory_mib, 1, lambda less: replace(part, memory_mib=less))
    elif family.memory_percent_resource:
        name = family.memory_percent_resource
        yield _Size(name, " %", request.memory_percent, 1, lambda less: replace(part, memory_percent=less))
    if request.cores_percent and family.cores_resource:
        name = family.cores_resource
        yield _Size(name, " %", request.cores_percent, 0, lambda less: replace(request, cores_percent=less))
    if request.count > 1:
        yield _Size(family.count_resource, "", request.count, 1, lambda less: replace(request, count=less))


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The scene with one request of one container made anew from a number: the node that takes the pod, or None."""

    scene: Scene
    at: int
    request: CardRequest
    make: Make

    def __call__(self, less: int) -> str | None:
        pod = self.scene.pod
        container = pod.containers[self.at]
        cards = tuple(self.make(less) if request is self.request else request for request in container.cards)
        containers = (*pod.containers[: self.at], replace(container, cards=cards), *pod.containers[self.at + 1 :])
        return _node(self.scene.asking(replace(pod, containers=containers)))


def _node(scene: Scene) -> str | None:
    placement = scene.place()
    return placement.node if placement else None


def _most(least: int, now: int, fits: Callable[[int], str | None]) -> Generator[None, None, tuple[int, str] | None]:
    """The greatest value from `least` to below `now` that fits, with its node: less never makes a pod unfit."""
    low, high, node = least - 1, now - 1, None
    while low < high:
        middle = (low + high + 1) // 2
        found = fits(middle)
        yield None
        if found is None:
            high = middle - 1
        else:
            low, node = middle, found
    return (low, node) if node is not None else None


def _freer(scene: Scene) -> Steps:
    """Fewer wishes: another model, a UUID less, no NUMA binding, no idle cards."""
    for name, selection in scene.pod.selections.items():
        family = scene.cluster.families[name]
        yield from _other_models(scene, family, selection)
        for text, other in _selections(family, selection):
            selections = {**scene.pod.selections, name: other}
            node = _node(scene.asking(replace(scene.pod, selections=selections)))
            yield Change(change=text, node=node) if node else None
    policy = scene.pod.card_policy
    if policy.idle:
        node = _node(scene.asking(replace(scene.pod, card_policy=replace(policy, idle=False))))
        yield Change(change="card policy without mutex", node=node) if node else None


def _other_models(scene: Scene, family: Family, selection: Selection) -> Steps:
    found = 0
    for model in _models(scene, family, selection) if selection.use_models else ():
        selections = {**scene.pod.selections, family.name: replace(selection, use_models=(model,))}
        node = _node(scene.asking(replace(scene.pod, selections=selections)))
        yield Change(change=f"another model ({family.use_models_key}: {model})", node=node) if node else None
        found += node is not None
        if found == MOST_MODELS:
            return


def _models(scene: Scene, family: Family, selection: Selection) -> list[str]:
    """Models of this family that the pod does not name now, and does not refuse."""
    cards = scene.cluster.cards
    of_family = cards.columns["family"] == cards.families.code(family.name)
    models = [cards.models.words[code] for code in np.unique(cards.columns["model"][of_family]).tolist()]
    return sorted(m for m in models if not wants(selection, m) and wants(replace(selection, use_models=()), m))


def _selections(family: Family, selection: Selection) -> Iterator[tuple[str, Selection]]:
    lists = (
        (family.avoid_models_key, "avoid_models", selection.avoid_models),
        (family.avoid_uuids_key, "avoid_uuids", selection.avoid_uuids),
    )
    for key, name, items in lists:
        for item in items[:MOST_TRIED]:
            rest = tuple(other for other in items if other != item)
            yield f"without {item} in {key}", _with(selection, name, rest)
    if selection.use_uuids:
        yield f"without {family.use_uuids_key}", replace(selection, use_uuids=())
    if selection.modes:
        yield f"without {family.mode_key}", replace(selection, modes=())
    if selection.one_numa:
        yield f"without {family.one_numa_key}", replace(selection, one_numa=False)


def _with(selection: Selection, name: str, items: tuple[str, ...]) -> Selection:
    return replace(selection, avoid_models=items) if name == "avoid_models" else replace(selection, avoid_uuids=items)


def wants(selection: Selection, model: str) -> bool:
    """Whether a selection's model lists let this model through."""
    lowered = model.lower()

    def names(items: Iterable[str]) -> bool:
        return any(item.lower() in lowered for item in items)

    return (not selection.use_models or names(selection.use_models)) and not names(selection.avoid_models)


def _ending(scene: Scene, bound: Mapping[str, Mapping[str, int]], most: int | None) -> Steps:
    """The pod with the smallest hold whose ending alone would make room, or would put its node into service again."""
    cluster = scene.cluster
    for node in [node for node in cluster.cards.nodes if node and len(node.unreadable) == 1]:
        n = cluster.cards.index_of.get(node.name)
        if n is not None and scene.fits_cards_of(n):
            yield Change(change=f"pod {node.unreadable[0]} ending", node=node.name)
            return
        yield None
    for hold in (yield from _promising(scene, most)):
        n = cluster.cards.index_of.get(hold.node)
        if n is None or cluster.holds.get(hold.uid) is not hold or not cluster.cards.in_service[n]:
            continue
        if scene.place_without(n, hold.uid, bound.get(hold.uid, {})) is not None:
            yield Change(change=f"pod {hold.full_name} ending", node=hold.node)
            return
        yield None


def _promising(scene: Scene, most: int | None) -> Generator[None, None, list[Hold]]:
    """The holds without which each container alone would find its cards on their node; the smallest first."""
    needs = list({step.need: None for step in steps_of(scene.pod)})
    found: list[Hold] = []
    holds = list(scene.cluster.holds.values())
    for start in range(0, len(holds), HOLDS_A_STEP):
        found += _would_do(scene, holds[start : start + HOLDS_A_STEP], needs)
        if most is not None and len(found) > most:
            found = heapq.nsmallest(most, found, key=_size)
        yield None
    return sorted(found, key=_size)


def _size(hold: Hold) -> tuple[int, int, str]:
    return sum(use.memory_mib for use in hold.use.values()), len(hold.use), hold.full_name


def _would_do(scene: Scene, holds: Sequence[Hold], needs: Sequence[Need]) -> list[Hold]:
    """Those of the holds, looked at as columns of their own: what their node would be like without each of them."""
    cards = scene.cluster.cards
    could = cards.in_service[: cards.width] & scene.table.mask(scene.rules, {})
    at = [cards.index_of.get(hold.node) for hold in holds]
    pairs = [(n, hold) for n, hold in zip(at, holds, strict=True) if n is not None and could[n]]
    view = cards.view(np.array([n for n, _hold in pairs], np.int64)).copy_use()
    for column, (n, hold) in enumerate(pairs):
        for uuid, use in hold.use.items():
            count_in(view, cards.position(n, uuid), use, -1, column=column)
    do = np.ones(len(pairs), np.bool_)
    for need in needs:
        do &= usable(view, need) >= need.count
    return [pairs[column][1] for column in np.flatnonzero(do).tolist()]
