"""Several replicas of the service on one control plane, the lease that says which one binds, and calls made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from .cluster import create_pod, get_pod
from .process import free_ports
from .product import LEASE_NAMESPACE, WEBHOOKS, Product
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
LEASE = f"{LEASES}/cardwise-scheduler"
LEASE_SECONDS = 15
TAKEOVER = "cardwise.io/takeover"


@contextmanager
def replica(
    plane: ControlPlane, folder: Path, host: str, *, own_pod: str = "", flags: dict[str, str] | None = None
) -> Iterator[Product]:
    """The service on a host of this name, which is ready and waits for the lease. Nobody asks its webhook."""
    for path, name in (("/api/v1/namespaces", LEASE_NAMESPACE), (WEBHOOKS, "cardwise")):
        plane.rest.post(path, {"metadata": {"name": name}})  # (there already, most times)
    own = {"--pod-name": own_pod, "--pod-namespace": "default"} if own_pod else {}
    election = {"--leader-election-enabled": "true", "--leader-election-identity": host}
    folder.mkdir()
    product = Product(plane, folder, election | own | (flags or {}))
    product.extender_port, product.webhook_port, product.page_port = free_ports(3)
    try:
        product.start()
        yield product
    finally:
        product.stop()


def lead(rest: Rest, host: str, *, term: int, renewed_seconds_ago: float = 0.0) -> None:
    """The lease as a kube-scheduler on this host takes it, or renews it in the same term."""
    now = datetime.now(UTC)
    spec = {
        "holderIdentity": f"{host}_11111111-2222-3333-4444-555555555555",
        "leaseDurationSeconds": LEASE_SECONDS,
        "leaseTransitions": term,
        "acquireTime": f"2026-01-01T00:00:{term:02}.000000Z",
        "renewTime": micro_time(now - timedelta(seconds=renewed_seconds_ago)),
    }
    if rest.patch(LEASE, {"spec": spec}).status == 404:
        rest.post(LEASES, {"metadata": {"name": "cardwise-scheduler"}, "spec": spec}).done()


def micro_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def make(rest: Rest, name: str, limits: dict[str, str]) -> None:
    """A pod as admission would leave it."""
    create_pod(rest, name, limits=limits, spec={"schedulerName": "cardwise-scheduler"})


def call_filter(product: Product, rest: Rest, pod: str, node: str) -> Json:
    """What the replica answers where kube-scheduler offers one node."""
    asked = {"Pod": get_pod(rest, pod), "Nodes": None, "NodeNames": [node]}
    status, body = product.call("filter", json.dumps(asked).encode())
    assert status == 200
    answer: Json = json.loads(body)
    return answer


def chosen(product: Product, rest: Rest, pod: str, node: str) -> bool:
    """Whether the replica gives the pod this node."""
    return bool(call_filter(product, rest, pod, node).get("NodeNames"))


def call_bind(product: Product, rest: Rest, pod: str, node: str) -> str:
    """Why the replica does not bind the pod; "" where it has."""
    asked = {"PodName": pod, "PodNamespace": "default", "PodUID": get_pod(rest, pod)["metadata"]["uid"], "Node": node}
    status, body = product.call("bind", json.dumps(asked).encode())
    assert status == 200
    error: str = json.loads(body)["Error"]
    return error


def proofs(product: Product, own_pod: str) -> int:
    """How many writes there were on a replica's own pod."""
    uid = get_pod(product.plane.rest, own_pod)["metadata"]["uid"]
    written = [event.get("responseObject", {}).get("metadata", {}).get("uid") for event in product.writes()]
    return written.count(uid)
