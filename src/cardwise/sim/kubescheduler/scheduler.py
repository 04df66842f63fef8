"""A stand-in for kube-scheduler: it calls an extender as the real one does, against any API server.

What it does: one pod is tried after another, by priority and then by arrival, while binds go on beside that. A node has to
pass the scheduler's own checks before the extender hears of it. A refused pod gets its condition and event and is put
aside until something happens that could help, or five minutes have passed; after an error there is a back-off that
nothing shortens. Preemption is by the scheduler's own arithmetic, and the extender's answer is obeyed.

What it does not do: checks that `core.nodefit` does not make (pod affinity, spread, volumes, ports, claims); scores of its
own (only the extender's count, the first of the best wins, where the real one draws); more than one extender, or full
nodes in its requests; disruption budgets; leader election; samples of the nodes (all are tried). What wakes a pod that its
own checks refused is coarser: any pod's end, any change of a node, or a change of what the pod asks. An event is written
once for a pod and a text, not counted in a series.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Any, Self

import msgspec

from cardwise.kube.client import Client
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.errors import KubeError
from cardwise.kube.facts import Changed, Listed, Removed
from cardwise.kube.requests import EVERYWHERE, Resource, Scope
from cardwise.kube.watch import Reflector
from cardwise.sim.kubescheduler.cycle import Diagnosis, choose
from cardwise.sim.kubescheduler.extender import Extender, ExtenderError
from cardwise.sim.kubescheduler.objects import (
    NOT_ENDED,
    RAW_NODES,
    RAW_PODS,
    Json,
    Pod,
    read_node,
    read_pod,
)
from cardwise.sim.kubescheduler.preemption import preempt
from cardwise.sim.kubescheduler.queue import Queue
from cardwise.sim.kubescheduler.settings import Settings
from cardwise.sim.kubescheduler.view import View
from cardwise.sim.kubescheduler.writes import SCHEDULER_ERROR, UNSCHEDULABLE, Writer
from cardwise.wire.errors import WireError

SCHEDULER_NAME = "cardwise-scheduler"
LONGEST_REST_SECONDS = 60.0
SETTINGS = Settings()

_log = logging.getLogger(__name__)


class KubeScheduler:
    """Schedules the pods that name it. Use it as `async with KubeScheduler(client, url, managed=...) as scheduler`.

    `managed` are the resources that make a pod the extender's business; those of them in `ignored` do not count on nodes.
    A failure inside ends the `async with` block with an ExceptionGroup; what the API server or the extender does is none.
    """

    def __init__(
        self,
        client: Client,
        extender_url: str,
        *,
        scheduler_name: str = SCHEDULER_NAME,
        managed: Collection[str],
        ignored: Collection[str] = (),
        clock: Clock = SYSTEM_CLOCK,
        settings: Settings = SETTINGS,
    ) -> None:
        self.extender = Extender(extender_url, managed, settings)
        self.turns = 0
        self._client = client
        self._name = scheduler_name
        self._ignored = frozenset(ignored)
        self._clock = clock
        self._view = View()
        self._queue = Queue(settings)
        self._writer = Writer(client=client, clock=clock, component=scheduler_name)
        self._told: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.extender)
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.push_async_callback(self._stop)
        listed = (asyncio.Event(), asyncio.Event())
        self._start(
            self._follow(RAW_NODES, EVERYWHERE, self._nodes_listed, self._node_seen, self._node_gone, listed[0])
        )
        self._start(self._follow(RAW_PODS, NOT_ENDED, self._pods_listed, self._pod_seen, self._pod_gone, listed[1]))
        self._start(self._schedule(listed))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    # What the API server tells.

    async def _follow(
        self,
        resource: Resource[Json],
        scope: Scope,
        all_listed: Callable[[tuple[Json, ...]], None],
        seen: Callable[[Json], None],
        gone: Callable[[Json], None],
        listed: asyncio.Event,
    ) -> None:
        reflector = Reflector(self._client, resource, scope, clock=self._clock)
        async with aclosing(reflector.facts()) as said:
            async for fact in said:
                if isinstance(fact, Listed):
                    all_listed(fact.objects)
                    listed.set()
                elif isinstance(fact, Changed):
                    _understood(seen, fact.object)
                elif isinstance(fact, Removed):
                    _understood(gone, fact.object)
                self._changed.set()

    def _nodes_listed(self, bodies: tuple[Json, ...]) -> None:
        for name in self._view.nodes.keys() - {body["metadata"]["name"] for body in bodies}:
            self._view.remove_node(name)
        for body in bodies:
            _understood(self._node_seen, body)

    def _node_seen(self, body: Json) -> None:
        if self._view.set_node(read_node(body)):
            self._wake(frees=True)

    def _node_gone(self, body: Json) -> None:
        self._view.remove_node(body["metadata"]["name"])
        self._wake(frees=False)

    def _pods_listed(self, bodies: tuple[Json, ...]) -> None:
        for uid in self._view.pods.keys() - {body["metadata"]["uid"] for body in bodies}:
            self._forget_pod(uid)
        for body in bodies:
            _understood(self._pod_seen, body)

    def _pod_seen(self, body: Json) -> None:
        pod = read_pod(body, self._ignored)
        if pod.node:
            self._queue.remove(pod.uid)
            self._view.set_pod(pod)
            self._wake(frees=False)
            return
        self._view.set_pod(pod)
        if pod.scheduler != self._name or pod.gated or pod.terminating:
            self._queue.remove(pod.uid)
        else:
            self._queue.put(pod, self._clock.monotonic())

    def _pod_gone(self, body: Json) -> None:
        self._forget_pod(body["metadata"]["uid"])

    def _forget_pod(self, uid: str) -> None:
        frees = bool(self._view.node_of(uid) or self._view.nominated(uid))
        self._queue.remove(uid)
        self._view.remove_pod(uid)
        if frees:
            self._wake(frees=True)

    def _wake(self, *, frees: bool) -> None:
        self._queue.wake(self._clock.monotonic(), frees=frees)
        self._changed.set()

    # One pod after another.

    async def _schedule(self, listed: tuple[asyncio.Event, ...]) -> None:
        for each in listed:
            await each.wait()
        while True:
            self._changed.clear()
            pod = self._queue.pop(self._clock.monotonic())
            if pod is None:
                await self._rest(self._queue.wait_seconds(self._clock.monotonic()))
            else:
                await self._try(pod)

    async def _rest(self, most_seconds: float) -> None:
        """Until something changed, but no longer than this."""
        sleep = asyncio.ensure_future(self._clock.sleep(min(most_seconds, LONGEST_REST_SECONDS)))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleep, change), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()
            await asyncio.gather(sleep, change, return_exceptions=True)

    async def _try(self, pod: Pod) -> None:
        """One scheduling cycle."""
        self.turns += 1
        try:
            found = await choose(pod, self._view, self.extender, self.turns)
        except ExtenderError as error:
            await self._failed(pod, str(error))
            return
        if isinstance(found, Diagnosis) and not found.nodes:
            self._queue.failed(pod.uid, self._clock.monotonic())
            await self._say(pod, UNSCHEDULABLE, found.message(""))
        elif isinstance(found, Diagnosis):
            await self._refused(pod, found)
        elif pod.uid in self._view.pods:
            self._view.assume(pod.uid, found)
            self._start(self._bind(pod, found))

    async def _refused(self, pod: Pod, diagnosis: Diagnosis) -> None:
        outcome = await preempt(pod, self._view, self.extender, diagnosis)
        if outcome.node or outcome.clears:
            self._view.nominate(pod.uid, outcome.node)
        for other in self._view.waiting_for(outcome.node) if outcome.node else ():
            if other.priority < pod.priority:
                self._view.nominate(other.uid, "")
                self._start(self._writer.denominate(other))
        self._queue.refused(pod.uid, self._clock.monotonic(), by_extender=diagnosis.by_extender)
        await self._say(pod, UNSCHEDULABLE, diagnosis.message(outcome.message))
        for victim in outcome.victims:
            self._start(self._writer.evict(victim, pod, outcome.node))

    async def _failed(self, pod: Pod, message: str) -> None:
        self._queue.failed(pod.uid, self._clock.monotonic())
        await self._say(pod, SCHEDULER_ERROR, message)

    async def _bind(self, pod: Pod, node: str) -> None:
        """The end of a cycle, beside the next ones. After a failure the pod's room is free again, and all are told."""
        try:
            if self.extender.asked("bind", pod):
                await self.extender.bind(pod, node)
            else:
                await self._client.bind(pod.namespace, pod.name, uid=pod.uid, node=node)
        except (ExtenderError, KubeError) as error:
            self._view.forget(pod.uid)
            self._wake(frees=True)
            await self._failed(pod, str(error))
        else:
            await self._writer.tell(pod, "Scheduled", f"Successfully assigned {pod.full_name} to {node}")

    async def _say(self, pod: Pod, reason: str, message: str) -> None:
        """Condition and event of a pod that was not placed; a pod that is gone gets the event alone."""
        if (pod.uid, message) not in self._told:
            self._told.add((pod.uid, message))
            self._start(self._writer.tell(pod, "FailedScheduling", message, warning=True))
        now = self._view.pods.get(pod.uid)
        if now is not None and not now.node:
            await self._writer.refuse(now, reason, message, self._view.nominated(pod.uid))

    # Tasks.

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _stop(self) -> None:
        for task in tuple(self._running):
            task.cancel()


def _understood(take: Callable[[Json], None], body: Json) -> None:
    """An object that cannot be read is passed by."""
    try:
        take(body)
    except (WireError, msgspec.ValidationError, ValueError) as error:
        _log.warning("passed by: %s", error)
