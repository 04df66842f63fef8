"""Credential plugins as shell scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cardwise.kube.connection import ExecPlugin
from kube.servers import Json

V1 = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def script(tmp_path: Path, body: str) -> Path:
    """An executable shell script."""
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def printing(fields: Json) -> str:
    """A script's line that prints a credential."""
    credential = {"kind": "ExecCredential", "apiVersion": V1, "status": fields}
    return f"cat <<'END'\n{msgspec.json.encode(credential).decode()}\nEND"


def plugin(path: Path, **others: Any) -> ExecPlugin:
    return ExecPlugin(where="/c, user u", api_version=V1, command=str(path), **others)


def counting(tmp_path: Path) -> ExecPlugin:
    """A plugin whose n-th token is tn and ends n hours after midnight."""
    count = tmp_path / "count"
    status_ = '{"token":"t%s","expirationTimestamp":"2026-01-01T0%s:00:00Z"}'
    body = f'{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status_}}}'
    return plugin(script(tmp_path, f"echo >> {count}; N=$(($(wc -l < {count}))); printf '{body}' $N $N"))
