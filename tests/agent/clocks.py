"""A clock that a test moves: who sleeps on it wakes when the time has come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cardwise.kube.clock import Clock


@dataclass
class HandClock:
    """Seconds that pass only by `pass_seconds`."""

    seconds: float = 100.0
    _sleepers: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, sleep=self._sleep)

    async def pass_seconds(self, seconds: float) -> None:
        self.seconds += seconds
        for until, sleeper in self._sleepers:
            if until <= self.seconds and not sleeper.done():
                sleeper.set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)

    async def _sleep(self, seconds: float) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, sleeper))
        await sleeper
