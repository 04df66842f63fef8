"""Kubeconfigs and what they mean: which server, which user, out of which file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cardwise.kube.connection import ExecPlugin, KeyPair, Token, TokenFile
from cardwise.kube.errors import KubeconfigError
from cardwise.kube.kubeconfig import in_cluster, load
from kube.certificates import authority_pem
from kube.configs import ALICE, EXEC, PAIR, URL, config, data, read, written


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    shown = repr(read(tmp_path, config(user=PAIR | {"token": "secret-token"})))
    assert "secret-token" not in shown
    assert "PRIVATE KEY" not in shown


def test_a_connection_says_all_that_stands_there(tmp_path: Path) -> None:
    cluster = {
        "server": f"{URL}/k8s/clusters/c-1/",
        "certificate-authority-data": data(authority_pem()),
        "tls-server-name": "kubernetes",
        "disable-compression": True,
    }
    contexts = [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}]
    connection = read(tmp_path, config(cluster, PAIR | {"token": "t"}, contexts=contexts))
    assert connection.url == f"{URL}/k8s/clusters/c-1"
    assert (connection.tls.authority, connection.tls.server_name) == (authority_pem(), "kubernetes")
    assert connection.key_pair is not None
    assert connection.key_pair.certificate == ALICE.certificate
    assert connection.credential == Token(where=f"{tmp_path}/config, user u: token", text="t")
    assert (connection.namespace, connection.compressed) == ("ml", False)
    assert connection.where == f"{tmp_path}/config, context dev"


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    connection = read(tmp_path, config(user={}, contexts=[{"name": "dev", "context": {"cluster": "c"}}]))
    assert (connection.tls.authority, connection.key_pair, connection.credential) == (None, None, None)
    assert (connection.namespace, connection.compressed) == ("default", True)


def test_yaml_as_kubectl_writes_it(tmp_path: Path) -> None:
    text = f"""apiVersion: v1
clusters:
- cluster: {{server: "{URL}", extensions: [{{name: x}}]}}
  name: c
contexts:
- context: {{cluster: c, user: u}}
  name: dev
current-context: dev
kind: Config
preferences: {{}}
users:
- name: u
  user:
    token: t
"""
    assert read(tmp_path, text).url == URL


def test_paths_are_meant_from_the_file_that_has_them(tmp_path: Path) -> None:
    for name, content in {"ca": authority_pem(), "crt": ALICE.certificate, "key": ALICE.key, "token": b"t\n"}.items():
        written(tmp_path / name, content)
    user = {"client-certificate": "crt", "client-key": str(tmp_path / "key"), "tokenFile": "./token"}
    connection = read(tmp_path, config({"certificate-authority": "ca"}, user))
    assert connection.tls.authority == tmp_path / "ca"
    assert isinstance(connection.key_pair, KeyPair)
    assert (connection.key_pair.certificate, connection.key_pair.key) == (tmp_path / "crt", tmp_path / "key")
    assert isinstance(connection.credential, TokenFile)
    assert connection.credential.path == tmp_path / "token"
    assert set(connection.files()) == {tmp_path / name for name in ("ca", "crt", "key", "token")}


def test_data_wins_over_files_and_a_token_file_over_a_token(tmp_path: Path) -> None:
    written(tmp_path / "token", b"from the file".replace(b" ", b"-"))
    cluster = {"certificate-authority": "nowhere", "certificate-authority-data": data(authority_pem())}
    connection = read(tmp_path, config(cluster, {"token": "t", "tokenFile": "token"}))
    assert connection.tls.authority == authority_pem()
    assert isinstance(connection.credential, TokenFile)


def test_a_plugin_is_told_what_it_may_know(tmp_path: Path) -> None:
    plugin = written(tmp_path / "plugin", "#!/bin/sh\n")
    plugin.chmod(0o755)
    user = {"exec": EXEC | {"command": "./plugin", "provideClusterInfo": True, "env": [{"name": "A", "value": "b"}]}}
    authority = data(authority_pem())
    credential = read(tmp_path, config({"certificate-authority-data": authority}, user)).credential
    assert isinstance(credential, ExecPlugin)
    assert (credential.command, credential.args, credential.env) == (str(plugin), ("-c", "echo"), (("A", "b"),))
    assert msgspec.json.decode(credential.info) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": URL, "certificate-authority-data": authority}},
    }


def test_of_several_files_the_first_that_names_something_wins(tmp_path: Path) -> None:
    first = config({"server": "https://first"}, contexts=None) | {"current-context": None, "users": None}
    second = config({"server": "https://second"}, {"token": "second"})
    third = config() | {"current-context": "other"}
    names = [str(written(tmp_path / f"c{number}", one)) for number, one in enumerate((first, second, third))]
    listed = os.pathsep.join([str(tmp_path / "missing"), "", *names])
    connection = load(environ={"KUBECONFIG": listed})
    assert connection.url == "https://first"
    assert connection.credential == Token(where=f"{tmp_path}/c1, user u: token", text="second")
    assert connection.where == f"{tmp_path}/c1, context dev"


def test_a_path_wins_over_the_environment_which_wins_over_home(tmp_path: Path) -> None:
    home = tmp_path / ".kube"
    home.mkdir()
    written(home / "config", config({"server": "https://home"}))
    named = str(written(tmp_path / "named", config({"server": "https://named"})))
    variable = str(written(tmp_path / "variable", config({"server": "https://variable"})))
    environ = {"HOME": str(tmp_path)}
    assert load(environ=environ).url == "https://home"
    assert load(environ=environ | {"KUBECONFIG": variable}).url == "https://variable"
    assert load(named, environ=environ | {"KUBECONFIG": variable}).url == "https://named"


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_pod_finds_its_server(tmp_path: Path, host: str, url: str) -> None:
    written(tmp_path / "ca.crt", authority_pem())
    written(tmp_path / "token", "t")
    written(tmp_path / "namespace", "ml\n")
    connection = in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert (connection.url, connection.namespace, connection.compressed) == (url, "ml", False)
    assert connection.tls.authority == tmp_path / "ca.crt"
    assert connection.credential == TokenFile(where="service account: token", path=tmp_path / "token")


def test_a_namespace_of_a_pod_that_is_no_text_is_told(tmp_path: Path) -> None:
    written(tmp_path / "ca.crt", authority_pem())
    written(tmp_path / "token", "t")
    (tmp_path / "namespace").write_bytes(b"\xff\xfe")
    with pytest.raises(KubeconfigError, match=r"namespace is .*/namespace, which is no UTF-8 text"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
