"""Bind: what kube-scheduler chose becomes one write, and what the API server says about it becomes knowledge.

    bind_step → Read the pod (unknown here) | Bind it → bind_done | bind_refused | bind_in_doubt → pod_read | Answer

Bind can always act: on the reservation for this pod and node, checked again; else on a plan for exactly that node; else it
answers why not. It may come twice, and for a pod that is bound already.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cardwise.core.cluster import hold_of
from cardwise.core.place import refusals
from cardwise.core.plan import plan, steps_of
from cardwise.scheduler.answers import Answer, Bind, BindStep, Read, Reservation
from cardwise.scheduler.books import Books
from cardwise.scheduler.pods import SeenPod
from cardwise.wire import objects
from cardwise.wire.record import encode_record

SETTLED_SECONDS = 65.0
"""After this a write that was not answered is not carried out any more: the API server ends requests after 60 s."""


def bind_step(books: Books, *, uid: str, namespace: str, name: str, node: str, now: datetime) -> BindStep:
    """What is to be done for a bind call."""
    hold = books.holdings.cluster.holds.get(uid)
    if hold is not None and hold.confirmed:
        return Answer() if hold.node == node else Answer(f"pod {namespace}/{name} is bound to node {hold.node} already")
    seen = books.pods.get(uid)
    if seen is None:
        return Read(namespace, name)
    if seen.ended or seen.terminating:
        return Answer(f"pod {seen.full_name} is ending")
    if not books.complete:
        return Answer("Cardwise has not seen the whole cluster yet")
    reservation = books.reservations.get(uid)
    if reservation is None or not _holds(books, reservation, uid, node):
        planned = _plan(books, seen, node, now)
        if isinstance(planned, Answer):
            return planned
        reservation = planned
    if not reservation.sent:
        reservation.record = encode_record(reservation.placement, books.holdings.families, int(now.timestamp()))
        reservation.sent = True
    return Bind(uid=uid, namespace=namespace, name=name, node=node, record=reservation.record)


def bind_done(books: Books, uid: str) -> None:
    """The Binding was carried out: the pod holds what was recorded, though its event may come later."""
    reservation = books.reservations.pop(uid, None)
    if reservation is None:
        return  # its event came first, and has said it all
    request = reservation.request
    books.end_doubts(uid)
    books.holdings.confirm(
        hold_of(reservation.placement, uid=uid, namespace=request.namespace, name=request.name, confirmed=True),
        request.traits,
    )


def bind_refused(books: Books, uid: str) -> None:
    """The API server said that it was not carried out, and the pod is not bound. An earlier one may still be."""
    reservation = books.reservations.get(uid)
    if reservation is not None and reservation.doubted_at is None:
        books.unreserve(uid)


def bind_in_doubt(books: Books, uid: str, *, now: datetime) -> None:
    """Nobody knows whether the Binding was, or will be, carried out."""
    reservation = books.reservations.get(uid)
    if reservation is not None:
        reservation.doubted_at = now


def pod_read(books: Books, uid: str, pod: objects.Pod | None, *, now: datetime, settled: bool) -> bool:
    """The pod as a quorum read shows it. `settled`: nothing that was sent can still be carried out.

    Gives whether it is bound just as was reserved: then the bind has succeeded, whatever was answered.
    """
    if pod is None or pod.metadata.uid != uid:
        books.pod_gone(uid)
        return False
    reservation = books.reservations.get(uid)
    books.pod_seen(pod, now=now)
    if not pod.spec.node_name:
        if settled:
            books.end_doubts(uid)
            books.unreserve(uid)
            books.turned += books.gates.bind_failed(uid)
        return False
    wanted = reservation.record if reservation is not None else None
    return wanted is not None and all(pod.annotations.get(key) == text for key, text in wanted.items())


def in_doubt(books: Books, *, now: datetime) -> list[SeenPod]:
    """Pods of which a Binding was sent so long ago that a read tells for certain what became of it."""
    since = {uid: max(aliases.values()) for uid, aliases in books.doubts.items()}
    for uid, reservation in books.reservations.items():
        if reservation.doubted_at is not None:
            since[uid] = max(since.get(uid, reservation.doubted_at), reservation.doubted_at)
    settled = now - timedelta(seconds=SETTLED_SECONDS)
    return [books.pods[uid] for uid, at in since.items() if uid in books.pods and at <= settled]


def _holds(books: Books, reservation: Reservation, uid: str, node: str) -> bool:
    """Whether a reservation is for this node and still good. One that was sent is what it is: only evidence ends it."""
    if reservation.placement.node != node:
        return False
    hold = books.holdings.cluster.holds.get(uid)
    return reservation.sent or (hold is not None and books.holdings.cluster.exceeds(hold) is None)


def _plan(books: Books, seen: SeenPod, node: str, now: datetime) -> Reservation | Answer:
    """A new reservation on exactly this node, or why it cannot be."""
    if seen.request is None:
        return Answer(f"pod {seen.full_name}: {'; '.join(seen.reading.faults) or 'asks for no card'}")
    cluster = books.holdings.cluster
    n = cluster.cards.index_of.get(node)
    if n is None:
        return Answer(f"pod {seen.full_name}: node {node} is not known to Cardwise")
    books.set_aside(seen.uid, now=now)
    request = books.asked(seen)
    with books.holdings.without(books.nominations.seen_through(seen.uid, seen.priority)):
        placement = plan(cluster.cards, n, request, steps_of(request)) if cluster.cards.in_service[n] else None
        if placement is None or books.holdings.reserve(request, placement) is not None:
            only = cluster.cards.name_rank < 0
            only[n] = True
            why = refusals(cluster.cards, cluster.families, request, only).get(node)
            return Answer(f"pod {seen.full_name}: node {node} does not fit: {why.text if why else 'taken meanwhile'}")
    reservation = Reservation(request=request, placement=placement, made_at=now, told=seen.refused)
    books.reservations[seen.uid] = reservation
    return reservation
