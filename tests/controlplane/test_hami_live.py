"""Nodes that HAMi's device plugin serves, on the real control plane: one pod at a time, each with its own cards."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from .cluster import create_pod, get_pod, node_of, wait_until_bound
from .gpus import PODS, create_gpu_node, create_pinned, end, end_all, share, use
from .hami import (
    GROUPS,
    LOCK,
    PHASE,
    TO_ALLOCATE,
    USER,
    Unlocks,
    create_hami_node,
    lock_of,
    phase_of,
    plugin,
    set_annotations,
    set_lock,
)
from .process import wait_for
from .product import Product, running
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

NODE, OTHER, POOL = "hami", "cardwise", {"pool": "both"}
SHARE = share(1000)
AT_ONCE_SECONDS = 2.0
"""A lock that means nothing holds up nobody: far below the five minutes after which it would run out."""
LOCK_FORM = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,default,"
LABEL = "hami.io/vgpu-node"


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    create_hami_node(plane.rest, NODE, labels=POOL)
    create_gpu_node(plane.rest, OTHER, labels=POOL)
    with running(plane, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def rest(product: Product) -> Iterator[Rest]:
    """No pod and no lock is left afterwards."""
    yield product.plane.rest
    end_all(product.plane.rest)
    set_lock(product.plane.rest, NODE, None)


@pytest.fixture
def hamis(plane: ControlPlane) -> Rest:
    """Requests as HAMi's device plugin: nobody but it and us may write the phase of a pod."""
    return plane.rest_as(USER, GROUPS)


def writes(product: Product, pod: str) -> list[str]:
    """What we wrote for a pod, in order: on the node `lock` and `unlock`, on the pod the subresource or `label`."""
    found = []
    for event in product.writes():
        about, asked = event["objectRef"], event.get("requestObject", {})
        if about["resource"] == "nodes":
            lock = asked["metadata"]["annotations"][LOCK]
            found += ["unlock"] if lock is None else ["lock"] if lock.endswith(f",{pod}") else []
        elif about["resource"] == "pods" and about["name"] == pod:
            found.append(about.get("subresource") or "label")
    return found


def bind_unserved(rest: Rest, name: str) -> None:
    """A pod is bound to the node, and the plugin does nothing."""
    create_pinned(rest, name, NODE, SHARE)
    wait_until_bound(rest, name)
    assert phase_of(rest, name) == "allocating"


def seconds_to_bind(rest: Rest, name: str, node: str) -> float:
    """How long it takes from the pod's making."""
    since = time.monotonic()
    create_pinned(rest, name, node, SHARE)
    wait_until_bound(rest, name, seconds=20)
    return time.monotonic() - since


def test_the_lock_is_set_before_the_binding_in_hamis_form(product: Product, rest: Rest, hamis: Rest) -> None:
    bind_unserved(rest, "locks")
    assert re.fullmatch(f"{LOCK_FORM}locks", lock_of(rest, NODE))
    pod = wait_for("label", lambda: labelled(rest, "locks"))
    annotations = pod["metadata"]["annotations"]
    assert pod["metadata"]["labels"][LABEL] == NODE
    assert (annotations[LABEL], annotations[PHASE]) == (NODE, "allocating")
    assert annotations[TO_ALLOCATE] == annotations["hami.io/vgpu-devices-allocated"] == "hami-0,NVIDIA,1000,0:;"
    assert int(annotations["hami.io/bind-time"]) == pytest.approx(time.time(), abs=60)
    wait_for("audit", lambda: "binding" in writes(product, "locks"))
    assert [each for each in writes(product, "locks") if each not in ("unlock", "label")] == ["lock", "binding"]


def labelled(rest: Rest, name: str) -> Json | None:
    pod = get_pod(rest, name)
    return pod if LABEL in pod["metadata"].get("labels", {}) else None


def test_the_second_waits_until_the_first_is_served_and_other_nodes_do_not(rest: Rest, hamis: Rest) -> None:
    bind_unserved(rest, "first")
    create_pinned(rest, "second", NODE, SHARE)
    for number in range(5):
        assert seconds_to_bind(rest, f"aside-{number}", OTHER) < 1
    assert node_of(rest, "second") == ""
    assert lock_of(rest, NODE).endswith(",first")
    with plugin(hamis, NODE) as playing:
        wait_until_bound(rest, "second", seconds=AT_ONCE_SECONDS)
        wait_for("second pod's cards", lambda: phase_of(rest, "second") == "success")
    assert (playing.served, playing.mixed_up) == (["first", "second"], [])


