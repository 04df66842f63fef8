"""Builds etcd, kube-apiserver and kube-scheduler from their Go modules, once, into a cache keyed by go.sum.

Run as `python tests/controlplane/build.py [current|oldest ...]`. The cache is `$CARDWISE_CONTROLPLANE_CACHE`, or else
`~/.cache/cardwise/controlplane`; after a change of the flags below, delete it. A control plane in `$KUBEBUILDER_ASSETS`
is taken instead, whichever pair is asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = Path(__file__).resolve().parent
PAIRS = ("current", "oldest")
BINARIES = {  # what Go calls each after its package, and what we call it
    "server": "etcd",
    "kube-apiserver": "kube-apiserver",
    "kube-scheduler": "kube-scheduler",
}
SETTINGS = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",  # the Go that is here or none: no toolchain is fetched behind anyone's back
    "GOWORK": "off",
    "GOEXPERIMENT": "nojsonv2",  # kube-openapi was written for the JSON of Go 1.26, which a newer Go replaces
}
VERSION_PACKAGE = "k8s.io/component-base/version"


class UnavailableError(Exception):
    """The control plane cannot be had here; the text says in one line why, and what to do."""


def chosen() -> str:
    """The pair of `$CARDWISE_CONTROLPLANE`: "current" (the default) or "oldest"; raises ValueError for another name."""
    pair = os.environ.get("CARDWISE_CONTROLPLANE", "current")
    if pair not in PAIRS:
        raise ValueError(f"CARDWISE_CONTROLPLANE is {pair}, must be one of {', '.join(PAIRS)}")
    return pair


def given() -> Path | None:
    """The folder that `$KUBEBUILDER_ASSETS` names, used as it is; raises UnavailableError where a binary lacks in it."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return None
    missing = [name for name in BINARIES.values() if not (Path(named) / name).is_file()]
    if missing:
        raise UnavailableError(f"KUBEBUILDER_ASSETS is {named}, which has no {', '.join(missing)}: add it, or unset it")
    return Path(named)


def version(pair: str) -> str:
    """The Kubernetes version of the binaries in use: of those given, or as the pair's go.mod pins it (v1.30.14)."""
    if (assets := given()) is not None:
        said = subprocess.run([assets / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1]
    text = (MODULES / pair / "go.mod").read_text()
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{MODULES / pair / 'go.mod'} does not require k8s.io/kubernetes")
    return found[1]


def folder(pair: str) -> Path:
    """Where the pair's binaries are, once built."""
    cache = os.environ.get("CARDWISE_CONTROLPLANE_CACHE") or Path.home() / ".cache/cardwise/controlplane"
    return Path(cache) / hashlib.sha256((MODULES / pair / "go.sum").read_bytes()).hexdigest()[:16]


def built(pair: str) -> Path:
    """The folder with the pair's binaries; raises UnavailableError where they have not been built. Builds nothing."""
    if (assets := given()) is not None:
        return assets
    if folder(pair).is_dir():
        return folder(pair)
    cure = (
        f"run `python tests/controlplane/build.py {pair}`"
        if shutil.which("go")
        else "there is no go on the PATH to build it with"
    )
    raise UnavailableError(f"control plane {version(pair)} is not built here: {cure}")


def build(pair: str) -> Path:
    """The folder with the pair's binaries, built first if need be (minutes); raises UnavailableError where that fails.

    Where `$KUBEBUILDER_ASSETS` gives them, nothing is built.

    Another process may build at the same time: each works in a folder of its own, and the first to finish is kept.
    """
    final = given() or folder(pair)
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix="building-") as scratch:
        ready = Path(scratch) / "bin"
        _compile(pair, ready)
        for made, name in BINARIES.items():
            (ready / made).rename(ready / name)
        _keep(ready, final)
    return final


def _compile(pair: str, into: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise UnavailableError(f"control plane {version(pair)} cannot be built: there is no go on the PATH")
    argv = [go, "build", "-C", str(MODULES / pair), "-o", f"{into}{os.sep}", *_flags(version(pair)), "tool"]
    ended = subprocess.run(
        argv, env=os.environ | SETTINGS, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnavailableError(f"control plane {version(pair)} cannot be built: {last}")


def _flags(label: str) -> list[str]:
    """No debug information, neither compiled nor linked, and no cloud providers where they are still in the tree."""
    major, minor, _patch = label.removeprefix("v").split(".")
    stamps = {"gitVersion": label, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    linked = " ".join(["-s", "-w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])
    return ["-mod=readonly", "-buildvcs=false", "-tags=providerless", "-gcflags=all=-dwarf=false", f"-ldflags={linked}"]


def _keep(ready: Path, final: Path) -> None:
    try:
        ready.rename(final)
    except OSError:
        if not final.is_dir():
            raise


def main(pairs: list[str]) -> int:
    for pair in pairs or [chosen()]:
        try:
            sys.stdout.write(f"{pair}: Kubernetes {version(pair)} in {build(pair)}\n")
        except UnavailableError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
