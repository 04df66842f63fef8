"""Pins one pair to a Kubernetes version, by writing its go.mod and go.sum anew:

    python tests/controlplane/pin.py current v1.36.3

k8s.io/kubernetes requires its staging modules at v0.0.0 and replaces them by folders that its module does not ship;
here each gets a `replace` by the released module of that version. etcd is the one that this Kubernetes was tested with.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

KUBERNETES = "k8s.io/kubernetes"
TOOLS = ("go.etcd.io/etcd/server/v3", f"{KUBERNETES}/cmd/kube-apiserver", f"{KUBERNETES}/cmd/kube-scheduler")
FIRST_GO_WITH_TOOL_LINES = (1, 24)


def go(within: Path, *arguments: str) -> str:
    """What this go command prints; raises CalledProcessError."""
    executable = shutil.which("go") or "go"
    return subprocess.run([executable, *arguments], cwd=within, check=True, stdout=subprocess.PIPE, text=True).stdout


def upstream(scratch: Path, version: str) -> dict[str, Any]:
    """The go.mod of this Kubernetes, as `go mod edit -json` tells it."""
    path = json.loads(go(scratch, "mod", "download", "-json", f"{KUBERNETES}@{version}"))["GoMod"]
    parsed: dict[str, Any] = json.loads(go(scratch, "mod", "edit", "-json", path))
    return parsed


def header(pair: str, theirs: dict[str, Any]) -> str:
    """Language version and GODEBUG of upstream: a newer Go then behaves as the one that it was tested with."""
    major, minor, *_ = (int(part) for part in theirs["Go"].split("."))
    needed = max((major, minor), FIRST_GO_WITH_TOOL_LINES)
    return (
        f"// Written by pin.py.\nmodule cardwise.test/controlplane/{pair}\n\n"
        f"go {needed[0]}.{needed[1]}.0\n\ngodebug default=go{major}.{minor}\n"
    )


def edits(theirs: dict[str, Any], version: str) -> list[str]:
    """The arguments of `go mod edit` that require this Kubernetes, replace its staging modules and name the tools."""
    staged = version.replace("v1.", "v0.", 1)
    replaced = [each["Old"]["Path"] for each in theirs["Replace"] if each["New"]["Path"].startswith("./staging/")]
    replacing = [f"-replace={path}={path}@{staged}" for path in replaced]
    return [f"-require={KUBERNETES}@{version}", *replacing, *(f"-tool={tool}" for tool in TOOLS)]


def pin(pair: str, version: str) -> None:
    """Write the pair's go.mod and go.sum; needs the module proxy."""
    home = Path(__file__).resolve().parent / pair
    with tempfile.TemporaryDirectory() as scratch:
        theirs = upstream(Path(scratch), version)
    home.mkdir(exist_ok=True)
    (home / "go.sum").unlink(missing_ok=True)
    (home / "go.mod").write_text(header(pair, theirs))
    go(home, "mod", "edit", *edits(theirs, version))
    go(home, "mod", "tidy")


if __name__ == "__main__":
    pin(*sys.argv[1:])
