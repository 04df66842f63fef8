"""Runs the command line: in this process, as a process of its own, and on a terminal; and compares with golden files."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from cardwise.cli.main import main

GOLDEN = Path(__file__).parent / "golden"
PROGRAM = (sys.executable, "-m", "cardwise")
LONGEST_SECONDS = 60


def run(*args: str, stdin: str | None = None) -> Result:
    """The command in this process. A crash is raised, not swallowed."""
    result = CliRunner().invoke(main, args, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def as_json(*args: str, stdin: str | None = None) -> Any:
    """What the command prints with `-o json`."""
    return json.loads(run(*args, "-o", "json", stdin=stdin).stdout)


def process(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    return subprocess.run([*PROGRAM, *args], input=stdin, capture_output=True, timeout=LONGEST_SECONDS, check=False)


def on_terminal(*args: str, columns: int = 160) -> tuple[int, str]:
    """The exit code, and what a terminal of this width shows of both outputs."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
    with subprocess.Popen(
        [*PROGRAM, *args], stdin=follower, stdout=follower, stderr=follower, env=environment
    ) as started:
        os.close(follower)
        shown = _until_closed(leader)
        return started.wait(LONGEST_SECONDS), shown.decode()


def _until_closed(leader: int) -> bytes:
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # Linux says EIO where the other side is closed
        pass
    finally:
        os.close(leader)
    return shown


def golden(name: str, found: str) -> str:
    """What the golden file holds; with REGOLD=1 in the environment it is written anew from what was found."""
    path = GOLDEN / name
    if os.environ.get("REGOLD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    return path.read_text(encoding="utf-8")
