"""The certificate that the webhook's server shows: exchanged while it serves, with no request dropped."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cardwise.kube.errors import KubeconfigError, cut
from cardwise.kube.tls import read_file

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED")

_log = logging.getLogger(__name__)


class CertificateError(Exception):
    """A certificate or key that cannot be served with: which one, its path, and what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPair:
    """A certificate (with what leads to its authority) and its key, PEM. The names are for errors."""

    certificate: bytes
    key: bytes = field(repr=False)
    certificate_name: str = field(default="the certificate", compare=False)
    key_name: str = field(default="the key", compare=False)


class ServerContext:
    """A server's TLS context whose certificate can be exchanged while it serves.

    A new pair goes into a context of its own, which handshakes are led to from then on: in one context a pair of another
    kind of key would stand beside the old one, and clients would still be shown the old certificate.
    """

    def __init__(self, pair: ServedPair) -> None:
        """Raises CertificateError where the pair cannot be used."""
        self.pair = pair
        self._current = _context_of(pair)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.sni_callback = self._lead  # called for every handshake, whether it names a server or not

    def show(self, pair: ServedPair) -> None:
        """Shows this pair from the next handshake on. Raises CertificateError if it cannot be used, and keeps the old."""
        self._current = _context_of(pair)
        self.pair = pair

    def _lead(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = self._current


class ServerCertificate:
    """The pair in two files, looked at again by `refresh`. `where` is the section of the settings that names them.

    `problem` says why what is in the files now is not served, and is empty where it is.
    """

    def __init__(self, certificate: Path, key: Path, *, where: str = "admission") -> None:
        """Raises CertificateError where the files cannot be used: setting, path and reason."""
        self._certificate, self._key, self._where = certificate, key, where
        self.problem = ""
        self._served = ServerContext(self._read())

    @property
    def context(self) -> ssl.SSLContext:
        """For the server: it stays the same."""
        return self._served.context

    def refresh(self) -> bool:
        """Whether the files hold another pair than before, which is shown from now on. While they cannot be used: no.

        Contents are compared: a mounted secret changes by symbolic links, and between its two files.
        """
        try:
            pair = self._read()
            changed = pair != self._served.pair
            if changed:
                self._served.show(pair)
        except CertificateError as error:
            self._complain(str(error))
            return False
        self.problem = ""
        return changed

    def _read(self) -> ServedPair:
        certificate, key = f"{self._where}.certificate", f"{self._where}.key"
        try:
            return ServedPair(
                certificate=read_file(certificate, self._certificate),
                key=read_file(key, self._key),
                certificate_name=f"{certificate} ({self._certificate})",
                key_name=f"{key} ({self._key})",
            )
        except KubeconfigError as error:
            raise CertificateError(str(error)) from error

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            _log.warning("%s; the certificate that was read before is served", problem)
        self.problem = problem


def _context_of(pair: ServedPair) -> ssl.SSLContext:
    if not _CERTIFICATE.search(pair.certificate):
        raise CertificateError(f"{pair.certificate_name} holds no certificate, must be PEM")
    if not _KEY.search(pair.key):
        raise CertificateError(f"{pair.key_name} holds no private key, must be PEM")
    if _ENCRYPTED.search(pair.key):
        raise CertificateError(f"{pair.key_name} holds an encrypted private key, must be one without a password")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        with _in_memory(pair.certificate) as certificate, _in_memory(pair.key) as key:
            context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise CertificateError(_unusable(pair, error)) from error
    return context


def _unusable(pair: ServedPair, error: OSError) -> str:
    reason = getattr(error, "reason", None) or error
    if reason == "KEY_VALUES_MISMATCH":
        return f"{pair.key_name} does not belong to {pair.certificate_name}, must be its private key"
    return f"{pair.certificate_name} and {pair.key_name} cannot be loaded: {cut(str(reason), 80)}"


@contextmanager
def _in_memory(pem: bytes) -> Iterator[str]:
    """A path under which OpenSSL reads these very bytes: it only takes paths, and files may change between two reads."""
    descriptor = os.memfd_create("cardwise-pem")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(pem)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
