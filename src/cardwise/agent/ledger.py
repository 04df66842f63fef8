"""The agent's memory of what it gave, on disk: one file for each container, so that a restart at any moment loses nothing.

A grant is written before it is answered. A file is written new, brought to disk, and put in the place of the old one: it is
never half a file. A file that cannot be read is set aside, and its pod remembered as one of which the memory is incomplete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from cardwise.agent.grants import Grant, Grants

VERSION = 1
_SUFFIX, _NEW, _ASIDE = ".json", ".new", ".unreadable"


class LedgerError(Exception):
    """The disk does not do what it must: one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    version: int
    grant: Grant


class Ledger:
    """The grants in a directory. Its files are nobody else's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._grants: dict[str, dict[str, Grant]] = {}
        self._damaged: set[str] = set()

    @property
    def grants(self) -> Grants:
        """All grants, by uid and container."""
        return self._grants

    @property
    def damaged(self) -> frozenset[str]:
        """The uids of pods of which a grant could not be read."""
        return frozenset(self._damaged)

    def load(self) -> tuple[str, ...]:
        """Reads what is there; gives sentences about what was set aside. Raises LedgerError for an unusable directory."""
        self._grants, self._damaged = {}, set()
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            paths = sorted(self.directory.iterdir())
        except OSError as error:
            raise self._failed("cannot be read", error) from error
        warnings: list[str] = []
        for path in paths:
            if path.name.endswith(_NEW):
                with suppress(OSError):
                    path.unlink()
            elif path.name.endswith(_ASIDE):
                self._damaged.add(_uid_of(path))
            elif path.name.endswith(_SUFFIX):
                warnings += self._load(path)
        return tuple(warnings)

    def keep(self, grant: Grant) -> None:
        """Brings a grant to disk, in place of one for the same container. Raises LedgerError: then do not answer it."""
        path = self._path(grant)
        new = path.with_name(path.name + _NEW)
        try:
            _write(new, msgspec.json.encode(_Page(version=VERSION, grant=grant)))
            new.replace(path)
            _sync(self.directory)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise self._failed(f"cannot keep pod {grant.full_name}, container {grant.container}", error) from error
        self._grants.setdefault(grant.uid, {})[grant.container] = grant

    def forget(self, uid: str) -> None:
        """Removes all grants of a pod that is gone. Raises LedgerError; then it may be tried again."""
        try:
            for path in self._paths(uid):
                path.unlink(missing_ok=True)
            _sync(self.directory)
        except OSError as error:
            raise self._failed(f"cannot forget pod {uid}", error) from error
        self._grants.pop(uid, None)
        self._damaged.discard(uid)

    def _load(self, path: Path) -> Iterator[str]:
        try:
            page = msgspec.json.decode(path.read_bytes(), type=_Page)
            why = "" if page.version == VERSION else f"version is {page.version}, must be {VERSION}"
            why = why or ("" if self._path(page.grant) == path else "it is of another container than its name says")
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            why = str(error)
        if why:
            self._damaged.add(_uid_of(path))
            yield f"{path}: not a grant ({why}): {_set_aside(path)}"
        else:
            self._grants.setdefault(page.grant.uid, {})[page.grant.container] = page.grant

    def _path(self, grant: Grant) -> Path:
        return self.directory / f"{_quoted(grant.uid)}_{_quoted(grant.container)}{_SUFFIX}"

    def _paths(self, uid: str) -> list[Path]:
        return [path for path in self.directory.iterdir() if path.name.partition("_")[0] == _quoted(uid)]

    def _failed(self, what: str, error: OSError) -> LedgerError:
        return LedgerError(f"ledger {self.directory} {what}: {error.strerror or error}")


def _quoted(text: str) -> str:
    """A part of a file's name, whatever it is made of: uids and names are letters, digits and dashes, but not ours."""
    return quote(text, safe="").replace("_", "%5F")


def _uid_of(path: Path) -> str:
    return unquote(path.name.partition("_")[0])


def _set_aside(path: Path) -> str:
    try:
        path.rename(path.with_name(path.name + _ASIDE))
    except OSError as error:
        return f"it cannot be set aside ({error.strerror or error}), and is left alone"
    return f"set aside as {path.name}{_ASIDE}"


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Brings the names in a directory to disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
