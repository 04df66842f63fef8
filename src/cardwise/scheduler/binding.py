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
from cardwise.scheduler.pods import SeenPod, unplaceable
from cardwise.wire import objects
from cardwise.wire.record import encode_record

UNSHOWN_SECONDS = 10.0
"""After this a pod that kube-scheduler knows and our watch does not show is looked for."""
SETTLED_SECONDS = 65.0
"""After this a write that was not answered is not carried out any more: the API server ends requests after 60 s."""


def bind_step(books: Books, *, uid: str, namespace: str, name: str, node: str, now: datetime) -> BindStep:
    """What is to be done for a bind call."""
    seen = books.pods.get(uid)
    if (settled := _settled(books, seen, uid, namespace, name, node)) is not None:
        return settled
    if seen is None:
        return Read(namespace, name)
    if seen.request is None and not seen.node:
        return without_cards(uid=uid, namespace=namespace, name=name, node=node)
    if not books.complete:
        return Answer(books.why_not.text)
    reservation = books.reservations.get(uid)
    if reservation is None or not _holds(books, reservation, uid, node):
        planned = _plan(books, seen, node, now)
        if isinstance(planned, Answer):
            return planned
        reservation = planned
    if not reservation.sent:
        reservation.record = encode_record(reservation.placement, books.holdings.families, int(now.timestamp()))
    reservation.sent_at = now
    return Bind(uid=uid, namespace=namespace, name=name, node=node, record=reservation.record)


def _settled(books: Books, seen: SeenPod | None, uid: str, namespace: str, name: str, node: str) -> Answer | None:
    """The answer where nothing is to be written: the pod is bound, is ending, is another, or cannot be placed."""
    hold = books.holdings.cluster.holds.get(uid)
    if hold is not None and hold.confirmed:
        return Answer() if hold.node == node else Answer(f"pod {namespace}/{name} is bound to node {hold.node} already")
    if seen is None:
        return None
    if (seen.namespace, seen.name) != (namespace, name):
        return Answer(f"PodUID is that of pod {seen.full_name}, not of pod {namespace}/{name}")
    if seen.ended or seen.terminating:
        return Answer(f"pod {seen.full_name} is ending")
    fault = unplaceable(seen, books.holdings.families)
    return Answer(fault.text) if fault is not None else None


def without_cards(*, uid: str, namespace: str, name: str, node: str) -> Bind:
    """The Binding of a pod that asks for no card though it names one of our resources: it is ours to bind all the same."""
    return Bind(uid=uid, namespace=namespace, name=name, node=node, record={})


def bind_done(books: Books, bind: Bind) -> None:
    """The Binding was carried out: the pod holds what was recorded, though its event may come later."""
    _held_as, reservation = _sent_as(books, bind)
    if reservation is None:
        return  # its event came first, and has said it all
    books.reservations.pop(bind.uid, None)
    books.end_doubts(bind.uid)
    request = reservation.request
    books.holdings.confirm(
        hold_of(reservation.placement, uid=bind.uid, namespace=request.namespace, name=request.name, confirmed=True),
        request.traits,
    )


def bind_refused(books: Books, bind: Bind) -> None:
    """The API server said that it was not carried out, and the pod is not bound. An earlier one may still be."""
    held_as, reservation = _sent_as(books, bind)
    if reservation is not None and reservation.doubted_at is None:
        books.not_sent(bind.uid, held_as)


def bind_in_doubt(books: Books, bind: Bind, *, now: datetime) -> None:
    """Nobody knows whether the Binding was, or will be, carried out."""
    _held_as, reservation = _sent_as(books, bind)
    if reservation is not None:
        reservation.doubted_at = now


def pod_read(books: Books, uid: str, pod: objects.Pod | None, *, asked_at: datetime, now: datetime) -> None:
    """The pod as a quorum read showed it: without a node, what was sent long before the read is not carried out any more.

    It says nothing of what has left since it began, `asked_at`, nor of what was seen since.
    """
    if pod is None or pod.metadata.uid != uid:
        books.pod_gone(uid)
        return
    books.pod_seen(pod, now=now)
    if not pod.spec.node_name and _is_settled(books, uid, asked_at):
        for held_as in books.sent(uid):
            books.not_sent(uid, held_as)
        books.turned += books.gates.bind_failed(uid)


def in_doubt(books: Books, *, now: datetime) -> list[SeenPod]:
    """Pods to be read: a Binding was sent so long ago that a read is certain, or no watch shows them."""
    sent = [*books.doubts, *(uid for uid, one in books.reservations.items() if one.sent and uid not in books.doubts)]
    late = now - timedelta(seconds=UNSHOWN_SECONDS)
    uids = [uid for uid in sent if _is_settled(books, uid, now)]
    uids += [uid for uid, since in books.unshown.items() if since <= late]
    return [books.pods[uid] for uid in dict.fromkeys(uids) if uid in books.pods]


def is_bound_as(pod: objects.Pod | None, bind: Bind) -> bool:
    """Whether the pod is bound just as was wanted: then the bind has succeeded, whatever was answered."""
    if pod is None or pod.metadata.uid != bind.uid or pod.spec.node_name != bind.node:
        return False
    return all(pod.annotations.get(key) == text for key, text in bind.record.items())


def _sent_as(books: Books, bind: Bind) -> tuple[str, Reservation | None]:
    """Under what the placement of a Binding is held, and the reservation: another attempt may have set it aside."""
    for held_as, reservation in books.sent(bind.uid).items():
        if reservation.record == bind.record:
            return held_as, reservation
    return "", None


def _is_settled(books: Books, uid: str, now: datetime) -> bool:
    """Whether Bindings of the pod were sent, and none so lately that it can still be carried out."""
    last = [at for one in books.sent(uid).values() for at in (one.sent_at, one.doubted_at) if at is not None]
    return bool(last) and max(last) <= now - timedelta(seconds=SETTLED_SECONDS)


def _holds(books: Books, reservation: Reservation, uid: str, node: str) -> bool:
    """Whether a reservation is for this node and still good. One that was sent is what it is: only evidence ends it."""
    if reservation.placement.node != node:
        return False
    hold = books.holdings.cluster.holds.get(uid)
    return reservation.sent or (hold is not None and books.holdings.cluster.exceeds(hold) is None)


def _plan(books: Books, seen: SeenPod, node: str, now: datetime) -> Reservation | Answer:
    """A new reservation on exactly this node, or why it cannot be."""
    if seen.request is None:
        return Answer(f"pod {seen.full_name} is bound to node {seen.node} already")
    cluster = books.holdings.cluster
    n = cluster.cards.index_of.get(node)
    if n is None:
        return Answer(f"pod {seen.full_name}: node {node} is not known to Cardwise")
    books.set_aside(seen.uid)
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
