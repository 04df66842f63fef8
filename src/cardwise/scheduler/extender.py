"""The extender protocol: bytes in, bytes out (k8s.io/kube-scheduler/extender/v1).

Its structs have no JSON tags, so Go's field names are the names on the wire; Go reads them in any case, and so do we.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cardwise.core.cards import Cards
from cardwise.core.model import Refusal
from cardwise.scheduler.answers import UNKNOWN_NODE, Chosen, Filtered, Refused
from cardwise.scheduler.offered import Offered
from cardwise.wire import objects

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)


class ProtocolError(ValueError):
    """A request that is not one, in one sentence. `readable`: it is JSON, so the protocol has words for an answer."""

    def __init__(self, says: str, *, readable: bool = True) -> None:
        super().__init__(says)
        self.readable = readable


class NodeItems(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class Args(msgspec.Struct, gc=False):
    """What filter and prioritize are asked."""

    pod: objects.Pod | None = msgspec.field(default=None, name="Pod")
    nodes: NodeItems | None = msgspec.field(default=None, name="Nodes")
    names: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="NodeNames")

    @property
    def pod_sent(self) -> objects.Pod:
        """The pod, which `filter_args` has made sure of."""
        if self.pod is None:
            raise ProtocolError("Pod is missing, must be the pod to be placed")
        return self.pod


class Victim(msgspec.Struct, gc=False):
    uid: str = msgspec.field(default="", name="UID")
    metadata: objects.Meta | None = None


class Victims(msgspec.Struct, gc=False):
    """The pods that would be evicted from a node, as uids or as whole pods."""

    pods: list[Victim] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")

    @property
    def uids(self) -> list[str]:
        """Their uids."""
        uids = (pod.uid or (pod.metadata.uid if pod.metadata else "") for pod in self.pods or ())
        return [uid for uid in uids if uid]


class PreemptArgs(msgspec.Struct, gc=False):
    """What preempt is asked."""

    pod: objects.Pod | None = msgspec.field(default=None, name="Pod")
    by_pods: dict[str, Victims] | None = msgspec.field(default=None, name="NodeNameToVictims")
    by_uids: dict[str, Victims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")

    @property
    def pod_sent(self) -> objects.Pod:
        """The pod, which `preempt_args` has made sure of."""
        if self.pod is None:
            raise ProtocolError("Pod is missing, must be the pod that would preempt")
        return self.pod

    @property
    def victims(self) -> dict[str, Victims]:
        """By node."""
        return self.by_uids or self.by_pods or {}


class BindArgs(msgspec.Struct, gc=False):
    """What bind is asked."""

    name: str = msgspec.field(default="", name="PodName")
    namespace: str = msgspec.field(default="", name="PodNamespace")
    uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")


_args = msgspec.json.Decoder(Args)
_preempt = msgspec.json.Decoder(PreemptArgs)
_bind = msgspec.json.Decoder(BindArgs)
_any = msgspec.json.Decoder()
_node = msgspec.json.Decoder(objects.Node)
_encode = msgspec.json.Encoder().encode

_KEYS = {
    key.lower(): key
    for key in (
        *("Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims"),
        *("PodName", "PodNamespace", "PodUID", "Node"),
    )
}


def filter_args(body: bytes) -> Args:
    """The request of filter or prioritize. Raises ProtocolError where it is none, or lacks the pod or the nodes."""
    args = _decoded(body, _args)
    if args.pod is None or (args.nodes is None and _is_null(args.names)):
        args = _decoded(_in_gos_case(body), _args)
    if args.pod is None:
        raise ProtocolError("Pod is missing, must be the pod to be placed")
    if args.nodes is None and _is_null(args.names):
        raise ProtocolError("Nodes and NodeNames are missing, must be one of them")
    return args


def preempt_args(body: bytes) -> PreemptArgs:
    """The request of preempt. Raises ProtocolError."""
    args = _decoded(body, _preempt)
    if args.pod is None or not args.victims:
        args = _decoded(_in_gos_case(body), _preempt)
    if args.pod is None:
        raise ProtocolError("Pod is missing, must be the pod that would preempt")
    return args


def bind_args(body: bytes) -> BindArgs:
    """The request of bind. Raises ProtocolError."""
    args = _decoded(body, _bind)
    if not (args.uid and args.name and args.namespace and args.node):
        args = _decoded(_in_gos_case(body), _bind)
    for key, value in (
        ("PodName", args.name),
        ("PodNamespace", args.namespace),
        ("PodUID", args.uid),
        ("Node", args.node),
    ):
        if not value:
            raise ProtocolError(f"{key} is (empty), must be set")
    return args


def offered(args: Args, cards: Cards) -> Offered:
    """The node names of a request that names them. Raises ProtocolError where they are no list of texts."""
    found = Offered(bytes(args.names), cards)
    try:
        found.check()
    except UNREADABLE as error:
        raise ProtocolError(f"NodeNames cannot be read: {error}") from error
    return found


@dataclass(frozen=True, slots=True)
class SentNode:
    """A node of a request that sends whole nodes, and the text it came as."""

    node: objects.Node
    raw: msgspec.Raw


def sent_nodes(args: Args) -> list[SentNode]:
    """The nodes of a request that sends them whole. Raises ProtocolError for one that cannot be read."""
    found = []
    for at, raw in enumerate((args.nodes and args.nodes.items) or ()):
        try:
            found.append(SentNode(_node.decode(raw), raw))
        except UNREADABLE as error:
            raise ProtocolError(f"Nodes.items[{at}] cannot be read: {error}") from error
    return found


# -- answers ---------------------------------------------------------------------------------------------------------


def filter_answer(answer: Filtered, args: Args, asked: Offered, cards: Cards) -> bytes:
    """The answer where names were sent: on success no failed nodes, else all of them with their reasons."""
    if isinstance(answer, Chosen):
        return b'{"NodeNames":' + _encode(answer.nodes) + b',"Error":""}'
    if isinstance(answer, Refused):
        return _refusal(answer, asked, cards)
    return b'{"NodeNames":' + bytes(args.names) + b',"Error":""}'


def nodes_answer(chosen: Sequence[SentNode]) -> bytes:
    """The answer where whole nodes were sent and some fit."""
    return _encode({"Nodes": {"items": [sent.raw for sent in chosen]}, "Error": ""})


def failed_answer(by_node: Mapping[str, Refusal]) -> bytes:
    """The answer where every node is refused, each with its reason."""
    for_now = {name: said(refusal) for name, refusal in by_node.items() if not refusal.lasting}
    for_good = {name: said(refusal) for name, refusal in by_node.items() if refusal.lasting}
    return _encode({"FailedNodes": for_now, "FailedAndUnresolvableNodes": for_good, "Error": ""})


def scores_answer(scores: Iterable[tuple[str, int]]) -> bytes:
    """The answer of prioritize."""
    return _encode([{"Host": name, "Score": score} for name, score in scores])


def preempt_answer(kept: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """The answer of preempt: by node the uids of the victims, and how many disruption budgets their going violates."""
    nodes = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in kept.items()
    }
    return _encode({"NodeNameToMetaVictims": nodes})


def bind_answer(error: str) -> bytes:
    """The answer of bind; empty is success."""
    return _encode({"Error": error})


def said(refusal: Refusal) -> str:
    """What kube-scheduler's event says of a node: few texts, the same for many nodes and from try to try."""
    return refusal.kind or refusal.text


