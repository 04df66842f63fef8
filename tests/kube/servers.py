"""Loopback servers that do as told: HTTP ones out of a function, and raw ones that write any bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from cardwise.kube.clock import Clock
from cardwise.kube.connection import Connection

T = TypeVar("T")
Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def run(coroutine: Coroutine[Any, Any, T], seconds: float = 15) -> T:
    """Runs a test's coroutine; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(coroutine, seconds))


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers every request with the handler."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving_raw(handler: RawHandler) -> AsyncIterator[str]:
    """The address of a server that reads one request a connection, and then does what the handler does with the socket."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def plain(url: str) -> Connection:
    """A connection without TLS and user."""
    return Connection(where="test", url=url)


def answer(body: Json, code: int = 200, **headers: str) -> web.Response:
    """A JSON answer."""
    return web.Response(body=msgspec.json.encode(body), status=code, content_type="application/json", headers=headers)


def status(code: int, reason: str, message: str = "no", **details: Any) -> Json:
    """A Status as the API server answers where it refuses."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details,
    }


def pod(name: str, version: int = 1, **annotations: str) -> Json:
    """A pod as the API server sends it."""
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": meta | {"annotations": annotations},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Pending"},
    }


def pod_list(*names: str, version: int = 10, next_page: str = "") -> Json:
    """A page of pods; as the API server does, without the kind in the items."""
    items = [{key: value for key, value in pod(name).items() if key != "kind"} for name in names]
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "continue": next_page},
        "items": items,
    }


def line(kind: str, one: Json) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": kind, "object": one}) + b"\n"


def bookmark(version: int) -> bytes:
    """The line that says how far the server is."""
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}})


class Waits:
    """A clock whose sleeps are noted and over at once, and whose time goes on by `step_seconds` with every look at it."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self.waits: list[float] = []
        self.seconds = 0.0
        self._step_seconds = step_seconds
        self.clock = Clock(monotonic=self._monotonic, sleep=self._sleep, chance=lambda: 0.0)

    def _monotonic(self) -> float:
        self.seconds += self._step_seconds
        return self.seconds

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)
