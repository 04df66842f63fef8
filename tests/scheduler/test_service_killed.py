"""The service as a process that is killed in the middle of a bind, and another one in its place."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardwise.sim.apiserver import MemoryServer, running_server
from cardwise.sim.kubescheduler import Settings
from controlplane.process import Process, wait_for
from kubescheduler.stage import stand_in

from .memory_api import Json, held_by, is_bound
from .service_stage import ports
from .shapes import SHAPES, node_with

SMALL = SHAPES[1]
"""Only one of these fits on a card."""
QUICK = Settings(http_seconds=2.0, initial_backoff_seconds=0.2, most_backoff_seconds=0.4, alignment_seconds=0.1)


class Service:
    """`cardwise scheduler` on a server in memory."""

    def __init__(self, server: MemoryServer, folder: Path) -> None:
        self._folder = folder
        self.port, page = ports(2)
        flags = {
            "--kubeconfig": str(server.write_kubeconfig(folder / "kubeconfig")),
            "--extender-address": f"127.0.0.1:{self.port}",
            "--metrics-address": f"127.0.0.1:{page}",
            "--admission-address": "",
            "--leader-election-enabled": "false",
        }
        self._argv = [
            sys.executable,
            "-m",
            "cardwise",
            "scheduler",
            *(f"{key}={value}" for key, value in flags.items()),
        ]
        self._child: Process | None = None

    def start(self) -> None:
        self._child = Process("cardwise", self._argv, self._folder / "cardwise.log")

    def kill(self) -> None:
        if self._child is not None:
            os.kill(self._child.pid, signal.SIGKILL)
            self._child.stop()
            self._child = None


@pytest.fixture
def server() -> Iterator[MemoryServer]:
    with running_server() as one:
        one.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        one.create(node_with("a", 1))
        one.patch("nodes", "a", {"spec": {"taints": None}})
        yield one


@pytest.fixture
def service(server: MemoryServer, tmp_path: Path) -> Iterator[Service]:
    """The service, and a kube-scheduler that asks it."""
    one = Service(server, tmp_path)
    with stand_in(server, f"http://127.0.0.1:{one.port}", QUICK):
        one.start()
        try:
            yield one
        finally:
            one.kill()


def create(server: MemoryServer, name: str) -> None:
    pod: Json = SMALL(name)
    pod["spec"]["schedulerName"] = "cardwise-scheduler"
    server.create(pod)


def bound(server: MemoryServer) -> list[str]:
    """The pods that have the one card."""
    pods = [pod["metadata"]["name"] for pod in server.list("pods") if is_bound(pod)]
    assert len(held_by(server.list("pods")).get(("a", "a-0"), [])) == len(pods) <= 1
    return pods


def refused(server: MemoryServer, name: str) -> bool:
    """Whether kube-scheduler says that our answer keeps the pod waiting."""
    pod = server.get("pods", name, "ml") or {}
    return any("memory" in each.get("message", "") for each in pod.get("status", {}).get("conditions", ()))


def wait_until_unanswered(server: MemoryServer) -> None:
    """Until the Binding of which nobody will tell has come."""
    wait_for("Binding", lambda: not server.faults.pending)


def test_a_binding_that_was_carried_out_unheard_counts_in_the_next_service(
    server: MemoryServer, service: Service
) -> None:
    server.faults.time_out(after_write=True, resource="pods/binding")
    create(server, "first")
    wait_for("bound pod", lambda: bound(server) == ["first"])
    service.kill()
    create(server, "second")
    service.start()
    wait_for("refusal", lambda: refused(server, "second"))
    assert bound(server) == ["first"]
    server.delete("pods", "first", namespace="ml", grace_seconds=0)
    wait_for("bound pod", lambda: bound(server) == ["second"], seconds=5)


def test_what_was_reserved_for_a_binding_that_was_not_carried_out_is_free_in_the_next_service(
    server: MemoryServer, service: Service
) -> None:
    server.faults.time_out(resource="pods/binding")
    create(server, "first")
    wait_until_unanswered(server)
    service.kill()
    server.delete("pods", "first", namespace="ml", grace_seconds=0)
    create(server, "second")
    service.start()
    wait_for("bound pod", lambda: bound(server) == ["second"])
    assert bound(server) == ["second"]
