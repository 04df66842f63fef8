"""Credentials in use: files that change, plugins that run again, and what a server that refuses them leads to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from cardwise.kube import requests
from cardwise.kube.client import Client
from cardwise.kube.clock import Clock
from cardwise.kube.connection import Connection, KeyPair, Tls, Token, TokenFile
from cardwise.kube.credentials import Credentials, Grant
from cardwise.kube.errors import Fault, KubeconfigError, KubeError
from cardwise.kube.requests import NODES
from kube.certificates import authority_pem, issued, server_context
from kube.plugins import NOW, counting, plugin, printing, script
from kube.servers import answer, plain, run, serving, status

NODE = {"kind": "Node", "metadata": {"name": "n1"}}


class Dial:
    """A clock to be set by hand."""

    seconds = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, now=lambda: NOW + timedelta(seconds=self.seconds))


class Gate:
    """A server that lets some tokens in, and notes which ones came."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.came: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "none").removeprefix("Bearer ")
        self.came.append(token)
        return answer(NODE) if token in self.good else answer(status(401, "Unauthorized", "Unauthorized"), 401)


async def node(client: Client) -> str:
    return (await client.get_quorum(NODES, "n1")).metadata.name


def replaced(path: Path, text: str) -> None:
    """A file with another content, put in place at once, as the kubelet does it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def test_a_token_file_is_read_again_when_it_changed_but_not_at_every_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    gate, dial = Gate("one", "two"), Dial()

    async def main() -> None:
        async with serving(gate.handle) as url:
            connection = replace(plain(url), credential=TokenFile(where="tokenFile", path=path))
            async with Client(connection, clock=dial.clock()) as client:
                await node(client)
                replaced(path, "two")
                await node(client)
                dial.seconds += 5
                await node(client)

    run(main())
    assert gate.came == ["one", "one", "two"]


def test_a_refused_token_is_read_again_at_once_and_the_request_sent_once_more(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    gate = Gate("one")

    async def main() -> None:
        async with serving(gate.handle) as url:
            connection = replace(plain(url), credential=TokenFile(where="tokenFile", path=path))
            async with Client(connection, clock=Dial().clock()) as client:
                await node(client)
                replaced(path, "two")
                gate.good = {"two"}
                assert await node(client) == "n1"

    run(main())
    assert gate.came == ["one", "one", "two"]


@pytest.mark.parametrize("text", [None, "", "a b"], ids=["gone", "empty", "broken"])
def test_while_a_token_file_cannot_be_used_the_old_token_is(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    dial = Dial()
    credentials = Credentials(replace(plain(""), credential=TokenFile(where="tokenFile", path=path)), dial.clock())

    async def token_later() -> str:
        dial.seconds += 5
        return (await credentials.grant()).token

    async def main() -> list[str]:
        tokens = [await token_later()]
        path.unlink() if text is None else replaced(path, text)
        tokens += [await token_later(), await token_later()]
        replaced(path, "two")
        return [*tokens, await token_later()]

    assert run(main()) == ["one", "one", "one", "two"]
    assert [record.message.startswith("tokenFile ") for record in caplog.records] == [True]


def test_a_fixed_token_that_is_refused_is_not_tried_again_and_the_error_says_where_it_is_from() -> None:
    gate = Gate()

    connection = replace(plain(""), credential=Token(where="/c, user u: token", text="one"))
    assert refusal(connection, gate) == (
        "GET /api/v1/nodes/n1: Unauthorized (401 Unauthorized); the credential is from /c, user u: token"
    )
    assert gate.came == ["one"]


def refusal(connection: Connection, gate: Gate | None = None) -> str:
    """What is said of a connection whose credentials the server refuses."""

    async def main() -> KubeError:
        async with (
            serving((gate or Gate()).handle) as url,
            Client(replace(connection, url=url), clock=Dial().clock()) as client,
        ):
            with pytest.raises(KubeError) as caught:
                await node(client)
            return caught.value

    error = run(main())
    assert error.fault is Fault.UNAUTHORIZED
    return str(error)


def test_a_refused_token_that_is_expired_is_said_to_be() -> None:
    jwt = "e30.eyJleHAiOjE3MDAwMDAwMDB9.c2ln"  # {"exp":1700000000}
    connection = replace(plain(""), credential=Token(where="/c, user u: token", text=jwt))
    assert refusal(connection).endswith("is from /c, user u: token, which expired at 2023-11-14T22:13:20+00:00")


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        (plain(""), "test has no credential"),
        (
            replace(plain(""), key_pair=KeyPair(where="/c, user u", certificate=b"", key=b"")),
            "the credential is from /c, user u: client-certificate",
        ),
    ],
    ids=["nobody", "a certificate"],
)
def test_who_is_refused_without_a_token_is_said(connection: Connection, says: str) -> None:
    assert refusal(connection).endswith(says)


def test_a_plugin_gives_a_token_and_is_run_again_when_it_is_expired(tmp_path: Path) -> None:
    gate, dial = Gate("t1", "t2"), Dial()

    async def main() -> None:
        async with serving(gate.handle) as url:
            connection = replace(plain(url), credential=counting(tmp_path))
            async with Client(connection, clock=dial.clock()) as client:
                await asyncio.gather(*(node(client) for _ in range(5)))
                dial.seconds = 3600
                await node(client)

    run(main())
    assert gate.came == ["t1"] * 5 + ["t2"]


def test_a_plugin_is_run_again_once_when_its_token_is_refused(tmp_path: Path) -> None:
    gate = Gate("t2")

    async def main() -> None:
        async with serving(gate.handle) as url:
            connection = replace(plain(url), credential=counting(tmp_path))
            async with Client(connection, clock=Dial().clock()) as client:
                await asyncio.gather(*(node(client) for _ in range(3)))
                gate.good = set()
                with pytest.raises(KubeError, match=r"the credential is from /c, user u: exec$"):
                    await node(client)

    run(main())
    assert gate.came[:3] == ["t1"] * 3
    assert sorted(gate.came[3:]) == ["t2"] * 4 + ["t3"]


def test_of_many_that_are_refused_only_the_first_runs_the_plugin_again(tmp_path: Path) -> None:
    credentials = Credentials(replace(plain(""), credential=counting(tmp_path)), Dial().clock())

    async def main() -> list[str]:
        refused = await credentials.grant()
        newer = [await credentials.instead_of(refused) for _ in range(3)]
        return [refused.token, *(grant.token for grant in newer if grant is not None)]

    assert run(main()) == ["t1", "t2", "t2", "t2"]


def test_a_plugin_that_has_nothing_else_to_offer_is_not_believed_again(tmp_path: Path) -> None:
    gate = Gate()
    connection = replace(plain(""), credential=plugin(script(tmp_path, printing({"token": "t"}))))
    assert refusal(connection, gate).endswith("the credential is from /c, user u: exec")
    assert gate.came == ["t"]


def test_a_new_token_keeps_the_connections_and_a_new_certificate_does_not(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(authority_pem())
    (tmp_path / "token").write_text("one")
    file = TokenFile(where="tokenFile", path=tmp_path / "token")
    dial = Dial()
    connection = Connection(where="", url="https://h", tls=Tls(authority=tmp_path / "ca"), credential=file)
    credentials = Credentials(connection, dial.clock())

    async def later() -> Grant:
        dial.seconds += 5
        return await credentials.grant()

    async def main() -> list[Grant]:
        grants = [await later()]
        replaced(tmp_path / "token", "two")
        grants.append(await later())
        replaced(tmp_path / "ca", authority_pem(1).decode())
        return [*grants, await later()]

    first, second, third = run(main())
    assert [first.token, second.token, third.token] == ["one", "two", "two"]
    assert first.context is second.context
    assert third.context is not second.context


def test_a_second_try_with_a_newer_token_that_is_not_sent_is_not_in_doubt(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")

    async def main() -> KubeError:
        async def refuse_and_leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            server.close()
            replaced(tmp_path / "token", "two")
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(refuse_and_leave, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        connection = replace(plain(url), credential=TokenFile(where="tokenFile", path=tmp_path / "token"))
        async with server, Client(connection) as client:
            with pytest.raises(KubeError) as caught:
                await client.delete(NODES, "n1")
            return caught.value

    error = run(main())
    assert (error.fault, error.in_doubt) == (Fault.UNREACHABLE, False)


CERTIFICATE = issued("alice@example.org")


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    pair = {
        "clientCertificateData": CERTIFICATE.certificate.decode(),
        "clientKeyData": CERTIFICATE.key.decode(),
    }
    path = script(tmp_path, printing(pair))

    async def main() -> str:
        async with serving(Gate("none").handle, server_context("127.0.0.1", clients=True)) as url:
            connection = Connection(where="", url=url, tls=Tls(authority=authority_pem()), credential=plugin(path))
            async with Client(connection) as client:
                return await node(client)

    assert run(main()) == "n1"


def test_a_certificate_of_a_plugin_that_does_not_match_its_key_is_a_sentence(tmp_path: Path) -> None:
    pair = {
        "clientCertificateData": CERTIFICATE.certificate.decode(),
        "clientKeyData": issued("bob@example.org").key.decode(),
    }
    connection = Connection(where="", url="https://127.0.0.1:1", credential=plugin(script(tmp_path, printing(pair))))

    async def main() -> None:
        async with Client(connection) as client:
            await node(client)

    with pytest.raises(KubeconfigError, match="do not belong together"):
        run(main())


def test_a_client_that_is_left_ends_its_plugin(tmp_path: Path) -> None:
    path = script(tmp_path, "sleep 100")

    async def main() -> KubeError:
        before = asyncio.all_tasks()
        async with Client(replace(plain("http://127.0.0.1:1"), credential=plugin(path))) as client:
            with pytest.raises(KubeError) as caught:
                await client.send(requests.get(NODES, "n1"), timeout_seconds=0.1)
        assert asyncio.all_tasks() == before
        return caught.value

    error = run(main())
    assert str(error) == "GET /api/v1/nodes/n1: no credential within 0.1 s"
    assert (error.fault, error.sent) == (Fault.TIMED_OUT, False)
