"""What the parts of the service share: the books, the API server, and signals between tasks. One event loop owns it all."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from cardwise.kube.client import Client
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.scheduler.answers import NOT_LEADING, VIEW_INCOMPLETE
from cardwise.scheduler.books import Books, Settings
from cardwise.scheduler.config import Config
from cardwise.scheduler.leadership import Fence
from cardwise.scheduler.metrics import Metrics
from cardwise.scheduler.precedence import Precedence

_log = logging.getLogger("cardwise.scheduler")

WATCHED = ("nodes", "pods", "resourcequotas")


class Pulse:
    """Lets tasks wait until something has happened."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        """It has happened: whoever waits now goes on."""
        self._event.set()
        self._event = asyncio.Event()

    async def next(self, most_seconds: float) -> None:
        """Returns when it happens next, or after so long."""
        try:
            async with asyncio.timeout(most_seconds):
                await self._event.wait()
        except TimeoutError:
            return


@dataclass(slots=True, kw_only=True)
class World:
    """`listed` are the watches that have told all there is, `troubled` those that fail at present, and why."""

    config: Config
    books: Books
    client: Client
    fence: Fence
    metrics: Metrics
    clock: Clock = SYSTEM_CLOCK
    listed: set[str] = field(default_factory=set)
    troubled: dict[str, str] = field(default_factory=dict)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    untold: asyncio.Event = field(default_factory=asyncio.Event)
    turned: Pulse = field(default_factory=Pulse)
    changed: Pulse = field(default_factory=Pulse)
    precedence: Precedence = field(default_factory=Precedence)
    term: int = 0
    bindings_carry_labels: bool = True
    listening: bool = False
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self.clock.now()

    @property
    def missing(self) -> list[str]:
        """What is still to be listed."""
        wanted = (*WATCHED, "leases") if self.config.leader_election.enabled else WATCHED
        return [name for name in wanted if name not in self.listed]

    @property
    def fenced(self) -> str:
        """Why nothing may be written for a bind now, in one sentence; or nothing."""
        why = self.fence.may_bind(self.now, self.config.bind_timeout_seconds)
        return f"this replica does not bind: {why}" if why else ""

    def settle(self) -> None:
        """After facts: pass on what they have set in motion."""
        books = self.books
        was = books.complete
        why_not = VIEW_INCOMPLETE if self.missing or self.fence.holds(self.now) else NOT_LEADING
        books.set_complete(not self.missing and self.fence.ready(), why_not)
        if books.complete != was:
            _log.info("the view of the cluster is complete" if books.complete else "decisions are held back")
        if books.complete != was or self.term != self.fence.term:
            self.term = self.fence.term
            self.changed.beat()
            self.turned.beat()  # (a bind that waits for its turn may have to give up)
        if books.holdings.freed:
            self.freed.set()
        if books.untold:
            self.untold.set()
        if books.turned:
            books.turned.clear()
            self.turned.beat()
        for said in (books.oddities, books.nodes.warnings):
            for sentence in said:
                _log.warning("%s", sentence)
            said.clear()


def settings_of(config: Config) -> Settings:
    """What the books need of the configuration."""
    return Settings(
        rules=config.rules(), node_choice=config.node_choice, reservation_seconds=config.reservation_seconds
    )
