"""A node whose cards HAMi's device plugin serves, and a stand-in for that plugin and the kubelet that calls it.

It speaks to the API server alone. Where the kubelet would call `Allocate` for a pod, it finds the pod as the plugin does
(the node's lock names it), takes its cards out of the annotation, sets the phase, and removes the lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from .cluster import get_pod
from .gpus import PODS, create_gpu_node
from .rest import Rest

LOCK, AGENT = "hami.io/mutex.lock", "cardwise.io/agent"
PHASE, TO_ALLOCATE = "hami.io/bind-phase", "hami.io/vgpu-devices-to-allocate"
USER, GROUPS = "system:serviceaccount:kube-system:hami-device-plugin", ("system:masters",)
POLL_SECONDS = 0.01


def create_hami_node(rest: Rest, name: str, *, cards: int = 1, labels: dict[str, str] | None = None) -> None:
    """A node with a register that is not our agent's."""
    create_gpu_node(rest, name, cards=cards, labels=labels)
    rest.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {AGENT: None}}}).done()


def lock_of(rest: Rest, node: str) -> str:
    """The node's lock; "" where there is none."""
    found: str = rest.get(f"/api/v1/nodes/{node}").done()["metadata"]["annotations"].get(LOCK, "")
    return found


def set_lock(rest: Rest, node: str, text: str | None) -> None:
    """The lock is this now, whatever it was."""
    rest.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {LOCK: text}}}).done()


def phase_of(rest: Rest, pod: str) -> str:
    """Whether the plugin has served the pod."""
    found: str = get_pod(rest, pod)["metadata"]["annotations"].get(PHASE, "")
    return found


def set_annotations(rest: Rest, pod: str, annotations: dict[str, str]) -> None:
    rest.patch(f"{PODS}/{pod}", {"metadata": {"annotations": annotations}}).done()


class Unlocks(StrEnum):
    """What becomes of the lock once a pod is served."""

    OWN = "its own alone, as HAMi 2.5 and newer do"
    ANY = "whoever has it, as HAMi 2.4 does"
    NEVER = "never, since that write is lost"


@dataclass(slots=True)
class Plugin:
    """`served` are the pods in order; `mixed_up` says where one would have been given another's cards."""

    rest: Rest
    node: str
    seconds: float
    unlocks: Unlocks
    served: list[str] = field(default_factory=list)
    mixed_up: list[str] = field(default_factory=list)

    def serve(self, stop: threading.Event) -> None:
        """Serves the pods of the node until `stop`."""
        while not stop.wait(POLL_SECONDS):
            waiting = self.waiting()
            if waiting:
                self.allocate(waiting)

    def waiting(self) -> list[str]:
        """Pods that are bound here and have not got their cards, for one of which the kubelet calls."""
        found = self.rest.get(f"{PODS}?fieldSelector=spec.nodeName={self.node}").done()["items"]
        return [pod["metadata"]["name"] for pod in found if pod["metadata"]["annotations"].get(PHASE) == "allocating"]

    def allocate(self, waiting: list[str]) -> None:
        """The pod that the lock names gets its cards; without a lock, the first that waits."""
        pod = lock_of(self.rest, self.node).rpartition(",")[2] or waiting[0]
        if waiting != [pod]:
            self.mixed_up.append(f"{', '.join(waiting)} called, {pod} was found")
        time.sleep(self.seconds / 2)
        text = get_pod(self.rest, pod)["metadata"]["annotations"][TO_ALLOCATE]
        set_annotations(self.rest, pod, {TO_ALLOCATE: ";" * text.count(";")})
        set_annotations(self.rest, pod, {PHASE: "success"})
        self.served.append(pod)
        time.sleep(self.seconds / 2)  # (the next pod's lock may stand there already)
        self._unlock(pod)

    def _unlock(self, pod: str) -> None:
        if self.unlocks is Unlocks.ANY:
            set_lock(self.rest, self.node, None)
        elif self.unlocks is Unlocks.OWN:
            node = self.rest.get(f"/api/v1/nodes/{self.node}").done()
            if node["metadata"]["annotations"].get(LOCK, "").endswith(f",{pod}"):
                change = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {LOCK: None}}
                self.rest.patch(f"/api/v1/nodes/{self.node}", {"metadata": change})


@contextmanager
def plugin(rest: Rest, node: str, *, seconds: float = 0.0, unlocks: Unlocks = Unlocks.OWN) -> Iterator[Plugin]:
    """A plugin that takes so long for each pod."""
    stop, playing = threading.Event(), Plugin(rest, node, seconds, unlocks)
    thread = threading.Thread(target=playing.serve, args=(stop,))
    thread.start()
    try:
        yield playing
    finally:
        stop.set()
        thread.join()
