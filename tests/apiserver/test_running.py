"""How the server is started and stopped: in a loop, in a thread, over TLS."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
from pathlib import Path

import aiohttp
import pytest
import trustme

from cardwise.sim.apiserver import MemoryServer, running_server
from cardwise.sim.apiserver.errors import RefusedError

from .client import NODES, PODS, Client, node, pod


def test_it_runs_in_a_loop() -> None:
    async def check() -> list[str]:
        async with MemoryServer() as server, aiohttp.ClientSession() as session:
            await session.post(f"{server.url}{PODS}", json=pod("a"))
            async with session.get(f"{server.url}{PODS}") as response:
                return [each["metadata"]["name"] for each in (await response.json())["items"]]

    assert asyncio.run(check()) == ["a"]


def test_it_ends_open_watches_when_it_stops() -> None:
    async def check() -> bytes:
        async with aiohttp.ClientSession() as session:
            async with MemoryServer() as server:
                server.create(pod("a"))
                response = await session.get(f"{server.url}{PODS}?watch=1")
                await response.content.readline()
            return await response.content.read()

    assert asyncio.run(check()) == b""


def test_nothing_is_left_open() -> None:
    """Unclosed sockets warn when they are collected, which is an error here."""
    before = threading.active_count()
    with running_server() as server, Client(server.url).watch(PODS) as watch:
        server.create(pod("a"))
        watch.line()
    gc.collect()
    assert threading.active_count() == before


def test_a_client_that_leaves_is_forgotten() -> None:
    async def check() -> int:
        async with MemoryServer() as server, aiohttp.ClientSession() as session:
            async with session.get(f"{server.url}{PODS}?watch=1"):
                pass
            for _ in range(100):
                if not server.watching:
                    break
                await asyncio.sleep(0.01)
            return server.watching

    assert asyncio.run(check()) == 0


def test_what_fails_in_the_block_comes_out_of_it() -> None:
    with pytest.raises(ZeroDivisionError), running_server():
        raise ZeroDivisionError


def test_a_kubeconfig_names_server_user_and_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with running_server(tls=context, authority_pem=authority.cert_pem.bytes()) as server:
        text = server.write_kubeconfig(tmp_path / "config", user="bob").read_text()
        trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        assert Client(server.url, context=trusting).post(NODES, node()).status == 201
    assert all(part in text for part in (server.url, '"user:bob"', "certificate-authority-data"))


def test_a_client_certificate_names_its_user() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    authority.issue_cert("carol@example.com", common_name="carol").configure_cert(trusting)
    with running_server(tls=context) as server:
        Client(server.url, context=trusting).post(NODES, node())
        assert [each.user for each in server.log.writes] == ["carol"]


def test_old_versions_are_forgotten_by_themselves() -> None:
    with running_server(history_limit=10) as server:
        for number in range(60):
            server.create(pod(f"p{number}"))
        client = Client(server.url)
        with client.watch(PODS, resourceVersion=server.revision - 10) as watch:
            assert watch.briefs(10) == [("ADDED", f"p{number}") for number in range(50, 60)]
        with client.watch(PODS, resourceVersion=1) as watch:
            assert [told["code"] for _, told in watch.rest()] == [410]


def test_python_callers_get_refusals_too() -> None:
    server = MemoryServer()
    server.create(pod("a"))
    with pytest.raises(RefusedError, match='pods "a" already exists'):
        server.create(pod("a"))
    with pytest.raises(RefusedError, match='pods "b" not found'):
        server.bind("b", "one")
    with pytest.raises(RefusedError, match="could not find the requested resource"):
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}})
    with pytest.raises(RefusedError, match="quantities must match"):
        server.create(pod("c", limits={"cpu": "much"}))
