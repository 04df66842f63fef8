"""Requests are values: method, path, parameters and body, exactly as the API server wants them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from cardwise.kube import requests, types
from cardwise.kube.requests import EVERYWHERE, LEASES, NODES, PODS, Request, Scope
from cardwise.wire.objects import Meta

ML = Scope(namespace="ml", labels="app=train", fields="spec.nodeName=node-1")

READS: dict[str, tuple[Request, str]] = {
    "all pods": (requests.list_page(PODS, EVERYWHERE), "GET /api/v1/pods"),
    "all nodes, in pages": (requests.list_page(NODES, EVERYWHERE, limit=500), "GET /api/v1/nodes?limit=500"),
    "the next page": (
        requests.list_page(PODS, EVERYWHERE, limit=2, page="a+b/c="),
        "GET /api/v1/pods?limit=2&continue=a%2Bb%2Fc%3D",
    ),
    "some pods": (
        requests.list_page(PODS, ML),
        "GET /api/v1/namespaces/ml/pods?labelSelector=app%3Dtrain&fieldSelector=spec.nodeName%3Dnode-1",
    ),
    "a watch": (
        requests.watch(NODES, Scope(labels="a=b"), version="7", timeout_seconds=9),
        "GET /api/v1/nodes?labelSelector=a%3Db&watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=9",
    ),
    "an object as it is now": (requests.get(PODS, "a", "ml"), "GET /api/v1/namespaces/ml/pods/a"),
    "an object as it was a moment ago": (
        requests.get(NODES, "n1", version=requests.ANY),
        "GET /api/v1/nodes/n1?resourceVersion=0",
    ),
    "a name that needs quoting": (requests.get(NODES, "a/b ü?"), "GET /api/v1/nodes/a%2Fb%20%C3%BC%3F"),
}


@pytest.mark.parametrize(("request_", "says"), READS.values(), ids=READS)
def test_a_read_is_this_line(request_: Request, says: str) -> None:
    assert f"{request_.method} {request_.target}" == says
    assert not request_.writes
    assert request_.body == b""


LEASE = types.lease("ml", "leader", types.LeaseSpec(holder_identity="a", lease_duration_seconds=15), version="8")

WRITES: dict[str, tuple[Request, str, str, object]] = {
    "bind": (
        requests.bind("ml", "a", uid="u", node="n1", annotations={"k": "v"}, labels={"l": "w"}),
        "POST /api/v1/namespaces/ml/pods/a/binding",
        "application/json",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a", "namespace": "ml", "uid": "u", "annotations": {"k": "v"}, "labels": {"l": "w"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        },
    ),
    "bind without a record": (
        requests.bind("ml", "a", uid="u", node="n1"),
        "POST /api/v1/namespaces/ml/pods/a/binding",
        "application/json",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a", "namespace": "ml", "uid": "u"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        },
    ),
    "merge patch": (
        requests.merge_patch(PODS, {"metadata": {"annotations": {"k": None}}}, "a", "ml"),
        "PATCH /api/v1/namespaces/ml/pods/a",
        "application/merge-patch+json",
        {"metadata": {"annotations": {"k": None}}},
    ),
    "JSON patch of the status": (
        requests.json_patch(NODES, [{"op": "remove", "path": "/a~1b"}], "n1", subresource="status"),
        "PATCH /api/v1/nodes/n1/status",
        "application/json-patch+json",
        [{"op": "remove", "path": "/a~1b"}],
    ),
    "delete": (
        requests.delete(PODS, "a", "ml", uid="u", version="5", grace_seconds=0),
        "DELETE /api/v1/namespaces/ml/pods/a",
        "application/json",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "5"},
        },
    ),
    "delete whatever it is": (
        requests.delete(PODS, "a", "ml"),
        "DELETE /api/v1/namespaces/ml/pods/a",
        "application/json",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ),
    "create": (
        requests.create(LEASES, types.lease("ml", "leader", types.LeaseSpec(holder_identity="a")), "ml"),
        "POST /apis/coordination.k8s.io/v1/namespaces/ml/leases",
        "application/json",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "leader", "namespace": "ml"},
            "spec": {"holderIdentity": "a"},
        },
    ),
    "update": (
        requests.update(LEASES, LEASE, "leader", "ml"),
        "PUT /apis/coordination.k8s.io/v1/namespaces/ml/leases/leader",
        "application/json",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "leader", "namespace": "ml", "resourceVersion": "8"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
        },
    ),
}


@pytest.mark.parametrize(("request_", "line", "content_type", "body"), WRITES.values(), ids=WRITES)
def test_a_write_is_this_line_and_this_body(request_: Request, line: str, content_type: str, body: object) -> None:
    assert f"{request_.method} {request_.target}" == line
    assert request_.writes
    assert (request_.content_type, msgspec.json.decode(request_.body)) == (content_type, body)


FAULTS: dict[str, tuple[Callable[[], Request], str]] = {
    "no name": (lambda: requests.delete(PODS, "", "ml"), "name of the Pod is (empty), must be the name of an object"),
    "no namespace": (
        lambda: requests.delete(PODS, "a"),
        "namespace of the Pod is (empty), must be the name of a namespace",
    ),
    "create without a namespace": (
        lambda: requests.create(LEASES, LEASE),
        "namespace of the Lease is (empty), must be the name of a namespace",
    ),
    "a name that leads elsewhere": (
        lambda: requests.get(PODS, "..", "ml"),
        "name of the Pod is .., which means something else in a path",
    ),
    "a namespace that leads elsewhere": (
        lambda: requests.list_page(PODS, Scope(namespace=".")),
        "namespace of the Pod is ., which means something else in a path",
    ),
}


@pytest.mark.parametrize(("build", "says"), FAULTS.values(), ids=FAULTS)
def test_a_path_that_would_be_another_one_is_refused(build: Callable[[], Request], says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        build()
    assert str(caught.value) == says


def test_a_kind_can_be_seen_as_another_type() -> None:
    class Named(msgspec.Struct):
        metadata: Meta

    assert PODS.seen_as(Named).decoded_as is Named
    assert requests.get(PODS.seen_as(Named), "a", "ml") == requests.get(PODS, "a", "ml")
