"""Which node a pod gets, on the real control plane: the pod's own wishes before the policy, whoever chooses the node."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster import create_pod, wait_until_bound
from .gpus import MEMORY_MIB, PODS, create_gpu_node, create_pinned, end, end_all, share, use
from .process import wait_for
from .product import Product, running, serving
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

HOST = "kubernetes.io/hostname"
BURST = 500
BURST_NODES, BURST_CARDS = 20, 5
SMALL = share(1024)
FIFTH = share(MEMORY_MIB // 5, 20)
"""Five to a card, so that the pods of a burst fill all the cards that there are."""
THREADS = 8


@pytest.fixture
def rest(plane: ControlPlane) -> Iterator[Rest]:
    """Of a cluster without pods and nodes."""
    yield plane.rest
    end_all(plane.rest)
    plane.rest.delete("/api/v1/nodes").done()


@pytest.fixture
def product(plane: ControlPlane, rest: Rest, tmp_path: Path) -> Iterator[Product]:
    with running(plane, tmp_path) as product:
        yield product


@pytest.fixture
def lenient(plane: ControlPlane, rest: Rest, tmp_path: Path) -> Iterator[Product]:
    """The service where kube-scheduler chooses the node. None runs yet."""
    with serving(plane, tmp_path, {"--node-choice": "kube-scheduler"}) as product:
        yield product


@contextmanager
def scheduling(product: Product) -> Iterator[None]:
    """kube-scheduler runs while the block does."""
    scheduler = product.plane.start_scheduler(product.scheduler_config())
    try:
        yield
    finally:
        scheduler.stop()


def prefers(node: str) -> Json:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    preferred = [{"weight": 1, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def placed(rest: Rest, name: str, spec: Json | None = None) -> str:
    """The node that a small pod gets."""
    create_pod(rest, name, limits=SMALL, spec=spec)
    return wait_until_bound(rest, name)


@pytest.fixture
def used_and_free(product: Product, rest: Rest) -> None:
    """Two nodes that fit alike, of which binpack takes the first: a pod runs there."""
    for name in ("used", "free"):
        create_gpu_node(rest, name)
    create_pinned(rest, "first", "used", SMALL)
    wait_until_bound(rest, "first")
    assert placed(rest, "second") == "used"


def test_a_preferred_node_goes_before_the_policy(rest: Rest, used_and_free: None) -> None:
    assert placed(rest, "wishes", prefers("free")) == "free"
    assert placed(rest, "wishes-none") == "used"


def test_a_taint_of_no_preference_goes_before_the_policy(rest: Rest, used_and_free: None) -> None:
    taint = {"key": "busy", "value": "very", "effect": "PreferNoSchedule"}
    rest.patch("/api/v1/nodes/used", {"spec": {"taints": [taint]}}).done()
    assert wait_for("a pod off the tainted node", lambda: _off(rest, "used")) == "free"
    assert placed(rest, "tolerates", {"tolerations": [{"key": "busy", "operator": "Exists"}]}) == "used"


def _off(rest: Rest, node: str) -> str:
    """Where a pod goes, if not there: what we know of a node is a moment behind."""
    found = placed(rest, "avoids")
    end(rest, "avoids")
    return found if found != node else ""


def spread(app: str) -> Json:
    """Few on each node, if possible."""
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": {"app": app}}}]}


def create_all(rest: Rest, app: str, count: int, limits: dict[str, str], spec: Json | None = None) -> None:
    """So many pods at once, <app>-0 and on, with the label app."""
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}

    def create(number: int) -> None:
        metadata = {"name": f"{app}-{number}", "labels": {"app": app}}
        rest.post(PODS, {"metadata": metadata, "spec": {"containers": [container]} | (spec or {})}).done()

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(create, range(count)))


def wait_until_all_bound(rest: Rest, count: int, *, seconds: float) -> None:
    def bound() -> bool:
        return sum(use(rest).pods_by_node.values()) == count

    wait_for(f"{count} bound pods", bound, seconds=seconds)


def test_topology_spread_counts_where_kube_scheduler_chooses(lenient: Product, rest: Rest) -> None:
    """Without it they are packed. It is one of several wishes, so it need not come out even."""
    for n in range(4):
        create_gpu_node(rest, f"n{n}")
    with scheduling(lenient):
        create_all(rest, "packed", 8, SMALL)
        wait_until_all_bound(rest, 8, seconds=20)
        assert len(use(rest).pods_by_node) < 4
        create_all(rest, "spread", 8, SMALL, spread("spread"))
        wait_until_all_bound(rest, 16, seconds=20)
    by_node = use(rest, "app=spread").pods_by_node
    assert [1 <= by_node[f"n{n}"] <= 3 for n in range(4)] == [True] * 4


def test_a_burst_where_kube_scheduler_chooses(lenient: Product, rest: Rest) -> None:
    """It may choose a node whose last room another pod has just been promised: bind then refuses, and it tries again."""
    for n in range(BURST_NODES):
        create_gpu_node(rest, f"n{n:02}", cards=BURST_CARDS)
    create_all(rest, "burst", BURST, FIFTH, spread("burst"))
    began = time.monotonic()
    with scheduling(lenient):
        wait_until_all_bound(rest, BURST, seconds=90)
    took, refused, failed = time.monotonic() - began, binds(lenient, "refused"), binds(lenient, "error")
    sys.stdout.write(
        f"{BURST} pods on {BURST_NODES} nodes in {took:.1f} s: {refused:g} binds refused, {failed:g} failed\n"
    )
    assert use(rest).excess == []
    assert use(rest).pods_by_node == {f"n{n:02}": BURST // BURST_NODES for n in range(BURST_NODES)}
    assert failed == 0
    assert refused <= BURST / 10


def binds(product: Product, result: str) -> float:
    return product.metric("cardwise_decisions_total", verb="bind", result=result)
