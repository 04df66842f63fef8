"""One node's shell: it brings facts to the state machine, and carries out its orders. What to do is decided in `node`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from cardwise.kube.client import Client
from cardwise.kube.clock import Clock
from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.sim.kubelet import facts, records
from cardwise.sim.kubelet.allocation import Allocate
from cardwise.sim.kubelet.node import Node, Stage
from cardwise.sim.kubelet.objects import Json, NodeShape, Pace, Pod
from cardwise.sim.kubelet.plugins import Plugins
from cardwise.sim.kubelet.podresources import PodResources
from cardwise.sim.kubelet.records import Records
from cardwise.sim.kubelet.registration import register, write_amounts
from cardwise.sim.kubelet.writer import Writer, attempt, insist

POD_RESOURCES = "pod-resources"
"""Name of the directory of the pod-resources socket: it stands beside the plugins', as in /var/lib/kubelet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all nodes share."""

    client: Client
    clock: Clock
    pace: Pace
    records: Records
    tasks: asyncio.TaskGroup


class Shell:
    """A node that can be started and stopped. Without a plugin directory it serves no sockets, and only counts."""

    def __init__(self, shape: NodeShape, number: int, plugin_dir: Path | None, world: World) -> None:
        self.shape = shape
        self.node = Node(shape, number=number, pace=world.pace, chance=world.clock.chance)
        self.up = False
        self.pod_resources: PodResources | None = None
        self._ip = f"192.168.{number // 250 % 256}.{number % 250 + 1}"
        self._world = world
        self._pods: dict[str, Pod] = {}
        self._listed = self._open = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer = Writer(world.client, shape.name, world.clock)
        self._amounts: facts.WriteNode | None = None
        self._amounts_changed = asyncio.Event()
        self._plugins: Plugins | None = None
        if plugin_dir is not None:
            directory = plugin_dir.parent / POD_RESOURCES
            self.pod_resources = PodResources(directory, self.node, world.clock.monotonic)
            self._plugins = Plugins(
                plugin_dir, tell=self.tell, note=self._note, granted=self._granted, spawn=self._spawn
            )

    # Start and stop.

    async def start(self) -> None:
        """Sockets, then the Node object; pods are looked at a little later. Returns when the node is Ready.

        Raises KubeError where the API server refuses the node.
        """
        self.up = True
        if self._plugins is not None and self.pod_resources is not None:
            await self._plugins.start()
            await self.pod_resources.start()
        self.tell(facts.Up())
        self._spawn(self._open_later())
        await insist(self._register, self._world.clock, f"node {self.shape.name}")
        if self.up:
            self._spawn(self._write_amounts())
            self._spawn(self._writer.run())

    async def stop(self, *, lose_checkpoint: bool = False) -> None:
        """As when the kubelet's process is killed: calls break off, writes are lost, containers go on running."""
        self.up = self._open = False
        tasks = [one for one in self._tasks if one is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._plugins is not None and self.pod_resources is not None:
            await self._plugins.stop()
            await self.pod_resources.stop()
        self.tell(facts.Down(lose_checkpoint=lose_checkpoint, unwritten=self._writer.unwritten()))
        self._writer = Writer(self._world.client, self.shape.name, self._world.clock)

    # What the API server says. It is remembered while the kubelet is down.

    def pods_listed(self, pods: Iterable[Pod]) -> None:
        """All pods that are bound to the node."""
        self._pods = {pod.uid: pod for pod in pods}
        self._listed = True
        if self._open:
            self.tell(facts.PodsListed(pods=tuple(self._pods.values())))

    def pod_seen(self, pod: Pod) -> None:
        """A pod of the node is new or changed."""
        self._pods[pod.uid] = pod
        if self._open:
            self.tell(facts.PodSeen(pod=pod))

    def pod_gone(self, uid: str) -> None:
        """A pod's object is gone."""
        self._pods.pop(uid, None)
        if self._open:
            self.tell(facts.PodGone(uid=uid))

    def running(self, full_name: str) -> Pod | None:
        """The pod of this name that runs, or is about to."""
        stages = (Stage.STARTING, Stage.RUNNING)
        alive = (one.pod for one in self.node.pods.values() if one.stage in stages)
        return next((pod for pod in alive if pod.full_name == full_name), None)

    # Facts in, orders out.

    def tell(self, fact: facts.Fact) -> None:
        """Tells the state machine, and begins what it orders."""
        now = self._world.clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for order in self.node.handle(fact, now):
            self._carry_out(order)

    def _carry_out(self, order: facts.Order) -> None:
        if isinstance(order, facts.Call):
            self._spawn(self._call(order))
        elif isinstance(order, facts.Wait):
            self._spawn(self._wait(order))
        elif isinstance(order, facts.WriteNode):
            self._amounts = order
            self._amounts_changed.set()
        else:
            self._writer.put(order)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._world.tasks.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call(self, order: facts.Call) -> None:
        if self._plugins is not None:
            self.tell(facts.Replied(job=order.job, outcome=await self._plugins.call(order)))

    async def _wait(self, order: facts.Wait) -> None:
        await self._world.clock.sleep(order.seconds)
        self.tell(facts.Due(uid=order.uid, timer=order.timer))

    async def _open_later(self) -> None:
        await self._world.clock.sleep(self._world.pace.first_pods_seconds)
        self._open = True
        if self._listed:
            self.tell(facts.PodsListed(pods=tuple(self._pods.values())))

    async def _register(self) -> None:
        amounts = self._amounts
        if amounts is None:
            raise RuntimeError(f"node {self.shape.name} was not started")
        self._amounts_changed.clear()
        now = self._world.clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await register(self._world.client, self.shape, amounts.capacity, amounts.allocatable, ip=self._ip, now=now)

    async def _write_amounts(self) -> None:
        """Changes of a short while in one write."""
        while True:
            await self._amounts_changed.wait()
            await self._world.clock.sleep(self._world.pace.node_status_seconds)
            await attempt(self._write_newest, self._world.clock, f"node {self.shape.name}")

    async def _write_newest(self) -> None:
        self._amounts_changed.clear()
        amounts = self._amounts
        if amounts is not None:
            await write_amounts(self._world.client, self.shape, amounts.capacity, amounts.allocatable)

    # Records.

    def _note(self, direction: str, method: str, message: Message | Json) -> None:
        shown = records.shown(message) if isinstance(message, Message) else message
        self._world.records.calls.append(
            records.CallRecord(
                seconds=self._world.clock.now().timestamp(),
                node=self.shape.name,
                direction=direction,
                rpc=method,
                message=shown,
            )
        )

    def _granted(self, pod: Pod, what: Allocate, answer: dp.ContainerAllocateResponse) -> None:
        keep = partial(records.allocation, answer, node=self.shape.name, pod=pod.full_name, pod_uid=pod.uid)
        self._world.records.allocations.append(keep(container=what.container, resource=what.resource, ids=what.ids))
