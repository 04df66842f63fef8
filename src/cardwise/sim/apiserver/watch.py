"""One watch as a stream of lines over HTTP, with the delays and breaks that are asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from aiohttp import web

from cardwise.sim.apiserver.calls import Call, truth
from cardwise.sim.apiserver.errors import RefusedError, expired
from cardwise.sim.apiserver.events import Event, bookmark, event_of
from cardwise.sim.apiserver.faults import Ending, Faults, LineFault
from cardwise.sim.apiserver.reads import WatchStart
from cardwise.sim.apiserver.shapes import Shape
from cardwise.sim.apiserver.store import CompactedError, Store
from cardwise.sim.apiserver.waking import Bell

DEFAULT_TIMEOUT_SECONDS = 1800.0
BATCH_EVENTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a watch looks at while it runs."""

    store: Store
    faults: Faults
    bell: Bell
    closing: asyncio.Event
    bookmark_seconds: float
    clock: Callable[[], float]
    shape: Shape


class Watch:
    """Follows the store from where it starts. `run` returns when it has ended; a client that left is no error."""

    def __init__(self, call: Call, start: WatchStart, around: Surroundings) -> None:
        self._call = call
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._spoke = self._started
        self._waiting: deque[tuple[float, Event]] = deque()
        self._selection = start.selection
        self._position = start.revision
        self._fault: LineFault | None = None
        self._until_fault = 0
        self._sent = 0
        self._over = False
        self._begin(start)

    async def run(self, response: web.StreamResponse, request: web.BaseRequest) -> None:
        await _open(response, request)
        with self._around.bell.listener() as woken:
            while not self._over:
                woken.clear()
                await self._step(response, request)
                if not self._over:
                    await _wait(woken, self._nap_seconds())

    def _begin(self, start: WatchStart) -> None:
        events: list[Event] = [("ADDED", each) for each in start.initial]
        if start.marks_end:
            events.append(bookmark(self._call.resource, start.revision, ends_initial=True))
        self._waiting.extend((self._started, each) for each in events)

    async def _step(self, response: web.StreamResponse, request: web.BaseRequest) -> None:
        """Send what is due, then see whether the watch is to go on."""
        self._pull()
        while not self._over and (batch := self._due()):
            await response.write(batch)
            self._spoke = self._loop.time()
            await self._break(response, request)
        await self._break(response, request)
        if self._around.closing.is_set() or self._loop.time() >= self._deadline:
            self._over = True
        elif self._bookmark_due():
            self._spoke = self._loop.time()
            await response.write(self._encoded(bookmark(self._call.resource, self._position)))

    @property
    def _deadline(self) -> float:
        asked = self._call.query.get("timeoutSeconds", "")
        return self._started + (float(asked) if asked.isdigit() and int(asked) else DEFAULT_TIMEOUT_SECONDS)

    def _pull(self) -> None:
        """Take over what happened since, so that no compaction can take it away from a slow watch."""
        store, now = self._around.store, self._loop.time()
        with store.locked():
            try:
                changes = store.changes(self._call.resource.stored_as, self._position)
            except CompactedError as error:
                changes = []
                self._waiting.append((now, ("ERROR", expired(str(error)).body)))
            self._position = max(self._position, store.revision)
        events = (event_of(each, self._selection) for each in changes)
        self._waiting.extend((now, each) for each in events if each is not None)

    def _due(self) -> bytes:
        """The lines of the next events that are due, up to where a fault strikes; b"" where there are none."""
        self._claim()
        delay, now = self._around.faults.watch_delay_seconds(self._call), self._loop.time()
        lines: list[bytes] = []
        room = BATCH_EVENTS if self._fault is None else self._until_fault
        while len(lines) < room and self._waiting and self._waiting[0][0] + delay <= now:
            lines.append(self._encoded(self._waiting.popleft()[1]))
        self._until_fault -= len(lines)
        return b"".join(lines)

    def _claim(self) -> None:
        if self._fault is None:
            self._fault = self._around.faults.take_line(self._call)
            self._until_fault = self._fault.after_events if self._fault else 0

    async def _break(self, response: web.StreamResponse, request: web.BaseRequest) -> None:
        fault = self._fault
        if fault is None or self._until_fault > 0 or self._over or (fault.halves and not self._waiting):
            return
        line = fault.line
        if fault.halves:
            whole = self._encoded(self._waiting.popleft()[1])
            line = whole[: len(whole) // 2]
        if line:
            await response.write(line)
        self._fault = None
        self._over = fault.ending is not Ending.NONE
        if fault.ending is Ending.ABORT and request.transport is not None:
            request.transport.abort()

    def _bookmarks(self) -> bool:
        """Whether bookmarks are sent at all; of a version that is still to come a real server says nothing."""
        asked = truth(self._call.query, "allowWatchBookmarks")
        return asked and self._position <= self._around.store.revision

    def _bookmark_due(self) -> bool:
        asked = self._bookmarks() and not self._waiting
        return asked and self._loop.time() >= self._spoke + self._around.bookmark_seconds

    def _nap_seconds(self) -> float:
        now, delay = self._loop.time(), self._around.faults.watch_delay_seconds(self._call)
        moments = [self._deadline]
        if self._waiting:
            moments.append(self._waiting[0][0] + delay)
        elif self._bookmarks():
            moments.append(self._spoke + self._around.bookmark_seconds)
        return max(0.0, min(moments) - now)

    def _encoded(self, event: Event) -> bytes:
        self._sent += 1
        if event[0] == "ERROR":
            return _line({"type": "ERROR", "object": event[1]})
        now_seconds = self._around.clock()
        return _line(self._around.shape.event(event, self._call.resource, now_seconds, first=self._sent == 1))


async def refuse(error: RefusedError, response: web.StreamResponse, request: web.BaseRequest) -> None:
    """A watch that ends with the word that it cannot begin."""
    await _open(response, request)
    await response.write(_line({"type": "ERROR", "object": error.body}))


async def _open(response: web.StreamResponse, request: web.BaseRequest) -> None:
    response.content_type = "application/json"
    response.enable_chunked_encoding()
    await response.prepare(request)


def _line(event: object) -> bytes:
    return msgspec.json.encode(event) + b"\n"


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
