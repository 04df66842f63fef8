"""NVIDIA's cards, asked through NVML.

The package nvidia-ml-py can be imported anywhere; the driver's libnvidia-ml.so.1 is only needed when it is used. NVML's
calls hold up whoever makes them, and a handle is dead after NVML was closed: so one thread makes them all.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from cardwise.agent.nvml_session import Session
from cardwise.agent.probe import Found, HealthEvent, ProbeError
from cardwise.agent.xids import IGNORED_XIDS

T = TypeVar("T")

POLL_MILLISECONDS = 500
"""How long one wait for events may keep other calls waiting. An event ends it at once."""
FIND_SECONDS = 30.0
"""A driver that hangs, hangs everybody who asks it: the thread is left to it, and asked again when it is back."""


def load_library() -> Any:
    """The module `pynvml`. Raises ProbeError where it is not installed; libnvidia-ml.so.1 is not touched."""
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise ProbeError("NVML cannot be used: the Python package nvidia-ml-py is not installed") from error


class NvmlProbe:
    """A `Probe` of the cards of this machine. `ignored` None: their health is not looked at, beyond whether they answer."""

    def __init__(
        self,
        library: Any,
        *,
        sysfs: Path = Path("/sys"),
        ignored: frozenset[int] | None = IGNORED_XIDS,
        poll_milliseconds: int = POLL_MILLISECONDS,
        find_seconds: float = FIND_SECONDS,
    ) -> None:
        self._session = Session(library, sysfs=sysfs, ignored=ignored)
        self._watches = ignored is not None
        self._poll_milliseconds = poll_milliseconds
        self._find_seconds = find_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        self._running: dict[str, asyncio.Future[Any]] = {}

    async def find(self) -> Found:
        """The cards as they are now. Raises ProbeError, also where NVML does not answer in time."""
        try:
            async with asyncio.timeout(self._find_seconds):
                return await self._call("find", self._session.find)
        except TimeoutError as error:
            raise ProbeError(f"NVML does not answer within {self._find_seconds:g} s") from error

    async def changes(self) -> tuple[HealthEvent, ...]:
        """Waits for changes of the cards' health; for ever, where health is not looked at. Raises ProbeError."""
        if not self._watches:
            await asyncio.get_running_loop().create_future()
        while True:
            if events := await self._call("poll", self._poll):
                return events

    async def close(self) -> None:
        """Lets NVML go, once the call that is running is through; a call that hangs is not waited for."""
        closing = asyncio.wrap_future(self._thread.submit(self._session.close))
        self._thread.shutdown(wait=False)
        await asyncio.wait([closing], timeout=2 * self._poll_milliseconds / 1000)

    def _poll(self) -> tuple[HealthEvent, ...]:
        return self._session.poll(self._poll_milliseconds)

    async def _call(self, name: str, call: Callable[[], T]) -> T:
        """The outcome of a call in the thread: of the one that is under way, where an earlier caller stopped waiting."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.get_running_loop().run_in_executor(self._thread, call)
        try:
            outcome: T = await asyncio.shield(running)
        finally:
            if running.done():
                self._running.pop(name, None)
        return outcome
