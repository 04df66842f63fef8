"""Calls that come oddly: for pods that ask for nothing, with other names, too late, in another case."""

from __future__ import annotations

import json

import pytest

from cardwise.scheduler import extender
from cardwise.scheduler.answers import NOT_LEADING, Answer, Bind, Chosen, Read, Refused, Untouched
from cardwise.scheduler.binding import bind_done, pod_read
from cardwise.scheduler.books import Books
from cardwise.scheduler.extender import ProtocolError
from cardwise.scheduler.telling import Telling, tell
from cardwise.wire import objects
from manifests import Object

from .asking import NOW, REFUSED, asked, books_of, bound, node_of, pod_of


def test_a_pod_that_asks_for_no_card_is_bound_without_a_record() -> None:
    """kube-scheduler leaves every pod to us that names one of our resources, a count of 0 included."""
    books, pod = books_of("n1"), pod_of("zero", gpu=0)
    assert asked(books, pod, "n1") == Untouched()
    step = bound(books, pod)
    assert isinstance(step, Bind)
    assert step.record == {}
    bind_done(books, step)
    assert books.holdings.cluster.holds == {}


def test_a_pod_that_is_not_known_is_read_first() -> None:
    assert bound(books_of("n1"), pod_of("p", gpu=1)) == Read("ml", "p")


def test_a_bind_with_another_pod_s_name_changes_nothing() -> None:
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    assert asked(books, pod, "n1") == Chosen(("n1",))
    answer = bound(books, pod, name="other")
    assert isinstance(answer, Answer)
    assert "PodUID is that of pod ml/p" in answer.error
    assert isinstance(bound(books, pod), Bind)


def test_a_pod_that_a_read_did_not_find_is_back_with_its_next_event() -> None:
    """An answer of 404 may be a mistake; an event that is newer than all we knew is not."""
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    pod_read(books, pod.metadata.uid, None, asked_at=NOW, now=NOW)
    assert isinstance(asked(books, pod, "n1"), Refused)
    books.pod_seen(pod_of("p", version=2, gpu=1), now=NOW)
    assert asked(books, pod_of("p", version=2, gpu=1), "n1") == Chosen(("n1",))


def test_an_event_from_before_its_end_does_not_bring_a_pod_back() -> None:
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    books.pod_seen(pod, now=NOW)
    books.pod_gone(pod.metadata.uid, "5")
    books.pod_seen(pod_of("p", version=4, gpu=1), now=NOW)
    assert books.pods == {}


def test_a_late_filter_call_for_a_bound_pod_names_its_node_only() -> None:
    books, pod = books_of("n1", "n2"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    step = bound(books, pod)
    assert isinstance(step, Bind)
    bind_done(books, step)
    seen = pod_of("p", version=2, gpu=1)
    seen.spec.node_name, seen.metadata.annotations = "n1", step.record
    books.pod_seen(seen, now=NOW)
    assert asked(books, pod, "n1", "n2", "n3") == Chosen(("n1",))
    refused = asked(books, pod, "n2", "n3")
    assert isinstance(refused, Refused)
    assert refused.code == "PodBound"


def test_a_pod_that_was_not_admitted_is_neither_bound_nor_woken_and_its_user_is_told() -> None:
    books, pod = books_of("n1"), pod_of("p", gpumem=100, status=REFUSED)
    books.pod_seen(pod, now=NOW)
    refused = asked(books, pod, "n1")
    assert isinstance(refused, Refused)
    assert refused.code == "PodNotAdmitted"
    answer = bound(books, pod)
    assert isinstance(answer, Answer)
    assert "must be set by admission" in answer.error
    books.node_seen(node_of("n2"), now=NOW)
    assert books.waiting.wakes(books, now=NOW) is None
    assert [one.cause for one in tell(books, books.pods["uid-p"]) if one is not None] == ["PodNotAdmitted"]


def told(books: Books, pod: objects.Pod) -> Telling:
    books.pod_seen(pod, now=NOW)
    found = [one for one in tell(books, books.pods[pod.metadata.uid]) if one is not None]
    assert len(found) == 1
    return found[0]


def test_a_node_that_is_gone_is_not_spoken_of() -> None:
    books, alone = books_of("n1", "n2"), books_of("n1")
    books.node_gone("n2")
    pod = pod_of("p", gpu=2, status=REFUSED)
    assert told(books, pod) == told(alone, pod)
    assert "0 of 1 nodes" in told(books, pod).text


def test_nothing_is_told_of_a_pod_for_which_others_leave_already() -> None:
    books = books_of("n1")
    books.pod_seen(pod_of("p", gpu=2, status=REFUSED | {"nominatedNodeName": "n1"}), now=NOW)
    assert list(tell(books, books.pods["uid-p"])) == []


def test_without_the_lease_filter_says_so() -> None:
    books = books_of("n1")
    books.set_complete(False, NOT_LEADING)
    refused = asked(books, pod_of("p", gpu=1), "n1")
    assert isinstance(refused, Refused)
    assert refused.code == "NotLeading"


POD: Object = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    "body",
    [
        {"Pod": POD, "NodeNames": ["n1"]},
        {"Pod": POD, "nodenames": ["n1"]},
        {"pod": POD, "nodeNames": ["n1"], "nodes": None},
    ],
)
def test_names_are_read_in_any_case_as_go_reads_them(body: Object) -> None:
    args = extender.filter_args(json.dumps(body).encode())
    assert extender.offered(args, books_of("n1").holdings.cluster.cards).names == ["n1"]


def test_whole_nodes_are_read_in_any_case() -> None:
    body = {"pod": POD, "nodes": {"Items": [{"metadata": {"name": "n1"}}]}}
    sent = extender.sent_nodes(extender.filter_args(json.dumps(body).encode()))
    assert [each.node.metadata.name for each in sent] == ["n1"]


def test_a_bind_is_read_in_any_case() -> None:
    body = {"podName": "p", "PodNamespace": "ml", "PodUID": "u", "node": "n1"}
    args = extender.bind_args(json.dumps(body).encode())
    assert (args.name, args.namespace, args.uid, args.node) == ("p", "ml", "u", "n1")


@pytest.mark.parametrize(
    ("body", "readable", "says"),
    [
        (b"", False, "(empty)"),
        (b"{", False, "truncated"),
        (b"\xff", False, "must be an extender's JSON"),
        (b"[]", True, "Expected `object`"),
        (b"{}", True, "Pod is missing"),
        (b'{"Pod":{"metadata":{},"spec":{}}}', True, "Nodes and NodeNames are missing"),
        (b'{"Pod":{"metadata":{},"spec":{}},"NodeNames":7}', True, "NodeNames cannot be read"),
    ],
)
def test_what_is_no_request_is_told_in_a_sentence(body: bytes, readable: bool, says: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        extender.offered(extender.filter_args(body), books_of().holdings.cluster.cards)
    assert says in str(caught.value)
    assert caught.value.readable is readable
