"""Decisions come first: long work that is done in pieces waits between two of them while calls are being answered.

Without it each step of a call (its head, its body, the answer of the API server) would wait for one piece of that work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_WAIT_SECONDS = 0.005
"""How long a piece waits for calls: a bind may take as long as the API server does, and the work has to be done too."""
QUIET_SECONDS = 0.001
"""How long no call must have been there: a bind follows a filter."""


class Precedence:
    """How many calls are being answered, and who waits for that to end. `monotonic` counts seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._calls = 0
        self._ended = -QUIET_SECONDS
        self._quiet = asyncio.Event()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call is being answered while the block runs."""
        self._calls += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._calls -= 1
            self._ended = self._monotonic()
            if not self._calls:
                self._quiet.set()

    async def give_way(self) -> None:
        """Returns when the next piece may be done."""
        await asyncio.sleep(0)
        if not self._busy():
            return
        try:
            async with asyncio.timeout(MOST_WAIT_SECONDS):
                while self._busy():
                    await self._quiet.wait()
                    await asyncio.sleep(QUIET_SECONDS)
        except TimeoutError:
            return

    def _busy(self) -> bool:
        return bool(self._calls) or self._monotonic() - self._ended < QUIET_SECONDS
