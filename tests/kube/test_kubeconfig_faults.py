"""Kubeconfigs that are wrong: one sentence each, with the path and the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardwise.kube.errors import Fault, KubeconfigError
from cardwise.kube.kubeconfig import load
from kube.certificates import authority_pem, issued
from kube.configs import EXEC, PAIR, Json, config, data, read


def fault(tmp_path: Path, content: Json | str | bytes, context: str = "") -> str:
    """The sentence, with the directory left out."""
    with pytest.raises(KubeconfigError) as caught:
        read(tmp_path, content, context)
    assert caught.value.fault is Fault.KUBECONFIG
    assert not caught.value.in_doubt
    return str(caught.value).replace(f"{tmp_path}{os.sep}", "")


OTHER_KEY = data(issued("bob@example.org").key)
IN_V1 = "client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1"

FAULTS: dict[str, tuple[Json | str | bytes, str]] = {
    "empty": ("", "config is empty, must be a mapping with clusters, users and contexts"),
    "a list": ("[1]", "config is [1], must be a mapping with clusters, users and contexts"),
    "not YAML": ("a:\n  - b\n c: [", "config, line 3, column 2: is no YAML: "),
    "not text": (b"\xff\xfe\x00", "config is no UTF-8 text"),
    "no current context": (
        config() | {"current-context": ""},
        "config: current-context is (empty), must be one of the contexts (there are: dev)",
    ),
    "unknown current context": (
        config() | {"current-context": "prod"},
        "config: current-context is prod, must be one of the contexts (there are: dev)",
    ),
    "no contexts": (
        config(contexts=None),
        "config: current-context is dev, must be one of the contexts (there are none)",
    ),
    "many contexts": (
        config(contexts=[{"name": f"c{number}"} for number in range(9)]),
        "config: current-context is dev, must be one of the contexts (there are: c0, c1, c2, c3, c4, ...)",
    ),
    "unknown cluster": (
        config(contexts=[{"name": "dev", "context": {"cluster": "x", "user": "u"}}]),
        "config, context dev: cluster is x, must be one of the clusters (there are: c)",
    ),
    "no cluster": (
        config(contexts=[{"name": "dev", "context": None}]),
        "config, context dev: cluster is (empty), must be one of the clusters (there are: c)",
    ),
    "unknown user": (
        config(contexts=[{"name": "dev", "context": {"cluster": "c", "user": "x"}}]),
        "config, context dev: user is x, must be one of the users (there are: u)",
    ),
    "a number for a token": (config(user={"token": 5}), "config: users[0].user.token is a number, must be text"),
    "a text for clusters": (config(clusters="c"), "config: clusters is text, must be a list"),
    "a text for a switch": (
        config({"insecure-skip-tls-verify": "yes"}),
        "config: clusters[0].cluster.insecure-skip-tls-verify is text, must be true or false",
    ),
    "an entry without a name": (config(users=[{}]), "config: users[0].name is missing, must be given"),
    "a tag": ("users: !secret x", "config: users is a tagged value, must be a list"),
    "no server": (config({"server": None}), "config, cluster c: server is (empty), must be https://HOST:PORT or http"),
    "a server without a scheme": (config({"server": "h:1"}), "config, cluster c: server is h:1, must be https://HOST:"),
    "a server with a bad port": (config({"server": "https://h:99999"}), "config, cluster c: server is https://h:99999"),
    "a server with an empty label": (
        config({"server": "https://a..b"}),
        "config, cluster c: server is https://a..b, must",
    ),
    "a server with a backslash": (
        config({"server": "https://a\\b"}),
        "config, cluster c: server is https://a\\b, must",
    ),
    "a server with a blank": (config({"server": "https://a b"}), "config, cluster c: server is https://a b, must be"),
    "a server with a query": (config({"server": "https://a?b"}), "config, cluster c: server is https://a?b, must be"),
    "a server with a password": (
        config({"server": "https://a:secret@h"}),
        "config, cluster c: server holds a user name, must be https://HOST:PORT or http://HOST:PORT",
    ),
    "a proxy": (
        config({"proxy-url": "http://p"}),
        "config, cluster c: proxy-url is set, which is not supported, must be left out",
    ),
    "an auth provider": (
        config(user={"auth-provider": {"name": "gcp"}}),
        "config, user u: auth-provider is set, which is not supported, must be left out",
    ),
    "impersonation": (
        config(user={"token": "t", "as": "root"}),
        "config, user u: as is set, which is not supported, must be left out",
    ),
    "a password": (
        config(user={"password": "p"}),
        "config, user u: password is set, which is not supported, must be left out",
    ),
    "an authority that is not there": (
        config({"certificate-authority": "ca.crt"}),
        "config, cluster c: certificate-authority is ca.crt, which cannot be read: No such file or directory",
    ),
    "an authority that is none": (
        config({"certificate-authority-data": data(b"hello")}),
        "config, cluster c: certificate-authority-data holds no certificate, must be PEM",
    ),
    "an authority that is broken": (
        config({"certificate-authority-data": data(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")}),
        "config, cluster c: certificate-authority-data holds a broken certificate: ",
    ),
    "an authority that is no base64": (
        config({"certificate-authority-data": "%%%"}),
        "config, cluster c: certificate-authority-data is no base64, must be PEM in base64",
    ),
    "an authority that does not matter": (
        config({"certificate-authority-data": data(authority_pem()), "insecure-skip-tls-verify": True}),
        "config, cluster c: insecure-skip-tls-verify is true, must be left out where certificate-authority is given",
    ),
    "a certificate that does not match its key": (
        config(user=PAIR | {"client-key-data": OTHER_KEY}),
        "config, user u: client-certificate-data: the certificate and client-key do not belong together",
    ),
    "a certificate without a key": (
        config(user={"client-certificate-data": PAIR["client-certificate-data"]}),
        "config, user u: client-key is missing, must be given with client-certificate",
    ),
    "a key without a certificate": (
        config(user={"client-key-data": PAIR["client-key-data"]}),
        "config, user u: client-certificate is missing, must be given with client-key",
    ),
    "a certificate that is none": (
        config(user=PAIR | {"client-certificate-data": data(b"x")}),
        "config, user u: client-certificate-data holds no certificate, must be PEM",
    ),
    "a key that is none": (
        config(user=PAIR | {"client-key-data": data(b"x")}),
        "config, user u: client-key-data holds no private key, must be PEM",
    ),
    "a key that is broken": (
        config(
            user=PAIR | {"client-key-data": data(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")}
        ),
        "config, user u: client-certificate-data: the certificate and client-key cannot be loaded: ",
    ),
    "a key with a password": (
        config(user=PAIR | {"client-key-data": data(b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n")}),
        "config, user u: client-key-data holds an encrypted private key, must be one without a password",
    ),
    "a token file that is not there": (
        config(user={"tokenFile": "token"}),
        "config, user u: tokenFile is token, which cannot be read: No such file or directory",
    ),
    "a token with a line's end in it": (
        config(user={"token": "a\nb"}),
        "config, user u: token holds blanks or unprintable characters, must be one token",
    ),
    "an old plugin": (
        config(user={"exec": EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        f"config, user u: exec.apiVersion is client.authentication.k8s.io/v1alpha1, must be {IN_V1}",
    ),
    "a plugin that is not there": (
        config(user={"exec": EXEC | {"command": "no-such-plugin", "installHint": "get it\nthere"}}),
        "config, user u: exec.command is no-such-plugin, must be a program that exists (get it there)",
    ),
    "a plugin without a command": (
        config(user={"exec": EXEC | {"command": None}}),
        "config, user u: exec.command is (empty), must be a program that exists",
    ),
    "a plugin that asks": (
        config(user={"exec": EXEC | {"interactiveMode": "Always"}}),
        "config, user u: exec.interactiveMode is Always, must be Never or IfAvailable",
    ),
    "a plugin's arguments": (
        config(user={"exec": EXEC | {"args": "x"}}),
        "config: users[0].user.exec.args is text, must be a list",
    ),
}


@pytest.mark.parametrize(("content", "says"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_sentence_with_path_and_key(tmp_path: Path, content: Json | str | bytes, says: str) -> None:
    said = fault(tmp_path, content)
    assert said.startswith(says)
    assert "\n" not in said


def test_a_context_that_is_asked_for_and_unknown(tmp_path: Path) -> None:
    assert fault(tmp_path, config(), "prod") == "config: context is prod, must be one of the contexts (there are: dev)"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"config cannot be read: No such file or directory$"):
        load(str(tmp_path / "config"), environ={})


NOWHERE = {
    "nothing at all": (
        {},
        "KUBECONFIG is not set, /.kube/config does not exist, and this is no pod (KUBERNETES_SERVICE_",
    ),
    "files that are not there": ({"KUBECONFIG": "/a:/b"}, "KUBECONFIG is /a:/b, which does not exist"),
    "a pod without an account": (
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
        "service account: token is /var/run/secrets/kubernetes.io/serviceaccount/token, which cannot be read: No such",
    ),
    "a pod without a port": (
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        "environment: KUBERNETES_SERVICE_PORT is (empty), must be what the kubelet sets in a pod",
    ),
}


@pytest.mark.parametrize(("environ", "says"), NOWHERE.values(), ids=NOWHERE)
def test_where_there_is_no_way_to_a_server(environ: dict[str, str], says: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(environ=environ)
    assert str(caught.value).startswith(says)


WORDS = [b"current-context: dev", b"clusters:", b"- name: c", b"  cluster: {server: 'https://h'}", b"users:", b"- 1"]
WORDS += [
    b"contexts:",
    b"- name: dev",
    b"  context: {cluster: c}",
    b"&a *a",
    b"!t x",
    b"? [",
    b"\x00",
    b"\xc3",
    b"null",
]


@given(st.lists(st.sampled_from(WORDS) | st.binary(max_size=8), max_size=12).map(b"\n".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_connection_or_a_sentence(tmp_path: Path, text: bytes) -> None:
    said = said_of(tmp_path, text)
    assert said == "https://h" or said.startswith(f"{tmp_path}/config")
    assert said.isprintable()


def said_of(tmp_path: Path, text: bytes) -> str:
    try:
        return read(tmp_path, text).url
    except KubeconfigError as error:
        return str(error)
