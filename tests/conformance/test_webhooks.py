"""A mutating webhook as the product will have one: asked, obeyed, its warnings passed on. The same of both servers."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from cardwise.kube.errors import KubeError

from .api import NAMESPACE, RAW_PODS, WEBHOOKS, Api, Json, pod_body

WARNING = "nvidia.com/gpumem 20000 is more than any card has"
PATCH = [{"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}]


def respond(request: Json) -> Json:
    """Refuses a pod labelled so, and marks the others with an annotation and a warning."""
    labels = request["object"]["metadata"].get("labels", {})
    if "refuse" in labels:
        status = {"code": 400, "reason": "BadRequest", "message": "container main: nvidia.com/gpucores is 120"}
        return {"uid": request["uid"], "allowed": False, "status": status}
    patch = base64.b64encode(json.dumps(PATCH).encode()).decode()
    return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch, "warnings": [WARNING]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": respond(review["request"]),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (as http.server names it)
        """Say nothing."""


@pytest.fixture(scope="module")
def webhook(api: Api) -> Iterator[Api]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    url = f"https://127.0.0.1:{server.server_address[1]}/webhook"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "conformance"},
        "webhooks": [
            {
                "name": "pods.cardwise.io",
                "clientConfig": {"url": url, "caBundle": bundle},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "objectSelector": {"matchLabels": {"hooked": "yes"}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
            }
        ],
    }
    api.run(lambda client: client.create(WEBHOOKS, configuration))
    _wait_until_asked(api)
    yield api
    api.run(lambda client: client.delete(WEBHOOKS, "conformance"))
    server.shutdown()
    thread.join()
    server.server_close()


def _wait_until_asked(api: Api) -> None:
    """The real server takes a moment to know of a new webhook."""
    for _ in range(100):
        if api.pod(metadata={"labels": {"hooked": "yes"}})["metadata"].get("annotations"):
            return
    raise AssertionError("the webhook was never asked")


def test_its_patch_is_in_the_pod(webhook: Api) -> None:
    pod = webhook.pod(metadata={"labels": {"hooked": "yes"}})
    assert pod["metadata"]["annotations"] == {"seen": "yes"}


def test_it_is_not_asked_about_what_its_selector_leaves_out(webhook: Api) -> None:
    assert "annotations" not in webhook.pod()["metadata"]


def test_its_refusal_is_the_answer(webhook: Api) -> None:
    body = pod_body(webhook.fresh("refused"), metadata={"labels": {"hooked": "yes", "refuse": "yes"}})
    error: KubeError = webhook.refused(lambda client: client.create(RAW_PODS, body, NAMESPACE))
    assert error.code == 400
    said = 'admission webhook "pods.cardwise.io" denied the request: container main: nvidia.com/gpucores is 120'
    assert said in str(error)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
def test_its_warning_is_shown_by_kubectl(webhook: Api) -> None:
    body = pod_body(webhook.fresh("warned"), metadata={"labels": {"hooked": "yes"}})
    argv = [str(shutil.which("kubectl")), "--kubeconfig", str(webhook.kubeconfig), "create", "-f", "-"]
    done = subprocess.run(argv, input=json.dumps(body), capture_output=True, text=True, check=True, timeout=20)
    assert f"Warning: {WARNING}" in done.stderr
