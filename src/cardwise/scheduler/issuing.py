"""An authority of our own and what it issues to the webhook's server. Pure but for the keys, which are random."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=365)
RENEWED_BEFORE_END = timedelta(days=30)
CLOCK_SKEW = timedelta(hours=1)
"""How far another machine's clock may be behind ours."""
AUTHORITY_NAME = "cardwise webhook authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A server's certificate and key, and the authority that signed it, all PEM.

    `authority` is what clients are to trust: the one in use first, and after a change the one before it.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes
    authority_key: bytes = field(repr=False)


def names_of(service: str, namespace: str) -> tuple[str, ...]:
    """The names under which a service's webhook is called."""
    inside = f"{service}.{namespace}"
    return (f"{inside}.svc", f"{inside}.svc.cluster.local", inside, "localhost", "127.0.0.1")


def issued(names: Iterable[str], now: datetime) -> Pair:
    """A new authority, and a certificate of it for these DNS names and addresses."""
    key = _new_key()
    return _signed(names, _authority(key, now), key, now)


def renewed(pair: Pair, names: Iterable[str], now: datetime) -> Pair:
    """The pair itself where it is good for these names for another 30 days, else a new one of the same authority.

    Where the authority itself ends or cannot be used there is a new one, and clients trust the old one along with it.
    """
    names = tuple(names)
    try:
        authorities = x509.load_pem_x509_certificates(pair.authority)
        authority_key = _key_in(pair.authority_key)
        if not _lasts(authorities[0], now) or not _belong(authorities[0], authority_key):
            return _with_new_authority(authorities[0], names, now)
    except ValueError:
        return issued(names, now)
    if _good(pair, authorities[0], names, now):
        return pair
    return _signed(names, authorities[0], authority_key, now, pair.authority)


def _with_new_authority(old: x509.Certificate, names: Iterable[str], now: datetime) -> Pair:
    pair = issued(names, now)
    return Pair(
        certificate=pair.certificate,
        key=pair.key,
        authority=pair.authority + _pem(old),
        authority_key=pair.authority_key,
    )


def _good(pair: Pair, authority: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return _lasts(certificate, now) and _belong(certificate, _key_in(pair.key)) and found == _alternatives(names)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def _signed(
    names: Iterable[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    trusted: bytes = b"",
) -> Pair:
    names = tuple(names)
    key = _new_key()
    usage = _usage(digital_signature=True)
    certificate = (
        _begun(
            names[0],
            authority.subject,
            key.public_key(),
            now,
            min(now + SERVER_LIFETIME, authority.not_valid_after_utc),
        )
        .add_extension(_alternatives(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Pair(
        certificate=_pem(certificate),
        key=_key_pem(key),
        authority=trusted or _pem(authority),
        authority_key=_key_pem(authority_key),
    )


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME)])
    return (
        _begun(AUTHORITY_NAME, name, key.public_key(), now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _begun(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    # A common name holds at most 64 characters; which names count is in the alternatives anyway.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Iterable[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(list(map(_general_name, names)))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _lasts(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is good already, and for another while."""
    return certificate.not_valid_before_utc <= now and now + RENEWED_BEFORE_END < certificate.not_valid_after_utc


def _belong(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return certificate.public_key() == key.public_key()


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_in(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError for anything but a private key of ours."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("the key is encrypted") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")  # noqa: TRY004  (what it holds is wrong, not what calls)
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
