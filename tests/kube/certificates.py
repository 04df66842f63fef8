"""A certificate authority of our own, and what it issues, as TLS contexts and as PEM."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache

import trustme


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


@cache
def authority(number: int) -> trustme.CA:
    """One of several authorities, made once."""
    return trustme.CA(organization_name=f"authority {number}")


def authority_pem(number: int = 0) -> bytes:
    return authority(number).cert_pem.bytes()


@cache
def issued(name: str, number: int = 0) -> Issued:
    """A certificate for a host, an address or a user, made once."""
    leaf = authority(number).issue_cert(name)
    return Issued(certificate=b"".join(one.bytes() for one in leaf.cert_chain_pems), key=leaf.private_key_pem.bytes())


def server_context(name: str, *, clients: bool = False) -> ssl.SSLContext:
    """A server's context: its certificate is for `name`; with `clients` it wants certificates of them."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority(0).issue_cert(name).configure_cert(context)
    if clients:
        authority(0).configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
