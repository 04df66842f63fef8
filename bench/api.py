"""A loopback API server of canned answers: lists in pages and one long watch, as fast as a reader takes them.

`python bench/api.py NODES PODS EVENTS` prints its port and serves until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import fleet
import msgspec
from aiohttp import web

PAGE = 500


class Canned:
    """Encoded objects, cut into pages, and as many watch events."""

    def __init__(self, kind: str, objects: Sequence[dict[str, Any]], events: int) -> None:
        encode = msgspec.json.encode
        for number, each in enumerate(objects):
            each["metadata"]["resourceVersion"] = str(number + 1)
        encoded = [encode(each) for each in objects]
        self.pages = [b",".join(encoded[start : start + PAGE]) for start in range(0, len(encoded), PAGE)]
        self.kind = kind
        self.extra: list[bytes] = []
        """Objects that came later: they stand on the first page of a list that is begun now."""
        self.version = len(objects)
        self.events = [
            encode({"type": "MODIFIED", "object": objects[number % len(objects)]}) + b"\n" for number in range(events)
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A page, or the watch."""
        if "watch" in request.query:
            return await self._watch(request)
        page = int(request.query.get("continue", "0"))
        more = f'"continue":"{page + 1}",' if page + 1 < len(self.pages) else ""
        meta = f'{{{more}"resourceVersion":"{self.version}"}}'
        head = f'{{"kind":"{self.kind}List","apiVersion":"v1","metadata":{meta},"items":['
        items = b",".join([*(() if page else self.extra), *self.pages[page : page + 1]])
        return web.Response(body=b"".join((head.encode(), items, b"]}")), content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for start in range(0, len(self.events), 100):
            await response.write(b"".join(self.events[start : start + 100]))
        await response.write_eof()
        return response


def main(nodes: int, pods: int, events: int) -> None:
    """Make the objects, then serve."""
    objects = list(fleet.snapshot(nodes, min(pods, nodes * 4), max(0, pods - nodes * 4)))
    app = web.Application()
    for path, kind in (("/api/v1/nodes", "Node"), ("/api/v1/pods", "Pod")):
        of_kind = [each for each in objects if each["kind"] == kind]
        app.router.add_get(path, Canned(kind, of_kind, events if kind == "Pod" else 0).answer)
    serve(app)


def serve(app: web.Application) -> None:
    """Serves until the process is ended, on a port that it prints."""
    web.run_app(app, host="127.0.0.1", port=0, print=_say, access_log=None)


def _say(text: str) -> None:
    for line in text.splitlines():
        if "http://" in line:
            port = line.rpartition(":")[2].split()[0].strip("/")
            print(port, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
