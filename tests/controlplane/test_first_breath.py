"""The chain's first breath: a real kube-scheduler places the four pods of examples/two-a40 by what the engine decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cardwise.core.cluster import Cluster
from cardwise.core.model import Placement
from cardwise.wire import names, objects, yaml_text
from cardwise.wire.assignment import encode_assignment
from cardwise.wire.families import FAMILIES, NVIDIA
from cardwise.wire.nodes import read_node
from cardwise.wire.pods import read_hold, read_pod

from .cluster import create_node, create_pod, get_pod, refusal, wait_until_bound
from .extender import Extender
from .process import wait_for
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "two-a40"
SCHEDULER = "first-breath"
FIRST, SECOND = "GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"


def example(name: str) -> Json:
    document: Json
    (document,) = yaml_text.parse((EXAMPLES / f"{name}.yaml").read_text())
    return document


def engine(rest: Rest) -> Cluster:
    """The cluster as the API server shows it at this moment."""
    cluster = Cluster(FAMILIES)
    for node in rest.get("/api/v1/nodes").done()["items"]:
        cluster.set_node(read_node(msgspec.convert(node, objects.Node), FAMILIES).node)
    for pod in rest.get("/api/v1/pods").done()["items"]:
        if hold := read_hold(msgspec.convert(pod, objects.Pod), FAMILIES):
            cluster.confirm(hold)
    return cluster


class Decider:
    """Answers filter and bind by the engine; what it decided is kept between the two, as a reservation will be."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._decided: dict[str, Placement] = {}

    def filter(self, request: Json) -> Json:
        pod = read_pod(msgspec.convert(request["Pod"], objects.Pod), FAMILIES).request
        assert pod is not None
        cluster = engine(self._rest)
        placement = cluster.place(pod)
        if placement is None:
            return {"FailedNodes": {name: why.text for name, why in cluster.refusals(pod).items()}}
        self._decided[pod.uid] = placement
        return {"NodeNames": [placement.node]}

    def bind(self, request: Json) -> Json:
        placement = self._decided[request["PodUID"]]
        text = encode_assignment([container.cards for container in placement.containers], NVIDIA)
        annotations = {names.ASSIGNED_NODE: placement.node, NVIDIA.allocated_key: text}
        metadata = {"name": request["PodName"], "uid": request["PodUID"], "annotations": annotations}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": request["Node"]}}
        path = f"/api/v1/namespaces/{request['PodNamespace']}/pods/{request['PodName']}/binding"
        answer = self._rest.post(path, binding)
        return {"Error": "" if answer.status == 201 else answer.body["message"]}


@pytest.fixture(scope="module")
def rest(plane: ControlPlane) -> Iterator[Rest]:
    node = example("node")["metadata"]
    create_node(plane.rest, node["name"], annotations=node["annotations"], allocatable={NVIDIA.count_resource: "20"})
    decider = Decider(plane.rest)
    with Extender({"filter": decider.filter, "bind": decider.bind}) as serving:
        extender = {
            "urlPrefix": serving.url,
            "filterVerb": "filter",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "managedResources": [{"name": NVIDIA.count_resource}],
        }
        scheduler = plane.start_scheduler({"profiles": [{"schedulerName": SCHEDULER}], "extenders": [extender]})
        yield plane.rest
        scheduler.stop()


def create(rest: Rest, name: str) -> str:
    pod = example(name)
    limits = {key: str(amount) for key, amount in pod["spec"]["containers"][0]["resources"]["limits"].items()}
    create_pod(rest, name, limits=limits, annotations=pod["metadata"]["annotations"], spec=_spec(limits))
    return name


def _spec(limits: dict[str, str]) -> dict[str, Any]:
    container = {"name": "ubuntu-container", "image": "ubuntu:18.04", "resources": {"limits": limits}}
    return {"schedulerName": SCHEDULER, "containers": [container]}


def delete(rest: Rest, name: str) -> None:
    rest.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0").done()
    wait_for(f"end of pod {name}", lambda: rest.get(f"/api/v1/namespaces/default/pods/{name}").status == 404)


@pytest.mark.parametrize(
    ("name", "cards"), [("use-model", [FIRST, SECOND]), ("refuse-model", [FIRST, SECOND]), ("use-uuid", [FIRST])]
)
def test_a_pod_is_bound_with_its_cards(plane: ControlPlane, rest: Rest, name: str, cards: list[str]) -> None:
    create(rest, name)
    assert wait_until_bound(rest, name) == "gpu-1"
    hold = read_hold(msgspec.convert(get_pod(rest, name), objects.Pod), FAMILIES)
    assert hold is not None
    assert list(hold.use) == cards
    bindings = wait_for("audit event", lambda: plane.audit_of("pods", name, subresource="binding"))
    assert len(bindings) == 1
    delete(rest, name)


def test_the_fourth_waits_and_says_why(rest: Rest) -> None:
    create(rest, "refuse-uuid")
    reason = wait_for("refusal", lambda: refusal(rest, "refuse-uuid"))
    assert "needs 2 cards, 1 of 2 fit (1 excluded by nvidia.com/nouse-gpuuuid)" in reason
    delete(rest, "refuse-uuid")
