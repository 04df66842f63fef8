"""The text of kubeconfig files: read, typed, and merged. What it means is in `kubeconfig`.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from cardwise.kube.errors import KubeconfigError, cut
from cardwise.wire import yaml_text

T = TypeVar("T")
Text = str | None

_EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?(?: - at `\$\.?([^`]*)`)?")
_MISSING = re.compile(r"missing required field `(\w+)`(?: - at `\$\.?([^`]*)`)?")
_WORDS = {"object": "a mapping", "array": "a list", "str": "text", "bool": "true or false", "null": "empty"}
_WORDS |= {"int": "a number", "float": "a number", "yaml12.Yaml": "a tagged value"}


class Cluster(msgspec.Struct, rename="kebab"):
    server: Text = None
    certificate_authority: Text = None
    certificate_authority_data: Text = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: Text = None
    proxy_url: Text = None
    disable_compression: bool | None = None


class Variable(msgspec.Struct):
    name: str
    value: str


class Exec(msgspec.Struct, rename="camel"):
    api_version: Text = None
    command: Text = None
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: Text = None
    provide_cluster_info: bool | None = None
    interactive_mode: Text = None


class User(msgspec.Struct, rename="kebab"):
    client_certificate: Text = None
    client_certificate_data: Text = None
    client_key: Text = None
    client_key_data: Text = None
    token: Text = None
    token_file: Text = msgspec.field(default=None, name="tokenFile")
    exec: Exec | None = None
    auth_provider: Any = None
    username: Text = None
    password: Text = None
    impersonate: Text = msgspec.field(default=None, name="as")
    as_uid: Text = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class Context(msgspec.Struct):
    cluster: Text = None
    user: Text = None
    namespace: Text = None


class NamedCluster(msgspec.Struct):
    name: str
    cluster: Cluster | None = None


class NamedUser(msgspec.Struct):
    name: str
    user: User | None = None


class NamedContext(msgspec.Struct):
    name: str
    context: Context | None = None


class Config(msgspec.Struct, rename="kebab"):
    """One file."""

    current_context: Text = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A cluster, user or context, and the file that it stands in: paths in it are meant from there."""

    file: Path
    value: T


@dataclass(slots=True)
class Merged:
    """What several files say together, by name; the first that names something wins."""

    files: tuple[Path, ...]
    current_context: Text = None
    clusters: dict[str, Entry[Cluster]] = field(default_factory=dict)
    users: dict[str, Entry[User]] = field(default_factory=dict)
    contexts: dict[str, Entry[Context]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The files as messages name them."""
        return ":".join(map(str, self.files))


def merged(files: Sequence[Path]) -> Merged:
    """The files as one. Raises KubeconfigError with the path, and the line or key, of what cannot be read."""
    whole = Merged(files=tuple(files))
    for path in files:
        one = parse(path, _text(path))
        whole.current_context = whole.current_context or one.current_context
        for cluster in one.clusters or ():
            whole.clusters.setdefault(cluster.name, Entry(path, cluster.cluster or Cluster()))
        for user in one.users or ():
            whole.users.setdefault(user.name, Entry(path, user.user or User()))
        for context in one.contexts or ():
            whole.contexts.setdefault(context.name, Entry(path, context.context or Context()))
    return whole


def parse(path: Path, text: str) -> Config:
    """One file's text, typed. Raises KubeconfigError."""
    try:
        value = next(iter(yaml_text.parse(text)), None)
    except yaml_text.YamlError as error:
        raise KubeconfigError(_located(path, error)) from error
    if not isinstance(value, dict):
        what = "empty" if value is None else cut(str(value), 40)
        raise KubeconfigError(f"{path} is {what}, must be a mapping with clusters, users and contexts")
    try:
        return msgspec.convert(value, Config)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{path}: {_key_and_type(str(error))}") from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{path} is no UTF-8 text") from error


def _located(path: Path, error: yaml_text.YamlError) -> str:
    line = f", line {error.line}" if error.line else ""
    column = f", column {error.column}" if error.column else ""
    return f"{path}{line}{column}{':' if line else ''} is no YAML: {cut(error.what)}"


def _key_and_type(error: str) -> str:
    """`users[0].user.token is a number, must be text`, out of what msgspec says of it."""
    missing = _MISSING.search(error)
    if missing is not None:
        return f"{missing[2]}.{missing[1]} is missing, must be given"
    match = _EXPECTED.search(error)
    if match is None:
        return cut(error)
    must, got, key = match.groups()
    expected = [word for word in must.split(" | ") if word != "null"]
    must = " or ".join(_WORDS.get(word, word) for word in expected)
    return f"{key or 'the file'} is {_WORDS.get(got, got or 'something else')}, must be {must}"
