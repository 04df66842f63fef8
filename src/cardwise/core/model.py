"""The nouns: cards, nodes, requests, allocations, refusals.

All are frozen values with their units in their names. Text from outside never gets here: `cardwise.wire` turns it into
these types, or raises. Memory is MiB of one card, compute is percent of one card (100 is the whole card).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

WHOLE_CARD_CORES_PERCENT = 100
MOST = (1 << 31) - 1
"""The largest amount of anything: what the 32-bit fields of every reader of these formats can hold."""

Links = tuple[tuple[int, ...], ...]


class ContainerKind(Enum):
    """When a container of a pod runs: alone before the others, beside all that follow, or with the other app containers."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProfile:
    """One way to cut a partitioned card: its size, and where on the card it may start."""

    name: str
    memory_mib: int = 0
    cores_percent: int = 0
    slices: int = 0
    placements: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One physical card as its node registers it; `memory_mib` and `cores_percent` are totals, scaled where scaling is on.

    `partitioned` means that the card is cut in hardware and cannot be shared by slots. Raises ValueError for a number
    below 0 or above MOST.
    """

    uuid: str
    index: int
    family: str
    model: str
    slots: int
    memory_mib: int
    cores_percent: int
    numa: int = 0
    healthy: bool = True
    mode: str = ""
    partitioned: bool = False
    profiles: tuple[PartitionProfile, ...] = ()

    def __post_init__(self) -> None:
        for number in (self.index, self.slots, self.memory_mib, self.cores_percent, self.numa):
            if not 0 <= number <= MOST:
                raise ValueError(f"card {self.uuid}: a number is {number}, must be 0 to {MOST}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the cards see it.

    `links` is a symmetric matrix of link scores in the order of `cards`, empty where nothing is known. `cordoned` are
    UUIDs that take no new pods. `out_of_service` says in one sentence why the whole node takes no new pods, or is empty.
    `unreadable` are the pods (namespace/name) whose records cannot be read, if that is why: it ends when they do.
    Raises ValueError where a UUID stands twice, and for links of another number of cards.
    """

    name: str
    cards: tuple[Card, ...] = ()
    links: Links = ()
    cordoned: frozenset[str] = frozenset()
    out_of_service: str = ""
    unreadable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len({card.uuid for card in self.cards}) < len(self.cards):
            raise ValueError(f"node {self.name}: a card's UUID stands twice")
        if self.links and {len(self.links), *map(len, self.links)} != {len(self.cards)}:
            raise ValueError(f"node {self.name}: links are for another number of cards")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequest:
    """What one container asks of one family: `count` distinct cards, at least 1, and so much of each.

    Exactly one of `memory_mib` and `memory_percent` is above zero, and nothing is below; percentages of memory end at 100.
    Raises ValueError otherwise. `cores_by_default`: the user named no cores, they follow from the size.
    """

    family: str
    count: int
    memory_mib: int = 0
    memory_percent: int = 0
    cores_percent: int = 0
    cores_by_default: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        sizes = (self.memory_mib, self.memory_percent)
        if self.count < 1 or self.memory_percent > 100 or min(self.cores_percent, *sizes) < 0:
            raise ValueError(f"{self} is out of bounds")
        if sum(size > 0 for size in sizes) != 1:
            raise ValueError(f"{self} must say how much memory in exactly one way")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cards of one family a pod wants or refuses. An empty tuple is no constraint."""

    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    avoid_uuids: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    one_numa: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much slots, cores and memory count in a card's score."""

    slots: int = 1
    cores: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPolicy:
    """How cards of a node are ranked: sort keys in order of weight; a linked set instead; only idle cards.

    `keys` are names out of `policy.CARD_KEYS`. `linked` chooses the set with the best links (one card: the worst linked).
    `idle` needs cards that nothing uses, and keeps others off them.
    """

    keys: tuple[str, ...] = ("spread",)
    linked: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container: its name, when it runs, and what it asks of each family (nothing, for most containers).

    Raises ValueError where it asks one family twice.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    cards: tuple[CardRequest, ...] = ()

    def __post_init__(self) -> None:
        if len({request.family for request in self.cards}) < len(self.cards):
            raise ValueError(f"container {self.name} asks one family twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a pod may still take of one family by its namespace's quotas; None is no limit.

    `says` names the quota behind each limit (cards, memory, cores), with what it allows and what is in use.
    """

    cards: int | None = None
    memory_mib: int | None = None
    cores_percent: int | None = None
    says: tuple[str, str, str] = ("a quota", "a quota", "a quota")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTraits:
    """What a quota with scopes looks at: the priority class ("" is none), no CPU or memory asked, a deadline set."""

    priority_class: str = ""
    best_effort: bool = False
    terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What a pod asks for: its containers (init containers first, in their order) and its wishes.

    `selections` and `quota` are by family name; a family that is not named there has no constraint, and no limit.
    `traits` say which quotas count the pod; None: not known, so all do.
    """

    namespace: str
    name: str
    uid: str = ""
    containers: tuple[ContainerRequest, ...]
    selections: dict[str, Selection] = field(default_factory=dict)
    node_policy: str = "binpack"
    card_policy: CardPolicy = CardPolicy()
    weights: Weights = Weights()
    quota: Mapping[str, Left] = field(default_factory=dict)
    traits: PodTraits | None = field(default=None, compare=False)

    @property
    def full_name(self) -> str:
        """Namespace and name, as `kubectl` users write them."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardAllocation:
    """One card given to one container: MiB and percent of that card, resolved (no percentages of memory left)."""

    family: str
    uuid: str
    index: int
    memory_mib: int
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAllocation:
    """The cards of one container, in the order in which it gets them."""

    name: str
    kind: ContainerKind = ContainerKind.APP
    cards: tuple[CardAllocation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The answer for a pod: the node, and each container's cards (every container of the pod, in its order).

    `exclusive` are the UUIDs that the pod holds alone until it ends.
    """

    node: str
    containers: tuple[ContainerAllocation, ...]
    exclusive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """What is in use of one card, by one pod or by all: `holders` counts pods that hold the card alone."""

    slots: int = 0
    memory_mib: int = 0
    cores_percent: int = 0
    holders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node cannot take a pod.

    `code` is stable (what people alert on); `text` is one sentence with the numbers; `kind` is one without those of the
    node, the same for every node of which the same is true. `lasting`: no pod's leaving would help. `histogram` counts the
    node's cards by the check that refused them, in the order of the table.
    """

    code: str
    text: str
    kind: str = ""
    lasting: bool = False
    container: str = ""
    histogram: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A value from a user that cannot be meant: where it stands, what it is, what it must be."""

    field: str
    value: str
    must: str

    def __str__(self) -> str:
        return f"{self.field} is {self.value or '(empty)'}, must be {self.must}"
