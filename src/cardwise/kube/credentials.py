"""The credentials of a connection while it is used: files are read again when they change, plugins run again in time."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.connection import Connection, ExecPlugin, KeyPair, Token, TokenFile
from cardwise.kube.errors import KubeconfigError
from cardwise.kube.exec_plugin import Printed, credential_of
from cardwise.kube.tls import context_of, read_file

CHECK_SECONDS = 2.0

_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grant:
    """What goes with a request: a token, and the TLS context (with the client certificate); until a time, or for ever."""

    token: str = field(default="", repr=False)
    key_pair: KeyPair | None = None
    context: ssl.SSLContext | None = None
    expires_at: datetime | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The header that carries the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class Credentials:
    """Gives the current grant. One at a time is made, however many ask."""

    def __init__(self, connection: Connection, clock: Clock = SYSTEM_CLOCK) -> None:
        self._connection = connection
        self._clock = clock
        self._grant: Grant | None = None
        self._making: asyncio.Task[Grant] | None = None
        self._files = connection.files()
        self._stamps: tuple[Stamp, ...] = ()
        self._context: tuple[object, ssl.SSLContext] | None = None
        self._next_look = 0.0

    async def grant(self) -> Grant:
        """What to send with now. Raises KubeconfigError where there is nothing."""
        grant = self._grant
        if grant is None or (grant.expires_at is not None and grant.expires_at <= self._clock.now()):
            return await self._made()
        if self._files and self._clock.monotonic() >= self._next_look:
            grant = self._grant = self._looked_at_again(grant)
        return grant

    async def instead_of(self, refused: Grant) -> Grant | None:
        """Another one after the server refused this one; None if there is no other. Raises KubeconfigError."""
        if self._grant is not None and self._grant is not refused:
            return self._grant
        if not self._files and not isinstance(self._connection.credential, ExecPlugin):
            return None
        grant = await self._made()
        changed = grant.token != refused.token or grant.context is not refused.context
        return grant if changed else None

    async def close(self) -> None:
        """Ends a plugin that still runs."""
        if self._making is not None:
            self._making.cancel()
            with suppress(asyncio.CancelledError, KubeconfigError):
                await self._making

    async def _made(self) -> Grant:
        if self._making is None:
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(self._is_made)
        # One caller's time-out must not take the plugin's answer from the others.
        return await asyncio.shield(self._making)

    def _is_made(self, task: asyncio.Task[Grant]) -> None:
        self._making = None
        if not task.cancelled() and task.exception() is None:
            self._grant = task.result()

    async def _make(self) -> Grant:
        credential = self._connection.credential
        printed = Printed(token=credential.text if isinstance(credential, Token) else "")
        if isinstance(credential, ExecPlugin):
            printed = await credential_of(credential, self._clock.now())
        pair = printed.key_pair or self._connection.key_pair
        return self._read(Grant(token=printed.token, key_pair=pair, expires_at=printed.expires_at))

    def _looked_at_again(self, grant: Grant) -> Grant:
        """The grant with the files as they are now. While they cannot be used, as they were: a rotation takes a moment."""
        self._next_look = self._clock.monotonic() + CHECK_SECONDS
        if _stamps(self._files) == self._stamps:
            return grant
        try:
            return self._read(grant)
        except KubeconfigError as error:
            _log.warning("%s; what was read before is used", error)
            return grant

    def _read(self, grant: Grant) -> Grant:
        credential = self._connection.credential
        self._stamps = _stamps(self._files)  # before reading: a change meanwhile is seen at the next look
        self._next_look = self._clock.monotonic() + CHECK_SECONDS
        if isinstance(credential, TokenFile):
            grant = replace(grant, token=token_in(credential))
        return replace(grant, context=self._context_for(grant.key_pair))

    def _context_for(self, pair: KeyPair | None) -> ssl.SSLContext | None:
        """The one made before if nothing in it changed: open connections belong to their context."""
        if not self._connection.url.startswith("https:"):
            return None
        made_of = (pair, _stamps(self._connection.tls_files()))
        if self._context is None or self._context[0] != made_of:
            self._context = (made_of, context_of(self._connection.tls, pair))
        return self._context[1]


def check(connection: Connection) -> None:
    """Whether all that the connection names can be used. Raises KubeconfigError. Plugins are not run."""
    if isinstance(connection.credential, TokenFile):
        token_in(connection.credential)
    if connection.url.startswith("https:"):
        context_of(connection.tls, connection.key_pair)


def token_in(file: TokenFile) -> str:
    """The token that stands in a file. Raises KubeconfigError."""
    text = read_file(file.where, file.path).decode("utf-8", "replace")
    return clean_token(f"{file.where} ({file.path})", text)


def clean_token(where: str, text: str) -> str:
    """A token as a header can hold it. Raises KubeconfigError, without showing it."""
    token = text.strip()
    if not token:
        raise KubeconfigError(f"{where} is (empty), must be a token")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise KubeconfigError(f"{where} holds blanks or unprintable characters, must be one token")
    return token


def refused_hint(connection: Connection, grant: Grant, now: datetime) -> str:
    """Where the credentials come from that a server refused, and since when they are expired if they say so."""
    if connection.credential is not None:
        ends = _end_of(grant.token)
        since = f", which expired at {ends.isoformat(timespec='seconds')}" if ends is not None and ends <= now else ""
        key = ": exec" if isinstance(connection.credential, ExecPlugin) else ""
        return f"the credential is from {connection.credential.where}{key}{since}"
    if connection.key_pair is not None:
        return f"the credential is from {connection.key_pair.where}: client-certificate"
    return f"{connection.where} has no credential"


def _end_of(token: str) -> datetime | None:
    """When a token that is a JWT ends (RFC 7519, `exp`)."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="), type=dict[str, msgspec.Raw])
        return datetime.fromtimestamp(msgspec.json.decode(claims["exp"], type=float), UTC)
    except (ValueError, KeyError, OverflowError, OSError, msgspec.DecodeError):
        return None


def _stamps(files: tuple[Path, ...]) -> tuple[Stamp, ...]:
    return tuple(map(_stamp, files))


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
