"""Servers that are away, silent, slow or broken: what a write then says, and that it is never sent twice."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cardwise.kube import types
from cardwise.kube.client import Client
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import LEASES, NODES, PODS
from kube.servers import RawHandler, plain, run, serving_raw

Call = Callable[[Client], Awaitable[Any]]


async def bind(client: Client, seconds: float = 10) -> None:
    await client.bind("ml", "a", uid="u", node="n1", annotations={"k": "v"}, timeout_seconds=seconds)


def error_after(call: Call, url: str) -> KubeError:
    async def main() -> KubeError:
        async with Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await call(client)
            return caught.value

    return run(main())


def raw_error(call: Call, handler: RawHandler) -> KubeError:
    """The error of a call to a raw server."""

    async def main() -> KubeError:
        async with serving_raw(handler) as url, Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await call(client)
            return caught.value

    return run(main())


def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_a_write_to_nobody_was_not_sent() -> None:
    error = error_after(bind, f"http://127.0.0.1:{unused_port()}")
    assert (error.fault, error.sent, error.in_doubt) == (Fault.UNREACHABLE, False, False)
    assert str(error).startswith("POST /api/v1/namespaces/ml/pods/a/binding: Cannot connect to host 127.0.0.1:")


def test_a_write_to_a_name_that_is_none_was_not_sent() -> None:
    too_long = ".".join(["a" * 60] * 6)
    error = error_after(bind, f"http://{too_long}:1")
    assert (error.fault, error.sent) == (Fault.UNREACHABLE, False)


def test_a_time_out_before_the_write_is_not_in_doubt() -> None:
    """The server takes no connections: its queue is full, and nothing of the request can leave."""

    async def main() -> KubeError:
        async with silent_listener() as url, Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await bind(client, 0.3)
            return caught.value

    error = run(main())
    assert (error.fault, error.sent, error.in_doubt) == (Fault.TIMED_OUT, False, False)
    assert str(error).endswith("binding: no connection within 0.3 s")


@asynccontextmanager
async def silent_listener() -> AsyncIterator[str]:
    """A listener that accepts nobody, with its queue filled."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        await asyncio.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for filler in fillers:
                filler.close()


async def never(_head: bytes, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


def test_a_time_out_after_the_write_is_in_doubt() -> None:
    error = raw_error(lambda client: bind(client, 0.3), never)
    assert (error.fault, error.sent, error.in_doubt) == (Fault.TIMED_OUT, True, True)
    assert str(error) == "POST /api/v1/namespaces/ml/pods/a/binding: no answer within 0.3 s"


def test_an_answer_that_comes_drop_by_drop_is_not_waited_for_longer() -> None:
    async def slow(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(500):
            writer.write(b" ")
            await asyncio.sleep(0.02)

    start = time.monotonic()
    error = raw_error(lambda client: bind(client, 0.3), slow)
    assert (error.fault, error.in_doubt) == (Fault.TIMED_OUT, True)
    assert time.monotonic() - start < 3


async def close(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def reset(_head: bytes, writer: asyncio.StreamWriter) -> None:
    one = writer.get_extra_info("socket")
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def half_a_head(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 O")


async def half_a_body(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"kind":')


async def no_http(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")


async def bad_chunk(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")


async def bad_gzip(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")


BROKEN: dict[str, RawHandler] = {
    "closes at once": close,
    "resets": reset,
    "half a head": half_a_head,
    "half a body": half_a_body,
    "no HTTP": no_http,
    "a chunk that is none": bad_chunk,
    "a compression that is none": bad_gzip,
}


@pytest.mark.parametrize("handler", BROKEN.values(), ids=BROKEN)
def test_a_write_to_a_broken_server_is_in_doubt_and_one_line(handler: RawHandler) -> None:
    error = raw_error(bind, handler)
    assert (error.fault, error.in_doubt) == (Fault.UNREACHABLE, True)
    assert str(error).isprintable()
    assert len(str(error)) < 400


def test_a_server_that_resets_before_it_reads_is_unreachable() -> None:
    async def main() -> KubeError:
        async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server, Client(plain(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")) as client:
            with pytest.raises(KubeError) as caught:
                await bind(client)
            return caught.value

    assert run(main()).fault is Fault.UNREACHABLE


WRITES: dict[str, Call] = {
    "bind": bind,
    "update": lambda client: client.update(LEASES, types.lease("ml", "a", types.LeaseSpec()), "a", "ml"),
    "delete": lambda client: client.delete(PODS, "a", "ml"),
    "patch": lambda client: client.patch(NODES, {}, "n1"),
}


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
def test_no_write_is_sent_twice(call: Call) -> None:
    """aiohttp sends a PUT or DELETE again when the connection breaks; the first one may have been carried out."""
    heads: list[bytes] = []

    async def note_and_close(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.close()

    assert raw_error(call, note_and_close).in_doubt
    assert len(heads) == 1
