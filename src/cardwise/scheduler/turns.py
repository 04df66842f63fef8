"""A bind's turn at a node that HAMi's device plugin serves: its gate, and HAMi's lock on the Node. Others need none."""

from __future__ import annotations

import logging
from datetime import timedelta

from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import NODES, PODS
from cardwise.scheduler.extender import BindArgs
from cardwise.scheduler.gates import Turn
from cardwise.scheduler.nodelock import (
    Free,
    Ours,
    Owner,
    TakeOver,
    is_lock_of,
    lock_decision,
    lock_of,
    lock_patch,
    lock_text,
    owner_of,
    read_lock,
    unlock_patch,
)
from cardwise.scheduler.world import World
from cardwise.wire import names, objects

LOCK_AGAIN_SECONDS = 0.5
UNLOCK_TRIES = 5

_log = logging.getLogger("cardwise.scheduler")


class Turns:
    """Takes turns for binds and ends them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._locking: set[str] = set()  # uids of the binds that have set a lock, or may have

    async def take(self, args: BindArgs) -> str:
        """Empty once it is this bind's turn and the lock is its; else why not: it took too long, or we may not bind."""
        world = self._world
        if not world.books.gates.is_hami(args.node):
            return ""
        deadline = world.now + timedelta(seconds=world.config.gate_wait_seconds)
        gates = world.books.gates
        while (claim := gates.claim(args.node, args.uid, world.now)).state is not Turn.GRANTED:
            if world.fenced:
                return world.fenced
            left = (deadline - world.now).total_seconds()
            if left <= 0:
                return gates.waited(args.node, claim, world.now)
            await world.turned.next(min(left, 1.0))
        while error := world.fenced or await self._lock(args):
            if world.fenced or world.now >= deadline:
                return error
            await world.turned.next(LOCK_AGAIN_SECONDS)
        return ""

    async def end(self, args: BindArgs, *, sent: bool) -> None:
        """The bind call is over. The lock stays where the pod was bound: HAMi's plugin removes it."""
        world = self._world
        gated = world.books.gates.is_hami(args.node)
        hold = world.books.holdings.cluster.holds.get(args.uid)
        bound = hold is not None and hold.confirmed and hold.node == args.node
        in_doubt = any(one.placement.node == args.node for one in world.books.sent(args.uid).values())
        if bound or (sent and in_doubt):
            if bound and gated:
                await self._label(args)
            self._locking.discard(args.uid)
            self._released(args)
            return
        world.books.turned += world.books.gates.bind_failed(args.uid, args.node)
        self._released(args)
        if args.uid in self._locking:
            await self._unlock(args)
            self._locking.discard(args.uid)

    def sent(self, args: BindArgs) -> None:
        """The Binding leaves now: the gate is closed until it is known what became of it."""
        books = self._world.books
        books.turned += books.gates.bind_sent(args.uid, args.namespace, args.name, args.node, self._world.now)

    def _released(self, args: BindArgs) -> None:
        books = self._world.books
        books.turned += books.gates.release(args.node, args.uid)
        self._world.settle()

    async def _lock(self, args: BindArgs) -> str:
        """Empty once the node's lock is ours; else who has it, or why it cannot be set."""
        world = self._world
        try:
            node = await world.client.get_quorum(NODES, args.node)
            text = lock_of(node)
            decision = lock_decision(
                text,
                namespace=args.namespace,
                pod=args.name,
                owner=await self._owner(text, args.node),
                now=world.now,
                first_seen=world.books.gates.lock_first_seen(args.node, text) if text is not None else None,
            )
            if isinstance(decision, Ours):
                self._locking.add(args.uid)
                return ""
            if not isinstance(decision, Free | TakeOver):
                return f"node {args.node}: {decision}"
            if isinstance(decision, TakeOver):
                _log.warning("node %s: its lock is taken over: %s", args.node, decision.why)
            self._locking.add(args.uid)
            wanted = lock_text(world.now, namespace=args.namespace, pod=args.name)
            await world.client.patch(NODES, lock_patch(node.version, wanted), args.node)
        except KubeError as error:
            world.metrics.wrote("lock", "in_doubt" if error.in_doubt else "failed")
            return str(error)
        world.metrics.wrote("lock", "ok")
        return ""

    async def _owner(self, text: str | None, node: str) -> Owner:
        """What the pod that the lock names is about, as the API server shows it. Raises KubeError."""
        lock = read_lock(text) if text is not None else None
        if lock is None or not lock.pod:
            return Owner.ACTIVE
        owner: objects.Pod | None = None
        try:
            owner = await self._world.client.get_quorum(PODS, lock.pod, lock.namespace)
        except KubeError as error:
            if error.fault is not Fault.NOT_FOUND:
                raise
        return owner_of(owner, node)

    async def _unlock(self, args: BindArgs) -> None:
        """Removes the lock if it is this pod's. Where that fails, the lock rule frees it in time, and the log says so."""
        world = self._world
        for _ in range(UNLOCK_TRIES):
            try:
                node = await world.client.get_quorum(NODES, args.node)
                if not is_lock_of(lock_of(node), namespace=args.namespace, pod=args.name):
                    return
                await world.client.patch(NODES, unlock_patch(node.version), args.node)
            except KubeError as error:
                world.metrics.wrote("lock", "failed")
                if error.fault is Fault.CONFLICT:
                    continue
                _log.warning("node %s: the lock of pod %s/%s stays: %s", args.node, args.namespace, args.name, error)
                return
            world.metrics.wrote("lock", "ok")
            return

    async def _label(self, args: BindArgs) -> None:
        """HAMi's monitor looks for a label, which a Binding only carries from Kubernetes 1.35 on."""
        world = self._world
        if world.bindings_carry_labels:
            return
        change = {"metadata": {"uid": args.uid, "labels": {names.ASSIGNED_NODE: args.node}}}
        try:
            await world.client.patch(PODS, change, args.name, args.namespace)
        except KubeError as error:
            world.metrics.wrote("label", "failed")
            _log.warning("pod %s/%s: label %s is not set: %s", args.namespace, args.name, names.ASSIGNED_NODE, error)
        else:
            world.metrics.wrote("label", "ok")
