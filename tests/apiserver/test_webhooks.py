"""Mutating webhooks: what they are asked, and what becomes of their answers."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from cardwise.sim.apiserver import MemoryServer, running_server

from .client import PODS, Client, Json, pod

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "pods.cardwise.io"
ANNOTATE = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]
Replies = Callable[[Json], Any]


class _QuietServer(ThreadingHTTPServer):
    """Some callers here leave early or do not trust it: that is no news."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


class Hook:
    """A webhook on loopback that answers by a function which a test sets; `asked` keeps path, headers and review."""

    def __init__(self) -> None:
        self.reply: Replies = allow()
        self.asked: list[tuple[str, dict[str, str], Json]] = []
        self.server = _QuietServer(("127.0.0.1", 0), _handler(self))

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"


def _handler(hook: Hook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.asked.append((self.path, dict(self.headers.items()), review))
            reply = hook.reply(review)
            status, body = reply if isinstance(reply, tuple) else (200, json.dumps(reply).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    return Handler


def allow(**response: Any) -> Replies:
    def reply(review: Json) -> Json:
        given = {"uid": review["request"]["uid"], "allowed": True} | response
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": given}

    return reply


def patching(operations: Any, **response: Any) -> Replies:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return allow(patchType="JSONPatch", patch=encoded, **response)


def configuration(url: str, **webhook: Any) -> Json:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": url},
        "rules": [rule],
    }
    return {"metadata": {"name": "cardwise"}, "webhooks": [hook | webhook]}


@pytest.fixture
def hook() -> Iterator[Hook]:
    serving = Hook()
    thread = threading.Thread(target=serving.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield serving
    serving.server.shutdown()
    thread.join()
    serving.server.server_close()


@pytest.fixture
def hooked(client: Client, hook: Hook) -> Client:
    assert client.post(HOOKS, configuration(f"http://{hook.place}/mutate", timeoutSeconds=1)).status == 201
    return client


def test_a_webhook_is_asked_as_a_real_server_asks(hooked: Client, hook: Hook) -> None:
    hooked.post(PODS, pod("a", annotations={"x": "y"}), fieldManager="me")
    [(path, headers, review)] = hook.asked
    request = review["request"]
    assert (path, headers["User-Agent"]) == ("/mutate?timeout=1s", "kube-apiserver-admission")
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["name"], request["namespace"], request["operation"]) == ("a", "default", "CREATE")
    assert (request["userInfo"]["username"], request["dryRun"], request["oldObject"]) == ("alice", False, None)
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    asked = request["object"]
    assert asked["metadata"] == {"name": "a", "namespace": "default", "annotations": {"x": "y"}}
    assert asked["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert (asked["spec"]["schedulerName"], asked["status"]) == ("default-scheduler", {})


def test_a_name_to_be_made_up_is_not_there_yet(hooked: Client, hook: Hook) -> None:
    hooked.post(PODS, pod("", generateName="g-"), dryRun="All")
    request = hook.asked[0][2]["request"]
    assert ("name" in request, "name" in request["object"]["metadata"], request["dryRun"]) == (False, False, True)


def test_a_patch_is_applied_and_defaults_again(hooked: Client, hook: Hook) -> None:
    more = {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpumem", "value": "5000"}
    hook.reply = patching([*ANNOTATE, more])
    made = hooked.post(PODS, pod("a")).body
    resources = made["spec"]["containers"][0]["resources"]
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert resources["requests"] == resources["limits"] == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5k"}


def test_warnings_are_headers(hooked: Client, hook: Hook) -> None:
    """Each text once; with a denial too."""
    texts = ["gpumem 20000 is rounded up", 'say "no"', "gpumem 20000 is rounded up"]
    expected = ['299 - "gpumem 20000 is rounded up"', r'299 - "say \"no\""']
    for allowed in (True, False):
        hook.reply = allow(allowed=allowed, warnings=texts)
        assert hooked.post(PODS, pod("a")).header("Warning") == expected


def test_many_warnings_are_cut_short(hooked: Client, hook: Hook) -> None:
    hook.reply = allow(warnings=[f"{number:04} " + "x" * 400 for number in range(20)])
    warnings = hooked.post(PODS, pod("a")).header("Warning")
    assert {len(each) for each in warnings} == {256 + len('299 - ""')}


DENIED = f'admission webhook "{NAME}" denied the request'


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (None, 400, None, f"{DENIED} without explanation"),
        ({"message": "no way"}, 400, None, f"{DENIED}: no way"),
        ({"code": 403, "reason": "Forbidden", "message": "bad"}, 403, "Forbidden", f"{DENIED}: bad"),
        ({"reason": "Forbidden"}, 400, "Forbidden", f"{DENIED}: Forbidden"),
        ({"code": 200, "message": "x"}, 400, None, f"{DENIED}: x"),
    ],
    ids=["plain", "message", "all", "reason", "code-200"],
)
def test_a_denial_is_the_clients_answer(
    hooked: Client, hook: Hook, status: Json | None, code: int, reason: str | None, message: str
) -> None:
    hook.reply = allow(allowed=False, **({"status": status} if status else {}))
    answer = hooked.post(PODS, pod("a"))
    assert (answer.status, answer.message, answer.body.get("reason")) == (code, message, reason)
    assert hooked.get(f"{PODS}/a").status == 404


FAILED = f'Internal error occurred: failed calling webhook "{NAME}": '


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(
            lambda _review: (500, b"oops"),
            'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding',
            id="500",
        ),
        pytest.param(lambda _review: (200, b"<html>"), "failed to call webhook: couldn't get version/kind", id="html"),
        pytest.param(lambda _review: {}, "received invalid webhook response: webhook response was absent", id="empty"),
        pytest.param(allow(uid="zz"), "received invalid webhook response: expected response.uid=", id="other-uid"),
        pytest.param(
            allow(patch="e30="), "webhook returned response.patch but not response.patchType", id="untyped-patch"
        ),
        pytest.param(allow(patch="%%", patchType="JSONPatch"), "illegal base64 data at input byte 0", id="no-base64"),
        pytest.param(patching({"no": "list"}), "received undecodable patch in webhook response", id="no-list"),
    ],
)
def test_answers_that_are_none(hooked: Client, hook: Hook, reply: Replies, text: str) -> None:
    hook.reply = reply
    answer = hooked.post(PODS, pod("a"))
    assert (answer.status, answer.body["reason"]) == (500, "InternalError")
    assert answer.message.startswith(FAILED)
    assert text in answer.message


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/metadata/nope"}], 500),
        ([{"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "2"}], 422),
        ([{"op": "replace", "path": "/spec/containers", "value": 5}], 400),
    ],
    ids=["does-not-apply", "invalid-pod", "no-pod"],
)
def test_patches_that_spoil_the_pod(hooked: Client, hook: Hook, operations: Any, code: int) -> None:
    hook.reply = patching(operations)
    assert hooked.post(PODS, pod("a")).status == code


def late(review: Json) -> Any:
    time.sleep(1.3)
    return allow()(review)


def test_a_slow_webhook_is_given_up(hooked: Client, hook: Hook) -> None:
    hook.reply = late
    answer = hooked.post(PODS, pod("a"))
    assert answer.message == (
        f'{FAILED}failed to call webhook: Post "http://{hook.place}/mutate?timeout=1s": context deadline exceeded'
    )


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_is_down(client: Client, policy: str, code: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    client.post(HOOKS, configuration(f"http://{place}/x", failurePolicy=policy))
    answer = client.post(PODS, pod("a"))
    down = f'Post "http://{place}/x?timeout=10s": dial tcp {place}: connect: connection refused'
    assert answer.status == code
    assert code == 201 or answer.message == f"{FAILED}failed to call webhook: {down}"


@pytest.mark.parametrize(
    ("webhook", "asked"),
    [
        pytest.param({}, 1, id="all"),
        pytest.param({"objectSelector": {"matchLabels": {"app": "x"}}}, 1, id="object"),
        pytest.param({"objectSelector": {"matchLabels": {"app": "y"}}}, 0, id="other-object"),
        pytest.param(
            {"objectSelector": {"matchExpressions": [{"key": "ignore", "operator": "DoesNotExist"}]}}, 1, id="absent"
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                }
            },
            0,
            id="other-namespace",
        ),
        pytest.param({"rules": []}, 0, id="no-rule"),
        pytest.param(
            {"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
            1,
            id="stars",
        ),
        pytest.param(
            {"rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]},
            0,
            id="other-group",
        ),
    ],
)
def test_whom_a_webhook_concerns(client: Client, hook: Hook, webhook: Json, asked: int) -> None:
    client.post(HOOKS, configuration(f"http://{hook.place}/mutate", **webhook))
    assert client.post(PODS, pod("a", labels={"app": "x"})).status == 201
    assert len(hook.asked) == asked


@pytest.mark.parametrize(
    ("webhook", "text"),
    [
        ({"matchConditions": [{"name": "x", "expression": "true"}]}, "this in-memory server evaluates no expressions"),
        ({"name": "x"}, "should be a domain with at least three segments separated by dots"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        ({"clientConfig": {"url": "http://example.com/x"}}, "'https' is the only allowed URL scheme"),
        ({"clientConfig": {}}, "exactly one of url or service is required"),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}},
            'objectSelector.matchExpressions[0].operator: Invalid value: "Bad": not a valid selector operator',
        ),
    ],
    ids=["conditions", "name", "side-effects", "http", "no-address", "selector"],
)
def test_configurations_that_are_refused(client: Client, webhook: Json, text: str) -> None:
    answer = client.post(HOOKS, configuration("https://127.0.0.1:1/x", **webhook))
    assert (answer.status, text in answer.message) == (422, True), answer.message


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(hook: Hook, authority: trustme.CA) -> Hook:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "hook.kube-system.svc").configure_cert(context)
    hook.server.socket = context.wrap_socket(hook.server.socket, server_side=True)
    return hook


