"""Certificates of our own: whom they are for, how long, when they are made anew, and that TLS clients believe them."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from cardwise.scheduler.certificates import ServedPair, ServerContext
from cardwise.scheduler.issuing import Pair, issued, names_of, renewed
from kube.servers import run

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = names_of("cardwise-scheduler", "kube-system")
PAIR = issued(NAMES, NOW)
DAY = timedelta(days=1)


def certificate_of(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def authorities_of(pair: Pair) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pair.authority)


def test_whom_a_certificate_is_for() -> None:
    names = certificate_of(PAIR).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "cardwise-scheduler.kube-system.svc",
        "cardwise-scheduler.kube-system.svc.cluster.local",
        "cardwise-scheduler.kube-system",
        "localhost",
    ]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]


def test_how_long_and_with_which_keys() -> None:
    for certificate, days in ((certificate_of(PAIR), 365), (authorities_of(PAIR)[0], 3650)):
        assert certificate.not_valid_after_utc == NOW + days * DAY
        assert certificate.not_valid_before_utc < NOW
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"


async def _handshake(pair: Pair, server_name: str) -> str:
    served = ServerContext(ServedPair(certificate=pair.certificate, key=pair.key))
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=served.context)
    context = ssl.create_default_context(cadata=pair.authority.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = server.sockets[0].getsockname()[1]
    async with server:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_name)
        version: str = writer.get_extra_info("ssl_object").version()
        writer.close()
    return version


@pytest.mark.parametrize("name", NAMES)
def test_a_strict_client_that_trusts_the_authority_believes_it_under_every_name(name: str) -> None:
    assert run(_handshake(PAIR, name)) == "TLSv1.3"


def test_a_client_does_not_believe_it_under_another_name() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        run(_handshake(PAIR, "other.kube-system.svc"))


def test_a_long_service_name_has_a_certificate_too() -> None:
    names = names_of("s" * 63, "n" * 63)
    pair = issued(names, NOW)
    assert run(_handshake(pair, names[0])) == "TLSv1.3"


@pytest.mark.parametrize("days", [0, 100, 334])
def test_a_good_pair_stays_as_it_is(days: int) -> None:
    assert renewed(PAIR, NAMES, NOW + days * DAY) is PAIR


OTHER = issued(NAMES, NOW)
FOREIGN = trustme.CA().issue_cert("localhost")
RSA = trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.RSA)
SPOILT = {
    "ends-soon": (PAIR, NAMES, NOW + 336 * DAY),
    "over": (PAIR, NAMES, NOW + 400 * DAY),
    "other-names": (PAIR, names_of("other", "kube-system"), NOW),
    "a-name-less": (PAIR, NAMES[:-1], NOW),
    "another-key": (replace(PAIR, key=OTHER.key), NAMES, NOW),
    "another-authoritys": (replace(PAIR, certificate=OTHER.certificate, key=OTHER.key), NAMES, NOW),
    "no-certificate": (replace(PAIR, certificate=b""), NAMES, NOW),
    "broken-certificate": (replace(PAIR, certificate=PAIR.certificate[:200]), NAMES, NOW),
    "no-key": (replace(PAIR, key=b"x"), NAMES, NOW),
    "foreign": (
        replace(PAIR, certificate=FOREIGN.cert_chain_pems[0].bytes(), key=FOREIGN.private_key_pem.bytes()),
        NAMES,
        NOW,
    ),
    "not-yet": (renewed(replace(PAIR, key=b""), NAMES, NOW + 10 * DAY), NAMES, NOW),
}


@pytest.mark.parametrize(("pair", "names", "now"), SPOILT.values(), ids=SPOILT)
def test_a_certificate_is_made_anew_by_the_same_authority(pair: Pair, names: tuple[str, ...], now: datetime) -> None:
    """So that clients and other replicas need nothing new."""
    found = renewed(pair, names, now)
    assert (found.authority, found.authority_key) == (PAIR.authority, PAIR.authority_key)
    assert found.certificate != pair.certificate
    certificate_of(found).verify_directly_issued_by(authorities_of(PAIR)[0])
    assert renewed(found, names, now) is found


LATE = NOW + 3630 * DAY
NEW_AUTHORITY = {
    "ends-soon": (PAIR, LATE),
    "another-key": (replace(PAIR, authority_key=OTHER.authority_key), NOW),
    "not-yet": (PAIR, NOW - 2 * DAY),
}


@pytest.mark.parametrize(("pair", "now"), NEW_AUTHORITY.values(), ids=NEW_AUTHORITY)
def test_a_new_authority_is_trusted_beside_the_old_one(pair: Pair, now: datetime) -> None:
    """Another replica shows a certificate of the old one until it looks again."""
    found = renewed(pair, NAMES, now)
    new, old = authorities_of(found)
    assert old == authorities_of(PAIR)[0]
    assert new != old
    certificate_of(found).verify_directly_issued_by(new)
    assert renewed(found, NAMES, now) is found


def test_authorities_do_not_pile_up() -> None:
    later = renewed(renewed(PAIR, NAMES, LATE), NAMES, LATE + 3630 * DAY)
    assert len(authorities_of(later)) == 2


def test_what_is_no_authority_is_replaced() -> None:
    for spoilt in (
        replace(PAIR, authority=b""),
        replace(PAIR, authority=b"x"),
        replace(PAIR, authority_key=b""),
        replace(PAIR, authority_key=RSA.private_key_pem.bytes()),
    ):
        found = renewed(spoilt, NAMES, NOW)
        assert len(authorities_of(found)) == 1
        assert renewed(found, NAMES, NOW) is found


def test_a_certificate_does_not_outlive_its_authority() -> None:
    found = renewed(PAIR, NAMES, NOW + 3600 * DAY)
    assert found.authority == PAIR.authority
    assert certificate_of(found).not_valid_after_utc == authorities_of(PAIR)[0].not_valid_after_utc


def test_keys_do_not_show_in_texts() -> None:
    assert "PRIVATE" not in repr(PAIR)
