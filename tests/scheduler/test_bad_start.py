"""`cardwise scheduler` as a process, where something is wrong from the start, and where what it is sent makes no sense."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardwise.scheduler.issuing import Pair, issued, names_of
from cardwise.sim.apiserver import MemoryServer
from cardwise.wire import names
from commands import process
from kube.servers import run
from manifests import card_records, node_object, pod_object

from .served import Served, free_ports, kubeconfig, serving

VERBS = ("filter", "prioritize", "preempt", "bind")
NO_WEBHOOK = ("--admission-address=", "--leader-election-enabled=false")
LONGEST_SECONDS = 60


# -- wrong from the start --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With files to name: `good` is a kubeconfig of a server that is not there."""
    (port,) = free_ports(1)
    kubeconfig(tmp_path / "good", port)
    (tmp_path / "garbage").write_text("hello: [")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").touch()
    (tmp_path / "no-context").write_text((tmp_path / "good").read_text().replace('-context": "c"', '-context": "d"'))
    (tmp_path / "typo.yaml").write_text("extender: {addres: 1}")
    (tmp_path / "open.yaml").write_text('extender: {address: "0.0.0.0:8090"}')
    for name in ("one", "two"):
        pair: Pair = issued(names_of("cardwise", "default"), datetime.now(UTC))
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    return tmp_path


def refused(*flags: str) -> str:
    """What it says last; it must end with 2, in a time, and say no more than that one sentence of the error."""
    done = process("scheduler", "--log-level=error", *flags)
    said = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(said) == 1
    return said[0]


def pair_flags(folder: Path, certificate: str, key: str) -> tuple[str, ...]:
    addresses = "--admission-address=127.0.0.1:0", "--extender-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"
    pair = f"--admission-certificate={folder / certificate}", f"--admission-key={folder / key}"
    return *addresses, *pair, f"--kubeconfig={folder / 'good'}", "--leader-election-enabled=false"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "error: kubeconfig: {} cannot be read: No such file or directory"),
        ("", "error: kubeconfig: {} cannot be read: Is a directory"),
        ("empty", "error: kubeconfig: {} is empty, must be a mapping with clusters, users and contexts"),
        ("garbage", "error: kubeconfig: {}, line 2, column 1: is no YAML: "),
        ("no-context", "error: kubeconfig: {}: current-context is d, must be one of the contexts (there are: c)"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(folder: Path, name: str, says: str) -> None:
    assert refused(*NO_WEBHOOK, f"--kubeconfig={folder / name}").startswith(says.format(folder / name))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "error: config {} cannot be read: No such file or directory"),
        ("garbage", "error: config {}, line 2: "),
        ("text", "error: config {} is hello, must be a mapping"),
        ("typo.yaml", "error: config {}: extender.addres is no known key (did you mean address?)"),
        ("open.yaml", "error: config {}: extender.address is 0.0.0.0:8090, must be a loopback address"),
    ],
)
def test_a_configuration_that_cannot_be_used(folder: Path, name: str, says: str) -> None:
    assert refused(f"--config={folder / name}").startswith(says.format(folder / name))


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("none", "one.key", "admission.certificate is {0}, which cannot be read: No such file or directory"),
        ("one.crt", "none", "admission.key is {1}, which cannot be read: No such file or directory"),
        ("text", "one.key", "admission.certificate ({0}) holds no certificate, must be PEM"),
        ("one.crt", "text", "admission.key ({1}) holds no private key, must be PEM"),
        (
            "one.crt",
            "two.key",
            "admission.key ({1}) does not belong to admission.certificate ({0}), must be its private key",
        ),
    ],
)
def test_a_certificate_that_cannot_be_used(folder: Path, certificate: str, key: str, says: str) -> None:
    sentence = says.format(folder / certificate, folder / key)
    assert refused(*pair_flags(folder, certificate, key)) == f"error: {sentence}"


