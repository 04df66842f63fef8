"""Small clusters and pods of every kind, in tight numbers: few sizes, so that cards fill up and scores tie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

import oracle
from builders import cluster
from cardwise.core.checks import Need, need_of
from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import (
    Card,
    CardPolicy,
    CardRequest,
    CardUse,
    ContainerKind,
    ContainerRequest,
    Links,
    Node,
    PodRequest,
    Selection,
    Weights,
)

NODES = ("a", "b", "c", "d", "e")
UUIDS = tuple(f"GPU-{number}" for number in range(7))
MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA A10", "Tesla T4")
MODES = ("", "hami-core", "mig")

rarely = st.sampled_from((False,) * 9 + (True,))
kinds = st.sampled_from((ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP, ContainerKind.APP))
families = st.sampled_from(("nvidia",) * 5 + ("hygon",))
sizes_mib = st.sampled_from((0, 1, 10, 20, 20, 20, 40))
cores = st.sampled_from((0, 50, 100, 100, 100, 200))
models = st.sampled_from(MODELS)
modes = st.sampled_from(MODES)


def subset(items: tuple[str, ...], most: int = 3) -> st.SearchStrategy[tuple[str, ...]]:
    """Mostly nothing, else some of these items."""
    return st.just(()) | st.just(()) | st.lists(st.sampled_from(items), max_size=most).map(tuple)


def cards(uuid: str, index: int) -> st.SearchStrategy[Card]:
    """One card of any kind and health."""
    return st.builds(
        Card,
        uuid=st.just(uuid),
        index=st.just(index),
        family=families,
        model=models,
        slots=st.sampled_from((0, 1, 2, 3, 3, 3, 4)),
        memory_mib=sizes_mib,
        cores_percent=cores,
        numa=st.integers(0, 1),
        healthy=rarely.map(lambda rare: not rare),
        mode=modes,
        partitioned=rarely,
    )


@st.composite
def links_between(draw: st.DrawFn, size: int) -> Links:
    """A symmetric matrix of few scores, some below zero, so that sums tie; the diagonal is 0."""
    scores = st.lists(st.sampled_from((-10, 0, 10, 10, 20, 50)), min_size=size * size, max_size=size * size)
    flat = draw(scores)
    return tuple(tuple(0 if i == j else flat[min(i, j) * size + max(i, j)] for j in range(size)) for i in range(size))


@st.composite
def nodes(draw: st.DrawFn, name: str = "a", most: int = 5) -> Node:
    """A node of up to `most` cards, registered in any order; UUIDs also stand on other nodes."""
    uuids = draw(st.lists(st.sampled_from(UUIDS), max_size=most, unique=True))
    indexes = draw(st.permutations(range(len(uuids))))
    same = draw(st.booleans())  # like cards make ties and choices, which cards drawn one by one rarely do
    kind = draw(cards("", 0))
    own = [
        replace(kind, uuid=uuid, index=index, numa=index % 2) if same else draw(cards(uuid, index))
        for uuid, index in zip(uuids, indexes, strict=True)
    ]
    return Node(
        name=name,
        cards=tuple(own),
        links=draw(st.just(()) | links_between(len(uuids))),
        cordoned=frozenset(draw(subset(UUIDS, 1))),
        out_of_service="its register cannot be read" if draw(rarely) else "",
    )


@st.composite
def renamed(draw: st.DrawFn, node: Node, name: str) -> Node:
    """Another node with such cards: only names and UUIDs differ."""
    uuids = draw(st.permutations(UUIDS))
    own = tuple(replace(card, uuid=uuid) for card, uuid in zip(node.cards, uuids, strict=False))
    return replace(node, name=name, cards=own)


uses = st.builds(
    CardUse,
    slots=st.integers(0, 2),
    memory_mib=st.sampled_from((0, 1, 5, 10, 15, 50)),
    cores_percent=st.sampled_from((0, 0, 10, 50, 100)),
    holders=st.sampled_from((0, 0, 0, 1)),
)


def holds(number: int) -> st.SearchStrategy[Hold]:
    """What the pod of this number holds, on known and unknown cards; sums may exceed a card, as after it shrank."""
    return st.builds(
        Hold,
        uid=st.just(f"uid-{number}"),
        namespace=st.just("ml"),
        name=st.just(f"running-{number}"),
        node=st.sampled_from((*NODES[:3], "gone")),
        use=st.dictionaries(st.sampled_from(UUIDS), uses, max_size=3),
        confirmed=st.booleans(),
    )


@st.composite
def requests(draw: st.DrawFn, family: str = "nvidia") -> CardRequest:
    """A request as admission lets it pass: MiB or percent, not both."""
    size = draw(st.sampled_from((1, 5, 10, 15, 20)) | st.sampled_from((-1, -30, -50, -60, -100)))
    return CardRequest(
        family=family,
        count=draw(st.sampled_from((1, 1, 1, 2, 2, 3))),
        memory_mib=max(size, 0),
        memory_percent=max(-size, 0),
        cores_percent=draw(st.sampled_from((0, 0, 10, 50, 100))),
    )


selections = st.builds(
    Selection,
    use_models=subset(("a100", "A10", "t4")),
    avoid_models=subset(("a100", "T4"), 1),
    use_uuids=subset(UUIDS, 6),
    avoid_uuids=subset(UUIDS, 2),
    modes=subset(MODES[1:], 2),
    one_numa=st.booleans(),
)
card_policies = st.builds(
    CardPolicy,
    keys=st.lists(st.sampled_from(("binpack", "spread", "numa")), max_size=2, unique=True).map(tuple),
    linked=st.booleans(),
    idle=st.sampled_from((False, False, True)),
)
weights = st.just(Weights()) | st.builds(
    Weights, slots=st.integers(0, 2), cores=st.integers(0, 2), memory=st.integers(0, 2)
)


@st.composite
def containers(draw: st.DrawFn, name: str) -> ContainerRequest:
    """A container that asks for nothing, for cards of one family, or of both."""
    asked = draw(st.sampled_from(((), ("nvidia",), ("nvidia",), ("nvidia",), ("hygon",), ("nvidia", "hygon"))))
    return ContainerRequest(name=name, kind=draw(kinds), cards=tuple(draw(requests(family)) for family in asked))


@st.composite
def pods(draw: st.DrawFn, name: str = "new", most: int = 4) -> PodRequest:
    """A pod of one to `most` containers, init containers first, with any wishes."""
    own = [draw(containers(f"c{number}")) for number in range(draw(st.integers(1, most)))]
    own.sort(key=lambda container: container.kind is ContainerKind.APP)
    wished = draw(st.sampled_from(((), (), ("nvidia",), ("nvidia", "hygon"))))
    return PodRequest(
        namespace="ml",
        name=name,
        uid=f"uid-{name}",
        containers=tuple(own),
        selections={family: draw(selections) for family in wished},
        node_policy=draw(st.sampled_from(("binpack", "spread"))),
        card_policy=draw(st.just(CardPolicy()) | card_policies),
        weights=draw(weights),
    )


@st.composite
def needs(draw: st.DrawFn) -> Need:
    """One request with a pod's wishes, as the checks read it."""
    return need_of(draw(requests(draw(families))), draw(st.just(Selection()) | selections), draw(card_policies))


@dataclass(frozen=True)
class Case:
    """Nodes, what runs on them, and a pod that comes."""

    nodes: tuple[Node, ...]
    holds: tuple[Hold, ...]
    pod: PodRequest

    def cluster(self) -> Cluster:
        """The same as the core keeps it."""
        made = cluster(*self.nodes)
        for hold in self.holds:
            made.confirm(hold)
        return made

    def uses(self) -> dict[tuple[str, str], CardUse]:
        """What is in use, added up."""
        return oracle.in_use((hold.node, hold.use) for hold in self.holds)


@st.composite
def cases(draw: st.DrawFn, most_nodes: int = 5, most_cards: int = 5) -> Case:
    """A cluster, what runs there, and a pod."""
    names = NODES[: draw(st.integers(1, most_nodes))]
    first = draw(nodes(names[0], most_cards))
    same = draw(st.booleans())
    others = (draw(renamed(first, name) if same else nodes(name, most_cards)) for name in names[1:])
    return Case(
        nodes=(first, *others),
        holds=tuple(draw(holds(number)) for number in range(draw(st.integers(0, 4)))),
        pod=draw(pods()),
    )
