"""Bind calls carried out: the one write of a placement, and finding out what became of it where nobody says."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import PODS
from cardwise.scheduler.answers import Answer, Bind, BindStep, Read
from cardwise.scheduler.binding import (
    bind_done,
    bind_in_doubt,
    bind_refused,
    bind_step,
    in_doubt,
    is_bound_as,
    pod_read,
    without_cards,
)
from cardwise.scheduler.extender import BindArgs
from cardwise.scheduler.pods import is_managed
from cardwise.scheduler.turns import Turns
from cardwise.scheduler.world import World
from cardwise.wire import names, objects

_log = logging.getLogger("cardwise.scheduler")


@dataclass(frozen=True, slots=True)
class Bound:
    """How a bind call ended, for metrics, and what it answers."""

    result: str
    error: str = ""


class Binds:
    """Bind calls by uid: one that comes again while the first still runs gets the first one's answer."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turns = Turns(world)
        self._running: dict[str, tuple[str, asyncio.Task[Bound]]] = {}

    async def bind(self, args: BindArgs) -> Bound:
        """Bind this pod to this node. It goes on when the caller has gone: what was sent must be known."""
        node, running = self._running.get(args.uid, ("", None))
        if running is None:
            running = asyncio.create_task(self._bind(args))
            self._running[args.uid] = args.node, running
            running.add_done_callback(lambda _task: self._running.pop(args.uid, None))
        elif node != args.node:
            text = f"pod {args.namespace}/{args.name}: a bind to node {node} is on its way"
            return Bound("refused", text)
        return await asyncio.shield(running)

    async def drain(self) -> None:
        """Waits for those that run."""
        await asyncio.gather(*(task for _node, task in self._running.values()), return_exceptions=True)

    async def settle_doubts(self) -> None:
        """Reads pods of which a Binding was sent long ago that nobody answered."""
        for seen in in_doubt(self._world.books, now=self._world.now):
            await self._read(seen.uid, seen.namespace, seen.name)

    async def _bind(self, args: BindArgs) -> Bound:
        hold = self._world.books.holdings.cluster.holds.get(args.uid)
        if hold is not None and hold.confirmed and isinstance(step := self._step(args), Answer):
            return Bound("refused" if step.error else "placed", step.error)  # it has had its turn
        sent = False
        try:
            if error := await self._turns.take(args):
                return Bound("refused", error)
            step = self._step(args)
            if isinstance(step, Read):
                step = await self._meet(args)
            if isinstance(step, Answer):
                return Bound("refused" if step.error else "placed", step.error)
            sent = True
            self._turns.sent(args)
            return await self._send(step)
        finally:
            await self._turns.end(args, sent=sent)

    def _step(self, args: BindArgs) -> BindStep:
        """What is to be done, unless this replica may not write: between this and the write nothing is waited for."""
        world = self._world
        if why := world.fenced:
            return Answer(why)
        return bind_step(
            world.books, uid=args.uid, namespace=args.namespace, name=args.name, node=args.node, now=world.now
        )

    async def _meet(self, args: BindArgs) -> Answer | Bind:
        """Learns of a pod that neither the watch nor a filter call has told of, and what is to be done for it."""
        books = self._world.books
        try:
            pod = await self._world.client.get_quorum(PODS, args.name, args.namespace)
        except KubeError as error:
            return Answer(str(error))
        if pod.metadata.uid != args.uid:
            return Answer(f"pod {args.namespace}/{args.name} has uid {pod.metadata.uid}, not {args.uid}")
        books.pod_seen(pod, now=self._world.now)
        step = self._step(args)
        if not isinstance(step, Read):
            return step
        if is_managed(pod, books.holdings.families):
            return Answer(f"pod {args.namespace}/{args.name} is gone")
        return without_cards(uid=args.uid, namespace=args.namespace, name=args.name, node=args.node)

    async def _send(self, bind: Bind) -> Bound:
        world = self._world
        try:
            await world.client.bind(
                bind.namespace,
                bind.name,
                uid=bind.uid,
                node=bind.node,
                annotations=bind.record,
                labels={names.ASSIGNED_NODE: bind.node} if bind.record else {},
                timeout_seconds=world.config.bind_timeout_seconds,
            )
        except KubeError as error:
            return await self._failed(bind, error)
        bind_done(world.books, bind)
        world.metrics.wrote("binding", "ok")
        world.settle()
        return Bound("placed")

    async def _failed(self, bind: Bind, error: KubeError) -> Bound:
        """A conflict and a silence both need a look: the pod may be bound just as was wanted."""
        world = self._world
        world.metrics.wrote("binding", "in_doubt" if error.in_doubt else "failed")
        if error.in_doubt:
            bind_in_doubt(world.books, bind, now=world.now)
            if is_bound_as(await self._read(bind.uid, bind.namespace, bind.name), bind):
                return Bound("placed")
        elif error.fault in (Fault.CONFLICT, Fault.NOT_FOUND):
            if is_bound_as(await self._read(bind.uid, bind.namespace, bind.name), bind):
                return Bound("placed")
            bind_refused(world.books, bind)
        else:
            bind_refused(world.books, bind)
        world.settle()
        return Bound("in_doubt" if error.in_doubt else "error", str(error))

    async def _read(self, uid: str, namespace: str, name: str) -> objects.Pod | None:
        """The pod as a quorum read shows it, told to the books; None where it is gone, or where the read fails."""
        world = self._world
        asked_at = world.now
        pod: objects.Pod | None = None
        try:
            pod = await world.client.get_quorum(PODS, name, namespace)
        except KubeError as error:
            if error.fault is not Fault.NOT_FOUND:
                _log.warning("pod %s/%s: whether it is bound is not known yet: %s", namespace, name, error)
                return None
        pod_read(world.books, uid, pod, asked_at=asked_at, now=world.now)
        world.settle()
        return pod
