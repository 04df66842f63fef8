"""`cardwise scheduler`: flags, errors, signals. The service itself is played by a stand-in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cardwise.scheduler.config import SETTINGS
from commands import run

ROOT = Path(__file__).parent.parent
LONGEST_SECONDS = 30
STAND_IN = """
    import asyncio, logging, sys, types
    from cardwise.cli.main import main

    async def run(config, stop):
        logging.getLogger("stand-in").info("ready", extra={"node": config.policies.node, "also": config.also_named})
        SERVE

    sys.modules["cardwise.scheduler.service"] = service = types.ModuleType("service")
    service.run = run
    main(sys.argv[1:])
"""


def served(serve: str, *args: str) -> subprocess.Popen[bytes]:
    """The command with a service that does this."""
    code = textwrap.dedent(STAND_IN).replace("SERVE", serve)
    command = [sys.executable, "-c", code, "scheduler", "--admission-address=", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.readline()


def test_every_setting_is_a_flag_with_its_default_in_the_help() -> None:
    shown = " ".join(run("scheduler", "--help").stdout.split())
    for row in SETTINGS:
        assert f" {row.flag} " in shown
    assert "How nodes are ranked, for pods that name no node policy. [default: binpack]" in shown
    assert "--admission-privileged refuse|skip" in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_once_the_service_has_ended(number: signal.Signals) -> None:
    with served("await stop.wait(); print('ended in order')") as process:
        assert first_line(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=LONGEST_SECONDS)
    assert (process.returncode, out) == (0, b"ended in order\n"), err


def test_a_second_signal_ends_a_service_that_does_not_end() -> None:
    serve = "await stop.wait(); logging.getLogger().info('ending'); await asyncio.sleep(600)"
    with served(serve) as process:
        assert first_line(process)
        process.terminate()
        assert b"ending" in first_line(process)
        process.terminate()
        assert process.wait(LONGEST_SECONDS) == -signal.SIGTERM


def test_file_and_flags_reach_the_service_and_the_log(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("policies: {node: spread}\nlog: {form: text}")
    flags = ("--config", str(config), "--log-form=json", "--also-named", "a,b", "--also-named", "c")
    with served("return", *flags) as process:
        _out, err = process.communicate(timeout=LONGEST_SECONDS)
    line = json.loads(err)
    assert process.returncode == 0
    assert (line["message"], line["node"], line["also"]) == ("ready", "spread", ["a", "b", "c"])


@pytest.mark.parametrize(
    ("module", "error", "key"),
    [
        ("cardwise.scheduler.certificates", "CertificateError", ""),
        ("cardwise.scheduler.selfsigned", "SelfSignedError", ""),
        ("cardwise.kube.errors", "KubeconfigError", "kubeconfig: "),
        ("cardwise.scheduler.config", "ConfigError", ""),
    ],
)
def test_what_is_wrong_at_the_start_is_one_sentence_and_2(module: str, error: str, key: str) -> None:
    with served(f"from {module} import {error}; raise {error}('where: what it is, must be this')") as process:
        out, err = process.communicate(timeout=LONGEST_SECONDS)
    assert (process.returncode, out) == (2, b"")
    assert err.splitlines()[1:] == [f"error: {key}where: what it is, must be this".encode()]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--config", "/none.yaml"), "error: config /none.yaml cannot be read: No such file or directory"),
        (("--policies-node", "spred"), "error: --policies-node is spred, must be one of binpack, spread"),
        (("--gate-wait-seconds=",), "error: --gate-wait-seconds is (empty), must be a number of seconds, 0 to 600"),
        (("--config", ""), "error: config . cannot be read: Is a directory"),
        (
            (),
            "error: --admission-certificate and --admission-key are (empty), must be given where admission.address is",
        ),
    ],
    ids=["no file", "a word", "nothing", "no name", "no certificate"],
)
def test_wrong_input_is_one_sentence_and_2(args: tuple[str, ...], sentence: str) -> None:
    result = run("scheduler", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_a_sentence_holds_no_escape_sequences(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text('"\\e[31m": 1\n')
    result = run("scheduler", "--config", str(config))
    assert "\x1b" not in result.stderr
    assert "\\x1b[31m is no known key" in result.stderr


def test_an_unknown_flag_is_2() -> None:
    result = run("scheduler", "--policies-nod", "spread")
    assert result.exit_code == 2
    assert "'--policies-node'" in result.stderr
