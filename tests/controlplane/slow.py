"""A proxy before kube-apiserver whose watches lag behind: every piece of them is passed on after a set time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from .rest import Rest

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class SlowWatches:
    """Plain HTTP on loopback, passed on as the user of `rest`; everything but watches is passed on as it comes.

    `only`: but the watches of this resource, where one is named.
    """

    def __init__(self, server: str, rest: Rest, delay_seconds: float, only: str = "") -> None:
        self._server = server
        self._rest = rest
        self._delay_seconds = delay_seconds
        self._only = only

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP_BY_HOP}
        url = URL(self._server + request.raw_path, encoded=True)
        body = await request.read()
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            slow = "watch" in request.query and request.path.endswith(f"/{self._only}" if self._only else "")
            delay_seconds = self._delay_seconds if slow else 0.0
            await _pass_on(answer.content, response, delay_seconds)
            return response

    async def serve(self, ready: threading.Event) -> None:
        """Serves until `stop()`, which may be called from any thread, as `port` may be read, once `ready` is set."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self.stop: Callable[[], object] = lambda: loop.call_soon_threadsafe(stop.set)
        connector = aiohttp.TCPConnector(ssl=self._rest.tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=timeout) as self._session:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", self.handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port: int = runner.addresses[0][1]
            ready.set()
            await stop.wait()
            await runner.cleanup()


async def _pass_on(content: aiohttp.StreamReader, response: web.StreamResponse, delay_seconds: float) -> None:
    """All pieces in order, each so long after it came."""
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    now = asyncio.get_running_loop().time

    async def take() -> None:
        async for piece in content.iter_any():
            line.put_nowait((now() + delay_seconds, piece))
        line.put_nowait((now(), b""))

    taking = asyncio.create_task(take())
    try:
        while (due_and_piece := await line.get())[1]:
            await asyncio.sleep(due_and_piece[0] - now())
            await response.write(due_and_piece[1])
    finally:
        taking.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError):
            await taking


@contextmanager
def slow_watches(server: str, rest: Rest, delay_seconds: float, folder: Path, *, only: str = "") -> Iterator[Path]:
    """A kubeconfig for the proxy, which runs in a thread while the block does."""
    proxy = SlowWatches(server, rest, delay_seconds, only)
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(ready)))
    thread.start()
    try:
        assert ready.wait(10)
        yield _kubeconfig(folder / "slow.kubeconfig", f"http://127.0.0.1:{proxy.port}")
    finally:
        proxy.stop()
        thread.join()


def _kubeconfig(path: Path, server: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "slow", "cluster": {"server": server}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "slow", "context": {"cluster": "slow", "user": "nobody"}}],
        "current-context": "slow",
    }
    path.write_text(json.dumps(content))
    return path
