"""Two replicas: one binds at a time, and a new leader only once it knows what the one before it has given away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster import create_pod, get_pod, node_of
from .gpus import WHOLE, cards_of, create_gpu_node, end, end_all, share, use
from .hami import create_hami_node, lock_of, set_lock
from .process import wait_for
from .product import GROUPS, USER, Product
from .replicas import LEASE, TAKEOVER, call_bind, call_filter, chosen, lead, make, proofs, replica
from .rest import Rest
from .slow import slow_watches

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

NODE, SHARE = "one", share(1000)
NOT_LED = "node(s) for a Cardwise whose kube-scheduler does not hold its lease"
DELAY_SECONDS = 1.5
SOON_SECONDS = 1.0


@pytest.fixture(scope="module", autouse=True)
def node(plane: ControlPlane) -> None:
    create_gpu_node(plane.rest, NODE)


@pytest.fixture
def rest(plane: ControlPlane) -> Iterator[Rest]:
    """No pod and no lease is left afterwards."""
    for host in ("a", "b"):
        create_pod(plane.rest, f"own-{host}")
    yield plane.rest
    end_all(plane.rest)
    plane.rest.delete(LEASE)


@pytest.fixture
def first(plane: ControlPlane, rest: Rest, tmp_path: Path) -> Iterator[Product]:
    with replica(plane, tmp_path / "a", "a", own_pod="own-a") as product:
        lead(rest, "a", term=1)
        make(rest, "probe", SHARE)
        wait_for("leadership", lambda: chosen(product, rest, "probe", NODE))
        assert call_bind(product, rest, "probe", NODE) == ""
        yield product


@pytest.fixture
def second(plane: ControlPlane, rest: Rest, tmp_path: Path) -> Iterator[Product]:
    with replica(plane, tmp_path / "b", "b", own_pod="own-b") as product:
        yield product


def test_the_one_that_does_not_lead_neither_chooses_nor_binds(first: Product, second: Product, rest: Rest) -> None:
    make(rest, "pod", SHARE)
    assert call_filter(second, rest, "pod", NODE)["FailedNodes"] == {NODE: NOT_LED}
    error = call_bind(second, rest, "pod", NODE)
    assert error.startswith("this replica does not bind: not the leader: a_1111")
    assert node_of(rest, "pod") == ""
    assert call_bind(first, rest, "pod", NODE) == ""
    assert cards_of(rest, "pod") == ["one-0"]
    assert proofs(second, "own-b") == 0


def test_the_one_that_does_not_lead_leaves_hamis_lock_alone(second: Product, rest: Rest) -> None:
    """Even that of the very pod: it is the leader's, who is about to bind it."""
    create_hami_node(rest, "hami")
    make(rest, "pod", SHARE)
    for lock in (None, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())},default,pod"):
        set_lock(rest, "hami", lock)
        assert call_bind(second, rest, "pod", "hami").startswith("this replica does not bind: ")
        assert lock_of(rest, "hami") == (lock or "")
    assert [event for event in second.writes() if event["objectRef"]["resource"] == "nodes"] == []
    rest.delete("/api/v1/nodes/hami").done()


def test_no_bind_is_begun_that_may_outlive_the_lease(first: Product, rest: Rest) -> None:
    make(rest, "pod", SHARE)
    assert chosen(first, rest, "pod", NODE)
    lead(rest, "a", term=1, renewed_seconds_ago=11)  # (4 s are left, and a bind may take 5)
    time.sleep(0.3)
    lead_before = wait_for("short lease", lambda: call_bind(first, rest, "pod", NODE))
    assert "of the lease are left, a bind may take 5 s" in lead_before or "in doubt" in lead_before
    assert node_of(rest, "pod") == ""
    lead(rest, "a", term=1)
    wait_for("bind", lambda: call_bind(first, rest, "pod", NODE) == "", seconds=SOON_SECONDS)
    assert node_of(rest, "pod") == NODE


def test_a_new_leader_writes_once_on_its_own_pod_and_binds(first: Product, second: Product, rest: Rest) -> None:
    make(rest, "pod", SHARE)
    make(rest, "pod-2", SHARE)
    lead(rest, "b", term=2)
    wait_for("leadership", lambda: chosen(second, rest, "pod", NODE), seconds=SOON_SECONDS)
    assert call_bind(second, rest, "pod", NODE) == ""
    assert "this replica does not bind: not the leader: b_1111" in call_bind(first, rest, "pod-2", NODE)
    for _ in range(5):
        lead(rest, "b", term=2)
        time.sleep(0.1)
    assert (proofs(first, "own-a"), proofs(second, "own-b")) == (1, 1)
    assert TAKEOVER in get_pod(rest, "own-b")["metadata"]["annotations"]


