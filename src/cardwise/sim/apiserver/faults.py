"""Failures on request. A test programs them in Python, the next requests or watches that match meet them.

Requests: `answer`, `time_out`, `drop` and `delay`, each for the next `times` requests of a verb, resource and name ("" is
any; a resource is named as in `pods` or `pods/binding`). Watches: `delay_watches` holds events back, by kind, so that
kinds arrive out of order with each other; the others break the stream of one watch, one that is open or the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cardwise.sim.apiserver.calls import Call

LONG_SECONDS = 60.0
UNKNOWN_KIND = b'{"type":"ADDED","object":{"kind":"Surprise","apiVersion":"v1","metadata":{"name":"x"}}}\n'
UNKNOWN_TYPE = b'{"type":"STRANGE","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}}\n'
GARBAGE = b"<html>502 Bad Gateway</html>\n"


class How(Enum):
    """What happens to a request."""

    ANSWER = "answer"
    TIME_OUT = "time out"
    DROP = "drop"
    DELAY = "delay"


class Ending(Enum):
    """How a watch ends after a fault: not at all, as after its time, or with the connection."""

    NONE = "none"
    END = "end"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One failure of requests. `body` None is a Status object with `message` and `reason`."""

    how: How
    verb: str = ""
    resource: str = ""
    name: str = ""
    after_write: bool = False
    seconds: float = 0.0
    status: int = 500
    message: str = ""
    reason: str = ""
    body: bytes | None = None
    content_type: str = "application/json"
    retry_after_seconds: int | None = None

    def concerns(self, call: Call) -> bool:
        wanted = ((self.verb, call.verb), (self.resource, call.target), (self.name, call.name))
        return all(one in ("", other) for one, other in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFault:
    """One failure of a watch, when it has sent `after_events` more events.

    `halves`: half of the line that comes next is sent; else `line` is sent as it stands.
    """

    resource: str = ""
    after_events: int = 0
    line: bytes = b""
    halves: bool = False
    ending: Ending = Ending.NONE


class Faults:
    """What is still to go wrong. Safe to program from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Fault] = []
        self._lines: list[LineFault] = []
        self._delays: dict[str, float] = {}
        self._changed: Callable[[], None] = lambda: None

    def answer(
        self,
        status: int,
        *,
        message: str = "",
        reason: str = "",
        body: bytes | None = None,
        content_type: str = "application/json",
        retry_after_seconds: int | None = None,
        verb: str = "",
        resource: str = "",
        name: str = "",
        times: int = 1,
    ) -> None:
        """Answer with this status and do nothing: a Status object, or `body` as it stands."""
        fault = Fault(
            how=How.ANSWER,
            verb=verb,
            resource=resource,
            name=name,
            status=status,
            message=message,
            reason=reason,
            body=body,
            content_type=content_type,
            retry_after_seconds=retry_after_seconds,
        )
        self._plan(fault, times)

    def time_out(
        self,
        *,
        after_write: bool = False,
        seconds: float = LONG_SECONDS,
        verb: str = "",
        resource: str = "",
        name: str = "",
        times: int = 1,
    ) -> None:
        """Say nothing for so long, then 504; `after_write`: do first what was asked."""
        fault = Fault(
            how=How.TIME_OUT, verb=verb, resource=resource, name=name, after_write=after_write, seconds=seconds
        )
        self._plan(fault, times)

    def drop(
        self, *, after_write: bool = False, verb: str = "", resource: str = "", name: str = "", times: int = 1
    ) -> None:
        """Close the connection without an answer; `after_write`: do first what was asked."""
        self._plan(Fault(how=How.DROP, verb=verb, resource=resource, name=name, after_write=after_write), times)

    def delay(self, seconds: float, *, verb: str = "", resource: str = "", name: str = "", times: int = 1) -> None:
        """Wait so long, then do what was asked and answer as ever."""
        self._plan(Fault(how=How.DELAY, verb=verb, resource=resource, name=name, seconds=seconds), times)

    def delay_watches(self, seconds: float, *, resource: str = "") -> None:
        """Hold every event of this resource ("" is each that has no delay of its own) back for so long; 0 ends that.

        Events that wait already go by the new delay.
        """
        with self._lock:
            self._delays[resource] = seconds
        self._changed()

    def cut_watches(self, *, after_events: int = 0, abort: bool = False, resource: str = "", times: int = 1) -> None:
        """End a watch after so many more events: as after its time, or with its connection in the middle of a chunk."""
        ending = Ending.ABORT if abort else Ending.END
        self._plan_line(LineFault(resource=resource, after_events=after_events, ending=ending), times)

    def halve_line(self, *, after_events: int = 0, abort: bool = True, resource: str = "", times: int = 1) -> None:
        """Cut the line of the next event in the middle and end the watch there."""
        ending = Ending.ABORT if abort else Ending.END
        fault = LineFault(resource=resource, after_events=after_events, halves=True, ending=ending)
        self._plan_line(fault, times)

    def send_line(
        self, line: bytes = GARBAGE, *, after_events: int = 0, ends: bool = False, resource: str = "", times: int = 1
    ) -> None:
        """Put this between two events, and go on or end there. See GARBAGE, UNKNOWN_KIND, UNKNOWN_TYPE."""
        ending = Ending.END if ends else Ending.NONE
        self._plan_line(LineFault(resource=resource, after_events=after_events, line=line, ending=ending), times)

    def clear(self) -> None:
        """Forget all that is planned; delays end."""
        with self._lock:
            self._requests.clear()
            self._lines.clear()
            self._delays.clear()
        self._changed()

    @property
    def pending(self) -> tuple[Fault | LineFault, ...]:
        """What was planned and has met nobody yet."""
        return (*self._requests, *self._lines)

    def take(self, call: Call) -> Fault | None:
        """The fault that this request meets, which is used up by that."""
        with self._lock:
            found = next((each for each in self._requests if each.concerns(call)), None)
            if found is not None:
                self._requests.remove(found)
            return found

    def take_line(self, call: Call) -> LineFault | None:
        """The fault that this watch meets, which is used up by that."""
        with self._lock:
            found = next((each for each in self._lines if each.resource in ("", call.target)), None)
            if found is not None:
                self._lines.remove(found)
            return found

    def watch_delay_seconds(self, call: Call) -> float:
        return self._delays.get(call.target, self._delays.get("", 0.0))

    def on_change(self, changed: Callable[[], None]) -> None:
        """Let open watches know of what is planned."""
        self._changed = changed

    def _plan(self, fault: Fault, times: int) -> None:
        if fault.name and fault.verb == "create" and "/" not in fault.resource:
            raise ValueError(f"a create names no object in its path: a fault for {fault.name} would never be met")
        with self._lock:
            self._requests.extend([fault] * times)

    def _plan_line(self, fault: LineFault, times: int) -> None:
        with self._lock:
            self._lines.extend([fault] * times)
        self._changed()
