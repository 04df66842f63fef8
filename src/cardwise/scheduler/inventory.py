"""What cards the cluster has at all: for warnings about requests that are legal but cannot work now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from cardwise.core.family import Family
from cardwise.core.model import Card, CardRequest, Node, PodRequest, Selection
from cardwise.wire.errors import MOST_WARNINGS, few, shown

MOST_NAMED = 3
LIKENESS = 0.65
MOST_COMPARED = 80
_NEIGHBOURS = 16


@dataclass(frozen=True, slots=True)
class Names:
    """Names that are there, in order forwards and backwards: what a misspelt one begins or ends like is near it."""

    known: frozenset[str]
    forwards: tuple[str, ...]
    backwards: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        """These names."""
        known = frozenset(names)
        return cls(known, tuple(sorted(known)), tuple(sorted(name[::-1] for name in known)))

    def closest(self, item: str) -> str:
        """` (did you mean X?)` for the name most like an unknown one, as a whole or in a word; or nothing."""
        near = [*_near(self.forwards, item), *(name[::-1] for name in _near(self.backwards, item[::-1]))]
        names = {name.lower(): name for name in sorted(near, reverse=True)}
        words = {word: name for lowered, name in names.items() for word in lowered.replace("-", " ").split()}
        for like in (names, words):
            if found := get_close_matches(item.lower()[:MOST_COMPARED], like, n=1, cutoff=LIKENESS):
                return f" (did you mean {shown(like[found[0]])}?)"
        return ""


def _near(ordered: tuple[str, ...], item: str) -> tuple[str, ...]:
    """The names around the place where this one would stand; all, where there are few."""
    if len(ordered) <= 4 * _NEIGHBOURS:
        return ordered
    place = bisect_left(ordered, item)
    return ordered[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """One family's cards over all nodes."""

    models: Names
    uuids: Names
    largest_mib: int = 0
    most_on_a_node: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Holdings by family name, and the families by name."""

    families: dict[str, Family]
    holdings: dict[str, Holdings] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node], families: Iterable[Family]) -> Inventory:
        """What these nodes have."""
        by_name = {family.name: family for family in families}
        cards: dict[str, list[list[Card]]] = {name: [] for name in by_name}
        for node in nodes:
            for name, of_family in cards.items():
                of_family.append([card for card in node.cards if card.family == name])
        return cls(families=by_name, holdings={name: _holdings(of_family) for name, of_family in cards.items()})

    def doubts(self, pod: PodRequest) -> list[str]:
        """Sentences about what no card or node of the cluster can give this pod now, and about items with two meanings."""
        said: list[str] = []
        for container in pod.containers:
            for request in container.cards:
                where = f"pod {pod.full_name}, container {container.name}"
                said += [f"{where}: {doubt}" for doubt in self._size_doubts(request)]
        for name, selection in pod.selections.items():
            said += [f"pod {pod.full_name}: {doubt}" for doubt in self._selection_doubts(name, selection)]
        return said

    def _size_doubts(self, request: CardRequest) -> list[str]:
        family, have = self.families[request.family], self.holdings[request.family]
        said = []
        if request.count > have.most_on_a_node:
            said.append(f"{family.count_resource} is {request.count}, the largest node has {have.most_on_a_node} cards")
        if request.memory_mib > have.largest_mib:
            said.append(
                f"{family.memory_resource} is {request.memory_mib}, the largest card has {have.largest_mib} MiB"
            )
        return said

    def _selection_doubts(self, name: str, selection: Selection) -> list[str]:
        family, have = self.families[name], self.holdings[name]
        doubts = [doubt for item in selection.use_models for doubt in _model_doubts(family.use_models_key, item, have)]
        said = list(few(doubts))
        for key, items in (
            (family.use_uuids_key, selection.use_uuids),
            (family.avoid_uuids_key, selection.avoid_uuids),
        ):
            unknown = [item for item in items if item not in have.uuids.known]
            said += [
                f"{key} names {shown(item)}, which no node has{have.uuids.closest(item)}"
                for item in unknown[:MOST_WARNINGS]
            ]
            if len(unknown) > MOST_WARNINGS:
                said.append(f"{key} names {len(unknown) - MOST_WARNINGS} more cards that no node has")
        return said


def _holdings(by_node: list[list[Card]]) -> Holdings:
    cards = [card for of_node in by_node for card in of_node]
    return Holdings(
        models=Names.of(card.model for card in cards),
        uuids=Names.of(card.uuid for card in cards),
        largest_mib=max((card.memory_mib for card in cards), default=0),
        most_on_a_node=max(map(len, by_node), default=0),
    )


def _model_doubts(key: str, item: str, have: Holdings) -> list[str]:
    """Doubts about an item of the list of wanted models; that a refused model is not there is as the user wants it."""
    matches = sorted(model for model in have.models.known if item.lower() in model.lower())
    if not matches:
        there = ", ".join(map(shown, have.models.forwards[:MOST_NAMED])) or "no cards"
        like = have.models.closest(item) or f" (there are: {there})"
        return [f"{key} names {shown(item)}, which no card's model contains{like}"]
    if len(matches) > 1:
        return [f"{key} {shown(item)} matches {len(matches)} models: {', '.join(map(shown, matches[:MOST_NAMED]))}"]
    return []
