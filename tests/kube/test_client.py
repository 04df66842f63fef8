"""The client against real sockets: TLS, time-outs before and after a write, broken connections, pages, verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web

from cardwise.kube import requests, types
from cardwise.kube.client import Client
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import EVENTS, LEASES, NODES, PODS, Scope
from cardwise.wire.objects import Pod
from kube.servers import Json, answer, plain, pod, pod_list, run, serving, status

Call = Callable[[Client], Awaitable[Any]]


class Recorder:
    """A server that answers the same to everything and notes what came."""

    def __init__(self, body: Json | None = None, code: int = 200) -> None:
        self.came: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._body, self._code = body or {}, code

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.read()
        self.came.append((f"{request.method} {request.path_qs}", msgspec.json.decode(text) if text else None))
        self.headers.append(dict(request.headers))
        return answer(self._body, self._code)


def after(recorder: Recorder, call: Call) -> Any:
    """What a call gives against the recorder."""

    async def main() -> Any:
        async with serving(recorder.handle) as url, Client(plain(url)) as client:
            return await call(client)

    return run(main())


async def bind(client: Client, seconds: float = 10) -> None:
    await client.bind("ml", "a", uid="u", node="n1", annotations={"k": "v"}, timeout_seconds=seconds)


async def read(client: Client) -> Pod:
    return await client.get_quorum(PODS, "a", "ml")


def test_a_read_as_of_now_and_one_out_of_memory_differ_in_the_version_they_ask_for() -> None:
    recorder = Recorder(pod("a", 3))

    async def both(client: Client) -> list[Pod]:
        return [await client.get(PODS, "a", "ml"), await client.get_quorum(PODS, "a", "ml")]

    assert [one.full_name for one in after(recorder, both)] == ["ml/a", "ml/a"]
    path = "GET /api/v1/namespaces/ml/pods/a"
    assert [line for line, _ in recorder.came] == [f"{path}?resourceVersion=0", path]


def test_a_bind_is_one_write_and_gives_nothing() -> None:
    recorder = Recorder({"kind": "Status", "status": "Success", "code": 201}, 201)
    assert after(recorder, bind) is None
    ((line, body),) = recorder.came
    assert line == "POST /api/v1/namespaces/ml/pods/a/binding"
    assert body["metadata"] == {"name": "a", "namespace": "ml", "uid": "u", "annotations": {"k": "v"}}
    assert recorder.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("change", "content_type"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json"),
        ([{"op": "test", "path": "/a", "value": 1}], "application/json-patch+json"),
    ],
    ids=["a mapping", "steps"],
)
def test_a_patch_is_written_as_what_it_is(change: Any, content_type: str) -> None:
    recorder = Recorder(pod("a", 4))
    one: Pod = after(recorder, lambda client: client.patch(PODS, change, "a", "ml", subresource="status"))
    assert one.metadata.resource_version == "4"
    assert recorder.came == [("PATCH /api/v1/namespaces/ml/pods/a/status", change)]
    assert recorder.headers[0]["Content-Type"] == content_type


def test_a_delete_names_the_object_it_means() -> None:
    recorder = Recorder(pod("a"))
    assert after(recorder, lambda client: client.delete(PODS, "a", "ml", uid="u", grace_seconds=0)) is None
    ((line, body),) = recorder.came
    assert line == "DELETE /api/v1/namespaces/ml/pods/a"
    assert (body["preconditions"], body["gracePeriodSeconds"]) == ({"uid": "u"}, 0)


def test_leases_are_created_and_updated_with_their_version() -> None:
    at = types.micro_time(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    spec = types.LeaseSpec(holder_identity="me", lease_duration_seconds=15, renew_time=at)
    kept = {"kind": "Lease", "metadata": {"resourceVersion": "9"}, "spec": {"holderIdentity": "me", "renewTime": at}}
    recorder = Recorder(kept)

    async def calls(client: Client) -> types.Lease:
        await client.create(LEASES, types.lease("ml", "leader", spec), "ml")
        return await client.update(LEASES, types.lease("ml", "leader", spec, version="9"), "leader", "ml")

    one: types.Lease = after(recorder, calls)
    assert one.metadata is not None
    assert one.metadata.resource_version == "9"
    (created, first), (updated, second) = recorder.came
    path = "/apis/coordination.k8s.io/v1/namespaces/ml/leases"
    assert (created, updated) == (f"POST {path}", f"PUT {path}/leader")
    assert first["spec"]["renewTime"] == "2026-01-02T03:04:05.000006Z"
    assert ("resourceVersion" in first["metadata"], second["metadata"]["resourceVersion"]) == (False, "9")


def test_an_event_is_created_beside_its_object() -> None:
    about = types.Reference(api_version="v1", kind="Pod", namespace="ml", name="a", uid="u")
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    one = types.event(about, reason="NoCard", message="x" * 2000, component="cardwise", at=at, warning=True)
    recorder = Recorder({"kind": "Event", "reason": "NoCard"})
    assert after(recorder, lambda client: client.create(EVENTS, one, "ml")).reason == "NoCard"
    ((line, body),) = recorder.came
    assert line == "POST /api/v1/namespaces/ml/events"
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "a", "uid": "u"}
    assert (body["metadata"], body["type"]) == ({"generateName": "a.", "namespace": "ml"}, "Warning")
    assert (body["firstTimestamp"], body["count"], len(body["message"])) == ("2026-01-02T03:04:05Z", 1, 1024)


@pytest.mark.parametrize(("compressed", "encoding"), [(True, "gzip"), (False, "identity")], ids=["gzip", "plain"])
def test_the_client_says_who_it_is_and_what_it_takes(compressed: bool, encoding: str) -> None:
    recorder = Recorder(pod("a"))

    async def main() -> None:
        async with serving(recorder.handle) as url:
            connection = replace(plain(f"{url}/behind/a/path"), compressed=compressed)
            async with Client(connection, user_agent="cardwise-scheduler") as client:
                await read(client)

    run(main())
    (headers,) = recorder.headers
    assert (headers["User-Agent"], headers["Accept-Encoding"]) == ("cardwise-scheduler", encoding)
    assert headers["Accept"] == "application/json"
    assert recorder.came[0][0] == "GET /behind/a/path/api/v1/namespaces/ml/pods/a"


def test_a_compressed_answer_is_read() -> None:
    async def handle(_request: web.Request) -> web.Response:
        response = answer(pod("a", text="x" * 2_000_000))
        response.enable_compression()
        return response

    async def main() -> int:
        async with serving(handle) as url, Client(replace(plain(url), compressed=True)) as client:
            return len((await read(client)).annotations["text"])

    assert run(main()) == 2_000_000


class Pages:
    """A server that lists in pages; it forgets a token after it was used so many times."""

    def __init__(self, gone_at: str = "") -> None:
        self.came: list[dict[str, str]] = []
        self._gone_at = gone_at

    async def handle(self, request: web.Request) -> web.Response:
        self.came.append(dict(request.query))
        token = request.query.get("continue", "")
        if token and token == self._gone_at:
            return answer(status(410, "Expired", "The provided continue parameter is too old"), 410)
        if "limit" not in request.query:
            return answer(pod_list("a", "b", "c"))
        return answer({"": pod_list("a", next_page="1"), "1": pod_list("b", next_page="2"), "2": pod_list("c")}[token])


async def names(client: Client, limit: int = 1) -> list[str]:
    scope = Scope(labels="a=b")
    return [one.metadata.name async for page in client.list_pages(PODS, scope, limit=limit) for one in page.objects]


@pytest.mark.parametrize(("limit", "requests_"), [(1, 3), (0, 1)], ids=["in pages", "at once"])
def test_a_list_is_read_to_its_end(limit: int, requests_: int) -> None:
    pages = Pages()

    async def main() -> list[str]:
        async with serving(pages.handle) as url, Client(plain(url)) as client:
            return await names(client, limit)

    assert run(main()) == ["a", "b", "c"]
    assert len(pages.came) == requests_
    assert all(query["labelSelector"] == "a=b" and "resourceVersion" not in query for query in pages.came)


def test_a_list_whose_moment_was_forgotten_says_gone() -> None:
    async def main() -> KubeError:
        async with serving(Pages(gone_at="2").handle) as url, Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await names(client)
            return caught.value

    assert run(main()).fault is Fault.GONE


def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})

    async def main() -> KubeError:
        async with serving(elsewhere) as url, Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await bind(client)
            return caught.value

    error = run(main())
    assert (error.fault, error.in_doubt) == (Fault.BAD_ANSWER, True)
    assert str(error).endswith("answered 307 with (empty)")


def test_a_refusal_is_raised_with_its_fault_and_wait() -> None:
    async def busy(_request: web.Request) -> web.Response:
        return answer(status(429, "TooManyRequests", "too many"), 429, **{"Retry-After": "7"})

    async def main() -> KubeError:
        async with serving(busy) as url, Client(plain(url)) as client:
            with pytest.raises(KubeError) as caught:
                await bind(client)
            return caught.value

    error = run(main())
    assert (error.fault, error.retry_after_seconds, error.in_doubt) == (Fault.TOO_MANY, 7.0, False)


def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="the client is not open"):
        run(Client(plain("http://127.0.0.1:1")).send(requests.get(NODES, "n1")))


def test_many_calls_share_their_connections() -> None:
    peers: set[object] = set()

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return answer(pod("a"))

    async def main() -> None:
        async with serving(handle) as url, Client(plain(url)) as client:
            for _ in range(20):
                await read(client)

    run(main())
    assert len(peers) == 1
