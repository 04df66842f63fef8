"""The real service, an API server in memory and a kube-scheduler, in one event loop: what goes wrong is a test's choice."""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp

from cardwise.core.model import Card
from cardwise.kube.client import Client
from cardwise.kube.clock import Clock
from cardwise.kube.kubeconfig import load as connection_of
from cardwise.scheduler import service
from cardwise.scheduler.config import Config
from cardwise.scheduler.config_file import load as configured
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.kubescheduler import KubeScheduler, Settings
from cardwise.wire.families import FAMILIES

from .memory_api import Json, Spot, core_of, held_by, within
from .relay import Relay

BIND_SECONDS = 0.3
LAG_SECONDS = 0.1
"""So much later than kube-scheduler the service learns what happens, unless a test says otherwise."""
READY_SECONDS = 10.0
LOOK_SECONDS = 0.02
PORTS = range(20_000, 30_000)
QUICK = Settings(
    http_seconds=1.0, initial_backoff_seconds=0.2, most_backoff_seconds=0.4, alignment_seconds=0.1, flush_seconds=300.0
)
"""Pods come back soon after an error, but after a refusal only when something happens, or when they are touched."""
_USED = re.compile(r'^cardwise_card_([a-z]+)_used\w*\{node="([^"]*)",card="([^"]*)".*\} (\d+)$', re.MULTILINE)


@dataclass(eq=False)
class ServiceStage:
    """`most` are the cards of each node as they were at first: what a test changes is never more."""

    server: MemoryServer
    relay: Relay
    config: Config
    most: dict[Spot, Card] = field(default_factory=dict)
    ahead: timedelta = timedelta()
    _running: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._running is not None

    async def start(self, *, wait: bool = False) -> None:
        """A new service; with `wait`, until it is ready."""
        ready = asyncio.Event()
        clock = Clock(now=lambda: datetime.now(UTC) + self.ahead)
        self._running = asyncio.create_task(service.run(self.config, asyncio.Event(), ready=ready, clock=clock))
        if wait:
            async with asyncio.timeout(READY_SECONDS):
                await ready.wait()

    async def kill(self) -> None:
        """It ends at once, whatever it is about; nobody asked it to."""
        task, self._running = self._running, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def add_node(self, node: Json) -> None:
        """A node, ready."""
        self.server.create(node)
        self.server.patch("nodes", node["metadata"]["name"], {"spec": {"taints": None}})
        self.most |= {(node["metadata"]["name"], card.uuid): card for card in core_of(node).cards}

    def look(self) -> None:
        """Raises where a card is given away twice, and where the service has ended by itself."""
        for spot, uses in held_by(self.server.list("pods")).items():
            assert within(uses, self.most[spot]), f"{spot} is {self.most[spot]}, has to give {uses}"
        if self._running is not None and self._running.done():
            self._running.result()

    async def pass_time(self, seconds: float) -> None:
        """Time passes, and what happens meanwhile is looked at."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def page(self) -> str:
        """The metrics of the service."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.config.metrics.address}/metrics") as got,
        ):
            return await got.text()

    async def counted(self) -> dict[Spot, dict[str, int]]:
        """What it counts as used, of the cards of which anything is."""
        found: dict[Spot, dict[str, int]] = {}
        for what, node, uuid, amount in _USED.findall(await self.page()):
            if amount != "0":
                found.setdefault((node, uuid), {})[what] = int(amount)
        return found


@asynccontextmanager
async def staged(nodes: Iterable[Json], folder: Path) -> AsyncIterator[ServiceStage]:
    """A cluster with these nodes, the service ready."""
    async with MemoryServer() as server, AsyncExitStack() as stack:
        for name in ("ml", "kube"):
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        relay = Relay(server.url, LAG_SECONDS)
        await stack.enter_async_context(relay.serving())
        stage = ServiceStage(server, relay, _config(server, relay, folder))
        for node in nodes:
            stage.add_node(node)
        await stage.start(wait=True)
        connection = connection_of(str(server.write_kubeconfig(folder / "kube-scheduler", user="kube-scheduler")))
        async with Client(connection) as client, _kube_scheduler(client, stage.config):
            try:
                yield stage
            finally:
                await stage.kill()


def _config(server: MemoryServer, relay: Relay, folder: Path) -> Config:
    extender, page = ports(2)
    kubeconfig = server.write_kubeconfig(folder / "cardwise", user="cardwise")
    kubeconfig.write_text(kubeconfig.read_text().replace(server.url, relay.url))
    flags = {
        "kubeconfig": str(kubeconfig),
        "extender.address": f"127.0.0.1:{extender}",
        "metrics.address": f"127.0.0.1:{page}",
        "admission.address": "",
        "leaderElection.enabled": "false",
        "bindTimeoutSeconds": str(BIND_SECONDS),
    }
    return configured(None, flags, {})


def ports(count: int) -> list[int]:
    """Ports that are free, and stay so while the service is down: none that connections are made from."""
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(PORTS)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _kube_scheduler(client: Client, config: Config) -> KubeScheduler:
    uncounted = {name for family in FAMILIES for name in family.uncounted_resources}
    managed = uncounted.union(*(family.resources for family in FAMILIES))
    url = f"http://{config.extender.address}"
    return KubeScheduler(client, url, managed=managed, ignored=uncounted, settings=QUICK)
