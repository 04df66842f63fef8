"""Time and chance as they are handed in, so that a test can run hours in milliseconds; and the wait between attempts."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """`now` is the time of day, `monotonic` counts seconds, `chance` is a number from 0 to below 1."""

    now: Callable[[], datetime] = _now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()


@dataclass(slots=True, kw_only=True)
class Backoff:
    """How long to wait after each failure: twice as long as before, and half of it left to chance.

    From `least_seconds` up to `most_seconds`; all is forgotten after `healthy_seconds` without a failure.
    """

    clock: Clock = SYSTEM_CLOCK
    least_seconds: float = 0.1
    most_seconds: float = 30.0
    healthy_seconds: float = 60.0
    _failures: int = field(default=0, init=False)
    _up_since: float | None = field(default=None, init=False)

    def up(self) -> None:
        """It works."""
        if self._up_since is None:
            self._up_since = self.clock.monotonic()

    def down(self, asked_seconds: float | None = None) -> float:
        """It failed: the seconds to wait. What the server asked for comes on top, within the most."""
        if self._up_since is not None and self.clock.monotonic() - self._up_since >= self.healthy_seconds:
            self._failures = 0
        self._up_since = None
        span = min(self.most_seconds, 2 * self.least_seconds * 2.0 ** min(self._failures, 30))
        self._failures += 1
        wait = span * (1 + self.clock.chance()) / 2
        return min(self.most_seconds, wait + max(0.0, asked_seconds or 0.0))
