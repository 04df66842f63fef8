"""Whoever brings the news that a pod is refused, the watch or a filter call: its user is to be told of it once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from cardwise.scheduler.books import Books, Settings
from cardwise.wire import objects
from manifests import pod_object

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(version: int, message: str = "") -> objects.Pod:
    """A pod that waits, refused with this message if there is one."""
    about = {"uid": "uid-a", "resourceVersion": str(version)}
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made = pod_object("a", meta=about, spec={"schedulerName": "cardwise-scheduler"}, gpu=1)
    return msgspec.convert(made | {"status": {"conditions": [refusal] if message else []}}, objects.Pod)


def by_watch(books: Books, seen: objects.Pod) -> None:
    books.pod_seen(seen, now=NOW)


def by_call(books: Books, seen: objects.Pod) -> None:
    books.note(seen, now=NOW)


WAYS = {"watch": by_watch, "call": by_call}


@pytest.mark.parametrize("first", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("second", WAYS.values(), ids=WAYS)
def test_a_refusal_is_to_be_told_once_whoever_brings_it(
    first: Callable[[Books, objects.Pod], None], second: Callable[[Books, objects.Pod], None]
) -> None:
    books = Books(Settings())
    by_watch(books, pod(1))
    assert not books.untold
    first(books, pod(2, "full"))
    assert list(books.untold) == ["uid-a"]
    books.untold.clear()
    second(books, pod(2, "full"))
    assert not books.untold


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_another_refusal_is_to_be_told_too(way: Callable[[Books, objects.Pod], None]) -> None:
    books = Books(Settings())
    by_watch(books, pod(1, "full"))
    books.untold.clear()
    way(books, pod(2, "too small"))
    assert list(books.untold) == ["uid-a"]
