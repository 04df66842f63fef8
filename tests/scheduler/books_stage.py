"""The scheduler's books between a small API server and a kube-scheduler that asks: what the shell does, step by step.

A test chooses the order of the steps, and what becomes of each write. Every Binding is judged as it leaves: with all that
is bound, and all that may still be, no card may be given more than the service was shown of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cardwise.core.model import Card, CardUse
from cardwise.scheduler.answers import Answer, Bind, Chosen, Filtered, Read, Refused, Untouched, Wake
from cardwise.scheduler.binding import (
    bind_done,
    bind_in_doubt,
    bind_refused,
    bind_step,
    in_doubt,
    is_bound_as,
    pod_read,
)
from cardwise.scheduler.books import Books, Settings
from cardwise.scheduler.filtering import filter_pod
from cardwise.scheduler.gates import Turn
from cardwise.scheduler.offered import Offered
from cardwise.scheduler.pods import SeenPod
from cardwise.scheduler.preempting import preempt_on
from cardwise.wire import objects
from cardwise.wire.families import FAMILIES
from cardwise.wire.nodes import read_node
from cardwise.wire.quotas import Hard, QuotaReading

from .memory_api import Api, Json, Spot, Told, as_pod, is_bound, peak_in, within

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BIND_SECONDS = 10.0
"""So long an answer to a bind is waited for."""
REQUEST_SECONDS = 60.0
"""So long a write may still be carried out of which nobody waits for an answer."""
QUOTA_CARDS = 2
QUOTA = QuotaReading(namespace="few", name="cards", hard={"nvidia": Hard(cards=QUOTA_CARDS)})


BIND = timedelta(seconds=BIND_SECONDS)


@dataclass(eq=False)
class Flight:
    """A Binding that has left. `became` is what the API server made of it, empty while it is not carried out."""

    bind: Bind
    spec: Json
    began: datetime
    became: str = ""
    abandoned: bool = False

    @property
    def grant(self) -> tuple[str, ...]:
        """What it grants to whom, however often it is sent."""
        return self.bind.uid, *map(str, sorted(self.bind.record.items()))

    @property
    def uses(self) -> dict[Spot, CardUse]:
        """What it would record."""
        return {(self.bind.node, uuid): use for uuid, use in peak_in(self.spec, self.bind.record).items()}


@dataclass(eq=False)
class Stage:
    """`active` are pods that kube-scheduler tries as soon as it can, `chosen` those that it is to bind, and where.

    `shown` are the cards of each node as the service was told of them; `listed` the watches that have told all there is.
    """

    api: Api = field(default_factory=Api)
    now: datetime = BEGAN
    flights: list[Flight] = field(default_factory=list)
    active: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    reads: list[tuple[str, objects.Pod | None, datetime]] = field(default_factory=list)
    shown: dict[str, dict[str, Card]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    granted: set[tuple[str, ...]] = field(default_factory=set)
    books: Books = field(default_factory=lambda: Books(Settings()))
    gone: set[str] = field(default_factory=set)
    fenced: bool = False
    messages: int = 0

    def start(self) -> None:
        """A new service, after the one before was killed and its connections with it: it lists everything."""
        self.books = Books(Settings())
        self.books.holdings.quotas.set_quota(QUOTA)
        for forgotten in (self.flights, self.reads, self.shown, self.listed, self.granted, self.gone):
            forgotten.clear()
        for what in self.api.watches:
            self.api.watches[what].past.clear()
            self.api.relist(what)

    # -- what the service is told ----------------------------------------------------------------------------------

    def deliver(self, what: str, pick: int = 0) -> None:
        """It learns one thing."""
        self.take(what, self.api.watches[what].take(pick))

    def deliver_all(self) -> None:
        """It learns all there is."""
        for what in ("nodes", "pods"):
            while self.api.watches[what].coming:
                self.deliver(what)

    def take(self, what: str, told: Told) -> None:
        (self._pod_told if what == "pods" else self._node_told)(told)
        if told.kind == "listed":
            self.listed.add(what)
        if told.kind == "gone":
            self.gone.add(told.key)
        self.fence()

    def fence(self) -> None:
        """The view is taken for whole, or not."""
        self.books.set_complete(len(self.listed) == len(self.api.watches) and not self.fenced)

    def _pod_told(self, told: Told) -> None:
        if told.kind == "seen":
            self.books.pod_seen(told.value, now=self.now)
        elif told.kind == "gone":
            self.books.pod_gone(told.key)
        else:
            self.books.pods_listed(set(told.keys), told.value)

    def _node_told(self, told: Told) -> None:
        if told.kind == "seen":
            self.books.node_seen(told.value, now=self.now)
            self.shown[told.key] = {card.uuid: card for card in read_node(told.value, FAMILIES).node.cards}
        elif told.kind == "gone":
            self.books.node_gone(told.key)
            self.shown.pop(told.key, None)
        else:
            self.books.nodes_listed(told.keys)
            self.shown = {name: cards for name, cards in self.shown.items() if name in told.keys}

    def pass_time(self, seconds: float) -> None:
        """The clock goes on, and what is due is done. What nobody waits for is not carried out for ever."""
        self.now += timedelta(seconds=seconds)
        over = self.now - timedelta(seconds=REQUEST_SECONDS)
        self.flights = [one for one in self.flights if not (one.abandoned and one.began < over)]
        for late in [one for one in self.flights if not one.abandoned and one.began < self.now - BIND]:
            self.give_up(late, reads=False)
        self.books.tick(now=self.now)

    # -- kube-scheduler asks ---------------------------------------------------------------------------------------

    def filter(self, pod: objects.Pod, nodes: Iterable[str]) -> Filtered:
        """A scheduling cycle up to the extender's answer, and what kube-scheduler makes of it."""
        uid, names = pod.metadata.uid, list(nodes)
        offered = Offered.of(names, self.books.holdings.cluster.cards)
        answer = filter_pod(self.books, pod, offered, now=self.now)
        self.active.pop(uid, None)
        assert not isinstance(answer, Untouched), "it asks for cards"
        if isinstance(answer, Chosen):
            assert uid not in self.gone, "the service was told that the pod is gone"
            assert len(answer.nodes) == 1
            assert answer.nodes[0] in names
            self.chosen[uid] = answer.nodes[0]
        elif isinstance(answer, Refused):
            self.chosen.pop(uid, None)
            self.say_refused(uid, f"0/{len(names)} nodes are available")
            if self.api.nodes.keys() - set(names):
                self.active[uid] = None  # its own checks refused the others, and it tries again when they no more do
        return answer

    def say_refused(self, uid: str, message: str) -> None:
        """kube-scheduler writes why it did not place the pod; what it has written already, it does not write again."""
        pod = self.api.pod(uid)
        if pod is None or is_bound(pod):
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if pod.get("status", {}).get("conditions") != [condition]:
            self.api.change_pod(uid, status_conditions=[condition])

    def fail(self, uid: str) -> None:
        """An attempt fails after filter, and is made again."""
        self.chosen.pop(uid, None)
        self.active[uid] = None
        self.messages += 1
        self.say_refused(uid, f"failed attempt {self.messages}")

    def preempt(self, pod: objects.Pod, node: str, given: list[str]) -> list[str] | None:
        """The victims on one node, or None."""
        seen = self.books.note(pod, now=self.now)
        return None if seen is None else preempt_on(self.books, seen, node, given, now=self.now)

    def wake(self) -> list[Wake]:
        """The pods to touch by what became free."""
        found: list[Wake] = []
        while (more := self.books.waiting.wakes(self.books, now=self.now)) is not None:
            found += more
        return found

    def touch(self, wake: Wake) -> None:
        """The touch arrives: kube-scheduler tries the pod again."""
        pod = self.api.pod(wake.uid)
        if pod is not None and not is_bound(pod):
            annotations = pod["metadata"]["annotations"] | {"cardwise.io/wake": self.now.isoformat()}
            self.api.change_pod(wake.uid, metadata_annotations=annotations)
            self.active[wake.uid] = None

    # -- binds -----------------------------------------------------------------------------------------------------

    def bind(self, uid: str, namespace: str, name: str, node: str) -> Flight | Answer | None:
        """A bind call up to its write. None where one runs already, or it is not its turn."""
        if any(one.bind.uid == uid and not one.abandoned for one in self.flights):
            return None
        gates = self.books.gates
        step = bind_step(self.books, uid=uid, namespace=namespace, name=name, node=node, now=self.now)
        if isinstance(step, Answer) and not step.error:
            return step
        if gates.is_hami(node) and gates.claim(node, uid, self.now).state is not Turn.GRANTED:
            self._end_turn(uid, node, sent=False)
            return None
        step = bind_step(self.books, uid=uid, namespace=namespace, name=name, node=node, now=self.now)
        if isinstance(step, Read):
            found = self.api.pods.get((namespace, name))
            if found is not None and found["metadata"]["uid"] == uid:
                self.books.pod_seen(as_pod(found), now=self.now)
            step = bind_step(self.books, uid=uid, namespace=namespace, name=name, node=node, now=self.now)
        if not isinstance(step, Bind):
            self._end_turn(uid, node, sent=False)
            return step if isinstance(step, Answer) else None
        return self._send(step)

    def _send(self, bind: Bind) -> Flight:
        gates = self.books.gates
        gates.bind_sent(bind.uid, bind.namespace, bind.name, bind.node, self.now)
        spec = self.api.versions_of[bind.uid][-1].spec
        flight = Flight(bind, _plain(spec), self.now)
        self._judge(flight)
        self.flights.append(flight)
        return flight

    def _judge(self, flight: Flight) -> None:
        """Nothing is granted above a card's total, whatever becomes of all that is on its way."""
        if flight.grant in self.granted or not self._may_be(flight):
            return
        assert self.books.complete
        self.granted.add(flight.grant)
        held = self.api.held()
        ways = {one.grant: one for one in (*self.flights, flight) if self._may_be(one)}
        for one in ways.values():
            for spot, use in one.uses.items():
                held.setdefault(spot, []).append(use)
        for node, uuid in flight.uses:
            card = self.shown.get(node, {}).get(uuid)
            assert card is not None, f"{flight.bind} gives {uuid} of {node}, which the service was not shown"
            assert within(held[node, uuid], card), f"{flight.bind} makes {held[node, uuid]} of {card} on {node}"

    def _may_be(self, flight: Flight) -> bool:
        """Whether a Binding may still be carried out."""
        pod = self.api.pod(flight.bind.uid)
        return not flight.became and pod is not None and not is_bound(pod)

    def carry_out(self, flight: Flight) -> None:
        """The API server does what was asked."""
        bind = flight.bind
        flight.became = self.api.bind((bind.namespace, bind.name), bind.uid, bind.node, bind.record)
        if flight.abandoned:
            self.flights.remove(flight)

    def answer(self, flight: Flight, *, reads: bool = True) -> None:
        """Its answer arrives; one that was not carried out is refused. `reads`: a read after it is answered too."""
        self.flights.remove(flight)
        bind = flight.bind
        placed = flight.became == "done"
        if placed:
            bind_done(self.books, bind)
        elif flight.became == "not found":
            self.books.pod_gone(bind.uid)
        else:
            if not any(one.grant == flight.grant for one in self.flights):
                self.granted.discard(flight.grant)
            placed = flight.became == "conflict" and reads and self._look(bind)
            if not placed:
                bind_refused(self.books, bind)
        self._end_bind(flight, placed=placed)

    def give_up(self, flight: Flight, *, reads: bool = True) -> None:
        """No answer comes in time. What was not carried out may still be."""
        bind = flight.bind
        flight.abandoned = True
        if flight.became:
            self.flights.remove(flight)
        bind_in_doubt(self.books, bind, now=self.now)
        self._end_bind(flight, placed=reads and self._look(bind))

    def _look(self, bind: Bind) -> bool:
        found = self.api.pods.get((bind.namespace, bind.name))
        pod = as_pod(found) if found else None
        pod_read(self.books, bind.uid, pod, asked_at=self.now, now=self.now)
        return is_bound_as(pod, bind)

    def _end_bind(self, flight: Flight, *, placed: bool) -> None:
        """kube-scheduler is told; a pod of which it hears that it is bound is bound there."""
        bind = flight.bind
        self._end_turn(bind.uid, bind.node, sent=True)
        if placed:
            self.chosen.pop(bind.uid, None)
            pod = self.api.pod(bind.uid)
            assert pod is None or pod["spec"].get("nodeName") == bind.node
        else:
            self.fail(bind.uid)

    def _end_turn(self, uid: str, node: str, *, sent: bool) -> None:
        gates = self.books.gates
        hold = self.books.holdings.cluster.holds.get(uid)
        bound = hold is not None and hold.confirmed and hold.node == node
        if not (bound or (sent and any(one.placement.node == node for one in self.books.sent(uid).values()))):
            gates.bind_failed(uid, node)
        gates.release(node, uid)

    # -- doubts ----------------------------------------------------------------------------------------------------

    def in_doubt(self) -> list[SeenPod]:
        """Pods of which it is time to ask what became of a Binding."""
        return in_doubt(self.books, now=self.now)

    def ask_in_doubt(self) -> None:
        """They are read; the answers come later."""
        for seen in self.in_doubt():
            found = self.api.pods.get((seen.namespace, seen.name))
            self.reads.append((seen.uid, as_pod(found) if found else None, self.now))

    def hear_in_doubt(self) -> None:
        """The first of those answers comes."""
        uid, pod, asked_at = self.reads.pop(0)
        pod_read(self.books, uid, pod, asked_at=asked_at, now=self.now)


def _plain(spec: objects.PodSpec) -> Json:
    return {"initContainers": list(spec.init_containers or ()), "containers": list(spec.containers or ())}
