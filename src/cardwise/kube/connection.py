"""Where an API server is and as whom we speak to it: a value, made by `kubeconfig`, used by `client`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

Pem = Path | bytes
"""A certificate or a key: the file that holds it, read again when it changes, or the text itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A client certificate and its private key. `where` names them in messages."""

    where: str
    certificate: Pem
    key: Pem = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How the server is checked. Without `authority` the system's certificates count; `server_name` replaces the host.

    `where` names the authority in messages.
    """

    where: str = ""
    authority: Pem | None = None
    insecure: bool = False
    server_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token as it stands in a file; `where` is the path and the key."""

    where: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file with a bearer token that somebody else keeps fresh."""

    where: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints a credential. `info` is what it is told in KUBERNETES_EXEC_INFO, as JSON."""

    where: str
    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    info: str = ""


Credential = Token | TokenFile | ExecPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A server and a user. `where` says what it was made from; `namespace` is the one to use where none is named.

    `url` may end in a path, without a slash at its end. `compressed` asks the server for gzip, which saves network and
    costs both sides CPU.
    """

    where: str
    url: str
    tls: Tls = Tls()
    key_pair: KeyPair | None = None
    credential: Credential | None = None
    namespace: str = "default"
    compressed: bool = False

    def files(self) -> tuple[Path, ...]:
        """The files that may be replaced while the connection is used."""
        token = (self.credential.path,) if isinstance(self.credential, TokenFile) else ()
        return self.tls_files() + token

    def tls_files(self) -> tuple[Path, ...]:
        """Those of them that a TLS context is made of."""
        pems = [self.tls.authority]
        if self.key_pair is not None:
            pems += [self.key_pair.certificate, self.key_pair.key]
        return tuple(pem for pem in pems if isinstance(pem, Path))
