"""HAMi's lock on a node: read as HAMi writes it, respected as long as it means something, never written over another's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.kube.types import micro_time
from cardwise.scheduler.nodelock import (
    LOCK_SECONDS,
    Free,
    Lock,
    LockDecision,
    Ours,
    Owner,
    Taken,
    TakeOver,
    is_hami_node,
    is_lock_of,
    lock_decision,
    lock_of,
    lock_patch,
    lock_text,
    owner_of,
    read_lock,
    unlock_patch,
)
from cardwise.wire import names, objects
from cardwise.wire.families import FAMILIES, HYGON, NVIDIA

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HELD = "2026-01-01T11:59:00Z,ml,abc-123"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def node(**annotations: str) -> objects.Node:
    return objects.Node(metadata=objects.Meta(name="n1", annotations=annotations))


def pod(on: str = "n1", phase: str = "allocating", status: str = "Pending") -> objects.Pod:
    return objects.Pod(
        metadata=objects.Meta(name="abc-123", namespace="ml", annotations={names.BIND_PHASE: phase} if phase else None),
        spec=objects.PodSpec(node_name=on),
        status=objects.PodStatus(phase=status),
    )


def decided(
    text: str | None,
    name: str = "new",
    namespace: str = "ml",
    owner: Owner = Owner.ACTIVE,
    first_seen: datetime | None = None,
) -> LockDecision:
    return lock_decision(text, namespace=namespace, pod=name, owner=owner, now=NOW, first_seen=first_seen)


@pytest.mark.parametrize(
    ("annotations", "hami"),
    [
        pytest.param({NVIDIA.register_key: "[]"}, True, id="nvidia"),
        pytest.param({HYGON.register_key: "x"}, True, id="another family, unreadable"),
        pytest.param({NVIDIA.register_key: "[]", names.NODE_AGENT: "0.1.0"}, False, id="our agent"),
        pytest.param({NVIDIA.register_key: "[]", names.NODE_AGENT: ""}, True, id="our agent, empty"),
        pytest.param({names.NODE_LOCK: HELD, "hami.io/node-handshake": "Requesting_x"}, False, id="no register"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_a_node_is_hamis_where_it_has_a_register_that_is_not_our_agents(
    annotations: dict[str, str], *, hami: bool
) -> None:
    assert is_hami_node(node(**annotations), FAMILIES) is hami


@pytest.mark.parametrize(
    ("text", "lock"),
    [
        pytest.param(
            "2026-01-01T12:00:00Z,ml,a", Lock(since=NOW, namespace="ml", pod="a"), id="since 2.4: time, namespace, pod"
        ),
        pytest.param("2026-01-01T20:00:00+08:00,ml,a", Lock(since=NOW, namespace="ml", pod="a"), id="another zone"),
        pytest.param("2026-01-01T12:00:00Z", Lock(since=NOW), id="older: the time alone"),
        pytest.param("", None, id="empty"),
        pytest.param("locked", None, id="no time"),
        pytest.param("2026-01-01T12:00:00", None, id="no zone"),
        pytest.param("0001-01-01T00:00:00+14:00", None, id="before all time"),
        pytest.param("2026-01-01T12:00:00Z,ml", None, id="two parts"),
        pytest.param("2026-01-01T12:00:00Z,ml,a,b", None, id="four parts"),
        pytest.param("2026-01-01T12:00:00Z,,", None, id="empty parts"),
        pytest.param("ml,a,2026-01-01T12:00:00Z", None, id="another order"),
    ],
)
def test_locks_are_read_in_every_form(text: str, lock: Lock | None) -> None:
    assert read_lock(text) == lock


@given(st.floats(-1e9, 1e9), st.from_regex(r"[a-z0-9-]+", fullmatch=True))
def test_what_is_written_is_read_and_is_this_pods_alone(seconds: float, name: str) -> None:
    at = ago(seconds)
    text = lock_text(at, namespace="ml", pod=name)
    assert read_lock(text) == Lock(since=at.replace(microsecond=0), namespace="ml", pod=name)
    assert is_lock_of(text, namespace="ml", pod=name)
    assert not is_lock_of(text, namespace="ml", pod=f"{name}-2")
    assert not is_lock_of(text, namespace="m", pod=name)


@given(st.one_of(st.text(), st.text().map(lambda text: f"{micro_time(NOW)},{text}")))
def test_any_text_is_decided(text: str) -> None:
    decision = decided(text)
    assert isinstance(decision, Taken | TakeOver | Ours)
    assert isinstance(decision, TakeOver) or read_lock(text) is not None


# -- the decision


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        pytest.param(None, Free(), id="no lock"),
        pytest.param("2026-01-01T11:59:00Z,ml,new", Ours(), id="this very pod's"),
        pytest.param(HELD, Taken(by="ml/abc-123", since=ago(60)), id="another's"),
        pytest.param("2026-01-01T11:59:00Z,other,new", Taken(by="other/new", since=ago(60)), id="another namespace"),
        pytest.param("2026-01-01T11:59:00Z,ml,new-2", Taken(by="ml/new-2", since=ago(60)), id="case-66-a-longer-name"),
        pytest.param("2026-01-01T11:59:00Z,ml,ne", Taken(by="ml/ne", since=ago(60)), id="case-66-a-shorter-name"),
        pytest.param("2026-01-01T11:59:00Z", Taken(by="", since=ago(60)), id="older form"),
        pytest.param("2026-01-01T11:55:00Z,ml,a", Taken(by="ml/a", since=ago(300)), id="just in time"),
        pytest.param("2026-01-01T12:04:00Z,ml,a", Taken(by="ml/a", since=ago(-240)), id="a clock that is ahead"),
    ],
)
def test_who_has_the_lock(text: str | None, decision: LockDecision) -> None:
    assert decided(text) == decision


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "", "hami.io/mutex.lock is (empty), must be time,namespace,pod: it counts for nothing", id="empty"
        ),
        pytest.param(
            "stuck,ml,a",
            "hami.io/mutex.lock is stuck,ml,a, must be time,namespace,pod: it counts for nothing",
            id="malformed",
        ),
        pytest.param(
            "2026-01-01T11:54:59Z,ml,a",
            "hami.io/mutex.lock is of 2026-01-01T11:54:59Z, more than 300 s old",
            id="run out",
        ),
        pytest.param(
            "2026-01-01T11:54:59Z",
            "hami.io/mutex.lock is of 2026-01-01T11:54:59Z, more than 300 s old",
            id="older form",
        ),
        pytest.param(
            "2026-01-01T11:54:59Z,ml,new",
            "hami.io/mutex.lock is of 2026-01-01T11:54:59Z, more than 300 s old",
            id="our own, which others may take by now",
        ),
        pytest.param(
            "2026-01-01T12:05:01Z,ml,a",
            "hami.io/mutex.lock is of 2026-01-01T12:05:01Z, in the future: it counts for nothing",
            id="of no clock",
        ),
    ],
)
def test_locks_that_mean_nothing_are_taken_over(text: str, why: str) -> None:
    assert decided(text) == TakeOver(why)


@pytest.mark.parametrize("text", ["2026-01-01T12:04:30Z,ml,a", "2026-01-01T11:59:59Z,ml,a"])
def test_no_clock_makes_a_lock_count_longer_than_its_time_since_we_saw_it(text: str) -> None:
    assert isinstance(decided(text, first_seen=ago(LOCK_SECONDS)), Taken)
    assert isinstance(decided(text, first_seen=ago(LOCK_SECONDS + 1)), TakeOver)


@pytest.mark.parametrize(
    ("owner", "state"),
    [
        pytest.param(pod(), Owner.ACTIVE, id="allocating"),
        pytest.param(pod(on="", phase=""), Owner.ACTIVE, id="about to be bound"),
        pytest.param(pod(on="", phase="success"), Owner.ACTIVE, id="not bound, an old phase"),
        pytest.param(pod(phase=""), Owner.ACTIVE, id="bound, no phase"),
        pytest.param(pod(status="Running"), Owner.ACTIVE, id="case-65-running"),
        pytest.param(pod(status="Failed"), Owner.ENDED, id="case-65-failed"),
        pytest.param(pod(status="Succeeded"), Owner.ENDED, id="case-65-succeeded"),
        pytest.param(pod(phase="success"), Owner.SERVED, id="has its cards"),
        pytest.param(pod(phase="failed"), Owner.FAILED, id="case-70-refused"),
        pytest.param(pod(on="n2"), Owner.ELSEWHERE, id="on another node"),
        pytest.param(None, Owner.GONE, id="gone"),
    ],
)
def test_a_lock_counts_as_long_as_its_owner_may_be_served(owner: objects.Pod | None, state: Owner) -> None:
    assert owner_of(owner, "n1") is state
    decision = decided(HELD, owner=state)
    if state is Owner.ACTIVE:
        assert decision == Taken(by="ml/abc-123", since=ago(60))
    else:
        assert decision == TakeOver(f"pod ml/abc-123, which holds hami.io/mutex.lock, {state}")


def test_an_older_lock_names_no_owner_whose_state_could_free_it() -> None:
    assert decided("2026-01-01T11:59:00Z", owner=Owner.GONE) == Taken(by="", since=ago(60))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HELD, "hami.io/mutex.lock is held by pod ml/abc-123 since 2026-01-01T11:59:00Z"),
        ("2026-01-01T11:59:00Z", "hami.io/mutex.lock is held by an older scheduler of HAMi since 2026-01-01T11:59:00Z"),
    ],
    ids=["a pod", "older form"],
)
def test_a_lock_that_is_taken_says_by_whom(text: str, sentence: str) -> None:
    assert str(decided(text)) == sentence


# -- the writes


def test_patches_hold_only_for_the_version_that_was_read() -> None:
    locked = lock_patch("42", lock_text(NOW, namespace="ml", pod="a"))
    text = "2026-01-01T12:00:00Z,ml,a"
    assert locked == {"metadata": {"resourceVersion": "42", "annotations": {"hami.io/mutex.lock": text}}}
    assert unlock_patch("42") == {"metadata": {"resourceVersion": "42", "annotations": {"hami.io/mutex.lock": None}}}


@pytest.mark.parametrize("patch", [lambda: lock_patch("", HELD), lambda: unlock_patch("")], ids=["lock", "unlock"])
def test_no_lock_is_written_over_whatever_stands_there(patch: object) -> None:
    assert callable(patch)
    with pytest.raises(ValueError, match="resourceVersion is empty"):
        patch()


def test_case_66_only_the_very_pod_may_remove_its_lock() -> None:
    assert not is_lock_of(HELD, namespace="ml", pod="abc")
    assert is_lock_of(HELD, namespace="ml", pod="abc-123")
    assert not is_lock_of(None, namespace="ml", pod="abc-123")
    assert not is_lock_of("2026-01-01T11:59:00Z", namespace="", pod="")


def test_the_lock_of_a_node() -> None:
    assert lock_of(node(**{names.NODE_LOCK: HELD})) == HELD
    assert lock_of(node()) is None
    assert lock_of(objects.Node(metadata=objects.Meta(name="n1"))) is None
