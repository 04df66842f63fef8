"""The shipped webhook configuration before a real API server: what reaches the webhook, and what comes of it."""

from __future__ import annotations

import base64
import copy
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cardwise.scheduler import config
from cardwise.scheduler.certificates import ServedPair, ServerContext
from cardwise.scheduler.issuing import issued, names_of
from cardwise.scheduler.webhook import Policy, View, review
from cardwise.wire.families import FAMILIES
from cardwise.wire.yaml_text import parse

from .cluster import create_namespace, create_node, create_pod, get_pod
from .process import wait_for
from .rest import Answer, Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

PODS = "/api/v1/namespaces/default/pods"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
FILE = Path(__file__).parents[2] / "deploy" / "webhook.yaml"
POLICY = Policy(writers=frozenset(config.WRITERS))
SCHEDULER = config.WRITERS[0]
RECORD = {
    "hami.io/vgpu-node": "one",
    "hami.io/bind-phase": "success",
    "hami.io/dcu-devices-allocated": "DCU-0,DCU,1,1:;",
    "cardwise.io/exclusive-cards": "GPU-0",
}
IGNORE = {"hami.io/webhook": "ignore"}


class Server(ThreadingHTTPServer):
    """A webhook on loopback that keeps what it was asked about."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str, str]] = []

    def asked_about(self, name: str) -> list[tuple[str, str]]:
        """The operations and subresources that it was asked about for a pod."""
        return [(operation, subresource) for operation, _plural, subresource, about in self.asked if about == name]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = msgspec.json.decode(body)["request"]
        assert isinstance(self.server, Server)
        about = (request["operation"], request["resource"]["resource"], request.get("subResource", ""))
        self.server.asked.append((*about, request.get("name", "")))
        answer = review(body, POLICY, View()).body
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (as http.server names it)
        """Say nothing."""


def configuration(url: str, authority: bytes) -> Json:
    """The shipped file, with an address in place of a service: there is no network of services here."""
    (value,) = parse(FILE.read_text(encoding="utf-8"))
    whole: Json = copy.deepcopy(value)
    bundle = base64.b64encode(authority).decode()
    for each in whole["webhooks"]:
        each["clientConfig"] = {"url": url, "caBundle": bundle}
    return whole


@pytest.fixture(scope="module")
def hook(plane: ControlPlane) -> Iterator[Server]:
    pair = issued(names_of("cardwise-scheduler", "kube-system"), datetime.now(UTC))
    server = Server()
    context: ssl.SSLContext = ServerContext(ServedPair(certificate=pair.certificate, key=pair.key)).context
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    create_node(plane.rest, "one")
    url = f"https://127.0.0.1:{server.server_address[1]}/webhook"
    plane.rest.post(HOOKS, configuration(url, pair.authority)).done()
    numbers = iter(range(1000))
    wait_for("the webhook to be asked", lambda: _asked(plane.rest, f"probe-{next(numbers)}"), seconds=20)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _asked(rest: Rest, name: str) -> bool:
    scheduler: str = create_pod(rest, name, limits={"nvidia.com/gpu": "1"})["spec"]["schedulerName"]
    return scheduler == "cardwise-scheduler"


def body(name: str, *, init: bool = False, labels: dict[str, str] | None = None, **resources: dict[str, str]) -> Json:
    container = {"name": "main", "image": "none", "resources": resources}
    idle = {"name": "idle", "image": "none"}
    spec = {"containers": [idle], "initContainers": [container]} if init else {"containers": [idle, container]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def annotated(pod: Json, annotations: dict[str, str]) -> Json:
    return pod | {"metadata": pod["metadata"] | {"annotations": annotations}}


RESOURCES = sorted({name for family in FAMILIES for name in family.resources})


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("init", [False, True], ids=["app", "init"])
def test_every_resource_of_ours_reaches_it(plane: ControlPlane, hook: Server, resource: str, init: bool) -> None:
    name = f"{resource.replace('.', '-').replace('/', '-')}-{'init' if init else 'app'}"
    answer = plane.rest.post(PODS, body(name, init=init, limits={resource: "1"})).done()
    assert hook.asked_about(name) == [("CREATE", "")]
    assert answer["spec"]["schedulerName"] == "cardwise-scheduler"


def test_other_pods_do_not(plane: ControlPlane, hook: Server) -> None:
    for at, limits in enumerate(({}, {"cpu": "1"}, {"amd.com/gpu": "1"}, {"nvidia.com/priority": "1"})):
        plane.rest.post(PODS, body(f"other-{at}", limits=limits)).done()
        assert hook.asked_about(f"other-{at}") == []


def test_requests_alone_reach_it_and_are_the_servers_to_refuse(plane: ControlPlane, hook: Server) -> None:
    answer = plane.rest.post(PODS, body("requests", requests={"nvidia.com/gpu": "1"}))
    assert (answer.status, hook.asked_about("requests")) == (422, [("CREATE", "")])
    assert "Limit must be set for non overcommitable resources" in answer.body["message"]


def test_a_pod_is_completed_and_requests_are_limits(plane: ControlPlane, hook: Server) -> None:
    value = body("complete", limits={"nvidia.com/gpumem-percentage": "100", "nvidia.com/priority": "1"})
    main = plane.rest.post(PODS, value).done()["spec"]["containers"][1]
    amounts = {"nvidia.com/gpumem-percentage": "100", "nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
    assert main["resources"] == {key: amounts | {"nvidia.com/priority": "1"} for key in ("limits", "requests")}
    assert main["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]


def test_a_dry_run_and_a_generated_name(plane: ControlPlane, hook: Server) -> None:
    value = body("", limits={"nvidia.com/gpu": "1"})
    value["metadata"] = {"generateName": "made-"}
    found = plane.rest.post(f"{PODS}?dryRun=All", value).done()
    assert found["spec"]["schedulerName"] == "cardwise-scheduler"
    refused = body("", limits={"nvidia.com/gpucores": "120"}) | {"metadata": {"generateName": "made-"}}
    assert (
        "pod default/made-*, container main: nvidia.com/gpucores is 120"
        in plane.rest.post(PODS, refused).body["message"]
    )


def test_labelled_pods_and_namespaces_are_passed_by(plane: ControlPlane, hook: Server) -> None:
    create_namespace(plane.rest, "ignored", IGNORE)
    asks = {"nvidia.com/gpu": "1"}
    for name, path, labels in (
        ("labelled", PODS, IGNORE),
        ("in-labelled", "/api/v1/namespaces/ignored/pods", {}),
    ):
        found = plane.rest.post(path, body(name, labels=labels, limits=asks)).done()
        assert (found["spec"]["schedulerName"], hook.asked_about(name)) == ("default-scheduler", [])


@pytest.mark.parametrize("labels", [{}, IGNORE], ids=["ours", "passed-by"])
def test_a_ready_made_record_does_not_come_in(plane: ControlPlane, hook: Server, labels: dict[str, str]) -> None:
    name = "forged-passed-by" if labels else "forged"
    value = annotated(body(name, labels=labels, limits={"nvidia.com/gpu": "1"}), RECORD | {"mine": "1"})
    found = plane.rest.post(PODS, value).done()
    assert found["metadata"]["annotations"] == {"mine": "1"}
    assert hook.asked_about(name) == [("CREATE", "")]


def binding_of(pod: Json, annotations: dict[str, str]) -> Json:
    meta = {"name": pod["metadata"]["name"], "annotations": annotations}
    return {"metadata": meta, "target": {"kind": "Node", "name": "one"}}


@pytest.mark.parametrize("key", RECORD)
def test_a_user_cannot_write_annotations_of_ours_by_any_way(plane: ControlPlane, hook: Server, key: str) -> None:
    name = "guarded-" + "".join(letter if letter.isalnum() else "-" for letter in key)
    pod = create_pod(plane.rest, name, limits={"nvidia.com/gpu": "1"})
    change = {"metadata": {"annotations": {key: RECORD[key]}}}
    ways: list[Answer] = [
        plane.rest.patch(f"{PODS}/{name}", change),
        plane.rest.patch(f"{PODS}/{name}/status", change),
        plane.rest.post(f"{PODS}/{name}/binding", binding_of(pod, change["metadata"]["annotations"])),
        plane.rest.post("/api/v1/namespaces/default/bindings", binding_of(pod, change["metadata"]["annotations"])),
    ]
    assert [(each.status, each.body["reason"]) for each in ways] == [(403, "Forbidden")] * 4
    assert all(
        f"annotations {key} are written by the scheduler and its agents only" in each.body["message"] for each in ways
    )
    assert get_pod(plane.rest, name)["metadata"].get("annotations", {}) == {}


def test_the_scheduler_binds_and_writes_without_asking_itself(plane: ControlPlane, hook: Server) -> None:
    pod = create_pod(plane.rest, "bound", limits={"nvidia.com/gpu": "1"})
    ours = plane.rest_as(SCHEDULER, ("system:masters",))
    assert ours.post(f"{PODS}/bound/binding", binding_of(pod, RECORD)).status == 201
    assert ours.patch(f"{PODS}/bound", {"metadata": {"annotations": {"hami.io/bind-phase": "failed"}}}).status == 200
    assert get_pod(plane.rest, "bound")["metadata"]["annotations"] == RECORD | {"hami.io/bind-phase": "failed"}
    assert hook.asked_about("bound") == [("CREATE", "")]


def test_changes_of_a_bound_pod_that_are_none_of_ours_do_not_reach_it(plane: ControlPlane, hook: Server) -> None:
    """The kubelet's above all: it must be able to say that a pod ended while the scheduler is away."""
    pod = create_pod(plane.rest, "running", limits={"nvidia.com/gpu": "1"})
    plane.rest_as(SCHEDULER, ("system:masters",)).post(f"{PODS}/running/binding", binding_of(pod, RECORD)).done()
    kubelet = plane.rest_as("system:node:one", ("system:nodes",))
    assert kubelet.patch(f"{PODS}/running/status", {"status": {"phase": "Running"}}).status == 200
    assert plane.rest.patch(f"{PODS}/running", {"metadata": {"annotations": {"mine": "1"}}}).status == 200
    removed = plane.rest.patch(f"{PODS}/running", {"metadata": {"annotations": {"hami.io/vgpu-node": None}}})
    assert removed.status == 403
    assert hook.asked_about("running") == [("CREATE", ""), ("UPDATE", "")]
