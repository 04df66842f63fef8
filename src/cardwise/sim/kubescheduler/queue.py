"""Which pod is tried next, and what brings a refused pod back. Pure: `now` is in seconds, and only ever grows.

A pod is in one of four places: ready to be tried, in back-off, put aside after a refusal, or in flight (from `pop` until
it is refused, failed or gone). Something that happens while a pod is in flight counts for it as well: where it could
help, the pod is not put aside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from cardwise.sim.kubescheduler.objects import Pod
from cardwise.sim.kubescheduler.settings import Settings


class Place(Enum):
    """Where a pod is."""

    READY = "ready"
    BACKING_OFF = "in back-off"
    ASIDE = "put aside"
    IN_FLIGHT = "in flight"


@dataclass(slots=True)
class Entry:
    """A pod in the queue. `refusals` and `errors` are counted apart; `due_seconds` is the end of its back-off."""

    pod: Pod
    number: int
    place: Place = Place.READY
    refusals: int = 0
    errors: int = 0
    by_extender: bool = False
    failed_seconds: float = 0.0
    due_seconds: float = 0.0
    happened: set[bool] = field(default_factory=set)


class Queue:
    """Pods that wait to be scheduled, by uid."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._entries: dict[str, Entry] = {}
        self._numbers = itertools.count()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def put(self, pod: Pod, now: float) -> None:
        """The pod as it is now. An update of its own wakes it where the extender refused it, or where it asks anew."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._entries[pod.uid] = Entry(pod, next(self._numbers))
            return
        asks_anew = (pod.rules, pod.requests) != (entry.pod.rules, entry.pod.requests)
        entry.pod = pod
        self._happens((entry,), now, frees=asks_anew)

    def remove(self, uid: str) -> None:
        """The pod needs no place any more."""
        self._entries.pop(uid, None)

    def wake(self, now: float, *, frees: bool) -> None:
        """Something changed: all pods that the extender refused are tried again, the others only where it `frees` room."""
        self._happens(self._entries.values(), now, frees=frees)

    def pop(self, now: float) -> Pod | None:
        """The pod to try now, which is in flight then; None where there is none."""
        self._come_due(now)
        ready = [one for one in self._entries.values() if one.place is Place.READY]
        if not ready and not self._settings.old_backoff:
            # What newer versions do with time on their hands; pods in back-off after an error stay there.
            ready = [one for one in self._entries.values() if one.place is Place.BACKING_OFF and not one.errors]
        entry = min(ready, key=lambda one: (-one.pod.priority, one.number), default=None)
        if entry is None:
            return None
        entry.place = Place.IN_FLIGHT
        entry.happened.clear()
        return entry.pod

    def refused(self, uid: str, now: float, *, by_extender: bool) -> None:
        """No node took the pod in flight."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.refusals, entry.errors = entry.refusals + 1, 0
        entry.by_extender, entry.failed_seconds = by_extender, now
        entry.place = Place.ASIDE
        if entry.happened if by_extender else True in entry.happened:
            self._back(entry, now)

    def failed(self, uid: str, now: float) -> None:
        """Trying the pod in flight, or binding it, went wrong: it is tried again after its back-off, come what may."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.errors, entry.failed_seconds = entry.errors + 1, now
        self._back(entry, now)

    def wait_seconds(self, now: float) -> float:
        """How long until a pod may come due by the clock alone."""
        times = [one.due_seconds for one in self._entries.values() if one.place is Place.BACKING_OFF]
        times += [self._flush_at(one) for one in self._entries.values() if one.place is Place.ASIDE]
        return max(0.0, min(times, default=math.inf) - now)

    def _happens(self, entries: Iterable[Entry], now: float, *, frees: bool) -> None:
        for entry in entries:
            if entry.place is Place.IN_FLIGHT:
                entry.happened.add(frees)
            elif entry.place is Place.ASIDE and (entry.by_extender or frees):
                self._back(entry, now)

    def _back(self, entry: Entry, now: float) -> None:
        entry.due_seconds = self._due(entry)
        entry.place = Place.BACKING_OFF if entry.due_seconds > now else Place.READY
        entry.number = next(self._numbers)

    def _due(self, entry: Entry) -> float:
        times = entry.errors or entry.refusals
        doubled = self._settings.initial_backoff_seconds * 2.0 ** min(times - 1, 30)
        due = entry.failed_seconds + min(doubled, self._settings.most_backoff_seconds)
        step = self._settings.alignment_seconds
        return math.ceil(due / step) * step if step else due

    def _flush_at(self, entry: Entry) -> float:
        return entry.failed_seconds + self._settings.flush_seconds

    def _come_due(self, now: float) -> None:
        for entry in self._entries.values():
            if entry.place is Place.ASIDE and self._flush_at(entry) <= now:
                self._back(entry, now)
            if entry.place is Place.BACKING_OFF and entry.due_seconds <= now:
                entry.place = Place.READY
