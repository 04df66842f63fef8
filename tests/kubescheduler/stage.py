"""A cluster in memory with a scripted extender, and either the stand-in or a real kube-scheduler on it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cardwise.kube.client import Client
from cardwise.kube.connection import Connection
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.kubescheduler import KubeScheduler, Settings
from controlplane.build import built, chosen
from controlplane.process import Process, wait_for

from .script import Asked, Json, ScriptedExtender

T = TypeVar("T")

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
NAME = "cardwise-scheduler"
FULL = "stub: full"
HIGH: Json = {"priorityClassName": "high"}
HTTP_SECONDS = 1.0
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}
QUIET_SECONDS = 0.4
SETTLE_SECONDS = {"stand-in": 0.03, "real": 0.1}
"""Pods and nodes are watched apart: what was made of the one may be known before what was made of the other."""
AT_ONCE_SECONDS = 0.8
"""Shorter than any back-off of a pod that was refused twice, and long enough for a busy machine."""


@dataclass(slots=True)
class Stage:
    """What tests do and see. `kind` is `stand-in` or `real`; `former` are the uids of the pods of other tests."""

    kind: str
    server: MemoryServer
    extender: ScriptedExtender
    former: set[str] = field(default_factory=set)

    def reset(self) -> None:
        """An empty cluster, and an extender that takes every pod on the first node it is offered."""
        for pod in self.server.list("pods"):
            self.former.add(pod["metadata"]["uid"])
            self.server.delete("pods", pod["metadata"]["name"], grace_seconds=0)
        self.settle()
        for node in self.server.list("nodes"):
            self.server.delete("nodes", node["metadata"]["name"])
        for event in self.server.list("events"):
            self.server.delete("events", event["metadata"]["name"], namespace=event["metadata"]["namespace"])
        self.settle()
        self.extender.asked.clear()
        self.extender.answers = {
            "filter": first,
            "prioritize": lambda request: [{"Host": name, "Score": 0} for name in request["NodeNames"]],
            "preempt": lambda request: {"NodeNameToMetaVictims": request["NodeNameToMetaVictims"]},
            "bind": self.bind,
        }

    def settle(self) -> None:
        """Time for the scheduler to see what was made; a stock one tells its watches apart."""
        time.sleep(SETTLE_SECONDS[self.kind])

    def bind(self, request: Json) -> Json:
        """Binds as an extender must."""
        try:
            self.server.bind(request["PodName"], request["Node"], annotations={"stub/cards": "0"})
        except RefusedError as error:
            return {"Error": str(error)}
        return {"Error": ""}

    # What is made.

    def node(self, name: str, gpus: int = 10, **spec: Any) -> None:
        """A Ready node without the taint of new ones."""
        self.server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        room = ROOM | {GPU: str(gpus)}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        self.server.patch("nodes", name, {"status": status}, subresource="status")
        self.server.patch("nodes", name, {"spec": {"taints": None} | spec})
        self.settle()

    def pod(self, name: str, gpus: int = 1, *, scheduler: str = NAME, **spec: Any) -> Json:
        """A pod that asks for so many cards, and for memory of each, which nobody counts."""
        limits = {GPU: str(gpus), MEMORY: "1000"} if gpus else {"cpu": "1"}
        container = {"name": "c", "image": "pause", "resources": {"limits": limits}}
        whole = {"schedulerName": scheduler, "containers": [container]} | spec
        return self.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole})

    def placed(self, name: str, node: str, gpus: int = 1, **spec: Any) -> Json:
        """A pod that somebody else has put on a node."""
        self.pod(name, gpus, scheduler="other", **spec)
        return self.server.bind(name, node)

    def refused(self, name: str) -> None:
        """A pod that the extender refuses, in peace."""
        self.extender.answers["filter"] = failed(FULL)
        self.pod(name)
        self.refusal(name)
        self.quiet(name)

    def annotate(self, name: str, plural: str = "pods") -> None:
        self.server.patch(plural, name, {"metadata": {"annotations": {"at": str(time.monotonic())}}})

    # What is seen.

    def seen(self, name: str) -> Json:
        return self.server.get("pods", name) or {"metadata": {}, "spec": {}, "status": {}}

    def bound(self, name: str, seconds: float = 5.0) -> str:
        """The node of the pod, once it has one."""
        node: str = wait_for(f"node of {name}", lambda: self.seen(name)["spec"].get("nodeName"), seconds=seconds)
        return node

    def condition(self, name: str) -> Json:
        conditions: list[Json] = self.seen(name)["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), {})

    def refusal(self, name: str) -> str:
        """What the pod's condition says, once it says something."""
        return str(wait_for(f"refusal of {name}", lambda: self.condition(name).get("message")))

    def events(self, name: str, reason: str) -> list[str]:
        """The messages of a pod's events."""
        return [
            one["message"]
            for one in self.server.list("events")
            if (one["involvedObject"]["name"], one["reason"]) == (name, reason)
            and one["involvedObject"]["uid"] not in self.former
        ]

    def event(self, name: str, reason: str) -> str:
        """The first of them, once there is one."""
        return wait_for(f"{reason} of {name}", lambda: self.events(name, reason))[0]

    def quiet(self, name: str = "") -> int:
        """How often filter was asked, once it is not asked any more."""
        seen = -1
        while seen != (seen := len(self.extender.of("filter", name))):
            time.sleep(QUIET_SECONDS)
        return seen

    def asked(self, verb: str, pod: str, number: int = 1, seconds: float = 5.0) -> Asked:
        """The call of that number about a pod, once it was made."""
        calls = self.extender.of
        return wait_for(f"{verb} {number} of {pod}", lambda: calls(verb, pod)[number - 1 : number], seconds=seconds)[0]

    def wakes(self, name: str, act: Callable[[], object]) -> bool:
        """Whether the pod is tried again at once after this."""
        before = len(self.extender.of("filter", name))
        act()
        deadline = time.monotonic() + AT_ONCE_SECONDS
        while time.monotonic() < deadline:
            if len(self.extender.of("filter", name)) > before:
                return True
            time.sleep(0.01)
        return False


