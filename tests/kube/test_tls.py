"""TLS as kubeconfigs describe it: who is trusted, by which name, and with which certificate of our own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from aiohttp import web

from cardwise.kube.client import Client
from cardwise.kube.connection import Connection, KeyPair, Tls
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import PODS
from cardwise.kube.tls import context_of
from kube.certificates import authority, authority_pem, issued, server_context
from kube.servers import answer, pod, run, serving


async def a_pod(_request: web.Request) -> web.Response:
    return answer(pod("a"))


TLS_FAULTS: dict[str, tuple[Tls, str]] = {
    "unknown authority": (Tls(authority=authority_pem(1)), "certificate verify failed"),
    "the system's authorities": (Tls(), "certificate verify failed"),
    "another name": (Tls(authority=authority_pem(), server_name="other"), "Hostname mismatch"),
}


async def over_tls(tls: Tls, pair: KeyPair | None = None, *, clients: bool = False, name: str = "127.0.0.1") -> str:
    async with (
        serving(a_pod, server_context(name, clients=clients)) as url,
        Client(Connection(where="/etc/kubeconfig, context test", url=url, tls=tls, key_pair=pair)) as client,
    ):
        return (await client.get_quorum(PODS, "a", "ml")).full_name


@pytest.mark.parametrize(("tls", "says"), TLS_FAULTS.values(), ids=TLS_FAULTS)
def test_a_server_that_is_not_the_one_meant_is_not_spoken_to(tls: Tls, says: str) -> None:
    with pytest.raises(KubeError, match=says) as caught:
        run(over_tls(tls))
    assert (caught.value.fault, caught.value.sent) == (Fault.UNREACHABLE, False)
    assert "/etc/kubeconfig, context test: certificate-authority" in str(caught.value)


ALICE = issued("alice@example.org")


def test_tls_as_it_should_be() -> None:
    assert run(over_tls(Tls(authority=authority_pem()))) == "ml/a"


def test_tls_by_another_name_than_the_address() -> None:
    assert run(over_tls(Tls(authority=authority_pem(), server_name="kubernetes"), name="kubernetes")) == "ml/a"


def test_tls_with_an_intermediate_authority_alone() -> None:
    """Go takes one as a root, so there are clusters with it; OpenSSL has to be told."""
    middle = authority(0).create_child_ca()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    middle.issue_cert("127.0.0.1").configure_cert(context)

    async def main() -> str:
        tls = Tls(authority=middle.cert_pem.bytes())
        async with (
            serving(a_pod, context) as url,
            Client(Connection(where="/etc/kubeconfig, context test", url=url, tls=tls)) as client,
        ):
            return (await client.get_quorum(PODS, "a", "ml")).full_name

    assert run(main()) == "ml/a"


def test_tls_takes_authorities_that_are_not_strictly_as_they_should_be() -> None:
    context = context_of(Tls(authority=authority_pem()), None)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_tls_without_a_check() -> None:
    assert run(over_tls(Tls(insecure=True), name="other")) == "ml/a"


def test_tls_with_a_client_certificate_in_files(tmp_path: Path) -> None:
    (tmp_path / "crt").write_bytes(ALICE.certificate)
    (tmp_path / "key").write_bytes(ALICE.key)
    (tmp_path / "ca").write_bytes(authority_pem(1) + b"# a comment: \xfc\n" + authority_pem())
    pair = KeyPair(where="", certificate=tmp_path / "crt", key=tmp_path / "key")
    assert run(over_tls(Tls(authority=tmp_path / "ca"), pair, clients=True)) == "ml/a"


def test_tls_without_the_client_certificate_that_is_asked_for() -> None:
    with pytest.raises(KubeError) as caught:
        run(over_tls(Tls(authority=authority_pem()), clients=True))
    assert caught.value.fault is Fault.UNREACHABLE
