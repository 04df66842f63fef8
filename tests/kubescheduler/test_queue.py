"""The order of pods, and what brings refused ones back: on a clock of the test's own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.sim.kubescheduler.objects import Json, Pod, read_pod
from cardwise.sim.kubescheduler.queue import Queue
from cardwise.sim.kubescheduler.settings import Settings

EXACT = Settings(alignment_seconds=0.0)
OLD = Settings(alignment_seconds=0.0, old_backoff=True)


def pod(uid: str, priority: int = 0, **spec: object) -> Pod:
    whole: Json = {"containers": [], "priority": priority} | spec
    return read_pod({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": whole}, ())


def popped(queue: Queue, now: float = 0.0) -> list[str]:
    """The uids of all that can be tried now, in order."""
    found: list[str] = []
    while (one := queue.pop(now)) is not None:
        found.append(one.uid)
    return found


def refused(settings: Settings = EXACT, *, by_extender: bool = True, times: int = 1) -> Queue:
    """A queue with one pod `p` that was refused so often by the time 0."""
    queue = Queue(settings)
    queue.put(pod("p"), -1000.0)
    for number in range(times):
        now = -1000.0 * (times - number - 1)
        queue.pop(now)
        queue.refused("p", now, by_extender=by_extender)
        if number < times - 1:
            queue.wake(now, frees=True)
    return queue


def test_the_more_important_is_first_and_then_the_older() -> None:
    queue = Queue(EXACT)
    for one in (pod("a"), pod("b"), pod("c", 5), pod("d", 5)):
        queue.put(one, 0.0)
    assert popped(queue) == ["c", "d", "a", "b"]


def test_a_pod_in_flight_is_given_out_once() -> None:
    queue = Queue(EXACT)
    queue.put(pod("p"), 0.0)
    assert popped(queue) == ["p"]
    assert popped(queue, 1000.0) == []
    assert "p" in queue


def test_a_refused_pod_stays_aside_until_five_minutes_have_passed() -> None:
    queue = refused()
    assert popped(queue, 299.0) == []
    assert queue.wait_seconds(299.0) == 1.0
    assert popped(queue, 300.0) == ["p"]


def _annotated(queue: Queue) -> None:
    queue.put(pod("p"), 0.01)


def _tolerating(queue: Queue) -> None:
    queue.put(pod("p", tolerations=[{"operator": "Exists"}]), 0.01)


def _changed(queue: Queue) -> None:
    queue.wake(0.01, frees=False)


def _freed(queue: Queue) -> None:
    queue.wake(0.01, frees=True)


def _other(queue: Queue) -> None:
    queue.put(pod("q"), 0.01)
    queue.remove("q")


@pytest.mark.parametrize(
    ("happens", "by_extender", "by_own_checks"),
    [
        (_annotated, True, False),
        (_tolerating, True, True),
        (_changed, True, False),
        (_freed, True, True),
        (_other, False, False),
    ],
)
def test_what_wakes_whom(happens: Callable[[Queue], None], by_extender: bool, by_own_checks: bool) -> None:
    for refusal, wakes in ((True, by_extender), (False, by_own_checks)):
        queue = refused(by_extender=refusal)
        happens(queue)
        assert popped(queue, 0.02) == ["p"] * wakes


def test_what_happens_in_flight_keeps_a_pod_from_being_put_aside() -> None:
    for by_extender, frees, again in ((True, False, True), (False, False, False), (False, True, True)):
        queue = Queue(EXACT)
        queue.put(pod("p"), 0.0)
        queue.pop(0.0)
        queue.wake(0.0, frees=frees)
        queue.refused("p", 0.0, by_extender=by_extender)
        assert popped(queue, 0.1) == ["p"] * again


@pytest.mark.parametrize(("times", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (40, 10)])
def test_older_versions_let_a_woken_pod_wait_for_its_back_off(times: int, seconds: int) -> None:
    queue = refused(OLD, times=times)
    queue.wake(0.1, frees=True)
    assert popped(queue, seconds - 0.01) == []
    assert queue.wait_seconds(0.0) == seconds
    assert popped(queue, seconds) == ["p"]
    assert popped(refused(OLD, times=times), seconds) == []


def test_newer_ones_do_so_only_while_there_is_other_work() -> None:
    queue = refused(times=3)
    queue.wake(0.1, frees=True)
    queue.put(pod("q"), 0.1)
    assert popped(queue, 0.1) == ["q", "p"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (EXACT, [1, 2, 4, 8, 10, 10]),
        (Settings(alignment_seconds=1.0), [1, 2, 4, 8, 10, 10]),
        (Settings(initial_backoff_seconds=0.5, most_backoff_seconds=1.0, alignment_seconds=0.0), [0.5, 1, 1, 1]),
    ],
)
def test_after_an_error_nothing_shortens_the_back_off(settings: Settings, expected: list[float]) -> None:
    queue, now, gaps = Queue(settings), 0.0, []
    queue.put(pod("p"), now)
    for _ in expected:
        queue.pop(now)
        queue.failed("p", now)
        queue.put(pod("p", tolerations=[{"operator": "Exists"}]), now)
        queue.wake(now, frees=True)
        wait = queue.wait_seconds(now)
        assert popped(queue, now + wait - 0.01) == []
        now += wait
        gaps.append(wait)
    assert gaps == expected


def test_back_off_ends_at_a_whole_second() -> None:
    queue = Queue(Settings())
    queue.put(pod("p"), 0.0)
    queue.pop(0.3)
    queue.failed("p", 0.3)
    assert queue.wait_seconds(0.3) == pytest.approx(1.7)


def test_a_pod_that_is_removed_never_comes_back() -> None:
    queue = Queue(EXACT)
    queue.put(pod("p"), 0.0)
    queue.pop(0.0)
    queue.remove("p")
    queue.refused("p", 0.0, by_extender=True)
    queue.failed("p", 0.0)
    assert popped(queue, 1e6) == []
    assert queue.wait_seconds(0.0) == math.inf


ACTS = st.lists(st.tuples(st.sampled_from(["put", "pop", "refuse", "fail", "wake", "remove"]), st.sampled_from("abc")))


@given(ACTS, st.booleans())
def test_no_pod_is_lost_and_none_is_in_flight_twice(acts: list[tuple[str, str]], old: bool) -> None:
    queue, now = Queue(OLD if old else EXACT), 0.0
    known: set[str] = set()
    flying: set[str] = set()
    for what, uid in acts:
        now += 0.7
        if what == "put":
            queue.put(pod(uid), now)
            known.add(uid)
        elif what == "pop" and (one := queue.pop(now)) is not None:
            assert one.uid in known - flying
            flying.add(one.uid)
        elif what == "refuse" and uid in flying:
            queue.refused(uid, now, by_extender=True)
            flying.remove(uid)
        elif what == "fail" and uid in flying:
            queue.failed(uid, now)
            flying.remove(uid)
        elif what == "wake":
            queue.wake(now, frees=False)
        elif what == "remove":
            queue.remove(uid)
            known.discard(uid)
            flying.discard(uid)
    assert set(popped(queue, now + 1000.0)) == known - flying
