"""What users of such schedulers hit between filter and bind, by the numbers of the collected cases."""

from __future__ import annotations

import pytest

from cardwise.scheduler.answers import VIEW_INCOMPLETE, Answer, Bind, Chosen, Refused
from cardwise.scheduler.binding import bind_done, bind_in_doubt, bind_refused, pod_read
from cardwise.scheduler.books import Books
from cardwise.wire import objects
from cardwise.wire.families import NVIDIA

from .asking import NOW, asked, books_of, bound, node_of, pod_of


def slots_used(books: Books) -> int:
    return int(books.holdings.cluster.cards.columns["slots_used"].sum())


def sent(books: Books, pod: objects.Pod, node: str = "n1") -> Bind:
    step = bound(books, pod, node)
    assert isinstance(step, Bind), step
    return step


def placed(books: Books, pod: objects.Pod, *nodes: str) -> Bind:
    answer = asked(books, pod, *nodes)
    assert isinstance(answer, Chosen)
    step = sent(books, pod, answer.nodes[0])
    bind_done(books, step)
    return step


def test_case_71_a_bind_that_was_refused_leaves_nothing_held() -> None:
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    bind_refused(books, sent(books, pod))
    assert slots_used(books) == 0
    assert asked(books, pod_of("next", gpu=1), "n1") == Chosen(("n1",))


@pytest.mark.parametrize("carried_out", [True, False])
def test_case_72_a_bind_that_nobody_answered_holds_its_card_until_the_pod_is_seen(carried_out: bool) -> None:
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    step = sent(books, pod)
    bind_in_doubt(books, step, now=NOW)
    assert isinstance(asked(books, pod_of("next", gpu=1), "n1"), Refused)
    seen = pod_of("p", version=2, gpu=1)
    if carried_out:
        seen.spec.node_name, seen.metadata.annotations = "n1", dict(step.record)
    pod_read(books, pod.metadata.uid, seen, asked_at=NOW, now=NOW)
    assert slots_used(books) == 1, "a read that shows no node does not prove that the write will not come"


def test_case_79_a_bind_for_a_pod_that_is_gone_is_told_in_a_sentence() -> None:
    books, pod = books_of("n1"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    ending = pod_of("p", version=2, gpu=1)
    ending.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    books.pod_seen(ending, now=NOW)
    assert bound(books, pod) == Answer("pod ml/p is ending")
    assert slots_used(books) == 0


def test_case_81_a_pod_that_fails_to_bind_may_go_elsewhere() -> None:
    books, pod = books_of("n1", "n2"), pod_of("p", gpu=1)
    for _ in range(20):
        asked(books, pod, "n1")
        bind_refused(books, sent(books, pod))
    assert asked(books, pod, "n2") == Chosen(("n2",))
    assert slots_used(books) == 1


def test_case_82_sixteen_half_card_pods_share_eight_cards_by_two() -> None:
    books = books_of()
    books.node_seen(node_of("n1", 8), now=NOW)
    for number in range(16):
        placed(books, pod_of(f"p{number}", gpu=1, gpucores=50, percent=50), "n1")
    assert books.holdings.cluster.cards.columns["slots_used"][:8, 0].tolist() == [2] * 8


def test_case_84_the_pod_after_the_last_slot_waits() -> None:
    books = books_of()
    books.node_seen(node_of("n1", count=10), now=NOW)
    for number in range(10):
        placed(books, pod_of(f"p{number}", gpu=1, gpumem=1), "n1")
    refused = asked(books, pod_of("eleventh", gpu=1, gpumem=1), "n1")
    assert isinstance(refused, Refused)
    assert refused.code == "CardTimeSlicingExhausted"


def test_case_90_nothing_is_decided_before_everything_was_seen() -> None:
    books = books_of("n1")
    books.set_complete(False)
    assert asked(books, pod_of("p", gpu=1), "n1") == Refused(everywhere=VIEW_INCOMPLETE)


def test_case_92_a_card_for_one_is_given_to_one_of_many() -> None:
    books = books_of("n1")
    answers = [asked(books, pod_of(f"p{number}", gpu=1), "n1") for number in range(64)]
    assert sum(isinstance(answer, Chosen) for answer in answers) == 1


def test_case_76_a_record_counts_on_the_node_that_the_pod_is_bound_to_only() -> None:
    books, pod = books_of("n1", "n2"), pod_of("p", gpu=1)
    asked(books, pod, "n1")
    step = sent(books, pod)
    elsewhere = pod_of("p", version=2, gpu=1)
    elsewhere.spec.node_name, elsewhere.metadata.annotations = "n2", dict(step.record)
    books.pod_seen(elsewhere, now=NOW)
    assert slots_used(books) == 0
    assert books.oddities


def test_case_105_a_pod_that_is_made_and_deleted_again_and_again_always_fits() -> None:
    books = books_of("n1")
    for number in range(100):
        pod = pod_of("p", version=number + 1, gpu=1)
        pod.metadata.uid = f"uid-{number}"
        placed(books, pod, "n1")
        books.pod_gone(pod.metadata.uid, str(number + 1))
    assert slots_used(books) == 0


def with_allocatable(count: str) -> objects.Node:
    node = node_of("n1")
    node.status = objects.NodeStatus(allocatable={NVIDIA.count_resource: count})
    return node


def test_cases_100_and_106_a_node_takes_pods_while_its_plugin_counts_cards() -> None:
    """Handshakes and clocks decide nothing; the kubelet's count does."""
    books = books_of()
    books.node_seen(with_allocatable("10"), now=NOW)
    assert asked(books, pod_of("p", gpu=1, gpumem=1), "n1") == Chosen(("n1",))
    books.node_seen(with_allocatable("0"), now=NOW)
    assert isinstance(asked(books, pod_of("q", gpu=1, gpumem=1), "n1"), Refused)
    books.node_seen(with_allocatable("10"), now=NOW)
    assert asked(books, pod_of("q", gpu=1, gpumem=1), "n1") == Chosen(("n1",))
