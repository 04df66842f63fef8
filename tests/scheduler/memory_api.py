"""A small API server as plain values, for tests of what has no I/O: objects with versions, and what two watches tell.

What stands on the cards is added up here from the objects alone, by plain loops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from cardwise.core.model import Card, CardUse, Node
from cardwise.wire import names, objects
from cardwise.wire.families import FAMILIES, NVIDIA
from cardwise.wire.nodes import read_node

Json = dict[str, Any]
Key = tuple[str, str]
Spot = tuple[str, str]
"""A node's name and a card's UUID."""


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a watch has still to tell. `listed` ends a list: `keys` are all that it had."""

    kind: Literal["seen", "gone", "listed"]
    key: str
    value: Any = None
    keys: frozenset[str] = frozenset()


@dataclass
class Watch:
    """What one watch has still to tell. Objects may overtake each other, but nothing overtakes the end of a list."""

    coming: list[Told] = field(default_factory=list)
    past: list[Told] = field(default_factory=list)

    def take(self, pick: int) -> Told:
        """The next of one object, as `pick` chooses it."""
        free: dict[str, int] = {}
        for place, told in enumerate(self.coming):
            if told.kind == "listed":
                if not free:
                    free["", ""] = place  # type: ignore[index]
                break
            free.setdefault(told.key, place)
        places = sorted(free.values())
        told = self.coming.pop(places[pick % len(places)])
        self.past.append(told)
        return told