def _refusal(answer: Refused, asked: Offered, cards: Cards) -> bytes:
    if answer.everywhere is not None:
        return failed_answer(dict.fromkeys(asked.names, answer.everywhere))
    for_now: list[str] = []
    for_good: list[str] = []
    for refusal, columns in answer.groups:
        (for_good if refusal.lasting else for_now).append(
            _same(cards.names_at(columns), said(refusal), plain=asked.plain)
        )
    if answer.unknown:
        for_now.append(_same(answer.unknown, said(UNKNOWN_NODE), plain=asked.plain))
    now, good = ",".join(filter(None, for_now)), ",".join(filter(None, for_good))
    return f'{{"FailedNodes":{{{now}}},"FailedAndUnresolvableNodes":{{{good}}},"Error":""}}'.encode()


def _same(names: Sequence[str], text: str, *, plain: bool) -> str:
    """Members of an object that all have the same text. `plain`: the names came in JSON without an escape."""
    if not names:
        return ""
    value = _encode(text).decode()
    if not plain:
        return ",".join(f"{_encode(name).decode()}:{value}" for name in names)
    return '"' + f'":{value},"'.join(names) + f'":{value}'


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        readable = isinstance(error, msgspec.ValidationError)
        raise ProtocolError(
            f"the request is {_glimpse(body)}, must be an extender's JSON: {error}", readable=readable
        ) from error


def _glimpse(body: bytes) -> str:
    return f"{len(body)} bytes" if body else "(empty)"


def _in_gos_case(body: bytes) -> bytes:
    """The same request with its outer keys as Go writes them."""
    try:
        read = _any.decode(body)
    except UNREADABLE as error:
        what = f"the request is {_glimpse(body)}, must be an extender's JSON: {error}"
        raise ProtocolError(what, readable=False) from error
    if not isinstance(read, dict):
        raise ProtocolError("the request is not an object, must be an extender's JSON", readable=False)
    named = {_KEYS.get(key.lower(), key): value for key, value in read.items()}
    if isinstance(nodes := named.get("Nodes"), dict):
        named["Nodes"] = {key.lower(): value for key, value in nodes.items()}
    return _encode(named)


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) == b"null"
