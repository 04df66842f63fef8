"""A canned API server for the whole service: lists in pages, watches that last, and Bindings that are carried out.

`python bench/canned.py NODES RUNNING PLAIN` prints its port and serves until it is ended. What a benchmark asks of it
stands under /bench: a new pod, an end to the watch of pods, and what it has counted.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, deque
from typing import Any

import api
import fleet
import msgspec
from aiohttp import web

STAY = 20
"""Bound pods that stay until the oldest leaves."""
REMEMBERED = 10_000
"""Events that a watch may still ask for."""
EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
    "message": "old",
}
_encode, _decode = msgspec.json.encode, msgspec.json.decode


class Watched:
    """One kind: its list, and the watches that are open."""

    def __init__(self, kind: str, objects: list[dict[str, Any]]) -> None:
        self._list = api.Canned(kind, objects, 0)
        self._watches: list[asyncio.Queue[bytes]] = []
        self._told: deque[tuple[int, bytes]] = deque(maxlen=REMEMBERED)
        self._later: dict[str, dict[str, Any]] = {}
        self._version = len(objects)
        self.forgets = 0
        self.listing_since = 0.0
        self.listings: list[tuple[float, float]] = []
        """When a client began to list, and when it watched again: it has then taken everything in."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A page, or the watch."""
        if "watch" in request.query:
            return await self._watch(request)
        if "continue" not in request.query:
            self.listing_since = time.perf_counter()
            self._list.version = self._version
            self._list.extra = list(map(_encode, self._later.values()))
        return await self._list.answer(request)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.listings.append((self.listing_since, time.perf_counter()))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for version, line in self._told:
            if version > since:
                queue.put_nowait(line)
        self._watches.append(queue)
        if self.forgets:
            self.forgets -= 1
            self.forget()
        try:
            while line := await queue.get():
                await response.write(line)
        finally:
            self._watches.remove(queue)
        await response.write_eof()
        return response

    def tell(self, what: str, one: dict[str, Any]) -> None:
        """An event, to all that watch and will watch."""
        self._version += 1
        one["metadata"]["resourceVersion"] = str(self._version)
        if what == "DELETED":
            del self._later[one["metadata"]["uid"]]
        else:
            self._later[one["metadata"]["uid"]] = one
        line = _encode({"type": what, "object": one}) + b"\n"
        self._told.append((self._version, line))
        self._send(line)

    def forget(self) -> None:
        """End the watches: the client must list again."""
        self._send(_encode({"type": "ERROR", "object": EXPIRED}) + b"\n")
        self._send(b"")

    def _send(self, line: bytes) -> None:
        for queue in self._watches:
            queue.put_nowait(line)


class Server:
    """The kinds, and what was written."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.kinds = {
            kind: Watched(kind, [one for one in objects if one["kind"] == kind])
            for kind in ("Node", "Pod", "ResourceQuota")
        }
        self.pods = self.kinds["Pod"]
        self.writes: Counter[str] = Counter()
        self.bind_seconds: dict[str, float] = {}
        self._asking: dict[str, dict[str, Any]] = {}
        self._bound: deque[dict[str, Any]] = deque()

    def app(self) -> web.Application:
        app = web.Application()
        for plural, kind in (("nodes", "Node"), ("pods", "Pod"), ("resourcequotas", "ResourceQuota")):
            app.router.add_get(f"/api/v1/{plural}", self.kinds[kind].answer)
        app.router.add_get("/version", self._version)
        app.router.add_post("/api/v1/namespaces/{namespace}/pods/{name}/binding", self._bind)
        app.router.add_route("*", "/bench/{what}", self._bench)
        app.router.add_route("*", "/{path:.*}", self._write)
        return app

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "36"})

    async def _bind(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        binding = _decode(await request.read())
        self.writes["binding"] += 1
        name = request.match_info["name"]
        asyncio.get_running_loop().call_soon(self._carried_out, name, binding)
        answer = web.Response(
            body=b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}',
            status=201,
            content_type="application/json",
        )
        self.bind_seconds[name] = time.perf_counter() - started
        return answer

    def _carried_out(self, name: str, binding: dict[str, Any]) -> None:
        pod = self._asking.pop(name)
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["metadata"]["annotations"] |= binding["metadata"]["annotations"]
        self.pods.tell("MODIFIED", pod)
        self._bound.append(pod)
        if len(self._bound) > STAY:
            self.pods.tell("DELETED", self._bound.popleft())

    async def _write(self, request: web.Request) -> web.Response:
        if request.method != "GET":
            self.writes[f"{request.method} {request.path}"] += 1
        return web.json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}}, status=200)

    async def _bench(self, request: web.Request) -> web.Response:
        what, body = request.match_info["what"], await request.read()
        answer: object = {"writes": self.writes, "bind_seconds": self.bind_seconds, "listings": self.pods.listings}
        if what == "pod":
            answer = pod = _decode(body)
            self._asking[pod["metadata"]["name"]] = pod
            self.pods.tell("ADDED", pod)
        elif what == "forget":
            self.pods.forgets = int(body) - 1
            self.pods.forget()
        return web.Response(body=_encode(answer), content_type="application/json")


def main(nodes: int, running: int, plain: int) -> None:
    """Make the objects, then serve."""
    objects = list(fleet.whole_cluster(nodes, running, plain))
    api.serve(Server(objects).app())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
