"""Programs that print a credential, as real scripts: what they are told, and what they can do wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cardwise.kube.errors import KubeconfigError
from cardwise.kube.exec_plugin import MOST_BYTES, credential_of, read_printed
from kube.plugins import NOW, V1, plugin, printing, script
from kube.servers import Json, run


def test_a_plugin_knows_its_environment_and_what_is_asked_of_it(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = script(tmp_path, f'echo "$1 $EXTRA $KUBERNETES_EXEC_INFO" > {seen}\n' + printing({"token": "t"}))
    run(credential_of(plugin(path, args=("a b",), env=(("EXTRA", "e"),), info="{}"), NOW))
    assert seen.read_text() == "a b e {}\n"


RUN_FAULTS: dict[str, tuple[str, str]] = {
    "fails": ("echo one; echo 'two\tx' >&2; exit 3", "ended with code 3, saying: two x"),
    "fails silently": ("exit 1", "ended with code 1, saying: (empty)"),
    "is killed": ("kill -9 $$", "ended with code -9, saying: (empty)"),
    "prints garbage": ("echo secret", "printed 7 bytes that are not JSON, must be an ExecCredential"),
    "prints nothing": ("", "printed 0 bytes that are not JSON, must be an ExecCredential"),
    "prints without an end": ("yes", f"prints more than {MOST_BYTES // 1024} KiB"),
    "is expired": (
        printing({"token": "t", "expirationTimestamp": "2025-12-31T23:59:59Z"}),
        "printed a credential that expired at 2025-12-31T23:59:59+00:00",
    ),
}


@pytest.mark.parametrize(("body", "says"), RUN_FAULTS.values(), ids=RUN_FAULTS)
def test_a_plugin_that_fails_is_a_sentence(tmp_path: Path, body: str, says: str) -> None:
    path = script(tmp_path, body)
    with pytest.raises(KubeconfigError) as caught:
        run(credential_of(plugin(path), NOW))
    assert str(caught.value) == f"/c, user u: exec command {path} {says}"


def test_a_plugin_that_was_removed_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"cannot be run: No such file or directory \(get it\)$"):
        run(credential_of(plugin(tmp_path / "plugin", install_hint="get it"), NOW))


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks for processes in /proc")  # noqa: PTH110
def test_a_plugin_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = script(tmp_path, f"sleep 100 & echo $! > {pids}; sleep 100")
    with pytest.raises(KubeconfigError, match=r"did not end within 0\.5 s$"):
        run(credential_of(plugin(path), NOW, timeout_seconds=0.5))
    child = int(pids.read_text())
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(child)


def printed(change: Callable[[Json], Json]) -> bytes:
    good = {"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "t"}}
    return msgspec.json.encode(change(good))


PRINT_FAULTS: dict[str, tuple[bytes, str]] = {
    "another version": (
        printed(lambda one: one | {"apiVersion": "client.authentication.k8s.io/v1beta1"}),
        f"printed client.authentication.k8s.io/v1beta1 ExecCredential, must be {V1} ExecCredential",
    ),
    "another kind": (printed(lambda one: one | {"kind": "Pod"}), f"printed {V1} Pod, must be {V1} ExecCredential"),
    "no status": (printed(lambda one: one | {"status": None}), "printed a status without token and clientCertificate"),
    "nothing in it": (printed(lambda one: one | {"status": {}}), "printed a status without token and clientCertific"),
    "another type": (
        printed(lambda one: one | {"status": {"token": 5}}),
        "printed a credential that cannot be read: Expected `str`, got `int` - at `$.status.token`",
    ),
    "half a pair": (
        printed(lambda one: one | {"status": {"clientKeyData": "x"}}),
        "printed only one of clientCertificateData and clientKeyData, must be both or none",
    ),
    "a broken token": (
        printed(lambda one: one | {"status": {"token": "a\nb"}}),
        "printed a token with blanks or unprintable characters",
    ),
    "a broken time": (
        printed(lambda one: one | {"status": {"token": "t", "expirationTimestamp": "soon"}}),
        "printed expirationTimestamp soon, must be a time of RFC 3339",
    ),
    "a time without a zone": (
        printed(lambda one: one | {"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00"}}),
        "printed expirationTimestamp 2026-01-01T00:00:00, must be a time of RFC 3339",
    ),
}


@pytest.mark.parametrize(("output", "says"), PRINT_FAULTS.values(), ids=PRINT_FAULTS)
def test_an_output_that_is_no_credential_is_a_sentence(output: bytes, says: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read_printed(plugin(Path("p")), output)
    assert str(caught.value).startswith(f"/c, user u: exec command p {says}")


def test_the_older_version_of_plugins_is_understood() -> None:
    beta = "client.authentication.k8s.io/v1beta1"
    one = read_printed(replace(plugin(Path("p")), api_version=beta), printed(lambda one: one | {"apiVersion": beta}))
    assert (one.token, one.key_pair, one.expires_at) == ("t", None, None)
