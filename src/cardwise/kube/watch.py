"""A watch that does not end: list, watch, and again from where it broke off, told as facts.

How a client keeps up: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from cardwise.kube import requests
from cardwise.kube.client import PAGE_OBJECTS, Client
from cardwise.kube.clock import SYSTEM_CLOCK, Backoff, Clock
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.facts import (
    Fact,
    Lines,
    Listed,
    Said,
    Skipped,
    Synced,
    Troubled,
    Unreadable,
    read_line,
)
from cardwise.kube.requests import EVERYWHERE, Request, Resource, Scope

T = TypeVar("T")

LEAST_WATCH_SECONDS, MOST_WATCH_SECONDS = 290, 580
"""The server ends a watch after a time in between, so that watches spread over its replicas, not all at once."""
SILENCE_SECONDS = 150.0
"""After this long without a word the connection may be dead, and another one is opened: only that one tells.

Newer servers send a bookmark every minute (the first after two), older ones none while nothing changes.
"""
MOST_SILENT = 4
"""Silent watches in a row, until everything is listed again: a server that is stuck looks like a quiet one."""
SHORT_SECONDS = 1.0
"""A watch that ends sooner is a failure: without a wait, a server that closes at once would be asked without end."""
MOST_STUCK = 3
"""Answers in a row that the same version was not good enough for, until everything is listed again."""
MOST_EXPIRED = 2
"""Lists in a row that were too slow for the server's memory of old versions, until one without pages is tried."""

MOST_WARNINGS = 20
"""Skipped objects that a log is told about, of each reflector: after that only the count goes on."""

_STUCK = frozenset((Fault.BAD_ANSWER, Fault.BAD_REQUEST, Fault.INVALID, Fault.REJECTED, Fault.NOT_FOUND))

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """How it went so far. `relists` and `reconnects` do not count the first; `skipped` are objects, `bad_lines` lines."""

    relists: int = 0
    reconnects: int = 0
    silences: int = 0
    troubles: int = 0
    bad_lines: int = 0
    skipped: int = 0


class Reflector(Generic[T]):
    """Follows the objects of one kind in a scope.

    `version` is the one up to which everything was told, empty before the first list and when all must be listed again.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        scope: Scope = EVERYWHERE,
        *,
        page_objects: int = PAGE_OBJECTS,
        give_way: Callable[[], Awaitable[None]] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.counts = Counts()
        self.version = ""
        self._client = client
        self._resource = resource
        self._scope = scope
        self._page_objects = page_objects
        self._give_way = give_way
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._backoff = Backoff(clock=clock)
        self._lists = self._watches = self._stuck = self._expired = self._silent = 0

    async def facts(self) -> AsyncGenerator[Fact[T], None]:
        """First `Listed` and `Synced`, then what happens, without an end; failures are facts among the others.

        Close it (`contextlib.aclosing`) where it is left early: it holds a connection.
        """
        while True:
            try:
                if not self.version:
                    yield await self._list()
                request = self._request()
                opened = self._clock.monotonic()
                lines = Lines(request.where)
                async with self._client.stream(
                    request, silence_seconds=self._silence_seconds, most_seconds=MOST_WATCH_SECONDS
                ) as chunks:
                    yield self._opened()
                    async for chunk in chunks:
                        for fact in self._read(request, lines.feed(chunk)):
                            yield fact
                self._ended(request, lines, self._clock.monotonic() - opened)
            except KubeError as error:
                if error.fault is Fault.SILENT:
                    self._was_silent()
                    continue
                trouble = self._troubled(error)
                yield trouble
                await self._clock.sleep(trouble.wait_seconds)

    async def _list(self) -> Listed[T]:
        objects: list[T] = []
        lost: list[Unreadable] = []
        version = ""
        limit = self._page_objects if self._expired < MOST_EXPIRED else 0
        pages = self._client.list_pages(self._resource, self._scope, limit=limit, give_way=self._give_way)
        async for page in pages:
            objects += page.objects
            version = page.version
            lost += page.unreadable
            for one in page.unreadable:
                self._skip(self._lost(one))
        self.version = version
        self.counts.relists += self._lists > 0
        self._lists += 1
        self._stuck = self._expired = self._silent = 0
        return Listed(objects=tuple(objects), version=version, skipped=len(lost), unreadable=tuple(lost))

    def _request(self) -> Request:
        span = MOST_WATCH_SECONDS - LEAST_WATCH_SECONDS
        seconds = LEAST_WATCH_SECONDS + int(span * self._clock.chance())
        return requests.watch(self._resource, self._scope, version=self.version, timeout_seconds=seconds)

    def _opened(self) -> Synced:
        self.counts.reconnects += self._watches > 0
        self._watches += 1
        self._backoff.up()
        return Synced(version=self.version)

    def _read(self, request: Request, lines: list[bytes]) -> Iterator[Said[T]]:
        for line in lines:
            try:
                said = read_line(request.where, line, self._resource)
            except KubeError as error:
                # A broken line may be a lost event, so it is not stepped over: the server tells it again.
                self.counts.bad_lines += error.fault is Fault.BAD_ANSWER
                raise
            self.version = said.version or self.version
            self._silent = 0
            if isinstance(said, Skipped):
                self._skip(f"{request.where}: {said.reason}")
                continue
            if isinstance(said, Unreadable):
                self._skip(f"{request.where}: {self._lost(said)}")
            else:
                self._stuck = 0
            yield said

    def _was_silent(self) -> None:
        self.counts.silences += 1
        self._silent += 1
        if self._silent >= MOST_SILENT:
            self.version = ""

    def _ended(self, request: Request, lines: Lines, lasted_seconds: float) -> None:
        """A watch ended without an error. Raises KubeError where that is not how a watch ends."""
        if lines.rest:
            self.counts.bad_lines += 1
            what = f"ended within a line, after {lines.rest} bytes of it"
        elif lasted_seconds < SHORT_SECONDS:
            what = f"ended after {lasted_seconds:.1f} s"
        else:
            return
        raise KubeError(f"{request.where}: the watch {what}", fault=Fault.UNREACHABLE)

    def _troubled(self, error: KubeError) -> Troubled:
        self.counts.troubles += 1
        self._stuck += error.fault in _STUCK
        self._expired += error.fault is Fault.GONE and not self.version
        if error.fault is Fault.GONE or self._stuck >= MOST_STUCK:
            self.version = ""
        return Troubled(error=error, wait_seconds=self._backoff.down(error.retry_after_seconds))

    def _lost(self, one: Unreadable) -> str:
        return f"{self._resource.kind} {one.namespace}/{one.name} cannot be read: {one.reason}"

    def _skip(self, reason: str) -> None:
        self.counts.skipped += 1
        level = logging.WARNING if self.counts.skipped <= MOST_WARNINGS else logging.DEBUG
        _log.log(level, "skipped: %s", reason)