class Api:
    """Pods by namespace and name, nodes by name, and one counter of versions."""

    def __init__(self) -> None:
        self.version = 10
        self.pods: dict[Key, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.versions_of: dict[str, list[objects.Pod]] = {}
        self.watches = {"pods": Watch(), "nodes": Watch()}

    # -- writes ----------------------------------------------------------------------------------------------------

    def put_pod(self, pod: Json) -> objects.Pod:
        """A pod is new, or other than before."""
        meta = pod["metadata"]
        meta["resourceVersion"] = self._next()
        self.pods[meta["namespace"], meta["name"]] = pod
        typed = as_pod(pod)
        self.versions_of.setdefault(meta["uid"], []).append(typed)
        self.watches["pods"].coming.append(Told("seen", meta["uid"], typed))
        return typed

    def change_pod(self, uid: str, **changes: Any) -> None:
        """Sets fields of a pod that is there: `spec_nodeName` is spec.nodeName, and so on."""
        pod = deepcopy(self.pod(uid))
        if pod is None:
            return
        for path, value in changes.items():
            part, _, name = path.partition("_")
            pod.setdefault(part, {})[name] = value
        self.put_pod(pod)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone."""
        pod = self.pod(uid)
        if pod is not None:
            self._next()
            del self.pods[pod["metadata"]["namespace"], pod["metadata"]["name"]]
            self.watches["pods"].coming.append(Told("gone", uid))

    def bind(self, key: Key, uid: str, node: str, record: dict[str, str]) -> str:
        """Carries out a Binding; answers `done`, `not found` or `conflict`."""
        pod = self.pods.get(key)
        if pod is None:
            return "not found"
        taken = pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp")
        if pod["metadata"]["uid"] != uid or taken or has_ended(pod):
            return "conflict"
        pod = deepcopy(pod)
        pod["spec"]["nodeName"] = node
        pod["metadata"]["annotations"] |= record
        conditions = [{"type": "PodScheduled", "status": "True"}]
        pod["status"] = {"phase": "Pending", "conditions": conditions}
        self.put_pod(pod)
        return "done"

    def put_node(self, node: Json) -> None:
        """A node is new, or other than before."""
        node["metadata"]["resourceVersion"] = self._next()
        self.nodes[node["metadata"]["name"]] = node
        typed = msgspec.convert(node, objects.Node)
        self.watches["nodes"].coming.append(Told("seen", node["metadata"]["name"], typed))

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        self._next()
        del self.nodes[name]
        self.watches["nodes"].coming.append(Told("gone", name))

    def relist(self, what: str) -> None:
        """A watch has lost what it had still to tell, and tells all that there is now, in any order."""
        watch = self.watches[what]
        watch.coming.clear()
        if what == "pods":
            found = [(pod["metadata"]["uid"], as_pod(pod)) for pod in self.pods.values()]
        else:
            found = [(name, msgspec.convert(node, objects.Node)) for name, node in self.nodes.items()]  # type: ignore[misc]
        watch.coming += [Told("seen", key, one) for key, one in found]
        watch.coming.append(Told("listed", "", str(self.version), frozenset(key for key, _one in found)))

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    # -- reads -----------------------------------------------------------------------------------------------------

    def pod(self, uid: str) -> Json | None:
        """The pod of this uid, if it is there."""
        return next((pod for pod in self.pods.values() if pod["metadata"]["uid"] == uid), None)

    def waiting(self) -> list[Json]:
        """Pods that are to be placed, the most important first."""
        found = [pod for pod in self.pods.values() if not (is_bound(pod) or has_ended(pod) or is_ending(pod))]
        return sorted(found, key=lambda pod: (-pod["spec"].get("priority", 0), pod["metadata"]["name"]))

    def holders(self) -> Iterator[Json]:
        """Pods that hold what their record says."""
        return holders_of(self.pods.values())

    def held(self) -> dict[Spot, list[CardUse]]:
        """What is recorded on each card, by pod."""
        return held_by(self.pods.values())

    def cores(self) -> list[Node]:
        """The nodes as the core knows them."""
        return [core_of(node) for node in self.nodes.values()]


def core_of(node: Json) -> Node:
    """The node as the core knows it."""
    return read_node(msgspec.convert(node, objects.Node), FAMILIES).node


def holders_of(pods: Iterable[Json]) -> Iterator[Json]:
    """Those that hold what their record says."""
    return (pod for pod in pods if is_bound(pod) and not has_ended(pod))


def held_by(pods: Iterable[Json]) -> dict[Spot, list[CardUse]]:
    """What is recorded on each card, by pod."""
    found: dict[Spot, list[CardUse]] = {}
    for pod in holders_of(pods):
        for uuid, use in peak_of(pod).items():
            found.setdefault((pod["spec"]["nodeName"], uuid), []).append(use)
    return found


def as_pod(pod: Json) -> objects.Pod:
    return msgspec.convert(deepcopy(pod), objects.Pod)


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def has_ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_ending(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def total(uses: Iterable[CardUse]) -> CardUse:
    """The sum."""
    uses = list(uses)
    return CardUse(
        slots=sum(use.slots for use in uses),
        memory_mib=sum(use.memory_mib for use in uses),
        cores_percent=sum(use.cores_percent for use in uses),
        holders=sum(use.holders for use in uses),
    )


def within(uses: list[CardUse], card: Card) -> bool:
    """Whether a card can give so much to these pods, with nobody beside one that holds it alone."""
    use = total(uses)
    fits = use.slots <= card.slots and use.memory_mib <= card.memory_mib and use.cores_percent <= card.cores_percent
    return fits and (not use.holders or len(uses) == 1)


def peak_of(pod: Json) -> dict[str, CardUse]:
    """What a bound pod holds of each card by its record: init containers one after another, then the others together."""
    return peak_in(pod["spec"], pod["metadata"]["annotations"])


def peak_in(spec: Json, annotations: dict[str, str]) -> dict[str, CardUse]:
    """The same of a record that is not written yet."""
    shares = [_shares(text) for text in annotations[NVIDIA.allocated_key].split(";")]
    early, apps = len(spec.get("initContainers", ())), len(spec["containers"])
    phases = [*([one] for one in shares[:early]), shares[early : early + apps]]
    alone = set(annotations.get(names.EXCLUSIVE_CARDS, "").split(","))
    found: dict[str, CardUse] = {}
    for phase in phases:
        for uuid in {uuid for shared in phase for uuid, _mib, _cores in shared}:
            mine = [(mib, cores) for shared in phase for one, mib, cores in shared if one == uuid]
            have = found.get(uuid, CardUse())
            found[uuid] = CardUse(
                slots=max(have.slots, len(mine)),
                memory_mib=max(have.memory_mib, sum(mib for mib, _cores in mine)),
                cores_percent=max(have.cores_percent, sum(cores for _mib, cores in mine)),
                holders=int(have.holders or uuid in alone or any(cores >= 100 for _mib, cores in mine)),
            )
    return found


def cards_of(pod: Json) -> int:
    """How many cards a bound pod takes of a quota: the most at any time, whether they are the same or not."""
    counts = [len(_shares(text)) for text in pod["metadata"]["annotations"][NVIDIA.allocated_key].split(";")]
    early = len(pod["spec"].get("initContainers", ()))
    return max([*counts[:early], sum(counts[early:])])


def _shares(text: str) -> list[tuple[str, int, int]]:
    cards = (card.split(",") for card in text.split(":") if card)
    return [(uuid, int(mib), int(cores)) for uuid, _word, mib, cores in cards]


def register_of(node: Json) -> list[Json]:
    """The cards of a node, as they are registered."""
    cards: list[Json] = json.loads(node["metadata"]["annotations"][NVIDIA.register_key])
    return cards
