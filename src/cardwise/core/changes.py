"""The smallest single changes that would make a pod fit. Every one of them was planned before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cardwise.core.family import Family
from cardwise.core.model import CardRequest, Selection
from cardwise.core.scene import Scene

MOST_MODELS = 3


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
            for resource, unit, now, make in _sizes(request, families[request.family]):
                most = _most(now, _Replaced(scene, at, request, make))
                if most is not None:
                    value, node = most
                    yield Change(change=f"{where}{resource} {value}{unit} instead of {now}{unit}", node=node)


Make = Callable[[int], CardRequest]


def _sizes(request: CardRequest, family: Family) -> Iterator[tuple[str, str, int, Make]]:
    """Resource, unit, what is asked now, and the request with less of it."""
    if request.memory_mib:
        yield family.memory_resource, " MiB", request.memory_mib, lambda less: replace(request, memory_mib=less)
    elif family.memory_percent_resource:
        percent = family.memory_percent_resource
        yield percent, " %", request.memory_percent, lambda less: replace(request, memory_percent=less)
    if request.cores_percent:
        yield family.cores_resource, " %", request.cores_percent, lambda less: replace(request, cores_percent=less)
    if request.count > 1:
        yield family.count_resource, "", request.count, lambda less: replace(request, count=less)


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


def _most(now: int, fits: Callable[[int], str | None]) -> tuple[int, str] | None:
    """The greatest value below `now` that fits, with its node; asking for less never makes a pod unfit."""
    low, high, node = 0, now - 1, None
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
    if selection.use_models or selection.avoid_models:
        models = _other_models(scene, family, selection)
        for model in models:
            text = f"another model ({family.use_models_key}: {model})"
            yield text, replace(selection, use_models=(model,), avoid_models=())
    if selection.use_uuids:
        yield f"without {family.use_uuids_key}", replace(selection, use_uuids=())
    for uuid in selection.avoid_uuids:
        rest = tuple(other for other in selection.avoid_uuids if other != uuid)
        yield f"without {uuid} in {family.avoid_uuids_key}", replace(selection, avoid_uuids=rest)
    if selection.modes:
        yield f"without {family.mode_key}", replace(selection, modes=())
    if selection.one_numa:
        yield f"without {family.one_numa_key}", replace(selection, one_numa=False)


def _other_models(scene: Scene, family: Family, selection: Selection) -> list[str]:
    """Models of this family that the pod does not want now, those that would take it first in the list."""
    models = {
        card.model for node in scene.cluster.cards.nodes if node for card in node.cards if card.family == family.name
    }
    unwanted = sorted(model for model in models if not wants(selection, model))
    fitting = [model for model in unwanted if _model_fits(scene, family, selection, model)]
    return fitting[:MOST_MODELS]


def _model_fits(scene: Scene, family: Family, selection: Selection, model: str) -> bool:
    other = replace(selection, use_models=(model,), avoid_models=())
    selections = {**scene.pod.selections, family.name: other}
    return _node(scene.asking(replace(scene.pod, selections=selections))) is not None


def wants(selection: Selection, model: str) -> bool:
    """Whether a selection's model lists let this model through."""
    lowered = model.lower()

    def names(items: Iterable[str]) -> bool:
        return any(item.lower() in lowered for item in items)

    return (not selection.use_models or names(selection.use_models)) and not names(selection.avoid_models)


def _ending(scene: Scene, bound: Mapping[str, Mapping[str, int]]) -> Iterator[Change]:
    """The pod with the smallest hold whose ending alone would make room."""
    cluster = scene.cluster
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
