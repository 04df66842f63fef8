"""A real kubectl is content with the server."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import trustme

from cardwise.sim.apiserver import MemoryServer, running_server

from .client import Json, node, pod
from .test_webhooks import Hook, allow, configuration, hook

__all__ = ["hook"]  # the fixture

KUBECTL = shutil.which("kubectl") or ""
RUN_SECONDS = 20.0

pytestmark = pytest.mark.skipif(not KUBECTL, reason="there is no kubectl on this machine's path")


class Shell:
    """kubectl as one user, with its caches in the test's own folder."""

    def __init__(self, server: MemoryServer, folder: Path) -> None:
        config = server.write_kubeconfig(folder / "config", user="alice")
        self._environment = {"KUBECONFIG": str(config), "HOME": str(folder), "PATH": "/usr/bin:/bin"}

    def run(self, *words: str, given: object = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [KUBECTL, *words],
            env=self._environment,
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )

    def __call__(self, *words: str, given: object = None) -> str:
        """What it prints; fails with what it complains of."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [KUBECTL, *words]
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def kubectl(server: MemoryServer, tmp_path: Path) -> Shell:
    return Shell(server, tmp_path)


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()]


def ready(server: MemoryServer, name: str = "one") -> None:
    server.create(node(name))
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.2"}}
    server.patch("nodes", name, {"status": status}, subresource="status")


def test_get_nodes_and_pods(server: MemoryServer, kubectl: Shell) -> None:
    ready(server)
    server.create(pod("a"))
    server.create(pod("s", namespace="kube-system"))
    server.bind("a", "one")
    assert rows(kubectl("get", "nodes"))[1][:3] == ["one", "Ready", "<none>"]
    heads, first, second = rows(kubectl("get", "pods", "-A", "-o", "wide"))
    assert heads[:6] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert (first[0], first[1], first[3], first[7]) == ("default", "a", "Pending", "one")
    assert (second[0], second[1], second[7]) == ("kube-system", "s", "<none>")
    assert "pod/a" in kubectl("get", "nodes,pods")
    assert kubectl("get", "pod", "a", "-o", "jsonpath={.spec.nodeName}") == "one"
    assert kubectl("get", "po", "--field-selector", "spec.nodeName=one", "-o", "name") == "pod/a\n"


def test_create_and_apply(server: MemoryServer, kubectl: Shell) -> None:
    """Without --validate=false: the server says that it validates."""
    both = {"apiVersion": "v1", "kind": "List", "items": [node(), pod("a")]}
    assert kubectl("create", "-f", "-", given=both) == "node/one created\npod/a created\n"
    assert kubectl("apply", "-f", "-", given=pod("b", labels={"l": "1"})) == "pod/b created\n"
    assert kubectl("apply", "-f", "-", given=pod("b", labels={"l": "1"})) == "pod/b unchanged\n"
    assert kubectl("apply", "-f", "-", given=pod("b", labels={"l": "2"})) == "pod/b configured\n"
    assert (server.get("pods", "b") or {})["metadata"]["labels"] == {"l": "2"}
    again = kubectl.run("create", "-f", "-", given=pod("a"))
    assert again.stderr == 'Error from server (AlreadyExists): error when creating "STDIN": pods "a" already exists\n'


def test_annotate_label_and_patch(server: MemoryServer, kubectl: Shell) -> None:
    server.create(pod("a"))
    kubectl("annotate", "pod", "a", "x=y", "gone=1")
    kubectl("annotate", "pod", "a", "gone-")
    kubectl("label", "pod", "a", "l=1")
    kubectl("patch", "pod", "a", "-p", '{"metadata":{"annotations":{"s":"strategic"}}}')
    kubectl("patch", "pod", "a", "--type=merge", "-p", '{"metadata":{"annotations":{"m":"merge"}}}')
    kubectl("patch", "pod", "a", "--type=json", "-p", '[{"op":"add","path":"/metadata/annotations/j","value":"json"}]')
    metadata = (server.get("pods", "a") or {})["metadata"]
    assert metadata["annotations"] == {"x": "y", "s": "strategic", "m": "merge", "j": "json"}
    assert metadata["labels"] == {"l": "1"}


def test_describe_shows_a_pod_with_its_events(server: MemoryServer, kubectl: Shell) -> None:
    made = server.create(pod("a", annotations={"x": "y"}))
    about = {"kind": "Pod", "namespace": "default", "name": "a", "uid": made["metadata"]["uid"]}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1"}, "involvedObject": about}
    server.create(event | {"type": "Warning", "reason": "FailedScheduling", "message": "0/1 nodes are available"})
    printed = kubectl("describe", "pod", "a")
    assert "nvidia.com/gpu:  1" in printed
    assert "FailedScheduling" in printed
    assert rows(kubectl("get", "events"))[1][1:4] == ["Warning", "FailedScheduling", "pod/a"]


def test_delete_waits_until_it_is_gone(server: MemoryServer, kubectl: Shell) -> None:
    server.create(pod("a"))
    assert kubectl("delete", "pod", "a") == 'pod "a" deleted\n'
    server.create(pod("b"))
    server.bind("b", "one")
    kubectl("delete", "pod", "b", "--wait=false")
    assert rows(kubectl("get", "pods"))[1][2] == "Terminating"
    kubectl("delete", "pod", "b", "--grace-period=0", "--force")
    assert server.list("pods") == ()


def test_cordon_and_taint(server: MemoryServer, kubectl: Shell) -> None:
    ready(server)
    kubectl("cordon", "one")
    kubectl("taint", "nodes", "one", "node.kubernetes.io/not-ready-", "cards=only:NoSchedule")
    assert rows(kubectl("get", "node", "one"))[1][1] == "Ready,SchedulingDisabled"
    assert (server.get("nodes", "one") or {})["spec"]["taints"] == [
        {"effect": "NoSchedule", "key": "cards", "value": "only"}
    ]


def test_watching(server: MemoryServer, kubectl: Shell) -> None:
    server.create(pod("a"))
    process = kubectl.start("get", "pods", "-w", "--no-headers")
    assert process.stdout is not None
    try:
        assert process.stdout.readline().split()[:3] == ["a", "0/1", "Pending"]
        _wait_for_watch(server)
        server.create(pod("b"))
        assert process.stdout.readline().split()[:3] == ["b", "0/1", "Pending"]
    finally:
        process.terminate()
        process.wait(RUN_SECONDS)
        process.stdout.close()


def _wait_for_watch(server: MemoryServer) -> None:
    until = time.monotonic() + RUN_SECONDS
    while not server.log.reads["watch", "pods"] and time.monotonic() < until:
        time.sleep(0.01)


def test_warnings_and_denials_are_shown(server: MemoryServer, kubectl: Shell, hook: Hook) -> None:
    server.create(_hooks(hook))
    hook.reply = allow(warnings=["nvidia.com/gpumem 20000 is rounded up to 20480"])
    created = kubectl.run("create", "-f", "-", given=pod("a"))
    assert (created.stdout, created.returncode) == ("pod/a created\n", 0)
    assert "Warning: nvidia.com/gpumem 20000 is rounded up to 20480" in created.stderr
    hook.reply = allow(allowed=False, status={"code": 400, "reason": "BadRequest", "message": "at most 100"})
    denied = kubectl.run("create", "-f", "-", given=pod("b"))
    text = 'admission webhook "pods.cardwise.io" denied the request: at most 100'
    assert denied.returncode == 1
    assert f'Error from server (BadRequest): error when creating "STDIN": {text}' in denied.stderr


def _hooks(hook: Hook) -> Json:
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return kind | configuration(f"http://{hook.place}/mutate")


def test_what_kubectl_writes_is_logged_with_its_user(tmp_path: Path) -> None:
    """Over TLS: kubectl sends no token in the clear."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with running_server(tls=context, authority_pem=authority.cert_pem.bytes()) as server:
        Shell(server, tmp_path)("create", "-f", "-", given=pod("a"))
        [write] = server.log.writes
    assert (write.user, write.verb, write.name) == ("alice", "create", "a")
    assert write.user_agent.startswith("kubectl")
