"""What the engine answers, and what it wants done: plain values, which the shell carries out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from cardwise.core.cards import Ints
from cardwise.core.model import Placement, PodRequest, Refusal


@dataclass(frozen=True, slots=True)
class Untouched:
    """The pod asks for no managed resource: every node that was offered will do."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The nodes that the pod may go to: one, or in the mode `kube-scheduler` all that fit."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No node will do: why, each with the columns of the nodes it is said of; and the names that we do not know.

    `everywhere` is said of every node instead: the pod itself cannot be placed.
    """

    groups: tuple[tuple[Refusal, Ints], ...] = ()
    unknown: tuple[str, ...] = ()
    everywhere: Refusal | None = None

    @property
    def code(self) -> str:
        """The code of what refuses the most nodes."""
        if self.everywhere is not None:
            return self.everywhere.code
        if not self.groups:
            return "NodeUnknown"
        return max(self.groups, key=lambda group: len(group[1]))[0].code


Filtered = Untouched | Chosen | Refused


@dataclass(frozen=True, slots=True)
class Answer:
    """What bind answers: nothing, or why not."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """The one write of a placement: a Binding with this record."""

    uid: str
    namespace: str
    name: str
    node: str
    record: dict[str, str]


@dataclass(frozen=True, slots=True)
class Read:
    """The pod must be read first: nothing is known of it here."""

    namespace: str
    name: str


BindStep = Answer | Bind | Read


@dataclass(slots=True, kw_only=True)
class Reservation:
    """A placement that was decided and is not seen on the API server yet.

    `told` is what kube-scheduler had against the pod when it was filtered: if it says something else later, the attempt
    that this was made for has failed. `sent_at`: when a Binding last left with `record`; from then on only evidence ends
    it. `doubted_at`: since when it is not known whether one was carried out.
    """

    request: PodRequest
    placement: Placement
    made_at: datetime
    told: object = None
    sent_at: datetime | None = None
    doubted_at: datetime | None = None
    record: dict[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> bool:
        """Whether a Binding has left."""
        return self.sent_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """A waiting pod fits now: touch it, so that kube-scheduler looks at it again."""

    uid: str
    namespace: str
    name: str


VIEW_INCOMPLETE = Refusal(
    code="ViewIncomplete",
    text="Cardwise has not seen the whole cluster yet",
    kind="node(s) that Cardwise has not seen yet",
)
POD_GONE = Refusal(code="PodGone", text="the pod is gone", kind="node(s) for a pod that is gone", lasting=True)
NOT_LEADING = Refusal(
    code="NotLeading",
    text="Cardwise decides only while the kube-scheduler beside it holds its lease",
    kind="node(s) for a Cardwise whose kube-scheduler does not hold its lease",
)
UNKNOWN_NODE = Refusal(
    code="NodeUnknown", text="Cardwise does not know this node", kind="node(s) that Cardwise does not know"
)
