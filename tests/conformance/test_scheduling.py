"""A stock kube-scheduler on both servers: a pod that an extender refuses, woken by an annotation, bound by the extender."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardwise.kube.errors import KubeError
from controlplane.build import built, chosen
from controlplane.extender import Extender
from controlplane.process import Process, wait_for

from .api import NAMESPACE, RAW_NODES, RAW_PODS, Api, Json

pytestmark = pytest.mark.controlplane

RESOURCE = "example.com/card"
REASON = "no card is free for a test"
SCHEDULER = "conformance-scheduler"
QUIET_SECONDS = 1.2
ROOM = {"cpu": "8", "memory": "8Gi", "pods": "10", RESOURCE: "8"}


@pytest.fixture(scope="module")
def node(api: Api) -> str:
    """A node that is Ready and has cards."""
    name = api.node("ready")
    status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
    api.run(lambda client: client.patch(RAW_NODES, {"status": status}, name, subresource="status"))
    api.run(lambda client: client.patch(RAW_NODES, {"spec": {"taints": None}}, name))
    return name


@pytest.fixture
def extender(api: Api, node: str, tmp_path: Path) -> Iterator[Extender]:
    """Refuses until told otherwise, and posts the Binding itself, as an extender must."""

    def bind(request: Json) -> Json:
        known = {"uid": request["PodUID"], "node": request["Node"], "annotations": {"example.com/cards": "0"}}
        try:
            api.run(lambda client: client.bind(NAMESPACE, request["PodName"], **known))
        except KubeError as error:
            return {"Error": str(error)}
        return {"Error": ""}

    def refuse(request: Json) -> Json:
        return {"FailedNodes": dict.fromkeys(request["NodeNames"], REASON)}

    with Extender({"filter": refuse, "bind": bind}) as serving:
        config = tmp_path / "scheduler.json"
        config.write_text(json.dumps(_config(api, serving.url)))
        argv = [str(built(chosen()) / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
        scheduler = Process("kube-scheduler", argv, tmp_path / "scheduler.log")
        yield serving
        scheduler.stop()


def _config(api: Api, url: str) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        # JSON: the twin speaks no protobuf.
        "clientConnection": {"kubeconfig": str(api.kubeconfig), "contentType": "application/json", "qps": 5000},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "managedResources": [{"name": RESOURCE}],
            }
        ],
    }


def test_a_refused_pod_is_woken_by_an_annotation_and_bound(api: Api, node: str, extender: Extender) -> None:
    container = {"name": "main", "image": "none", "resources": {"limits": {RESOURCE: "1"}}}
    pod = api.pod("waiting", spec={"schedulerName": SCHEDULER, "containers": [container]})
    name = pod["metadata"]["name"]

    def refused() -> str:
        conditions = api.seen(pod)["status"].get("conditions", [])
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    assert REASON in wait_for("refusal", refused, seconds=20)
    quiet(extender, name)
    extender.answers["filter"] = lambda request: {"NodeNames": request["NodeNames"][:1]}
    change = {"metadata": {"annotations": {"example.com/wake": "1"}}}
    api.run(lambda client: client.patch(RAW_PODS, change, name, NAMESPACE))
    assert wait_for("binding", lambda: api.seen(pod)["spec"].get("nodeName", ""), seconds=5) == node
    assert api.seen(pod)["metadata"]["annotations"] == {"example.com/wake": "1", "example.com/cards": "0"}


def quiet(extender: Extender, name: str) -> None:
    """Wait until kube-scheduler has put the pod away: before that it would try again by itself."""
    seen = -1
    while seen != extender.asked("filter", name):
        seen = extender.asked("filter", name)
        time.sleep(QUIET_SECONDS)