def bundle(authority: trustme.CA) -> str:
    return base64.b64encode(authority.cert_pem.bytes()).decode()


def test_a_webhook_over_https(client: Client, secure: Hook, authority: trustme.CA) -> None:
    secure.reply = patching(ANNOTATE)
    address = {"url": f"https://{secure.place}/mutate", "caBundle": bundle(authority)}
    client.post(HOOKS, configuration("", clientConfig=address))
    assert client.post(PODS, pod("a")).body["metadata"]["annotations"] == {"a": "b"}


def test_a_certificate_of_somebody_else(client: Client, secure: Hook) -> None:
    address = {"url": f"https://{secure.place}/mutate", "caBundle": bundle(trustme.CA())}
    client.post(HOOKS, configuration("", clientConfig=address))
    answer = client.post(PODS, pod("a"))
    assert answer.message.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")


def test_a_service_is_found_where_it_is_said_to_listen(secure: Hook, authority: trustme.CA) -> None:
    """Its certificate must name the service, not the address."""
    with running_server(services={"kube-system/hook": secure.place}) as server:
        client = Client(server.url)
        for name, code in (("hook", 201), ("other", 500)):
            service = {"namespace": "kube-system", "name": name, "path": "/mutate"}
            address = {"service": service, "caBundle": bundle(authority)}
            client.delete(f"{HOOKS}/cardwise")
            assert client.post(HOOKS, configuration("", clientConfig=address)).status == 201
            assert client.post(PODS, pod("a")).status == code
    assert len(secure.asked) == 1


def test_objects_made_in_python_pass_webhooks_by(server: MemoryServer, hooked: Client, hook: Hook) -> None:
    server.create(pod("a"))
    assert hook.asked == []