def test_without_a_pod_of_its_own_it_lists_the_pods_again(
    plane: ControlPlane, first: Product, rest: Rest, tmp_path: Path
) -> None:
    """Its watch is so slow that only a list can have told it of the pod that holds the card."""
    with lagging(plane, rest, tmp_path, own_pod="") as second:
        hand_over(first, rest)
        since = time.monotonic()
        wait_for("decision", lambda: decided(second, rest, "next"))
        assert time.monotonic() - since < DELAY_SECONDS
        assert_nothing_is_given_twice(second, rest)


def test_no_card_is_given_twice_where_the_new_leaders_watch_lags_behind(
    plane: ControlPlane, first: Product, rest: Rest, tmp_path: Path
) -> None:
    """It decides nothing until what it wrote on its own pod has come by."""
    with lagging(plane, rest, tmp_path, own_pod="own-b") as second:
        hand_over(first, rest)
        since = time.monotonic()
        wait_for("decision", lambda: decided(second, rest, "next"))
        assert time.monotonic() - since > DELAY_SECONDS - 0.5
        assert_nothing_is_given_twice(second, rest)


@contextmanager
def lagging(plane: ControlPlane, rest: Rest, folder: Path, *, own_pod: str) -> Iterator[Product]:
    """A replica that leads as soon as it is told to, and learns late of pods."""
    create_gpu_node(rest, "last", slots=1)
    try:
        user = plane.rest_as(USER, GROUPS)
        with (
            slow_watches(plane.url, user, DELAY_SECONDS, folder, only="pods") as kubeconfig,
            replica(plane, folder / "b", "b", own_pod=own_pod, flags={"--kubeconfig": str(kubeconfig)}) as product,
        ):
            yield product
    finally:
        rest.delete("/api/v1/nodes/last").done()


def hand_over(first: Product, rest: Rest) -> None:
    """The old leader gives away the last card, and the lease goes to the new one at once."""
    make(rest, "holder", WHOLE)
    make(rest, "next", WHOLE)
    time.sleep(DELAY_SECONDS)  # (the new one knows of both pods)
    wait_for("choice", lambda: chosen(first, rest, "holder", "last"))
    assert call_bind(first, rest, "holder", "last") == ""
    lead(rest, "b", term=2)


def decided(product: Product, rest: Rest, pod: str) -> bool:
    """Whether the replica refuses the pod for its own reason, asked by either verb. It never gives it the card."""
    answer = call_filter(product, rest, pod, "last")
    assert not answer.get("NodeNames")
    error = call_bind(product, rest, pod, "last")
    assert error
    undecided = "Cardwise" in answer["FailedNodes"].get("last", "") or error.startswith("this replica does not bind")
    return not undecided


def assert_nothing_is_given_twice(second: Product, rest: Rest) -> None:
    """The card goes to the next pod when the first has ended."""
    assert node_of(rest, "next") == ""
    assert use(rest, "").pods_by_node["last"] == 1
    end(rest, "holder")
    wait_for("card", lambda: chosen(second, rest, "next", "last"))
    assert call_bind(second, rest, "next", "last") == ""
    assert cards_of(rest, "next") == ["last-0"]


def test_asked_to_end_it_binds_nothing_more_and_ends_at_once(first: Product, rest: Rest) -> None:
    """Though a bind waits for its turn at a node of HAMi's, whose plugin does not answer, as it might for ten seconds."""
    create_hami_node(rest, "hami")
    for name in ("unserved", "in-line"):
        make(rest, name, SHARE)
    make(rest, "pod", SHARE)
    assert call_bind(first, rest, "unserved", "hami") == ""
    said: list[str] = []
    waits = threading.Thread(target=lambda: said.append(call_bind(first, rest, "in-line", "hami")))
    waits.start()
    time.sleep(0.5)
    assert said == []
    since = time.monotonic()
    assert first.end(seconds=10) == 0
    assert time.monotonic() - since < 3
    waits.join()
    assert said == ["this replica does not bind: the scheduler is stopping"]
    with pytest.raises(OSError, match="refused"):
        call_bind(first, rest, "pod", NODE)
    assert not any(node_of(rest, name) for name in ("in-line", "pod"))
    rest.delete("/api/v1/nodes/hami").done()
