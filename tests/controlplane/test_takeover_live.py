"""Two replicas, each beside its own kube-scheduler with the shipped leader election: one is killed while pods come."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster import create_pod, node_of
from .gpus import create_gpu_node, share, use
from .plane import on_host
from .process import Process, wait_for
from .product import Product
from .replicas import LEASE, make, proofs, replica
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

NODES, PODS_EACH = 4, 12
SHORT = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
BIND_SECONDS = {"--bind-timeout-seconds": "1"}
"""Shorter than what is left of a lease that is renewed."""
TAKEOVER_SECONDS = 15.0
"""What is left of the lease, the try after that, and the pods that kube-scheduler backed off."""


def may_name_hosts() -> bool:
    """Whether a process may be given a host name of its own here."""
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        return False
    return subprocess.run([*on_host("any"), "true"], capture_output=True, check=False).returncode == 0


def shipped(product: Product) -> Json:
    config = product.scheduler_config()
    config["leaderElection"] = product.shipped_election() | SHORT
    return config


@contextmanager
def pair(plane: ControlPlane, folder: Path, host: str) -> Iterator[tuple[Product, Process]]:
    """A replica with its kube-scheduler, on a host of this name."""
    create_pod(plane.rest, f"own-{host}", spec={"schedulerName": "nobody"})
    with replica(plane, folder / host, host, own_pod=f"own-{host}", flags=BIND_SECONDS) as product:
        scheduler = plane.start_scheduler(shipped(product), host=host)
        try:
            yield product, scheduler
        finally:
            scheduler.stop()


def holder(rest: Rest) -> str:
    """The host of the kube-scheduler that leads."""
    lease = rest.get(LEASE)
    identity: str = lease.body["spec"]["holderIdentity"] if lease.status == 200 else ""
    return identity.rpartition("_")[0]


def make_some(rest: Rest, wave: str) -> list[str]:
    names = [f"{wave}-{number}" for number in range(PODS_EACH)]
    for name in names:
        make(rest, name, share(1000))
    return names


def bindings(product: Product) -> list[str]:
    """The pods of which a Binding was carried out, one for each."""
    return [
        event["objectRef"]["name"]
        for event in product.writes()
        if event["objectRef"].get("subresource") == "binding" and event["responseStatus"]["code"] == 201
    ]


@pytest.mark.skipif(not may_name_hosts(), reason="a host name of its own for each kube-scheduler needs unshare --uts")
def test_the_other_goes_on_where_the_leader_is_killed_and_every_pod_is_bound_once(
    plane: ControlPlane, tmp_path: Path
) -> None:
    rest = plane.rest
    for number in range(NODES):
        create_gpu_node(rest, f"node-{number}")
    with pair(plane, tmp_path, "replica-a") as (first, first_scheduler):
        wait_for("leader", lambda: holder(rest) == "replica-a", seconds=20)
        with pair(plane, tmp_path, "replica-b") as (second, _scheduler):
            before = make_some(rest, "before")
            wait_for("pods on nodes", lambda: all(node_of(rest, name) for name in before), seconds=20)
            between = make_some(rest, "between")
            first_scheduler.kill()
            first.kill()
            after = make_some(rest, "after")
            late = between + after
            wait_for("takeover", lambda: all(node_of(rest, name) for name in late), seconds=TAKEOVER_SECONDS)
            assert holder(rest) == "replica-b"
            assert (proofs(second, "own-replica-a"), proofs(second, "own-replica-b")) == (1, 1)
            assert sorted(bindings(second)) == sorted(before + late)
            assert use(rest, "").excess == []
