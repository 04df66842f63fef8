"""`cardwise scheduler` as a process, on an API server in memory that comes and goes, and raw calls of it."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp

LOOK_SECONDS = 0.05
END_SECONDS = 10.0


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def kubeconfig(path: Path, port: int) -> Path:
    """A file that names an API server on this port."""
    content = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "user:scheduler"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config"} | content))
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The running process, and what may be asked of it."""

    process: asyncio.subprocess.Process
    session: aiohttp.ClientSession
    extender: str
    page: str

    async def look(self, path: str) -> tuple[int, str]:
        """A page: status and text; 0 where nobody answers."""
        try:
            async with self.session.get(self.page + path) as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def call(self, path: str, body: Any, method: str = "POST") -> tuple[int, str]:
        """A call with this body: bytes at once, an async iterator in chunks. Status and text."""
        data = BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.request(method, self.extender + path, data=data) as answer:
            return answer.status, await answer.text()

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 15.0) -> None:
        """Returns when it holds. Raises TimeoutError, and AssertionError where the process has ended."""
        async with asyncio.timeout(seconds):
            while not await holds():
                assert self.process.returncode is None
                await asyncio.sleep(LOOK_SECONDS)

    async def ready(self) -> bool:
        return await self.look("/readyz") == (200, "ok\n")

    async def in_service(self) -> bool:
        """Whether it answers at all."""
        return (await self.look("/healthz"))[0] == 200


@asynccontextmanager
async def serving(config: Path) -> AsyncIterator[Served]:
    """The process while the block runs; at the end it is asked to end, and must, with 0."""
    extender, page = free_ports(2)
    flags = (
        f"--kubeconfig={config}",
        f"--extender-address=127.0.0.1:{extender}",
        f"--metrics-address=127.0.0.1:{page}",
        "--admission-address=",
        "--leader-election-enabled=false",
        "--log-level=error",
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "cardwise", "scheduler", *flags)
    try:
        async with aiohttp.ClientSession() as session:
            served = Served(
                process=process,
                session=session,
                extender=f"http://127.0.0.1:{extender}",
                page=f"http://127.0.0.1:{page}",
            )
            await served.until(served.in_service)
            yield served
            process.terminate()
            assert await asyncio.wait_for(process.wait(), END_SECONDS) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
