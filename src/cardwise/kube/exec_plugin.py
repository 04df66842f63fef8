"""Programs that print a credential: `aws eks get-token`, `gke-gcloud-auth-plugin`, `kubelogin`.

Format: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/ (v1beta1 has the same fields).
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from cardwise.kube.connection import ExecPlugin, KeyPair
from cardwise.kube.errors import KubeconfigError, cut
from cardwise.kube.types import time_of
from cardwise.wire.objects import Object

TIMEOUT_SECONDS = 60.0
MOST_BYTES = 1024 * 1024
_END_SECONDS = 1.0


class ExecStatus(Object):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class ExecCredential(Object):
    kind: str = ""
    api_version: str = ""
    status: ExecStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a plugin gave: a token, a key pair or both, until a time (for ever, if None)."""

    token: str = field(default="", repr=False)
    key_pair: KeyPair | None = None
    expires_at: datetime | None = None


async def credential_of(plugin: ExecPlugin, now: datetime, timeout_seconds: float = TIMEOUT_SECONDS) -> Printed:
    """Runs the plugin. Raises KubeconfigError where it fails, does not end in time, or prints what cannot be used."""
    printed = read_printed(plugin, await _output(plugin, timeout_seconds))
    if printed.expires_at is not None and printed.expires_at <= now:
        at = printed.expires_at.astimezone(UTC).isoformat(timespec="seconds")
        raise KubeconfigError(f"{_named(plugin)} printed a credential that expired at {at}")
    return printed


def read_printed(plugin: ExecPlugin, output: bytes) -> Printed:
    """A plugin's output. Raises KubeconfigError for anything but a credential of the version that was asked for."""
    where = f"{_named(plugin)} printed"
    try:
        credential = msgspec.json.decode(output, type=ExecCredential)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{where} a credential that cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Not shown: who prints something else may print a secret.
        raise KubeconfigError(f"{where} {len(output)} bytes that are not JSON, must be an ExecCredential") from error
    if (credential.kind, credential.api_version) != ("ExecCredential", plugin.api_version):
        what = f"{cut(credential.api_version, 80)} {cut(credential.kind, 80)}"
        raise KubeconfigError(f"{where} {what}, must be {plugin.api_version} ExecCredential")
    return _printed(where, credential.status or ExecStatus())


def _printed(where: str, status: ExecStatus) -> Printed:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not status.token and not certificate and not key:
        raise KubeconfigError(f"{where} a status without token and clientCertificateData, must have one of them")
    if bool(certificate) != bool(key):
        raise KubeconfigError(f"{where} only one of clientCertificateData and clientKeyData, must be both or none")
    if not (status.token.isascii() and status.token.isprintable() and " " not in status.token):
        raise KubeconfigError(f"{where} a token with blanks or unprintable characters")
    pair = KeyPair(where=where, certificate=certificate.encode(), key=key.encode()) if certificate else None
    try:
        expires_at = time_of(status.expiration_timestamp) if status.expiration_timestamp else None
    except ValueError as error:
        at = cut(status.expiration_timestamp or "", 80)
        raise KubeconfigError(f"{where} expirationTimestamp {at}, must be a time of RFC 3339") from error
    return Printed(token=status.token, key_pair=pair, expires_at=expires_at)


async def _output(plugin: ExecPlugin, timeout_seconds: float) -> bytes:
    process = await _started(plugin)
    readers = [asyncio.create_task(_all(plugin, stream)) for stream in (process.stdout, process.stderr)]
    try:
        async with asyncio.timeout(timeout_seconds):
            output, complaint = await asyncio.gather(*readers)
            code = await process.wait()
    except TimeoutError as error:
        await _stop(process, readers)
        raise KubeconfigError(f"{_named(plugin)} did not end within {timeout_seconds:g} s") from error
    except BaseException:
        await _stop(process, readers)
        raise
    if code != 0:
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise KubeconfigError(f"{_named(plugin)} ended with code {code}, saying: {cut(last)}")
    return output


async def _started(plugin: ExecPlugin) -> asyncio.subprocess.Process:
    env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": plugin.info}
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=env,
            start_new_session=True,  # so that its children can be ended with it
        )
    except (OSError, ValueError) as error:
        hint = f" ({cut(plugin.install_hint)})" if plugin.install_hint else ""
        reason = getattr(error, "strerror", None) or error
        raise KubeconfigError(f"{_named(plugin)} cannot be run: {reason}{hint}") from error


async def _all(plugin: ExecPlugin, stream: asyncio.StreamReader | None) -> bytes:
    read = bytearray()
    while stream is not None and (piece := await stream.read(MOST_BYTES)):
        read += piece
        if len(read) > MOST_BYTES:
            raise KubeconfigError(f"{_named(plugin)} prints more than {MOST_BYTES // 1024} KiB")
    return bytes(read)


async def _stop(process: asyncio.subprocess.Process, readers: list[asyncio.Task[bytes]]) -> None:
    """Ends the program and its children, and takes what they left in the pipes, so that these are closed."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), _END_SECONDS)


def _named(plugin: ExecPlugin) -> str:
    return f"{plugin.where}: exec command {cut(plugin.command, 120)}"
