"""What a person sees through kubectl: the same of both servers."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from .api import Api, pod_body

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on the PATH")


def kubectl(api: Api, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(KUBECTL), "--kubeconfig", str(api.kubeconfig), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=20)


def test_nodes_and_pods_are_printed_as_tables(api: Api) -> None:
    node, pod = api.node(), api.pod()
    api.bind(pod, node)
    printed = kubectl(api, "get", "nodes,pods", "-o", "wide").stdout
    heads = [line.split() for line in printed.splitlines() if line.startswith("NAME")]
    assert heads[0][:5] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert heads[1][:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    row = next(line.split() for line in printed.splitlines() if line.startswith(f"pod/{pod['metadata']['name']}"))
    assert row[1:4] == ["0/1", "Pending", "0"]
    assert row[6] == node


def test_a_snapshot_for_simulate_can_be_taken(api: Api) -> None:
    pod = api.pod()
    taken = json.loads(kubectl(api, "get", "nodes,pods", "-A", "-o", "json").stdout)
    assert taken["kind"] == "List"
    assert pod["metadata"]["name"] in {each["metadata"]["name"] for each in taken["items"]}
    assert {each["kind"] for each in taken["items"]} <= {"Node", "Pod"}


def test_create_annotate_label_patch_and_delete(api: Api) -> None:
    name = api.fresh("by-hand")
    created = kubectl(api, "create", "-f", "-", stdin=json.dumps(pod_body(name)))
    assert created.stdout == f"pod/{name} created\n", created.stderr
    assert kubectl(api, "annotate", "pod", name, "a=1").returncode == 0
    assert kubectl(api, "label", "pod", name, "b=2").returncode == 0
    assert kubectl(api, "patch", "pod", name, "-p", '{"metadata":{"annotations":{"c":"3"}}}').returncode == 0
    meta = json.loads(kubectl(api, "get", "pod", name, "-o", "json").stdout)["metadata"]
    assert (meta["annotations"], meta["labels"]) == ({"a": "1", "c": "3"}, {"b": "2"})
    assert kubectl(api, "delete", "pod", name, "--wait=false").returncode == 0


def test_what_is_not_there_is_said_as_always(api: Api) -> None:
    said = kubectl(api, "get", "pod", "nothing")
    assert said.returncode == 1
    assert said.stderr == 'Error from server (NotFound): pods "nothing" not found\n'
