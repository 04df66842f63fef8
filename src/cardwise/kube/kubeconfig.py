"""From a kubeconfig, or from within a pod, to a connection.

What kubectl would use and we cannot (proxy-url, impersonation, passwords, auth providers) is refused, never ignored: it
would be another server or another user than the one meant. Sources:
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from cardwise.kube.connection import Connection, Credential, ExecPlugin, KeyPair, Pem, Tls, Token, TokenFile
from cardwise.kube.credentials import check, clean_token
from cardwise.kube.errors import KubeconfigError, cut
from cardwise.kube.kubeconfig_files import Cluster, Entry, Exec, Text, User, merged
from cardwise.kube.tls import read_file

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MOST_NAMED = 5

T = TypeVar("T")

_URL_TEXT = re.compile(r"[!-\[\]-~]+")
"""Visible ASCII, since it is sent as it stands; no backslash, which some take for a slash."""


def load(path: str = "", context: str = "", environ: Mapping[str, str] = os.environ) -> Connection:
    """The connection that kubectl would use: the file named, else KUBECONFIG, else ~/.kube/config, else the pod we are in.

    Raises KubeconfigError with the path and the key of what is missing or wrong.
    """
    files = _files(path, environ)
    if files:
        return from_files(files, context)
    if "KUBERNETES_SERVICE_HOST" in environ and not context:
        return in_cluster(environ)
    raise KubeconfigError(
        f"KUBECONFIG is not set, {_home(environ)} does not exist, and this is no pod (KUBERNETES_SERVICE_HOST is not set)"
    )


def from_files(files: Iterable[Path], context: str = "") -> Connection:
    """The connection of a context (of `current-context`, if none is named). Raises KubeconfigError."""
    config = merged(list(files))
    name = context or config.current_context or ""
    named_by = "context" if context else "current-context"
    chosen = _named(config.where, named_by, name, config.contexts, "contexts")
    where = f"{chosen.file}, context {cut(name, 80)}"
    cluster_name, user_name = chosen.value.cluster or "", chosen.value.user or ""
    cluster = _named(where, "cluster", cluster_name, config.clusters, "clusters")
    user = Entry(chosen.file, User())
    if user_name:
        user = _named(where, "user", user_name, config.users, "users")
    connection = _connection(cluster, cluster_name, user, user_name, chosen.value.namespace or "default", where)
    check(connection)
    return connection


def in_cluster(environ: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod: its service account, at the address in the environment. Raises KubeconfigError."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        missing = "KUBERNETES_SERVICE_HOST" if not host else "KUBERNETES_SERVICE_PORT"
        raise KubeconfigError(f"environment: {missing} is (empty), must be what the kubelet sets in a pod")
    host = f"[{host}]" if ":" in host else host
    namespace = account / "namespace"
    connection = Connection(
        where="the pod's service account",
        url=_url("environment", "KUBERNETES_SERVICE_HOST and _PORT", f"https://{host}:{port}"),
        tls=Tls(where="service account: ca.crt", authority=account / "ca.crt"),
        credential=TokenFile(where="service account: token", path=account / "token"),
        namespace=_text_of("service account: namespace", namespace) if namespace.is_file() else "default",
    )
    check(connection)
    return connection


def _text_of(where: str, path: Path) -> str:
    try:
        return read_file(where, path).decode().strip()
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{where} is {path}, which is no UTF-8 text") from error


def _files(path: str, environ: Mapping[str, str]) -> list[Path]:
    if path:
        return [Path(path)]
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        present = [one for one in named if one.exists()]
        if not present:
            raise KubeconfigError(f"KUBECONFIG is {os.pathsep.join(map(str, named))}, which does not exist")
        return present
    home = _home(environ)
    return [home] if home.exists() else []


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME", "/")) / ".kube" / "config"


def _named(where: str, key: str, name: str, entries: Mapping[str, Entry[T]], of: str) -> Entry[T]:
    if name in entries:
        return entries[name]
    known = sorted(entries)[:MOST_NAMED]
    more = ", ..." if len(entries) > MOST_NAMED else ""
    there = f"there are: {', '.join(cut(one, 80) for one in known)}{more}" if known else "there are none"
    raise KubeconfigError(f"{where}: {key} is {cut(name, 80)}, must be one of the {of} ({there})")


def _connection(
    cluster: Entry[Cluster], cluster_name: str, user: Entry[User], user_name: str, namespace: str, where: str
) -> Connection:
    of_cluster = f"{cluster.file}, cluster {cut(cluster_name, 80)}"
    of_user = f"{user.file}, user {cut(user_name, 80)}"
    _refuse_unsupported(of_cluster, cluster.value, of_user, user.value)
    tls = _tls(of_cluster, cluster)
    url = _url(of_cluster, "server", cluster.value.server or "")
    return Connection(
        where=where,
        url=url,
        tls=tls,
        key_pair=_key_pair(of_user, user),
        credential=_credential(of_user, user, url, tls),
        namespace=namespace,
        compressed=not cluster.value.disable_compression,
    )


def _refuse_unsupported(of_cluster: str, cluster: Cluster, of_user: str, user: User) -> None:
    unsupported = {
        f"{of_cluster}: proxy-url": cluster.proxy_url,
        f"{of_user}: auth-provider": user.auth_provider,
        f"{of_user}: username": user.username,
        f"{of_user}: password": user.password,
        f"{of_user}: as": user.impersonate,
        f"{of_user}: as-uid": user.as_uid,
        f"{of_user}: as-groups": user.as_groups,
        f"{of_user}: as-user-extra": user.as_user_extra,
    }
    for key, value in unsupported.items():
        if value:
            raise KubeconfigError(f"{key} is set, which is not supported, must be left out")


def _url(where: str, key: str, text: str) -> str:
    must = "must be https://HOST:PORT or http://HOST:PORT"
    try:
        url = urlsplit(text)
        known = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
        (url.hostname or "").encode("idna")
    except ValueError as error:
        raise KubeconfigError(f"{where}: {key} is {cut(text, 120)}, {must} ({error})") from error
    if url.username is not None or url.password is not None:
        raise KubeconfigError(f"{where}: {key} holds a user name, {must}")
    if not known or url.query or url.fragment or not _URL_TEXT.fullmatch(text):
        raise KubeconfigError(f"{where}: {key} is {cut(text, 120)}, {must}")
    return text.rstrip("/")


def _tls(where: str, cluster: Entry[Cluster]) -> Tls:
    value = cluster.value
    key = "certificate-authority"
    authority = _pem(where, key, value.certificate_authority_data, value.certificate_authority, cluster.file)
    insecure = bool(value.insecure_skip_tls_verify)
    if insecure and authority is not None:
        raise KubeconfigError(f"{where}: insecure-skip-tls-verify is true, must be left out where {key} is given")
    return Tls(where=f"{where}: {key}", authority=authority, insecure=insecure, server_name=value.tls_server_name or "")


def _key_pair(where: str, user: Entry[User]) -> KeyPair | None:
    value = user.value
    certificate = _pem(where, "client-certificate", value.client_certificate_data, value.client_certificate, user.file)
    key = _pem(where, "client-key", value.client_key_data, value.client_key, user.file)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, given = ("client-key", "client-certificate") if key is None else ("client-certificate", "client-key")
        raise KubeconfigError(f"{where}: {missing} is missing, must be given with {given}")
    return KeyPair(where=where, certificate=certificate, key=key)


def _pem(where: str, key: str, data: Text, path: Text, file: Path) -> Pem | None:
    """What stands in the file itself wins, as in kubectl."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{where}: {key}-data is no base64, must be PEM in base64") from error
    return _beside(file, path) if path else None


