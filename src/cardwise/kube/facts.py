"""What a watch tells, as frozen facts, and how the lines of its stream are read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from cardwise.kube.answers import decoder_of, refusal, shown_kind
from cardwise.kube.errors import Fault, KubeError, cut
from cardwise.kube.requests import Resource
from cardwise.kube.types import Glimpse, Status, WatchEvent
from cardwise.kube.unreadable import UNREADABLE, text_at, unreadable
from cardwise.kube.unreadable import Unreadable as Unreadable  # noqa: PLC0414  (a fact like the others)

T = TypeVar("T")

MOST_LINE_BYTES = 64 * 1024 * 1024
"""An object in etcd is at most some MB. More than this without a line's end is no watch."""

_TOLD = ("ADDED", "MODIFIED", "DELETED")
_event = msgspec.json.Decoder(WatchEvent)
_glimpse = msgspec.json.Decoder(Glimpse)
_status = msgspec.json.Decoder(Status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """All there is, as of a version: what was known before and is not in it is gone.

    Except what is `unreadable`: it is there and could not be decoded. Where one of those cannot even be told by its name,
    nothing is known to be gone. `skipped` counts them.
    """

    objects: tuple[T, ...]
    version: str
    skipped: int = 0
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Generic[T]):
    """An object is new, or other than before."""

    object: T
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Generic[T]):
    """An object is gone, or no longer in the scope; as it was at its end."""

    object: T
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The watch is open: everything after this version comes now."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookmark:
    """Everything up to this version was told."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubled:
    """Something failed, and is tried again after the wait. The view is getting old meanwhile."""

    error: KubeError
    wait_seconds: float


Fact = Listed[T] | Changed[T] | Removed[T] | Unreadable | Synced | Bookmark | Troubled
Said = Changed[T] | Removed[T] | Unreadable | Bookmark
"""What a line of a watch can say to us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line that says nothing to us; `version` is empty where it has none."""

    reason: str
    version: str = ""


class Lines:
    """Cuts a stream into lines, however it arrives, in time that is linear in its length.

    A line may have any length up to `most_bytes`: aiohttp's own `readline` fails above 512 KiB.
    """

    def __init__(self, where: str, most_bytes: int = MOST_LINE_BYTES) -> None:
        self._where = where
        self._most_bytes = most_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, blank ones left out. Raises KubeError for one that is too long."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces, self._size = [], 0
        self._keep(others[-1])
        return [line for line in lines if line.strip()]

    @property
    def rest(self) -> int:
        """Bytes of a line that is not complete."""
        return self._size

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
        if self._size > self._most_bytes:
            what = f"sent a line of more than {self._most_bytes // 1024} KiB"
            raise KubeError(f"{self._where}: the watch {what}", fault=Fault.BAD_ANSWER, code=200)


def read_line(where: str, line: bytes, resource: Resource[T]) -> Said[T] | Skipped:
    """What a line of a watch says. Raises KubeError for a line that is not one, and for the error that it carries."""
    try:
        event = _event.decode(line)
    except UNREADABLE as error:
        what = cut(line[:1024].decode("utf-8", "replace"), 80)
        raise KubeError(
            f"{where}: the watch sent {what}, must be an event", fault=Fault.BAD_ANSWER, code=200
        ) from error
    if event.type == "ERROR":
        raise _error(where, event.object)
    return _read_event(event, resource)


def _read_event(event: WatchEvent, resource: Resource[T]) -> Said[T] | Skipped:
    try:
        glimpse = _glimpse.decode(event.object)
    except UNREADABLE as error:
        return _without_a_glimpse(event, resource, error)
    meta = glimpse.metadata
    version = meta.resource_version if meta is not None else ""
    if not version:
        return Skipped(reason=f"{cut(event.type, 40)} without metadata.resourceVersion")
    if glimpse.kind != resource.kind:
        what = f"{cut(event.type, 40)} of {shown_kind(glimpse.kind)}, must be a {resource.kind}"
        return Skipped(reason=what, version=version)
    if event.type == "BOOKMARK":
        return Bookmark(version=version)
    if event.type not in _TOLD:
        return Skipped(reason=f"event {cut(event.type, 40)}, must be ADDED, MODIFIED or DELETED", version=version)
    try:
        one: T = decoder_of(resource.decoded_as).decode(event.object)
    except UNREADABLE as error:
        return _unreadable(event, error)
    return Removed(object=one, version=version) if event.type == "DELETED" else Changed(object=one, version=version)


def _without_a_glimpse(event: WatchEvent, resource: Resource[T], error: Exception) -> Unreadable | Skipped:
    """An object of which not even kind, name and version can be read together. Of another kind it is not ours."""
    kind = text_at(event.object, "kind")
    if event.type in _TOLD and kind in ("", resource.kind):
        return _unreadable(event, error)
    reason = f"{cut(event.type, 40)} of an object that cannot be read: {error}"
    return Skipped(reason=reason, version=text_at(event.object, "metadata", "resourceVersion"))


def _unreadable(event: WatchEvent, error: Exception) -> Unreadable:
    return unreadable(event.object, cut(str(error)), gone=event.type == "DELETED")


def _error(where: str, raw: msgspec.Raw) -> KubeError:
    try:
        status = _status.decode(raw)
    except UNREADABLE:
        status = Status()
    return refusal(where, status, status.code)
