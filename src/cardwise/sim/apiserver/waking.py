"""Wakes the watches of one event loop when something happened, whichever thread it happened in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Bell:
    """`ring` may be called from any thread; the listeners' events are set in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._listeners: set[asyncio.Event] = set()
        self._rung = False

    @contextmanager
    def listener(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    @property
    def listening(self) -> int:
        return len(self._listeners)

    def ring(self) -> None:
        if threading.get_ident() == self._thread:
            self._set_all()
        elif not self._rung and not self._loop.is_closed():
            self._rung = True
            self._loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        self._rung = False  # first: who rings from now on is heard again
        for each in self._listeners:
            each.set()