def _beside(file: Path, path: str) -> Path:
    return (file.parent / path).absolute()


def _credential(where: str, user: Entry[User], url: str, tls: Tls) -> Credential | None:
    """A token file is asked again and again, so it wins over the token; both win over a plugin, as in kubectl."""
    value = user.value
    if value.token_file:
        return TokenFile(where=f"{where}: tokenFile", path=_beside(user.file, value.token_file))
    if value.token:
        return Token(where=f"{where}: token", text=clean_token(f"{where}: token", value.token))
    if value.exec is not None:
        return _plugin(where, user.file, value.exec, url, tls)
    return None


def _plugin(where: str, file: Path, value: Exec, url: str, tls: Tls) -> ExecPlugin:
    version, command = value.api_version or "", value.command or ""
    if version not in EXEC_VERSIONS:
        raise KubeconfigError(f"{where}: exec.apiVersion is {cut(version, 80)}, must be {' or '.join(EXEC_VERSIONS)}")
    if value.interactive_mode == "Always":
        raise KubeconfigError(f"{where}: exec.interactiveMode is Always, must be Never or IfAvailable")
    if os.sep in command:
        command = str(_beside(file, command))
    if not command or shutil.which(command) is None:
        hint = f" ({cut(value.install_hint)})" if value.install_hint else ""
        raise KubeconfigError(f"{where}: exec.command is {cut(command, 120)}, must be a program that exists{hint}")
    return ExecPlugin(
        where=where,
        api_version=version,
        command=command,
        args=tuple(value.args or ()),
        env=tuple((variable.name, variable.value) for variable in value.env or ()),
        install_hint=value.install_hint or "",
        info=_exec_info(version, url, tls, told=bool(value.provide_cluster_info)),
    )


def _exec_info(version: str, url: str, tls: Tls, *, told: bool) -> str:
    spec: dict[str, object] = {"interactive": False}
    if told:
        spec["cluster"] = _cluster_info(url, tls)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _cluster_info(url: str, tls: Tls) -> dict[str, object]:
    info: dict[str, object] = {"server": url}
    if tls.server_name:
        info["tls-server-name"] = tls.server_name
    if tls.insecure:
        info["insecure-skip-tls-verify"] = True
    if tls.authority is not None:
        pem = read_file(tls.where, tls.authority) if isinstance(tls.authority, Path) else tls.authority
        info["certificate-authority-data"] = base64.b64encode(pem).decode()
    return info