@pytest.mark.parametrize("setting", ["extender", "metrics", "admission"])
def test_a_port_that_is_taken(folder: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(*pair_flags(folder, "one.crt", "one.key"), f"--{setting}-address={address}")
    assert said.startswith(f"error: {setting}.address is {address}, cannot be listened on: ")
    assert "address already in use" in said


# -- an API server that comes and goes -------------------------------------------------------------------------------


def furnish(server: MemoryServer) -> None:
    """A node with two slots."""
    annotations = {names.NODE_AGENT: "test"}
    server.create(node_object("n1", card_records(1, "GPU-n1", count=2), annotations=annotations))


def new_pod(server: MemoryServer, name: str) -> None:
    spec = {"schedulerName": "cardwise-scheduler"}
    server.create(pod_object(name, namespace="default", spec=spec, gpu=1, gpumem=1000))


async def placed(served: Served, server: MemoryServer, name: str) -> str:
    """The node that the pod is bound to by a filter and a bind call; else what was answered."""
    pod = server.get("pods", name)
    assert pod is not None
    asked = {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]}
    status, text = await served.call("/filter", json.dumps(asked).encode())
    if status != 200 or json.loads(text).get("NodeNames") != ["n1"]:
        return text
    about = {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1"}
    status, text = await served.call("/bind", json.dumps(about).encode())
    assert (status, json.loads(text)) == (200, {"Error": ""})
    bound = server.get("pods", name)
    return bound["spec"].get("nodeName", "") if bound else ""


def test_without_an_api_server_it_is_healthy_and_not_ready_and_it_is_once_there_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        server = MemoryServer(port=port)
        furnish(server)
        new_pod(server, "p")
        async with serving(kubeconfig(tmp_path / "config", port)) as served:
            await served.until(lambda: _says(served, "the watch of pods fails: GET /api/v1/pods: Cannot connect"))
            status, text = await served.look("/readyz")
            assert status == 503
            assert {line.partition(":")[0] for line in text.splitlines()} == {
                *(f"{name} are not listed yet" for name in ("nodes", "pods", "resourcequotas")),
                *(f"the watch of {name} fails" for name in ("nodes", "pods", "resourcequotas")),
            }
            assert (await served.look("/healthz"))[0] == 200
            assert "node(s) that Cardwise has not seen yet" in await placed(served, server, "p")
            async with server:
                await served.until(served.ready)
                assert await placed(served, server, "p") == "n1"

    run(main(), LONGEST_SECONDS)


async def _says(served: Served, text: str) -> bool:
    return text in (await served.look("/readyz"))[1]


def test_an_api_server_that_goes_away_and_comes_back_costs_nothing(tmp_path: Path) -> None:
    """What was bound stays counted, what changed meanwhile is learnt, and a bind that could not be sent may come again."""

    async def main() -> None:
        (port,) = free_ports(1)
        server = MemoryServer(port=port)
        furnish(server)
        for name in ("p1", "p2", "p3"):
            new_pod(server, name)
        async with serving(kubeconfig(tmp_path / "config", port)) as served:
            async with server:
                await served.until(served.ready)
                assert await placed(served, server, "p1") == "n1"
            await served.until(lambda: _says(served, "the watch of nodes fails"))
            assert (await served.look("/healthz"))[0] == 200
            status, text = await served.call("/bind", bind_body(server, "p2"))
            assert (status, json.loads(text)["Error"] != "") == (200, True)
            new_pod(server, "p4")
            server.delete("pods", "p1", grace_seconds=0)
            async with server:
                await served.until(served.ready)
                await served.until(lambda: _waits(served, 0))
                assert [await placed(served, server, name) for name in ("p2", "p3")] == ["n1", "n1"]
                assert "without a free slot" in await placed(served, server, "p4")

    run(main(), LONGEST_SECONDS)


def bind_body(server: MemoryServer, name: str) -> bytes:
    pod = server.get("pods", name)
    assert pod is not None
    about = {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1"}
    return json.dumps(about).encode()


async def _waits(served: Served, reserved: int) -> bool:
    return f"\ncardwise_reservations {reserved}" in (await served.look("/metrics"))[1]


# -- calls that make no sense ----------------------------------------------------------------------------------------

GARBAGE = {
    "nothing": b"",
    "no JSON": b"\x00\xff{",
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "an empty object": b"{}",
    "a pod of the wrong kind": b'{"Pod": 7, "NodeNames": "n1", "PodName": [], "NodeNameToMetaVictims": 3}',
    "a name too many": b'{"Pod": {"metadata": {"name": "x"}}, "NodeNames": [1], "NodeNameToMetaVictims": [1]}',
    "a list a million deep": b"[" * 1_000_000,
    "objects a million deep": b'{"Pod":' * 1_000_000,
    "half of a request": b'{"Pod": {"metadata": {"name": "x"}, "spec": {',
    "a surrogate": b'{"Pod": {"metadata": {"name": "\\ud800"}}, "NodeNames": ["\\ud800"]}',
    "10 MB of zeros": b"0" * 10_000_000,
    "10 MB of one name": b'{"PodName": "' + b"n" * 10_000_000 + b'", "Pod": {}, "NodeNames": []}',
}


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def is_an_answer(status: int, text: str) -> bool:
    """A refusal of HTTP's, or an answer in the protocol's terms."""
    return status in (400, 404, 405, 413) or (status == 200 and isinstance(json.loads(text), dict | list))


async def all_garbage(served: Served, *, chunked: bool) -> list[str]:
    """What was not answered as it should be."""
    wrong = []
    for verb in VERBS:
        for name, body in GARBAGE.items():
            status, text = await served.call(f"/{verb}", in_chunks(body) if chunked else body)
            if not is_an_answer(status, text):
                wrong.append(f"/{verb}, {name}: {status} {text[:200]}")
    return wrong


def test_no_call_harms_it_and_the_next_pod_is_placed(tmp_path: Path) -> None:
    async def main() -> None:
        async with MemoryServer() as server:
            furnish(server)
            for name in ("p1", "p2"):
                new_pod(server, name)
            async with serving(server.write_kubeconfig(tmp_path / "config")) as served:
                await served.until(served.ready)
                assert await all_garbage(served, chunked=False) == []
                assert await placed(served, server, "p1") == "n1"
                assert await all_garbage(served, chunked=True) == []
                for method, path in (("POST", "/"), ("POST", "/filters"), ("GET", "/webhook"), ("POST", "//bind")):
                    assert (await served.call(path, b"{}", method))[0] == 404
                for method in ("GET", "PUT", "DELETE", "PATCH"):
                    assert (await served.call("/bind", b"{}", method))[0] == 405
                assert await placed(served, server, "p2") == "n1"
                assert await served.ready()

    run(main(), LONGEST_SECONDS)


RAW = {
    "no HTTP": b"\x16\x03\x01\x00\xff" + b"\x00" * 100,
    "no request line": b"hello\r\n\r\n",
    "a length that is no number": b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk of no size": b"POST /bind HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a header of 1 MB": b"POST /bind HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "a body that is too large": b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n{}",
    "a body that never comes": b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{}",
}


async def raw(url: str, sent: bytes) -> None:
    """Bytes on a connection of their own, which is then closed."""
    port = int(url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        await writer.drain()
        await asyncio.wait_for(reader.read(1000), 0.3)
    except (TimeoutError, ConnectionError):
        pass  # (it may wait for more, or hang up)
    finally:
        writer.close()


def test_no_bytes_harm_it_and_the_next_pod_is_placed(tmp_path: Path) -> None:
    async def main() -> None:
        async with MemoryServer() as server:
            furnish(server)
            new_pod(server, "p1")
            async with serving(server.write_kubeconfig(tmp_path / "config")) as served:
                await served.until(served.ready)
                for url in (served.extender, served.page):
                    for sent in RAW.values():
                        await raw(url, sent)
                assert await placed(served, server, "p1") == "n1"
                assert await served.ready()

    run(main(), LONGEST_SECONDS)
