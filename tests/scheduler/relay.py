"""A wire between a client and an API server on which watches lag behind, for this client alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

PIECE_BYTES = 1 << 16


class Relay:
    """Passes on bytes both ways; what a watch tells comes `lag_seconds` late, in order. `url` is where it listens."""

    def __init__(self, server: str, lag_seconds: float) -> None:
        self.lag_seconds = lag_seconds
        self.url = ""
        host, _, port = server.removeprefix("http://").rpartition(":")
        self._host, self._port = host, int(port)
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves while the block runs."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        from_server, to_server = await asyncio.open_connection(self._host, self._port)
        watching = asyncio.Event()
        ways = {
            asyncio.create_task(_ask(reader, to_server, watching)),
            asyncio.create_task(self._tell(from_server, writer, watching)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, to_server):
                end.close()

    async def _tell(self, server: asyncio.StreamReader, client: asyncio.StreamWriter, watching: asyncio.Event) -> None:
        """Every piece when it is due."""
        loop = asyncio.get_running_loop()
        coming: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take() -> None:
            with suppress(OSError):
                while piece := await server.read(PIECE_BYTES):
                    coming.put_nowait((loop.time() + self.lag_seconds * watching.is_set(), piece))
            coming.put_nowait((loop.time(), b""))

        taking = asyncio.create_task(take())
        try:
            while (due_and_piece := await coming.get())[1]:
                await asyncio.sleep(due_and_piece[0] - loop.time())
                client.write(due_and_piece[1])
                await client.drain()
        except OSError:
            return
        finally:
            taking.cancel()


async def _ask(client: asyncio.StreamReader, server: asyncio.StreamWriter, watching: asyncio.Event) -> None:
    with suppress(OSError):
        while piece := await client.read(PIECE_BYTES):
            if b"watch=" in piece:
                watching.set()
            server.write(piece)
            await server.drain()
