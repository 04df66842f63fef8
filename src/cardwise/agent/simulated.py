"""Make-believe cards behind the same protocol as real ones: for trials, for tests, and for people without a GPU.

Time runs from when the probe is made. Beside what its script breaks, cards can be broken and mended by hand.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import inf

from cardwise.agent.probe import Found, HealthEvent, ProbeError
from cardwise.agent.simulated_file import Failure, Script
from cardwise.kube.clock import SYSTEM_CLOCK, Clock

Faults = dict[int, Failure]


class SimulatedProbe:
    """A `Probe` of the cards of a script."""

    def __init__(self, script: Script, clock: Clock = SYSTEM_CLOCK) -> None:
        self._script = script
        self._clock = clock
        self._start = clock.monotonic()
        self._by_hand: Faults = {}
        self._told: Faults = {}
        self._touched = asyncio.Event()

    async def find(self) -> Found:
        """The cards, and which of them are broken now. Raises ProbeError while the script says that the library fails."""
        self._require_library()
        faults = self._faults()
        cards = tuple(
            replace(card, fault=faults[n].why) if n in faults else card for n, card in enumerate(self._script.cards)
        )
        return Found(cards=cards, links=self._script.links)

    async def changes(self) -> tuple[HealthEvent, ...]:
        """What broke and what recovered since the last call; waits until there is something."""
        while True:
            self._require_library()
            self._touched.clear()
            before, self._told = self._told, self._faults()
            if events := self._events(before, self._told):
                return events
            await self._wait()

    async def close(self) -> None:
        """Nothing is held."""

    def fail(self, card: int, why: str = "it failed", xid: int | None = None) -> None:
        """Break a card by its position, until it is mended."""
        failure = Failure(start_seconds=self._seconds(), cards=(card,), why=why, xid=xid)
        self._by_hand = {**self._by_hand, card: failure}
        self._touched.set()

    def mend(self, card: int) -> None:
        """Let a card work again that was broken by hand."""
        self._by_hand = {number: failure for number, failure in self._by_hand.items() if number != card}
        self._touched.set()

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._start

    def _require_library(self) -> None:
        now = self._seconds()
        for failure in self._script.failures:
            if not failure.cards and failure.covers(now):
                raise ProbeError(f"the simulated card library fails: {failure.why}")

    def _faults(self) -> Faults:
        """The failure that every broken card has now: the script's first, else the one by hand."""
        now = self._seconds()
        faults = dict(self._by_hand)
        for failure in reversed(self._script.failures):
            if failure.covers(now):
                faults |= dict.fromkeys(failure.cards, failure)
        return faults

    def _events(self, before: Faults, after: Faults) -> tuple[HealthEvent, ...]:
        broken = [
            HealthEvent(uuid=self._uuid(number), healthy=False, why=failure.why, xid=failure.xid)
            for number, failure in sorted(after.items())
            if before.get(number) != failure
        ]
        mended = [HealthEvent(uuid=self._uuid(number), healthy=True) for number in sorted(before.keys() - after.keys())]
        return (*broken, *mended)

    def _uuid(self, number: int) -> str:
        return self._script.cards[number].uuid

    async def _wait(self) -> None:
        """Until the script's next moment, or until somebody breaks or mends a card by hand."""
        now = self._seconds()
        moments = [moment for each in self._script.failures for moment in (each.start_seconds, each.end_seconds)]
        upcoming = min((moment for moment in moments if moment > now), default=inf)
        waits = [asyncio.ensure_future(self._until_touched())]
        if upcoming < inf:
            waits.append(asyncio.ensure_future(self._sleep(upcoming - now)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _until_touched(self) -> None:
        await self._touched.wait()

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
