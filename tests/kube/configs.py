"""Kubeconfigs to write down and read."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from cardwise.kube.connection import Connection
from cardwise.kube.kubeconfig import from_files
from kube.certificates import issued

Json = dict[str, Any]
URL = "https://10.0.0.1:6443"


def config(cluster: Json | None = None, user: Json | None = None, **others: Any) -> Json:
    """A kubeconfig with one of each."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": URL} | (cluster or {})}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    } | others


def written(path: Path, content: Json | str | bytes) -> Path:
    if isinstance(content, dict):
        content = msgspec.json.encode(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path: Path, content: Json | str | bytes, context: str = "") -> Connection:
    return from_files([written(tmp_path / "config", content)], context)


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


ALICE = issued("alice@example.org")
PAIR = {"client-certificate-data": data(ALICE.certificate), "client-key-data": data(ALICE.key)}
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", "echo"]}
