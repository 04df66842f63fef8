"""What the scheduler writes besides Bindings: conditions, nominations, events, and the deletion of victims."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

import msgspec

from cardwise.kube import answers, types
from cardwise.kube.client import Client
from cardwise.kube.clock import Clock
from cardwise.kube.errors import KubeError
from cardwise.kube.requests import EVENTS, PODS, Request, path_of
from cardwise.sim.kubescheduler.objects import Json, Pod

STRATEGIC = "application/strategic-merge-patch+json"
"""Conditions are merged by their type: others' are not touched."""
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A write that fails is logged and given up, as in kube-scheduler: the next try of the pod brings the next write."""

    client: Client
    clock: Clock
    component: str

    async def refuse(self, pod: Pod, reason: str, message: str, nominated: str) -> None:
        """The pod's PodScheduled condition, and the node on which room is made for it. Nothing where it says so already."""
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        change: Json = {}
        if not condition.items() <= pod.condition.items():
            now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            since = pod.condition.get("lastTransitionTime") if pod.condition.get("status") == "False" else None
            change["conditions"] = [condition | {"lastProbeTime": None, "lastTransitionTime": since or now}]
        if nominated != pod.nominated:
            change["nominatedNodeName"] = nominated or None
        if change:
            await self._attempt(self._patch_status(pod, change))

    async def evict(self, victim: Pod, pod: Pod, node: str) -> None:
        """Marks and deletes a victim; one that ends already is left to it."""
        if victim.terminating:
            return
        why = f"{self.component}: preempting to accommodate a higher priority pod"
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": why}
        await self._attempt(self._patch_status(victim, {"conditions": [condition | {"lastTransitionTime": now}]}))
        await self._attempt(self.client.delete(PODS, victim.name, victim.namespace, uid=victim.uid))
        await self.tell(victim, "Preempted", f"Preempted by pod {pod.uid} on node {node}")

    async def denominate(self, pod: Pod) -> None:
        """The node is needed for a more important pod."""
        await self._attempt(self._patch_status(pod, {"nominatedNodeName": None}))

    async def tell(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """An event about the pod."""
        about = types.Reference(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
        event = types.event(
            about,
            reason=reason,
            message=message,
            component=self.component,
            at=self.clock.now(),
            warning=warning,
        )
        await self._attempt(self._create(event, pod.namespace))

    async def _patch_status(self, pod: Pod, status: Json) -> None:
        path = path_of(PODS, namespace=pod.namespace, name=pod.name, subresource="status")
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        request = Request(method="PATCH", path=path, body=body, content_type=STRATEGIC)
        answers.done(await self.client.send(request))

    async def _create(self, event: types.Event, namespace: str) -> None:
        await self.client.create(EVENTS, event, namespace)

    async def _attempt(self, write: Awaitable[None]) -> None:
        try:
            await write
        except KubeError as error:
            _log.info("%s: given up: %s", self.component, error)
