"""TLS contexts out of certificates and keys, with one sentence for each way in which they can be wrong."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cardwise.kube.connection import KeyPair, Pem, Tls
from cardwise.kube.errors import KubeconfigError, cut

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED")


def context_of(tls: Tls, pair: KeyPair | None) -> ssl.SSLContext:
    """A client's context. Raises KubeconfigError with the path and the key of what cannot be used."""
    context = _trusting(tls)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Kubernetes itself accepts an intermediate as the root, and authorities without the key identifiers that OpenSSL's
    # strict mode (Python 3.13's default) asks for; clusters with such certificates are common.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if pair is not None:
        _load_pair(context, pair)
    return context


def read_file(where: str, path: Path) -> bytes:
    """A file's bytes. Raises KubeconfigError with the key that named it, the path and the reason."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KubeconfigError(f"{where} is {cut(str(path))}, which cannot be read: {reason}") from error


def _trusting(tls: Tls) -> ssl.SSLContext:
    if tls.authority is None:
        return ssl.create_default_context()
    found = _CERTIFICATE.findall(_bytes_of(tls.where, tls.authority))
    if not found:
        raise KubeconfigError(f"{_named(tls.where, tls.authority)} holds no certificate, must be PEM")
    try:
        return ssl.create_default_context(cadata=b"\n".join(found).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{_named(tls.where, tls.authority)} holds a broken certificate: {_reason(error)}"
        ) from error


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    certificate, key = (f"{pair.where}: client-certificate", pair.certificate), (f"{pair.where}: client-key", pair.key)
    if not _CERTIFICATE.search(_bytes_of(*certificate)):
        raise KubeconfigError(f"{_named(*certificate)} holds no certificate, must be PEM")
    key_text = _bytes_of(*key)
    if not _KEY.search(key_text):
        raise KubeconfigError(f"{_named(*key)} holds no private key, must be PEM")
    if _ENCRYPTED.search(key_text):
        raise KubeconfigError(f"{_named(*key)} holds an encrypted private key, must be one without a password")
    try:
        with _on_disk(pair.certificate) as certificate_path, _on_disk(pair.key) as key_path:
            context.load_cert_chain(certificate_path, key_path, password="")
    except (ssl.SSLError, OSError) as error:
        raise KubeconfigError(f"{_named(*certificate)}: {_mismatch(error)}") from error


def _mismatch(error: OSError) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return "the certificate and client-key do not belong together"
    return f"the certificate and client-key cannot be loaded: {_reason(error)}"


def _reason(error: Exception) -> str:
    return cut(str(getattr(error, "reason", None) or error), 80)


def _bytes_of(where: str, pem: Pem) -> bytes:
    return read_file(where, pem) if isinstance(pem, Path) else pem


def _named(where: str, pem: Pem) -> str:
    return f"{where} ({pem})" if isinstance(pem, Path) else f"{where}-data"


@contextmanager
def _on_disk(pem: Pem) -> Iterator[str]:
    """The path of a PEM text: OpenSSL's loader, as Python has it, only takes files. Ours is private and gone at once."""
    if isinstance(pem, Path):
        yield str(pem)
        return
    with tempfile.NamedTemporaryFile(prefix="cardwise-", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield file.name
