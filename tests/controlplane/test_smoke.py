"""The control plane is real: it does what the product relies on."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from .build import chosen, version
from .cluster import create_namespace, create_node, create_pod, get_pod, refusal, wait_until_bound
from .extender import Extender
from .process import wait_for
from .rest import Answer, Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

RESOURCE = "example.com/card"
REASON = "no card is free for a test"
WAKE_SECONDS = 2.0
QUIET_SECONDS = 1.2
SCHEDULER = "smoke-scheduler"


def bind(rest: Rest, pod: Json, node: str, *, uid: str = "", **metadata: Json) -> Answer:
    name = pod["metadata"]["name"]
    known = {"name": name, "uid": uid or pod["metadata"]["uid"]}
    binding = {"metadata": known | metadata, "target": {"kind": "Node", "name": node}}
    return rest.post(f"/api/v1/namespaces/default/pods/{name}/binding", binding)


def extender_config(url: str) -> Json:
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
    }
    # Back-off of a second at most: up to Kubernetes 1.32 a woken pod still waits for the rest of it.
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    return {"profiles": [{"schedulerName": SCHEDULER}], "extenders": [extender], **backoff}


def refuse(request: Json) -> Json:
    return {"FailedNodes": dict.fromkeys(request["NodeNames"], REASON)}


def accept(request: Json) -> Json:
    return {"NodeNames": request["NodeNames"][:1]}


def settled(count: Callable[[], int]) -> int:
    """The count once it has stood still for longer than kube-scheduler's back-off."""
    seen = count()
    while True:
        time.sleep(QUIET_SECONDS)
        if count() == seen:
            return seen
        seen = count()


def merges_labels() -> bool:
    """Whether a Binding's labels reach the pod, as they do from Kubernetes 1.35 on."""
    return int(version(chosen()).split(".")[1]) >= 35


@pytest.fixture(scope="module")
def rest(plane: ControlPlane) -> Rest:
    create_node(plane.rest, "one", allocatable={RESOURCE: "8"})
    return plane.rest


@pytest.fixture
def extender(plane: ControlPlane, rest: Rest) -> Iterator[Extender]:
    """Refuses until told otherwise, and posts the Binding itself as an extender must."""

    def bind_it(request: Json) -> Json:
        answer = bind(
            rest, get_pod(rest, request["PodName"]), request["Node"], annotations={"example.com/cards": "0,1"}
        )
        return {"Error": "" if answer.status == 201 else answer.body["message"]}

    with Extender({"filter": refuse, "bind": bind_it}) as serving:
        scheduler = plane.start_scheduler(extender_config(serving.url))
        yield serving
        scheduler.stop()


def test_server_reports_the_version_that_go_mod_pins(rest: Rest) -> None:
    assert rest.get("/version").done()["gitVersion"] == version(chosen())


def test_kubectl_with_a_kubeconfig_of_ours_is_the_user_it_names(plane: ControlPlane) -> None:
    kubectl = shutil.which("kubectl") or pytest.skip("no kubectl on the PATH")
    kubeconfig = plane.kubeconfig("alice", ("system:masters", "team-a"))
    argv = [kubectl, "--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "json"]
    who = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["status"]["userInfo"]
    assert who["username"] == "alice"
    assert {"system:masters", "team-a"} <= set(who["groups"])


def test_rbac_refuses_a_user_without_a_role(plane: ControlPlane, rest: Rest) -> None:
    assert plane.rest_as("bob").get("/api/v1/nodes").status == 403


def test_node_is_ready_and_without_the_not_ready_taint(rest: Rest) -> None:
    node = rest.get("/api/v1/nodes/one").done()
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [("Ready", "True")]
    assert node["status"]["allocatable"][RESOURCE] == "8"
    assert "taints" not in node["spec"]


def test_pod_of_a_new_namespace_gets_its_service_account(rest: Rest) -> None:
    create_namespace(rest, "team")
    assert create_pod(rest, "accounted", namespace="team")["spec"]["serviceAccountName"] == "default"


def test_binding_sets_node_annotations_and_labels_in_one_write(plane: ControlPlane, rest: Rest) -> None:
    pod = create_pod(rest, "bound", annotations={"example.com/had": "this"})
    answer = bind(rest, pod, "one", annotations={"example.com/cards": "0"}, labels={"example.com/node": "one"})
    assert answer.status == 201
    seen = get_pod(rest, "bound")
    assert seen["spec"]["nodeName"] == "one"
    assert seen["metadata"]["annotations"] == {"example.com/had": "this", "example.com/cards": "0"}
    assert seen["metadata"].get("labels", {}) == ({"example.com/node": "one"} if merges_labels() else {})
    [write] = wait_for("audit event", lambda: plane.audit_of("pods", "bound", subresource="binding"))
    assert write["requestObject"]["metadata"]["annotations"] == {"example.com/cards": "0"}
    assert len(plane.audit_of("pods", "bound")) == 1  # its creation: nothing else wrote to it


def test_second_binding_is_refused(rest: Rest) -> None:
    pod = create_pod(rest, "twice")
    assert bind(rest, pod, "one").status == 201
    again = bind(rest, pod, "one")
    assert again.status == 409
    assert "already assigned to node" in again.body["message"]


def test_binding_with_another_uid_is_refused(rest: Rest) -> None:
    pod = create_pod(rest, "replaced")
    assert bind(rest, pod, "one", uid="00000000-0000-0000-0000-000000000000").status == 409
    assert "nodeName" not in get_pod(rest, "replaced")["spec"]


def test_scheduler_asks_the_extender_again_when_a_refused_pod_is_patched(rest: Rest, extender: Extender) -> None:
    create_pod(rest, "waiting", limits={RESOURCE: "1"}, spec={"schedulerName": SCHEDULER})
    assert REASON in wait_for("refusal", lambda: refusal(rest, "waiting"))
    asked = settled(lambda: extender.asked("filter", "waiting"))
    extender.answers["filter"] = accept
    rest.patch(
        "/api/v1/namespaces/default/pods/waiting", {"metadata": {"annotations": {"example.com/wake": "1"}}}
    ).done()
    wait_for("second look", lambda: extender.asked("filter", "waiting") > asked, seconds=WAKE_SECONDS)
    assert wait_until_bound(rest, "waiting") == "one"
    assert extender.asked("bind", "waiting") == 1
    assert get_pod(rest, "waiting")["metadata"]["annotations"]["example.com/cards"] == "0,1"
