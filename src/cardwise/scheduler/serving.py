"""The HTTP servers: kube-scheduler's calls on loopback, admission over TLS, and the page for probes and Prometheus."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from cardwise.scheduler.calls import Calls
from cardwise.scheduler.card_rows import CardRows
from cardwise.scheduler.kinds import Address
from cardwise.scheduler.metrics import CONTENT_TYPE, QuotaUse, Reading, exposition
from cardwise.scheduler.stock import Stock
from cardwise.scheduler.webhook import Policy, View, review
from cardwise.scheduler.world import World

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_BYTES = 256 * 1024 * 1024
"""Of a call: thousands of whole nodes with their registers are some tens of MB."""
MOST_REVIEW_BYTES = 16 * 1024 * 1024
CLOSING_SECONDS = 5.0

_log = logging.getLogger("cardwise.scheduler")


class ListenError(Exception):
    """An address that cannot be listened on: the setting, the address and the reason."""


@asynccontextmanager
async def serving(
    app: web.Application, address: Address, where: str, context: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serves while the block runs; requests that are being answered are let end. Raises ListenError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port, ssl_context=context).start()
        except OSError as error:
            raise ListenError(f"{where} is {address}, cannot be listened on: {error.strerror or error}") from error
        yield
    finally:
        await runner.cleanup()


def extender_app(calls: Calls) -> web.Application:
    """The verbs of the scheduler extender."""
    app = web.Application(client_max_size=MOST_BYTES)
    for verb in calls.verbs:
        app.router.add_post(f"/{verb}", _verb(calls, verb))
    app.router.add_get("/healthz", _healthy)
    return app


def _verb(calls: Calls, verb: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        with calls.precedence.call():
            answered = await calls.answer(verb, await request.read())
        return web.Response(body=answered.body, status=answered.status, content_type="application/json")

    return handle


def webhook_app(world: World, policy: Policy, stock: Stock) -> web.Application:
    """Admission. It needs no leader, and answers with what it knows."""

    async def handle(request: web.Request) -> web.Response:
        started = time.perf_counter()
        view = View(inventory=stock.inventory, judge_quota=world.books.holdings.quotas.judge)
        reviewed = review(await request.read(), policy, view)
        if reviewed.says:
            _log.info("%s", reviewed.says)
        world.metrics.reviewed(reviewed.outcome, time.perf_counter() - started)
        return web.Response(body=reviewed.body, content_type="application/json")

    app = web.Application(client_max_size=MOST_REVIEW_BYTES)
    app.router.add_post("/webhook", handle)
    return app


def page_app(world: World) -> web.Application:
    """`/healthz`, `/readyz` and `/metrics`."""
    rows = CardRows(world.books.holdings.cluster.cards)

    async def ready(_request: web.Request) -> web.Response:
        lacking = unready(world)
        return web.Response(text="".join(f"{line}\n" for line in lacking) or "ok\n", status=503 if lacking else 200)

    async def metrics(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        async for piece in exposition(world.metrics, _reading(world), rows, _quotas(world)):
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_get("/healthz", _healthy)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics)
    return app


def unready(world: World) -> list[str]:
    """Why the view of the cluster is not complete, a sentence each; none if it is."""
    lacking = [] if world.listening else ["calls are not listened for yet"]
    lacking += [f"{name} are not listed yet" for name in world.missing]
    return lacking + [f"the watch of {name} fails: {why}" for name, why in world.troubled.items()]


async def _healthy(_request: web.Request) -> web.Response:
    await asyncio.sleep(0)
    return web.Response(text="ok\n")


def _reading(world: World) -> Reading:
    books = world.books
    return Reading(
        leader=world.fence.ready(),
        view_complete=not unready(world),
        pods_waiting=len(books.waiting),
        reservations=len(books.reservations),
        nodes=len(books.nodes),
        nodes_out_of_service=books.nodes.out_of_service,
        gates_busy=len(books.gates.busy(world.now)),
    )


def _quotas(world: World) -> list[QuotaUse]:
    return [
        QuotaUse(namespace=namespace, quota=quota, resource=resource, used=used, hard=hard)
        for namespace, quota, resource, used, hard in world.books.holdings.quotas.usage()
    ]
