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
    CardAllocation,
    CardPolicy,
    CardRequest,
    CardUse,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    Left,
    Links,
    Node,
    Placement,
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
    shut = draw(rarely)
    return Node(
        name=name,
        cards=tuple(own),
        links=draw(st.just(()) | links_between(len(uuids))),
        cordoned=frozenset(draw(subset(UUIDS, 1))),
        out_of_service="it cannot be read" if shut else "",
        unreadable=draw(subset(("ml/running-0",))) if shut else (),
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


light = st.sampled_from((CardUse(), CardUse(), CardUse(slots=1, memory_mib=1), CardUse(slots=1, memory_mib=5)))
sizes = st.sampled_from((1, 5, 10, 15, 20)) | st.sampled_from((-1, -30, -50, -60, -100))
"""Of memory: MiB, or percent below zero."""


def requests(family: str = "nvidia") -> st.SearchStrategy[CardRequest]:
    """A request as admission lets it pass: MiB or percent, not both."""
    return requests_of(sizes, family)


@st.composite
def requests_of(draw: st.DrawFn, sizes: st.SearchStrategy[int], family: str = "nvidia") -> CardRequest:
    """The same of these sizes."""
    size = draw(sizes)
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


def limits(amounts: tuple[int, ...]) -> st.SearchStrategy[int | None]:
    """Mostly no limit, else one of these."""
    return st.none() | st.none() | st.sampled_from(amounts)


@st.composite
def quotas(draw: st.DrawFn) -> dict[str, Left]:
    """What quotas leave of one family or two: often nothing but memory is limited, in sizes that only some cards have."""
    left = st.builds(
        Left,
        cards=limits((0, 1, 2, 3)),
        memory_mib=limits((0, 5, 10, 15)) | st.sampled_from((5, 10, 15, 20, 30, 40)),
        cores_percent=limits((0, 50, 100)),
    )
    return draw(st.dictionaries(families, left, min_size=1, max_size=2))


@st.composite
def pods(draw: st.DrawFn, name: str = "new", most: int = 4) -> PodRequest:
    """A pod of one to `most` containers, init containers first, with any wishes."""
    own = [draw(containers(f"c{number}")) for number in range(draw(st.integers(1, most)))]
    if draw(
        st.sampled_from((False, False, True))
    ):  # requests that are equal, as replicas of one program in a pod make them
        own = [replace(container, cards=own[0].cards) for container in own]
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
        quota=draw(st.just({}) | st.just({}) | quotas()),
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


TIGHT: dict[str, tuple[dict[str, int], ...]] = {
    "slots": ({"slots": 2}, {"slots": 3}),
    "slots with as many free": ({"slots": 2}, {"slots": 3, "used slots": 1}),
    "memory": ({"memory_mib": 20}, {"memory_mib": 25}),
    "compute": ({"cores_percent": 100}, {"cores_percent": 150}),
    "numa": ({"numa": 0}, {"numa": 1}),
    "used slots": ({}, {"used slots": 1}, {"used slots": 2}),
    "used memory": ({}, {"used memory_mib": 5}, {"used memory_mib": 10}),
    "used compute": ({}, {"used cores_percent": 40}, {"used cores_percent": 60}),
    "held": ({"used slots": 1}, {"used slots": 1, "used holders": 1}),
}
"""In what the cards of a tight case differ: fields of `Card`, and of `CardUse` after "used"."""


@st.composite
def tight_cases(draw: st.DrawFn) -> Case:
    """Cards that differ in one thing or two, and modest containers that like the card which a later one cannot spare."""
    different = draw(st.lists(st.sampled_from(sorted(TIGHT)), min_size=1, max_size=2, unique=True))
    same = draw(st.sampled_from(({}, {}, {"used memory_mib": 5}, {"used slots": 1, "used cores_percent": 40})))
    own, running = [], []
    for index in range(draw(st.integers(2, 4))):
        values = {"slots": 3, "memory_mib": 20, "cores_percent": 100, "numa": 0} | same
        for what in different:
            values |= draw(st.sampled_from(TIGHT[what]))
        used = {name.removeprefix("used "): values.pop(name) for name in [*values] if name.startswith("used ")}
        card = Card(
            uuid=UUIDS[index],
            index=index,
            family="nvidia",
            model=MODELS[0],
            slots=values["slots"],
            memory_mib=values["memory_mib"],
            cores_percent=values["cores_percent"],
            numa=values["numa"],
        )
        own.append(card)
        running.append(
            Hold(uid=f"u{index}", namespace="ml", name=f"r{index}", node="a", use={card.uuid: CardUse(**used)})
        )
    links = draw(st.just(()) | st.just(()) | links_between(len(own)))
    node = Node(name="a", cards=tuple(draw(st.permutations(own))), links=links)
    return Case(nodes=(node,), holds=tuple(running), pod=draw(tight_pods()))


@st.composite
def tight_pods(draw: st.DrawFn) -> PodRequest:
    """One container or two that ask for little, then one that asks for much of something."""
    little = [(1, draw(st.sampled_from((1, 5))), draw(st.sampled_from((0, 10))))] * draw(st.integers(1, 2))
    much = draw(
        st.sampled_from(
            ((1, 20, 0), (1, 16, 0), (1, 1, 100), (1, 1, 60), (1, 1, 70), (2, 16, 0), (2, 16, 0), (3, 5, 0))
        )
    )
    own = [
        ContainerRequest(
            name=f"c{number}",
            kind=draw(kinds) if number == 0 else ContainerKind.APP,
            cards=(CardRequest(family="nvidia", count=count, memory_mib=memory_mib, cores_percent=cores_percent),),
        )
        for number, (count, memory_mib, cores_percent) in enumerate((*little, much))
    ]
    return PodRequest(
        namespace="ml",
        name="new",
        uid="uid-new",
        containers=tuple(own),
        selections={"nvidia": Selection(one_numa=draw(st.booleans()))},
        card_policy=CardPolicy(
            keys=draw(
                st.sampled_from((("spread",), ("spread",), ("binpack",), ("numa", "binpack"), ("binpack", "numa")))
            ),
            linked=draw(st.booleans()),
        ),
    )


@st.composite
def cases_of_quotas(draw: st.DrawFn) -> Case:
    """Cards of two sizes or three, and containers that ask for percentages of them beyond what is left, or just within."""
    own = tuple(
        Card(
            uuid=uuid,
            index=index,
            family="nvidia",
            model=MODELS[0],
            slots=3,
            memory_mib=draw(st.sampled_from((10, 20, 30))),
            cores_percent=100,
            numa=index % 2,
        )
        for index, uuid in enumerate(UUIDS[: draw(st.integers(2, 5))])
    )
    size = st.sampled_from((-30, -50, -50, -100, 5))
    containers = [
        ContainerRequest(name=f"c{number}", kind=draw(kinds), cards=(draw(requests_of(size)),))
        for number in range(draw(st.integers(1, 3)))
    ]
    return Case(
        nodes=(Node(name="a", cards=own, links=draw(st.just(()) | links_between(len(own)))),),
        holds=tuple(
            Hold(uid=f"u{card.index}", namespace="ml", name=f"r{card.index}", node="a", use={card.uuid: draw(light)})
            for card in own
        ),
        pod=PodRequest(
            namespace="ml",
            name="new",
            uid="uid-new",
            containers=tuple(sorted(containers, key=lambda container: container.kind is ContainerKind.APP)),
            selections={"nvidia": Selection(one_numa=draw(st.booleans()))},
            card_policy=CardPolicy(
                keys=draw(st.sampled_from((("spread",), ("binpack",), ("numa", "spread")))), linked=draw(st.booleans())
            ),
            quota={"nvidia": Left(memory_mib=draw(st.integers(3, 60)), cards=draw(limits((2, 3))))},
        ),
    )


@dataclass(frozen=True)
class Binding:
    """One node with two cards, what runs there, and a pod that was to get these cards, some of them alone."""

    node: Node
    holds: tuple[Hold, ...]
    pod: PodRequest
    placement: Placement


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    """Old decisions: the node or its use may be another by now, and the pod may take the place of one or two others."""
    own = tuple(
        Card(
            uuid=uuid,
            index=index,
            family="nvidia",
            model=MODELS[0],
            slots=draw(st.integers(1, 3)),
            memory_mib=20,
            cores_percent=draw(st.sampled_from((100, 200))),
        )
        for index, uuid in enumerate(UUIDS[:2])
    )
    pod = PodRequest(
        namespace="ml", name=f"running-{draw(st.integers(0, 4))}", uid=f"uid-{draw(st.integers(0, 4))}", containers=()
    )
    placement = Placement(
        node=draw(st.sampled_from(("a",) * 9 + ("gone",))),
        containers=tuple(draw(allocations(f"c{number}")) for number in range(draw(st.integers(1, 3)))),
        exclusive=draw(st.sampled_from((frozenset(), frozenset(), frozenset(UUIDS[:1])))),
    )
    running = tuple(draw(modest_holds(number)) for number in range(draw(st.integers(0, 2))))
    return Binding(Node(name="a", cards=own), running, pod, placement)


@st.composite
def allocations(draw: st.DrawFn, name: str) -> ContainerAllocation:
    """No card or one, which may be unknown."""
    taken = st.builds(
        CardAllocation,
        family=st.just("nvidia"),
        uuid=st.sampled_from((*UUIDS[:2] * 4, "GPU-gone")),
        index=st.just(0),
        memory_mib=st.sampled_from((1, 5, 10, 15, 20)),
        cores_percent=st.sampled_from((0, 0, 10, 50, 100)),
    )
    return ContainerAllocation(name=name, kind=draw(kinds), cards=tuple(draw(st.lists(taken, max_size=1))))


@st.composite
def modest_holds(draw: st.DrawFn, number: int) -> Hold:
    """One slot and some memory of a card or two, here or on another node."""
    use = st.builds(
        CardUse,
        slots=st.just(1),
        memory_mib=st.sampled_from((1, 5, 10, 15)),
        cores_percent=st.sampled_from((0, 10, 50)),
        holders=st.sampled_from((0, 0, 1)),
    )
    return replace(
        draw(holds(number)),
        node=draw(st.sampled_from(("a", "a", "b"))),
        use=draw(st.dictionaries(st.sampled_from(UUIDS[:2]), use, min_size=1)),
    )
