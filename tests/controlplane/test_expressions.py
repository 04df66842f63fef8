"""What needs Kubernetes' expression language, which only the real server has: match conditions and validating policies.

Facts that the product's webhook and its policy will stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from .cluster import create_pod, get_pod
from .process import wait_for
from .rest import Answer, Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
SCHEDULER = "system:serviceaccount:kube-system:cardwise-scheduler"
CARDS = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,100,0:;"}
ASKS = (
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    ".exists(c, has(c.resources) && has(c.resources.limits)"
    " && c.resources.limits.exists(r, r.startsWith('nvidia.com/gpu')))"
)
OWNED = "(k.startsWith('hami.io/vgpu-') || k.startsWith('hami.io/bind-'))"


def body(name: str, limits: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Json:
    container = {"name": "main", "image": "none", "resources": {"limits": limits or {}}}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"containers": [container]}}


def until(ready: Callable[[], bool]) -> None:
    """The server reads new admission objects within a second or two."""
    wait_for("admission objects to be in force", ready, seconds=20)


@pytest.fixture
def webhook(plane: ControlPlane) -> Iterator[Rest]:
    """A webhook for pods that ask for cards, at an address where nobody listens."""
    rest = plane.rest
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    configuration = {
        "metadata": {"name": "cards"},
        "webhooks": [
            {
                "name": "pods.cardwise.io",
                "clientConfig": {"url": "https://127.0.0.1:1/webhook"},
                "rules": [rule],
                "matchConditions": [{"name": "asks-for-cards", "expression": ASKS}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 2,
            }
        ],
    }
    rest.post(f"{REGISTRATION}/mutatingwebhookconfigurations", configuration).done()
    tries = iter(range(1000))
    until(lambda: rest.post(PODS, body(f"probe-{next(tries)}", {"nvidia.com/gpu": "1"})).status >= 400)
    yield rest
    rest.delete(f"{REGISTRATION}/mutatingwebhookconfigurations/cards").done()


def test_a_webhook_that_is_down_stops_only_pods_that_ask_for_cards(webhook: Rest) -> None:
    refused = [
        webhook.post(PODS, body(f"asks-{at}", limits))
        for at, limits in enumerate(
            ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpumem": "100"}, {"nvidia.com/gpucores": "10"})
        )
    ]
    assert [answer.status for answer in refused] == [500] * 3
    assert "failed calling webhook" in refused[0].body["message"]
    for at, limits in enumerate(({}, {"cpu": "1"}, {"amd.com/gpu": "1"})):
        assert webhook.post(PODS, body(f"other-{at}", limits)).status == 201


@pytest.fixture(scope="module")
def guarded(plane: ControlPlane) -> ControlPlane:
    """A policy under which only the scheduler may write its annotations."""
    variables = [
        {"name": "new", "expression": "has(object.metadata.annotations) ? object.metadata.annotations : {}"},
        {
            "name": "old",
            "expression": "oldObject != null && has(oldObject.metadata.annotations)"
            " ? oldObject.metadata.annotations : {}",
        },
        {
            "name": "changed",
            "expression": f"variables.new.filter(k, {OWNED} && !(k in variables.old"
            f" && variables.old[k] == variables.new[k])) + variables.old.filter(k, {OWNED} && !(k in variables.new))",
        },
    ]
    resources = ["pods", "pods/status", "pods/binding", "bindings"]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": resources}
    policy = {
        "metadata": {"name": "owned"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "others", "expression": f"request.userInfo.username != '{SCHEDULER}'"}],
            "variables": variables,
            "validations": [{"expression": "size(variables.changed) == 0", "reason": "Forbidden"}],
        },
    }
    binding = {"metadata": {"name": "owned"}, "spec": {"policyName": "owned", "validationActions": ["Deny"]}}
    plane.rest.post(f"{REGISTRATION}/validatingadmissionpolicies", policy).done()
    plane.rest.post(f"{REGISTRATION}/validatingadmissionpolicybindings", binding).done()
    tries = iter(range(1000))
    until(lambda: plane.rest.post(PODS, body(f"early-{next(tries)}", annotations=CARDS)).status == 403)
    return plane


def binding_of(pod: Json, annotations: dict[str, str]) -> Json:
    meta = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "annotations": annotations}
    return {"metadata": meta, "target": {"kind": "Node", "name": "one"}}


def test_a_user_cannot_write_the_schedulers_annotations_by_any_way(guarded: ControlPlane) -> None:
    rest = guarded.rest
    pod = create_pod(rest, "plain")
    name = pod["metadata"]["name"]
    change = {"metadata": {"annotations": CARDS}}
    ways: list[Answer] = [
        rest.post(PODS, body("forged", annotations=CARDS)),
        rest.patch(f"{PODS}/{name}", change),
        rest.patch(f"{PODS}/{name}/status", change),
        rest.post(f"{PODS}/{name}/binding", binding_of(pod, CARDS)),
        rest.post("/api/v1/namespaces/default/bindings", binding_of(pod, CARDS)),
    ]
    assert [answer.status for answer in ways] == [403] * len(ways)
    assert get_pod(rest, name)["metadata"].get("annotations", {}) == {}


def test_other_annotations_and_plain_bindings_pass(guarded: ControlPlane) -> None:
    rest = guarded.rest
    pod = create_pod(rest, "passing", annotations={"mine": "1"})
    assert rest.patch(f"{PODS}/passing", {"metadata": {"annotations": {"mine": "2"}}}).status == 200
    assert rest.post(f"{PODS}/passing/binding", binding_of(pod, {})).status == 201


def test_the_scheduler_binds_with_its_annotations(guarded: ControlPlane) -> None:
    pod = create_pod(guarded.rest, "bound-by-us")
    ours = guarded.rest_as(SCHEDULER, ("system:masters",))
    assert ours.post(f"{PODS}/bound-by-us/binding", binding_of(pod, CARDS)).status == 201
    assert get_pod(guarded.rest, "bound-by-us")["metadata"]["annotations"] == CARDS