def first(request: Json) -> Json:
    return {"NodeNames": request["NodeNames"][:1]}


def failed(reason: str, key: str = "FailedNodes") -> Callable[[Json], Json]:
    return lambda request: {key: dict.fromkeys(request["NodeNames"], reason)}


def slow(seconds: float, answer: Callable[[Json], T]) -> Callable[[Json], T]:
    def late(request: Json) -> T:
        time.sleep(seconds)
        return answer(request)

    return late


@contextmanager
def stand_in(server: MemoryServer, url: str, settings: Settings) -> Iterator[None]:
    """The stand-in in a thread of its own, for tests that are no coroutines."""
    started, stop = threading.Event(), []

    async def serve() -> None:
        over = asyncio.Event()
        stop.append((asyncio.get_running_loop(), over))
        async with (
            Client(Connection(where="test", url=server.url)) as client,
            KubeScheduler(client, url, managed=(GPU, MEMORY), ignored=(MEMORY,), settings=settings),
        ):
            started.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(5)
    try:
        yield
    finally:
        loop, over = stop[0]
        loop.call_soon_threadsafe(over.set)
        thread.join()


@contextmanager
def real(server: MemoryServer, url: str, folder: Path) -> Iterator[None]:
    """A stock kube-scheduler as a process of its own."""
    kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
    config = folder / "scheduler.json"
    config.write_text(json.dumps(_config(kubeconfig, url)))
    argv = [str(built(chosen()) / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
    process = Process("kube-scheduler", argv, folder / "scheduler.log")
    try:
        yield
    finally:
        process.stop()


def _config(kubeconfig: Path, url: str) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        # JSON: the server in memory speaks no protobuf.
        "clientConnection": {"kubeconfig": str(kubeconfig), "contentType": "application/json", "qps": 5000},
        "profiles": [{"schedulerName": NAME}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 1,
                "httpTimeout": f"{HTTP_SECONDS:g}s",
                "nodeCacheCapable": True,
                "managedResources": [{"name": GPU}, {"name": MEMORY, "ignoredByScheduler": True}],
            }
        ],
    }
