"""Where the objects lie: one counter of versions over all kinds, and what changed since, until it is compacted away.

Objects are never changed in place, so an older state of a kind is its present one with the changes taken back.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

from cardwise.sim.apiserver.objects import Json, with_metadata

SNAPSHOTS_KEPT = 8


class CompactedError(Exception):
    """A version is asked for that lies before what is remembered. `oldest` is the first one that can be had."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `current` is the object after it, or the last that was seen of one that is deleted."""

    revision: int
    key: str
    previous: Json | None
    current: Json
    deleted: bool = False


class Store:
    """Objects by kind and key. Safe to use from any thread; `locked()` makes one step of several calls.

    At least `history_limit` changes of each kind are remembered.
    """

    def __init__(self, *, history_limit: int = 100_000) -> None:
        self.revision = 0
        self._lock = threading.RLock()
        self._history_limit = history_limit
        self._objects: dict[str, dict[str, Json]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._lost: dict[str, int] = {}  # the version of the last change that is no longer recorded
        self._forgotten = 0
        self._snapshots: OrderedDict[tuple[str, int], list[tuple[str, Json]]] = OrderedDict()
        self._listeners: list[Callable[[], None]] = []

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._lock:
            yield

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after each write, in the writer's thread; what comes back ends it."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, kind: str, key: str) -> Json | None:
        return self._objects.get(kind, {}).get(key)

    def put(self, kind: str, key: str, value: Json) -> Json:
        """Store the object under the next version; answers it with that version in its metadata."""
        with self._lock:
            objects = self._objects.setdefault(kind, {})
            stored = with_metadata(value, resourceVersion=str(self.revision + 1))
            self._record(kind, Change(self.revision + 1, key, objects.get(key), stored))
            objects[key] = stored
        self._tell()
        return stored

    def remove(self, kind: str, key: str) -> Json:
        """Delete the object; answers its last state, with the version of its deletion. Raises KeyError."""
        with self._lock:
            previous = self._objects.get(kind, {}).pop(key)
            last = with_metadata(previous, resourceVersion=str(self.revision + 1))
            self._record(kind, Change(self.revision + 1, key, previous, last, deleted=True))
        self._tell()
        return last

    def keys_in(self, namespace: str) -> list[tuple[str, str]]:
        """Kind and key of all that lies in this namespace."""
        with self._lock:
            kinds = self._objects.items()
            return [(kind, key) for kind, objects in kinds for key in objects if key.startswith(f"{namespace}/")]

    def changes(self, kind: str, after: int) -> list[Change]:
        """What happened to the kind after this version, for who follows it: `compact` does not cut followers off.

        Raises CompactedError where it fell behind by more than is recorded.
        """
        with self._lock:
            if after < self._lost.get(kind, 0):
                raise CompactedError(after, self._lost[kind])
            recorded = self._changes.get(kind, [])
            return recorded[bisect_right(recorded, after, key=attrgetter("revision")) :]

    def snapshot(self, kind: str, revision: int) -> list[tuple[str, Json]]:
        """Keys and objects of the kind as they were at this version, by key. Not to be changed by the caller.

        Raises CompactedError.
        """
        with self._lock:
            if revision < self.oldest(kind):
                raise CompactedError(revision, self.oldest(kind))
            recorded = self._changes.get(kind, [])
            count = bisect_right(recorded, revision, key=attrgetter("revision"))
            effective = recorded[count - 1].revision if count else self._lost.get(kind, 0)
            return self._remembered(kind, effective, recorded[count:])

    def compact(self) -> None:
        """Let nobody begin from before now."""
        with self._lock:
            self._forgotten = self.revision

    def oldest(self, kind: str) -> int:
        """The first version from which the kind can be followed."""
        return max(self._forgotten, self._lost.get(kind, 0))

    def _record(self, kind: str, change: Change) -> None:
        self.revision = change.revision
        recorded = self._changes.setdefault(kind, [])
        recorded.append(change)
        if len(recorded) > 2 * self._history_limit:
            self._lost[kind] = recorded[-self._history_limit - 1].revision
            del recorded[: -self._history_limit]

    def _remembered(self, kind: str, effective: int, undone: list[Change]) -> list[tuple[str, Json]]:
        """Pages of one list ask for the same snapshot again and again."""
        found = self._snapshots.get((kind, effective))
        if found is None:
            found = sorted(_taken_back(self._objects.get(kind, {}), undone).items())
            self._snapshots[kind, effective] = found
        self._snapshots.move_to_end((kind, effective))
        while len(self._snapshots) > SNAPSHOTS_KEPT:
            self._snapshots.popitem(last=False)
        return found

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _taken_back(objects: dict[str, Json], undone: list[Change]) -> dict[str, Json]:
    if not undone:
        return objects
    state = dict(objects)
    for change in reversed(undone):
        if change.previous is None:
            state.pop(change.key, None)
        else:
            state[change.key] = change.previous
    return state