@pytest.mark.parametrize("unlocks", [Unlocks.OWN, Unlocks.ANY])
def test_five_pods_are_served_one_at_a_time(rest: Rest, hamis: Rest, unlocks: Unlocks) -> None:
    names = [f"five-{number}" for number in range(5)]
    with plugin(hamis, NODE, seconds=0.2, unlocks=unlocks) as playing:
        for name in names:
            create_pinned(rest, name, NODE, SHARE)
        wait_for("five pods with cards", lambda: len(playing.served) == len(names), seconds=20)
    assert sorted(playing.served) == names
    assert playing.mixed_up == []
    assert [phase_of(rest, name) for name in names] == ["success"] * 5
    wait_for("unlocking", lambda: lock_of(rest, NODE) == "")
    assert use(rest).excess == []


def test_the_second_waits_though_the_first_ones_lock_was_removed_too_early(rest: Rest, hamis: Rest) -> None:
    """As HAMi 2.4's plugin does, which removes whatever lock there is. It then finds the one pod that waits."""
    bind_unserved(rest, "early")
    set_lock(rest, NODE, None)
    create_pinned(rest, "behind-it", NODE, SHARE)
    time.sleep(1.2)  # (longer than it takes to look at a lock again)
    assert node_of(rest, "behind-it") == ""
    with plugin(hamis, NODE) as playing:
        wait_until_bound(rest, "behind-it", seconds=AT_ONCE_SECONDS)
        wait_for("cards", lambda: phase_of(rest, "behind-it") == "success")
    assert (playing.served, playing.mixed_up) == (["early", "behind-it"], [])


def test_a_lock_that_is_left_behind_after_success_is_taken_over_at_once(
    product: Product, rest: Rest, hamis: Rest
) -> None:
    with plugin(hamis, NODE, unlocks=Unlocks.NEVER) as playing:
        for number in range(3):
            assert seconds_to_bind(rest, f"left-{number}", NODE) < AT_ONCE_SECONDS
            wait_for("cards", lambda number=number: phase_of(rest, f"left-{number}") == "success")  # type: ignore[misc]
    assert (playing.served, playing.mixed_up) == (["left-0", "left-1", "left-2"], [])
    assert lock_of(rest, NODE).endswith(",left-2")
    assert "which holds hami.io/mutex.lock, has its cards" in product.log()


def test_an_owner_that_is_gone_holds_up_nobody(rest: Rest) -> None:
    set_lock(rest, NODE, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())},default,never-was")
    assert seconds_to_bind(rest, "after-nobody", NODE) < AT_ONCE_SECONDS
    end(rest, "after-nobody")
    assert seconds_to_bind(rest, "after-deleted", NODE) < AT_ONCE_SECONDS
    assert lock_of(rest, NODE).endswith(",after-deleted")


def test_an_owner_that_ended_holds_up_nobody(rest: Rest) -> None:
    bind_unserved(rest, "ends")
    rest.patch(f"{PODS}/ends/status", {"status": {"phase": "Failed"}}).done()
    assert seconds_to_bind(rest, "after-ended", NODE) < AT_ONCE_SECONDS


def test_the_next_goes_at_once_where_the_first_was_refused_its_cards(rest: Rest, hamis: Rest) -> None:
    bind_unserved(rest, "refused")
    create_pinned(rest, "after-refused", NODE, SHARE)
    time.sleep(0.5)
    assert node_of(rest, "after-refused") == ""
    set_annotations(hamis, "refused", {PHASE: "failed"})
    wait_until_bound(rest, "after-refused", seconds=AT_ONCE_SECONDS)


def test_where_the_plugin_never_answers_pods_go_to_other_nodes(rest: Rest) -> None:
    """The node would rank first: it has the same room, and pods on it already."""
    bind_unserved(rest, "unserved")
    for number in range(3):
        name = f"goes-on-{number}"
        since = time.monotonic()
        create_pod(rest, name, limits=SHARE, spec={"nodeSelector": POOL})
        assert wait_until_bound(rest, name) == OTHER
        assert time.monotonic() - since < 1


def test_a_bind_that_waits_too_long_gives_up_and_its_pod_comes_again(product: Product, rest: Rest, hamis: Rest) -> None:
    """With a wait that is set short. Nothing is left of the try: no lock of this pod, no record on it."""
    product.stop()
    product.flags["--gate-wait-seconds"] = "1"
    product.start()
    bind_unserved(rest, "slow")
    create_pinned(rest, "gives-up", NODE, SHARE)
    wait_for("the reason in the log", lambda: "still to serve pod default/slow" in product.log())
    assert node_of(rest, "gives-up") == ""
    assert lock_of(rest, NODE).endswith(",slow")
    with plugin(hamis, NODE) as playing:
        assert wait_until_bound(rest, "gives-up", seconds=20) == NODE
        wait_for("cards", lambda: phase_of(rest, "gives-up") == "success")
    assert playing.mixed_up == []
