"""The kubelets of many nodes in one process, against any API server: one watch for all, one state machine for each."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from cardwise.kube.client import Client
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.facts import Changed, Fact, Listed, Removed
from cardwise.kube.requests import Scope
from cardwise.kube.watch import Reflector
from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.objects import SEEN_PODS, NodeShape, Pace, Pod
from cardwise.sim.kubelet.records import Allocation, CallRecord, Records
from cardwise.sim.kubelet.shell import Shell, World

BOUND = Scope(fields="spec.nodeName!=")
"""All pods that have a node: a pod appears in this watch when it is bound."""
MOST_STARTING = 16

PACE = Pace()


class Kubelet:
    """Plays the kubelet of each node. Use it as `async with Kubelet(client, nodes) as kubelet`: inside, they are Ready.

    `plugin_dirs` says for each node where its device plugins register; the pod-resources socket is in `pod-resources`
    beside that directory. A node without one, and a resource that nobody registers, is only counted. The paths must be
    short: those of unix sockets have at most 107 bytes.

    A failure inside ends the `async with` block with an ExceptionGroup.
    """

    def __init__(
        self,
        client: Client,
        nodes: Sequence[NodeShape],
        plugin_dirs: Mapping[str, Path] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        pace: Pace = PACE,
    ) -> None:
        self.nodes = tuple(nodes)
        self._client = client
        self._plugin_dirs = plugin_dirs or {}
        self._clock = clock
        self._pace = pace
        self._records = Records()
        self._stack = AsyncExitStack()
        self._shells: dict[str, Shell] = {}

    async def __aenter__(self) -> Self:
        tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        world = World(client=self._client, clock=self._clock, pace=self._pace, records=self._records, tasks=tasks)
        for number, shape in enumerate(self.nodes):
            self._shells[shape.name] = Shell(shape, number, self._plugin_dirs.get(shape.name), world)
        follow = tasks.create_task(self._follow())
        self._stack.push_async_callback(self._stop_all, follow)
        try:
            await self._start_all()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    @property
    def allocations(self) -> deque[Allocation]:
        """What device plugins gave, oldest first."""
        return self._records.allocations

    @property
    def calls(self) -> deque[CallRecord]:
        """The messages between kubelets and device plugins, oldest first."""
        return self._records.calls

    def pod_resources_socket(self, node: str) -> Path:
        """Where a node tells which containers have which devices. Raises ValueError for one without sockets."""
        server = self._shell(node).pod_resources
        if server is None:
            raise ValueError(f"node {node} has no plugin directory")
        return server.socket

    async def stop(self, node: str, *, lose_checkpoint: bool = False) -> None:
        """Kills one node's kubelet: its containers go on, nothing is admitted. The checkpoint may be lost with it."""
        await self._shell(node).stop(lose_checkpoint=lose_checkpoint)

    async def start(self, node: str) -> None:
        """Starts it again: all sockets in the plugins' directory are removed, so plugins have to register again."""
        await self._shell(node).start()

    async def restart(self, node: str, *, down_seconds: float = 0.0, lose_checkpoint: bool = False) -> None:
        """Stops and starts one node's kubelet."""
        await self.stop(node, lose_checkpoint=lose_checkpoint)
        await self._clock.sleep(down_seconds)
        await self.start(node)

    def finish(self, pod: str, *, failed: bool = False) -> None:
        """Lets the containers of a pod (`namespace/name`) end. Raises ValueError if no such pod runs."""
        shell, one = self._running(pod)
        shell.tell(facts.Finished(uid=one.uid, failed=failed))

    def crash(self, pod: str, container: str) -> None:
        """Lets one container of a running pod end; it is started again. Raises ValueError if no such pod runs."""
        shell, one = self._running(pod)
        shell.tell(facts.ContainerExited(uid=one.uid, container=container))

    def _shell(self, node: str) -> Shell:
        if node not in self._shells:
            raise ValueError(f"node {node} is not one of the {len(self._shells)} that are played")
        return self._shells[node]

    def _running(self, full_name: str) -> tuple[Shell, Pod]:
        for shell in self._shells.values():
            pod = shell.running(full_name)
            if pod is not None:
                return shell, pod
        raise ValueError(f"pod {full_name} is not running on any node that is played")

    async def _start_all(self) -> None:
        limit = asyncio.Semaphore(MOST_STARTING)

        async def start(shell: Shell) -> None:
            async with limit:
                await shell.start()

        async with asyncio.TaskGroup() as starting:
            for shell in self._shells.values():
                starting.create_task(start(shell))

    async def _stop_all(self, follow: asyncio.Task[None]) -> None:
        follow.cancel()
        await asyncio.gather(*(shell.stop() for shell in self._shells.values()))

    async def _follow(self) -> None:
        reflector = Reflector(self._client, SEEN_PODS, BOUND, clock=self._clock)
        async with aclosing(reflector.facts()) as said:
            async for fact in said:
                self._tell(fact)

    def _tell(self, fact: Fact[Pod]) -> None:
        if isinstance(fact, Listed):
            by_node: dict[str, list[Pod]] = defaultdict(list)
            for pod in fact.objects:
                by_node[pod.spec.node_name].append(pod)
            for name, shell in self._shells.items():
                shell.pods_listed(by_node[name])
        elif isinstance(fact, Changed | Removed):
            shell_of = self._shells.get(fact.object.spec.node_name)
            if shell_of is None:
                return
            if isinstance(fact, Changed):
                shell_of.pod_seen(fact.object)
            else:
                shell_of.pod_gone(fact.object.uid)
