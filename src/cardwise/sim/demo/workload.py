"""What the demo does: pods of several users one after another, each showing one thing, and what should become of each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cardwise.sim.demo.cluster import DemoNode
from cardwise.wire import names
from cardwise.wire.families import NVIDIA

Json = dict[str, Any]

NAMESPACES = ("batch", "research", "team-a", "team-b")
URGENT = "urgent"
URGENT_VALUE = 1000


class Fate(StrEnum):
    """What has become of a pod."""

    ASKED = "asked"
    PLACED = "placed"
    WAITING = "waiting"
    REFUSED = "refused at admission"
    EVICTED = "evicted"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A pod that is submitted, `namespace/name`. `limits` by the resource's short name."""

    pod: str
    limits: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    becomes: Fate = Fate.PLACED

    def manifest(self) -> Json:
        """The pod as a user writes it: no scheduler is named, admission sees to that."""
        namespace, name = self.pod.split("/")
        limits = {f"nvidia.com/{resource}": amount for resource, amount in self.limits.items()}
        container = {"name": "main", "image": "registry.example/train:1", "resources": {"limits": limits}}
        spec: Json = {"containers": [container], "restartPolicy": "Never"}
        if self.priority_class:
            spec["priorityClassName"] = self.priority_class
        meta = {"name": name, "namespace": namespace, "annotations": dict(self.annotations)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def says(self) -> str:
        """What it asks for, in one line."""
        parts = [f"{resource} {amount}" for resource, amount in self.limits.items()]
        parts += [f"{key.rpartition('/')[2]} {_short(text)}" for key, text in self.annotations.items()]
        parts += [f"priority class {self.priority_class}"] if self.priority_class else []
        return f"asks for {', '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The containers of a pod end, once another pod waits for that."""

    pod: str
    once_waits: str


Step = Ask | Finish


def steps(nodes: Sequence[DemoNode], seed: int) -> tuple[Step, ...]:
    """The workload for these nodes, in order. Nodes beyond the first five get pods of their own, by the seed."""
    return (*_script(nodes), *_more(len(nodes), seed))


def expected(told: Sequence[Step]) -> dict[str, Fate]:
    """What should have become of each pod in the end."""
    fates = {one.pod: one.becomes for one in told if isinstance(one, Ask)}
    return fates | {one.pod: Fate.ENDED for one in told if isinstance(one, Finish)}


def _script(nodes: Sequence[DemoNode]) -> Iterator[Step]:
    a40 = next(node for node in nodes if node.shape.name == "a40-0")
    one = {"gpu": "1"}
    yield Ask(pod="team-a/train-0", limits=one | {"gpumem": "20480", "gpucores": "30"})
    yield Ask(pod="team-a/train-1", limits=one | {"gpumem": "20480", "gpucores": "30"})
    yield Ask(pod="team-a/packed", limits=one | {"gpumem": "8000"}, annotations={names.CARD_POLICY: "binpack"})
    yield Ask(pod="team-b/infer", limits=one | {"gpumem": "4096"}, annotations=_model("T4"))
    avoided = {NVIDIA.avoid_uuids_key: a40.cards[0].uuid}
    yield Ask(pod="team-b/picky", limits=one | {"gpumem": "10000"}, annotations=_model("A40") | avoided)
    yield Ask(pod="research/whole", limits=one, annotations=_model("A100"))
    yield Ask(pod="research/pair", limits={"gpu": "2", "gpumem-percentage": "50"}, annotations=_model("A100"))
    alone = {names.CARD_POLICY: "mutex"}
    yield Ask(pod="research/alone", limits=one | {"gpumem": "4000"}, annotations=_model("T4") | alone)
    yield Ask(pod="team-b/holder", limits={"gpu": "2"}, annotations=_model("L40S"))
    yield Ask(pod="team-a/next", limits=one | {"gpumem": "30000"}, annotations=_model("L40S"))
    yield Finish(pod="team-b/holder", once_waits="team-a/next")
    yield Ask(pod="research/never", limits=one | {"gpumem": "100000"}, becomes=Fate.WAITING)
    yield Ask(pod="team-b/typo", limits=one | {"gpucores": "120"}, becomes=Fate.REFUSED)
    small = one | {"gpumem": "2000"}
    yield Ask(pod="batch/small-0", limits=small, annotations=_model("P4"))
    yield Ask(pod="batch/small-1", limits=small, annotations=_model("P4"), becomes=Fate.EVICTED)
    yield Ask(pod="team-a/urgent", limits=small, annotations=_model("P4"), priority_class=URGENT)


def _more(count: int, seed: int) -> Iterator[Step]:
    chance = random.Random(seed)  # noqa: S311  (sizes of make-believe pods)
    for number in range(2 * max(0, count - 5)):
        limits = {
            "gpu": "1",
            "gpumem": chance.choice(("2000", "4000", "8000")),
            "gpucores": chance.choice(("10", "20")),
        }
        yield Ask(pod=f"batch/fleet-{number}", limits=limits)


def _model(name: str) -> dict[str, str]:
    return {NVIDIA.use_models_key: name}


def _short(text: str) -> str:
    return text if len(text) <= 16 else f"{text[:12]}..."
