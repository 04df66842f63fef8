"""Writes to the API server, one after another, each again until it is done or cannot be done."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from cardwise.kube import types
from cardwise.kube.client import Client
from cardwise.kube.clock import Backoff, Clock
from cardwise.kube.errors import REFUSED, Fault, KubeError
from cardwise.kube.requests import EVENTS, PODS
from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.objects import Pod

COMPONENT = "kubelet"
MOST_WAIT_SECONDS = 5.0

Write = facts.WriteStatus | facts.RemovePod | facts.Warn

FINAL = REFUSED - {Fault.CONFLICT, Fault.TOO_MANY, Fault.UNAUTHORIZED}
"""Refusals that are not worth another attempt."""

_log = logging.getLogger(__name__)


async def insist(write: Callable[[], Awaitable[None]], clock: Clock, what: str) -> None:
    """Repeats a write until it is done. Raises KubeError for one that the server refuses for good."""
    backoff = Backoff(clock=clock, most_seconds=MOST_WAIT_SECONDS)
    while True:
        try:
            await write()
        except KubeError as error:
            if error.fault in FINAL:
                raise
            _log.info("%s: tried again: %s", what, error)
            await clock.sleep(backoff.down(error.retry_after_seconds))
        else:
            break


async def attempt(write: Callable[[], Awaitable[None]], clock: Clock, what: str) -> None:
    """Repeats a write until it is done; one that the server refuses for good is logged and given up."""
    try:
        await insist(write, clock, what)
    except KubeError as error:
        _log.warning("%s: given up: %s", what, error)


class Writer:
    """What one node's kubelet has to say about its pods. Lost when it stops, as a real one's is."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._pending: deque[Write] = deque()
        self._more = asyncio.Event()

    def put(self, write: Write) -> None:
        """Takes it into the queue."""
        self._pending.append(write)
        self._more.set()

    def unwritten(self) -> frozenset[str]:
        """The uids of pods whose status is not written yet, or perhaps not."""
        return frozenset(one.pod.uid for one in self._pending if isinstance(one, facts.WriteStatus))

    async def run(self) -> None:
        """Carries out what is put, without an end."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._pending:
                write = partial(self._carry_out, self._pending[0])
                await attempt(write, self._clock, f"node {self._node}")
                self._pending.popleft()

    async def _carry_out(self, write: Write) -> None:
        try:
            await self._send(write)
        except KubeError as error:
            if error.fault is not Fault.CONFLICT and error.fault is not Fault.NOT_FOUND:
                raise
            if error.fault is Fault.CONFLICT and await self._stands(write.pod):
                raise

    async def _send(self, write: Write) -> None:
        meta = write.pod.metadata
        if isinstance(write, facts.WriteStatus):
            change = {"metadata": {"uid": meta.uid}, "status": write.status}
            await self._client.patch(PODS, change, meta.name, meta.namespace, subresource="status")
        elif isinstance(write, facts.RemovePod):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        else:
            await self._client.create(EVENTS, self._event(write.pod, write), meta.namespace)

    async def _stands(self, pod: Pod) -> bool:
        """Whether this very pod is there, and no other of its name."""
        try:
            found = await self._client.get_quorum(PODS, pod.metadata.name, pod.metadata.namespace)
        except KubeError as error:
            if error.fault is Fault.NOT_FOUND:
                return False
            raise
        return found.metadata.uid == pod.uid

    def _event(self, pod: Pod, warning: facts.Warn) -> types.Event:
        meta = pod.metadata
        about = types.Reference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
        event = types.event(
            about,
            reason=warning.reason,
            message=warning.message,
            component=COMPONENT,
            at=self._clock.now(),
            warning=True,
        )
        event.source = types.EventSource(component=COMPONENT, host=self._node)
        return event
