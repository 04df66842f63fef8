"""The certificates of one control plane: an authority in memory, and what it signs as PEM files."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .rest import KeyPair

LIFETIME = timedelta(days=2)
CLOCK_SKEW = timedelta(hours=1)


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A new P-256 key, also written to `path` in the form ("EC PRIVATE KEY") that Kubernetes reads everywhere."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
    return key


class Authority:
    """Signs the certificates of one control plane; `certificate` is the file that others trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = write_key(folder / "ca.key")
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "control plane of a test")])
        self.certificate = folder / "ca.crt"
        signs_others = x509.BasicConstraints(ca=True, path_length=0)
        unsigned = _unsigned(self._name, self._name, self._key.public_key()).add_extension(signs_others, critical=True)
        _write(self.certificate, unsigned.sign(self._key, hashes.SHA256()))

    def client(self, user: str, groups: tuple[str, ...] = (), *, stem: str) -> KeyPair:
        """A certificate that kube-apiserver takes as `user` in `groups`; the files are named after `stem`."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(stem, x509.Name(names), x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))

    def server(self, stem: str, *, dns: tuple[str, ...], addresses: tuple[str, ...]) -> KeyPair:
        """A server's certificate, good for these DNS names and IP addresses; the files are named after `stem`."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        also = x509.SubjectAlternativeName(
            [*map(x509.DNSName, dns), *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)]
        )
        return self._issue(stem, subject, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), also)

    def _issue(self, stem: str, subject: x509.Name, *extensions: x509.ExtensionType) -> KeyPair:
        pair = KeyPair(certificate=self._folder / f"{stem}.crt", key=self._folder / f"{stem}.key")
        unsigned = _unsigned(subject, self._name, write_key(pair.key).public_key())
        for extension in extensions:
            unsigned = unsigned.add_extension(extension, critical=False)
        _write(pair.certificate, unsigned.sign(self._key, hashes.SHA256()))
        return pair


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
