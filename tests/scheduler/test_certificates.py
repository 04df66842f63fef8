"""The webhook's certificate: read again while it is served, and one sentence for each way in which it can be wrong."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cardwise.scheduler.certificates import CertificateError, ServerCertificate
from kube.certificates import Issued, authority, issued
from kube.servers import run, serving

FIRST = issued("127.0.0.1")
KEY_TYPES = {"rsa": trustme.KeyType.RSA, "ecdsa": trustme.KeyType.ECDSA}
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def another(key_type: str = "ecdsa", name: str = "127.0.0.1") -> Issued:
    """A certificate that nobody had before."""
    leaf = authority(0).issue_cert(name, key_type=KEY_TYPES[key_type])
    return Issued(certificate=b"".join(one.bytes() for one in leaf.cert_chain_pems), key=leaf.private_key_pem.bytes())


def write(folder: Path, pair: Issued) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


def serial_of(pair: Issued) -> int:
    return x509.load_pem_x509_certificate(pair.certificate).serial_number


def client_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority(0).configure_trust(context)
    context.minimum_version = context.maximum_version = version
    return context


async def shown(port: int, context: ssl.SSLContext, *, server_name: str = "127.0.0.1") -> int:
    """The serial number of the certificate that a new handshake is shown; a client without a name sends none."""
    context.check_hostname = bool(server_name)
    _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).serial_number


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("key_types", [("ecdsa", "ecdsa"), ("rsa", "ecdsa"), ("ecdsa", "rsa")], ids="-to-".join)
@pytest.mark.parametrize("server_name", ["127.0.0.1", ""], ids=["named", "unnamed"])
def test_case_2_a_new_handshake_is_shown_the_new_certificate(
    tmp_path: Path, version: str, key_types: tuple[str, str], server_name: str
) -> None:
    first, second = map(another, key_types)
    served = ServerCertificate(*write(tmp_path, first))

    async def main() -> list[int]:
        async with serving(hello, served.context) as url:
            found = [await shown(port_of(url), client_context(VERSIONS[version]), server_name=server_name)]
            write(tmp_path, second)
            assert served.refresh()
            return [*found, await shown(port_of(url), client_context(VERSIONS[version]), server_name=server_name)]

    assert run(main()) == [serial_of(first), serial_of(second)]


def test_case_2_no_request_is_dropped_while_certificates_change(tmp_path: Path) -> None:
    """Neither on connections that are kept, nor on new ones."""
    served = ServerCertificate(*write(tmp_path, FIRST))

    async def ask(url: str, times: int, *, kept: bool) -> int:
        connector = aiohttp.TCPConnector(ssl=client_context(), force_close=not kept)
        async with aiohttp.ClientSession(connector=connector) as session:
            texts = [await (await session.get(url)).text() for _ in range(times)]
        return texts.count("hello")

    async def change() -> int:
        changes = 0
        for _ in range(20):
            write(tmp_path, another())
            changes += served.refresh()
            await asyncio.sleep(0.005)
        return changes

    async def main() -> list[int]:
        async with serving(hello, served.context) as url:
            return list(await asyncio.gather(change(), ask(url, 100, kept=True), ask(url, 40, kept=False)))

    assert run(main()) == [20, 100, 40]


def test_a_refresh_without_a_change_is_none(tmp_path: Path) -> None:
    served = ServerCertificate(*write(tmp_path, FIRST))
    assert not served.refresh()
    write(tmp_path, FIRST)
    assert (served.refresh(), served.problem) == (False, "")


def test_a_mounted_secret_changes_by_a_symbolic_link(tmp_path: Path) -> None:
    """As the kubelet does it: ..data points at a folder, and the files point through it."""
    for name, pair in (("old", FIRST), ("new", another())):
        (tmp_path / name).mkdir()
        write(tmp_path / name, pair)
    (tmp_path / "..data").symlink_to("old")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    served = ServerCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    (tmp_path / "..data_tmp").symlink_to("new")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert (served.refresh(), served.refresh()) == (True, False)


def test_half_a_change_waits_for_the_other_half(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    second = another()
    certificate, key = write(tmp_path, FIRST)
    served = ServerCertificate(certificate, key)

    async def main() -> list[int]:
        async with serving(hello, served.context) as url:
            certificate.write_bytes(second.certificate)
            assert not served.refresh()
            assert not served.refresh()
            found = [await shown(port_of(url), client_context())]
            key.write_bytes(second.key)
            assert served.refresh()
            return [*found, await shown(port_of(url), client_context())]

    assert run(main()) == [serial_of(FIRST), serial_of(second)]
    said = (
        f"admission.key ({key}) does not belong to admission.certificate ({certificate}), must be its private key;"
        " the certificate that was read before is served"
    )
    assert [each.getMessage() for each in caplog.records] == [said]
    assert served.problem == ""


def encrypted(_pair: Issued) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    encryption = serialization.BestAvailableEncryption(b"secret")
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


BROKEN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
BROKEN_KEY = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


def make_folder(certificate: Path, _key: Path) -> None:
    certificate.unlink()
    certificate.mkdir()


Spoil = Callable[[Path, Path], object]
FAULTS: dict[str, tuple[Spoil, str]] = {
    "no-certificate": (
        lambda crt, _key: crt.unlink(),
        "admission.certificate is {crt}, which cannot be read: No such file or directory",
    ),
    "no-key": (
        lambda _crt, key: key.unlink(),
        "admission.key is {key}, which cannot be read: No such file or directory",
    ),
    "a-folder": (
        make_folder,
        "admission.certificate is {crt}, which cannot be read: Is a directory",
    ),
    "no-pem": (
        lambda crt, _key: crt.write_bytes(b"\x30\x82"),
        "admission.certificate ({crt}) holds no certificate, must be PEM",
    ),
    "key-no-pem": (
        lambda _crt, key: key.write_bytes(b""),
        "admission.key ({key}) holds no private key, must be PEM",
    ),
    "swapped": (
        lambda crt, key: (crt.write_bytes(FIRST.key), key.write_bytes(FIRST.certificate)),
        "admission.certificate ({crt}) holds no certificate, must be PEM",
    ),
    "encrypted": (
        lambda _crt, key: key.write_bytes(encrypted(FIRST)),
        "admission.key ({key}) holds an encrypted private key, must be one without a password",
    ),
    "another-key": (
        lambda _crt, key: key.write_bytes(another().key),
        "admission.key ({key}) does not belong to admission.certificate ({crt}), must be its private key",
    ),
    "another-kind-of-key": (
        lambda _crt, key: key.write_bytes(another("rsa").key),
        "admission.certificate ({crt}) and admission.key ({key}) cannot be loaded: ",
    ),
    "broken-certificate": (
        lambda crt, _key: crt.write_bytes(BROKEN_CERTIFICATE),
        "admission.certificate ({crt}) and admission.key ({key}) cannot be loaded: ",
    ),
    "broken-key": (
        lambda _crt, key: key.write_bytes(BROKEN_KEY),
        "admission.certificate ({crt}) and admission.key ({key}) cannot be loaded: ",
    ),
}


@pytest.mark.parametrize(("spoil", "says"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_served_is_told_with_setting_path_and_reason(tmp_path: Path, spoil: Spoil, says: str) -> None:
    certificate, key = write(tmp_path, FIRST)
    spoil(certificate, key)
    with pytest.raises(CertificateError) as caught:
        ServerCertificate(certificate, key)
    assert str(caught.value).startswith(says.format(crt=certificate, key=key))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("spoil", "says"), FAULTS.values(), ids=FAULTS)
def test_while_the_files_cannot_be_used_the_old_pair_is_served(tmp_path: Path, spoil: Spoil, says: str) -> None:
    certificate, key = write(tmp_path, FIRST)
    served = ServerCertificate(certificate, key)
    spoil(certificate, key)
    assert not served.refresh()
    assert served.problem.startswith(says.format(crt=certificate, key=key))

    async def main() -> int:
        async with serving(hello, served.context) as url:
            return await shown(port_of(url), client_context())

    assert run(main()) == serial_of(FIRST)


def test_the_section_of_the_settings_can_be_named_otherwise(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"^hook\.certificate is "):
        ServerCertificate(tmp_path / "a", tmp_path / "b", where="hook")
