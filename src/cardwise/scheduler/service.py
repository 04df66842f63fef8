"""`cardwise scheduler`: everything together, in one event loop.

    watches → books ← calls of kube-scheduler (filter, prioritize, preempt, bind) → one Binding a pod
                    → waking, telling, proving

On SIGTERM no bind is begun any more, those that run are let end, and the servers close.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from cardwise.kube.client import Client
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.errors import KubeError
from cardwise.kube.kubeconfig import load as connection_of
from cardwise.kube.requests import LEASES, NODES, RESOURCE_QUOTAS, Request, Scope
from cardwise.scheduler import chores, following
from cardwise.scheduler.binds import Binds
from cardwise.scheduler.books import Books
from cardwise.scheduler.calls import Calls
from cardwise.scheduler.config import Config
from cardwise.scheduler.leadership import Fence
from cardwise.scheduler.metrics import Metrics
from cardwise.scheduler.serving import extender_app, page_app, serving, webhook_app
from cardwise.scheduler.stock import Stock
from cardwise.scheduler.tlsfiles import served_certificate
from cardwise.scheduler.webhook import Policy
from cardwise.scheduler.world import World, settings_of

LABELS_SINCE_MINOR = 35
"""The version of Kubernetes from which a Binding's labels reach the pod."""

_log = logging.getLogger("cardwise.scheduler")


async def run(
    config: Config, stop: asyncio.Event, *, ready: asyncio.Event | None = None, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Serves until `stop` is set; `ready` is set once calls are answered by a complete view.

    Raises KubeconfigError, CertificateError, SelfSignedError and ListenError for what is wrong at the start.
    """
    async with Client(connection_of(config.kubeconfig), user_agent="cardwise-scheduler", clock=clock) as client:
        world = _world(config, client, clock)
        binds, stock = Binds(world), Stock(world)
        async with _tasks() as tasks:
            tasks.create_task(_learn_version(world))
            _follow(world, tasks)
            for chore in (
                *(chores.wake_pods(world), chores.tell_users(world), chores.prove_fresh(world)),
                *(chores.keep_time(world, binds), stock.keep()),
            ):
                tasks.create_task(chore)
            async with AsyncExitStack() as servers:
                await _serve(world, binds, stock, servers, tasks)
                if ready is not None:
                    tasks.create_task(_tell_ready(world, ready))
                await stop.wait()
                _log.info("stopping")
                world.fence.stop()
                world.settle()
                await binds.drain()


async def _serve(world: World, binds: Binds, stock: Stock, servers: AsyncExitStack, tasks: asyncio.TaskGroup) -> None:
    config = world.config
    await servers.enter_async_context(serving(page_app(world), config.metrics.address, "metrics.address"))
    calls = Calls(world, binds)
    await servers.enter_async_context(serving(extender_app(calls), config.extender.address, "extender.address"))
    if config.admission.address is not None:
        context = await served_certificate(world, tasks)
        policy = Policy(
            rules=config.rules(),
            scheduler_name=config.scheduler_name,
            runtime_class=config.admission.runtime_class,
            writers=frozenset(config.admission.writers),
        )
        app = webhook_app(world, policy, stock)
        await servers.enter_async_context(serving(app, config.admission.address, "admission.address", context))
    world.listening = True


def _world(config: Config, client: Client, clock: Clock) -> World:
    return World(
        config=config,
        books=Books(settings_of(config)),
        client=client,
        fence=Fence(config.leader_election.identity, enabled=config.leader_election.enabled),
        metrics=Metrics(clock),
        clock=clock,
    )


def _follow(world: World, tasks: asyncio.TaskGroup) -> None:
    tasks.create_task(following.follow_pods(world))
    tasks.create_task(following.Nodes(world).follow(NODES))
    tasks.create_task(following.Quotas(world).follow(RESOURCE_QUOTAS))
    election = world.config.leader_election
    if election.enabled:
        scope = Scope(namespace=election.namespace, fields=f"metadata.name={election.lease_name}")
        tasks.create_task(following.Leases(world).follow(LEASES, scope))


async def _tell_ready(world: World, ready: asyncio.Event) -> None:
    while not world.books.complete:
        await world.changed.next(1.0)
    ready.set()


class _Version(msgspec.Struct):
    minor: str = ""


async def _learn_version(world: World) -> None:
    """Whether Bindings carry labels here: asked until it is known, since HAMi's monitor needs the label."""
    while True:
        try:
            answer = await world.client.send(Request(method="GET", path="/version"))
            minor = re.match(r"\d+", msgspec.json.decode(answer.body, type=_Version).minor)
        except (KubeError, msgspec.DecodeError) as error:
            _log.info("the API server's version is not known yet: %s", error)
            await world.clock.sleep(10.0)
        else:
            world.bindings_carry_labels = minor is not None and int(minor[0]) >= LABELS_SINCE_MINOR
            return


@asynccontextmanager
async def _tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A group whose tasks end when the block does. The first error of any, with its own type, ends all."""
    own: list[asyncio.Task[object]] = []

    class Group(asyncio.TaskGroup):
        def create_task(self, *args: object, **kwargs: object) -> asyncio.Task[object]:  # type: ignore[override]
            task: asyncio.Task[object] = super().create_task(*args, **kwargs)  # type: ignore[arg-type]
            own.append(task)
            return task

    try:
        async with Group() as group:
            yield group
            for task in own:
                task.cancel()
    except* Exception as group_of:  # noqa: BLE001  (raised again)
        raise group_of.exceptions[0] from None
