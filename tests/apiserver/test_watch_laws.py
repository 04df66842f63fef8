"""Whoever follows a watch, from whatever version, has at any moment what a list shows: with selectors, restarts and all.

Everything goes over HTTP. A follower reads until it has seen the version of the last write (by bookmark or event), then
its objects must be those of a list.
"""

from __future__ import annotations

import json
import socket
from typing import Any, Self
from urllib.parse import quote, urlsplit

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cardwise.sim.apiserver import running_server

from .client import PODS, Client, Json, binding, pod

NAMES = st.sampled_from(["a", "b", "c"])
APPS = st.sampled_from(["x", "y"])
SELECTORS = [
    {},
    {"labelSelector": "app=x"},
    {"labelSelector": "app notin (x)"},
    {"fieldSelector": "spec.nodeName="},
    {"fieldSelector": "spec.nodeName=one", "labelSelector": "app"},
]


class Follower:
    """Objects by name as the events of one watch told them."""

    def __init__(self, client: Client, selector: dict[str, str]) -> None:
        self._client = client
        self.selector = selector
        self.objects: dict[str, Json] = {}
        self._version = 0
        self._socket: socket.socket | None = None
        self._lines = b""
        self.list()

    def list(self) -> Self:
        """Begin anew from a list."""
        page = self._client.get(PODS, **self.selector).body
        self.objects = {each["metadata"]["name"]: each["metadata"] for each in page["items"]}
        return self.restart(int(page["metadata"]["resourceVersion"]))

    def restart(self, version: int | None = None) -> Self:
        """Watch again, from what was seen last."""
        self.close()
        self._version = self._version if version is None else version
        host, port = urlsplit(self._client.url).netloc.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        query = self.selector | {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": str(self._version)}
        text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        self._socket.sendall(f"GET {PODS}?{text} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self._lines = b""
        return self

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def catch_up(self, version: int) -> None:
        """Read until this version was told; begins anew where the watch says that it cannot go on (410)."""
        while self._version < version:
            if not self._read():
                self.list()

    def _read(self) -> bool:
        """Take in one event. The body's chunks hold whole lines only where the lines are short, so lines are sought."""
        while b"\n" not in (line := self._next_line()):
            assert self._socket is not None
            received = self._socket.recv(65536)
            assert received, "a watch without a time does not end by itself"
            self._lines += received
        told = json.loads(line)
        return told["type"] != "ERROR" and self._apply(told["type"], told["object"]["metadata"])

    def _next_line(self) -> bytes:
        """The next line that is an event, without the chunk sizes between; b"" where more must be received."""
        while b"\n" in self._lines:
            line, self._lines = self._lines.split(b"\n", 1)
            if line.startswith(b"{"):
                return line + b"\n"
        return b""

    def _apply(self, kind: str, metadata: Json) -> bool:
        if kind in ("ADDED", "MODIFIED"):
            assert (metadata["name"] in self.objects) == (kind == "MODIFIED"), (kind, metadata)
            self.objects[metadata["name"]] = metadata
        elif kind == "DELETED":
            del self.objects[metadata["name"]]
        self._version = int(metadata["resourceVersion"])
        return True


class Watches(RuleBasedStateMachine):
    """Random writes, with followers by every selector that restart at will, late or after a compaction."""

    @initialize()
    def start(self) -> None:
        self._running: Any = running_server(bookmark_seconds=0.01)
        self.server = self._running.__enter__()
        self.client = Client(self.server.url)
        self.followers = [Follower(self.client, selector) for selector in SELECTORS]

    def teardown(self) -> None:
        for each in getattr(self, "followers", []):
            each.close()
        if hasattr(self, "_running"):
            self._running.__exit__(None, None, None)

    @rule(name=NAMES, app=APPS | st.none())
    def create(self, name: str, app: str | None) -> None:
        answer = self.client.post(PODS, pod(name, **({"labels": {"app": app}} if app else {})))
        assert answer.status in (201, 409)

    @rule(name=NAMES, app=APPS | st.none())
    def label(self, name: str, app: str | None) -> None:
        assert self.client.patch(f"{PODS}/{name}", {"metadata": {"labels": {"app": app}}}).status in (200, 404)

    @rule(name=NAMES)
    def bind(self, name: str) -> None:
        assert self.client.post(f"{PODS}/{name}/binding", binding(name)).status in (201, 404, 409)

    @rule(name=NAMES, grace=st.sampled_from([None, 0]))
    def delete(self, name: str, grace: int | None) -> None:
        query = {} if grace is None else {"gracePeriodSeconds": grace}
        assert self.client.delete(f"{PODS}/{name}", **query).status in (200, 404)

    @rule(index=st.integers(0, len(SELECTORS) - 1))
    def restart(self, index: int) -> None:
        """The version is whatever it saw last, which may be long ago."""
        self.followers[index].restart()

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @precondition(lambda self: hasattr(self, "followers"))
    @rule(index=st.integers(0, len(SELECTORS) - 1))
    def agrees(self, index: int) -> None:
        self._check(self.followers[index])

    def _check(self, follower: Follower) -> None:
        follower.catch_up(self.server.revision)
        page = self.client.get(PODS, **follower.selector).body
        assert follower.objects == {each["metadata"]["name"]: each["metadata"] for each in page["items"]}

    @invariant()
    def versions_only_rise(self) -> None:
        if hasattr(self, "server"):
            assert self.server.revision >= getattr(self, "_seen", 0)
            self._seen = self.server.revision


class AtTheEnd(Watches):
    """All followers agree once nothing happens any more."""

    def teardown(self) -> None:
        try:
            for each in getattr(self, "followers", []):
                self._check(each)
        finally:
            super().teardown()


TestWatches = AtTheEnd.TestCase
TestWatches.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
