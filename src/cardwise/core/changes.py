"""The smallest single changes that would make a pod fit. Every one of them was planned before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cardwise.core.family import Family
from cardwise.core.model import CardRequest, Selection
from cardwise.core.scene import Scene

MOST_MODELS = 3
MOST_TRIED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change, in words a user can act on, and the node that then takes the pod."""

    change: str
    node: str


def changes(scene: Scene, bound: Mapping[str, Mapping[str, int]]) -> tuple[Change, ...]:
    """For each kind of change the smallest that helps, alone; () where none does.

    `bound` are the amounts that kube-scheduler counts for each running pod, by uid.
    """
    return (*_smaller(scene), *_freer(scene), *_ending(scene, bound))


def _smaller(scene: Scene) -> Iterator[Change]:
    """Less memory, fewer cores, fewer cards, for one container at a time."""
    families = scene.cluster.families
    for at, container in enumerate(scene.pod.containers):
        for request in container.cards:
            where = f"container {container.name}: " if len(scene.pod.containers) > 1 else ""
            for size in _sizes(request, families[request.family]):
                most = _most(size.least, size.now, _Replaced(scene, at, request, size.make))
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


def _most(least: int, now: int, fits: Callable[[int], str | None]) -> tuple[int, str] | None:
    """The greatest value from `least` to below `now` that fits, with its node: less never makes a pod unfit."""
    low, high, node = least - 1, now - 1, None
    while low < high:
        middle = (low + high + 1) // 2
        found = fits(middle)
        if found is None:
            high = middle - 1
        else:
            low, node = middle, found
    return (low, node) if node is not None else None


def _freer(scene: Scene) -> Iterator[Change]:
    """Fewer wishes: another model, a UUID less, no NUMA binding, no idle cards."""
    for name, selection in scene.pod.selections.items():
        family = scene.cluster.families[name]
        for text, other in _selections(scene, family, selection):
            selections = {**scene.pod.selections, name: other}
            if node := _node(scene.asking(replace(scene.pod, selections=selections))):
                yield Change(change=text, node=node)
    policy = scene.pod.card_policy
    if policy.idle and (node := _node(scene.asking(replace(scene.pod, card_policy=replace(policy, idle=False))))):
        yield Change(change="card policy without mutex", node=node)


def _selections(scene: Scene, family: Family, selection: Selection) -> Iterator[tuple[str, Selection]]:
    if selection.use_models:
        for model in _other_models(scene, family, selection):
            yield f"another model ({family.use_models_key}: {model})", replace(selection, use_models=(model,))
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


def _other_models(scene: Scene, family: Family, selection: Selection) -> list[str]:
    """Models of this family that the pod does not name now, does not refuse, and that would take it."""
    models = {
        card.model for node in scene.cluster.cards.nodes if node for card in node.cards if card.family == family.name
    }
    other = sorted(m for m in models if not wants(selection, m) and wants(replace(selection, use_models=()), m))
    return [model for model in other if _model_fits(scene, family, selection, model)][:MOST_MODELS]


def _model_fits(scene: Scene, family: Family, selection: Selection, model: str) -> bool:
    selections = {**scene.pod.selections, family.name: replace(selection, use_models=(model,))}
    return _node(scene.asking(replace(scene.pod, selections=selections))) is not None


def wants(selection: Selection, model: str) -> bool:
    """Whether a selection's model lists let this model through."""
    lowered = model.lower()

    def names(items: Iterable[str]) -> bool:
        return any(item.lower() in lowered for item in items)

    return (not selection.use_models or names(selection.use_models)) and not names(selection.avoid_models)


def _ending(scene: Scene, bound: Mapping[str, Mapping[str, int]]) -> Iterator[Change]:
    """The pod with the smallest hold whose ending alone would make room, or would put its node into service again."""
    cluster = scene.cluster
    for node in filter(None, cluster.cards.nodes):
        if len(node.unreadable) == 1 and scene.fits_cards_of(cluster.cards.index_of[node.name]):
            yield Change(change=f"pod {node.unreadable[0]} ending", node=node.name)
            return
    holds = sorted(
        cluster.holds.values(),
        key=lambda hold: (sum(use.memory_mib for use in hold.use.values()), len(hold.use), hold.full_name),
    )
    for hold in holds:
        n = cluster.cards.index_of.get(hold.node)
        if n is None or not cluster.cards.in_service[n]:
            continue
        if scene.place_without(n, hold.uid, bound.get(hold.uid, {})) is not None:
            yield Change(change=f"pod {hold.full_name} ending", node=hold.node)
            return
