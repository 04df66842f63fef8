"""`cardwise demo` as people run it: what it shows, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from commands import PROGRAM

LONGEST_SECONDS = 60

LINES = {
    "a share of a card": r"team-a/train-0  bound to \S+, card \d \(20480 MiB, 30 %\)",
    "packed onto a used card": r"team-a/packed  bound to a100-0, card 0 \(8000 MiB, 0 %\)",
    "the model that is asked for": r"team-b/infer  bound to t4-0, card \d \(4096 MiB, 0 %\)",
    "not the card that is refused": r"team-b/picky  bound to a40-0, card 1 \(10000 MiB, 0 %\)",
    "a whole card": r"research/whole  bound to a100-\d, card \d \(81920 MiB, 100 %, alone\)",
    "two cards": r"research/pair  bound to a100-\d, cards \d and \d \(40960 MiB, 0 % each\)",
    "a card alone": r"research/alone  bound to t4-0, card \d \(4000 MiB, 0 %, alone\)",
    "why one waits": r"team-a/next  waits: 0 of 6 nodes fit: .*l40s-0: needs 1 card",
    "and is woken": r"team-a/next  is woken: it fits now",
    "and placed": r"team-a/next  bound to l40s-0, card \d \(30000 MiB, 0 %\)",
    "what never fits": r"research/never  waits: 0 of 6 nodes fit: .*too small \(100000 MiB asked\)",
    "refused at admission": r"team-b/typo  is refused at admission: .*nvidia\.com/gpucores is 120, must be 0 to 100",
    "evicted": r"batch/small-\d  is evicted for team-a/urgent",
    "in its place": r"team-a/urgent  bound to p4-0, card 0 \(2000 MiB, 0 %\)",
    "the table": r"p4-0 +0: GPU-\S+ +NVIDIA Tesla P4 +2/2 +4000/7680 MiB .*team-a/urgent",
    "the pods": r"pods: 13 placed, 1 waiting, 1 refused at admission, 1 evicted, 1 ended",
    "the writes": r"writes by the scheduler: \d+ \(\d+ explanations?, 15 bindings, 1 wake-up\)",
    "the times": r"decisions: \d+ filter calls, median \d+\.\d ms, longest \d+\.\d ms, over HTTP",
}


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen([*PROGRAM, "demo", *words], stdout=pipe, stderr=pipe, text=True, env=environment)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, int, Path]:
    """Both outputs of one whole run, its exit code, and the folder for its files."""
    folder = tmp_path_factory.mktemp("once")
    with started(folder, "--once", "--seed", "7") as process:
        shown, complaints = process.communicate(timeout=LONGEST_SECONDS)
    return shown, complaints, process.returncode, folder


def test_it_ends_well_and_leaves_nothing(once: tuple[str, str, int, Path]) -> None:
    _shown, complaints, code, folder = once
    assert complaints == ""
    assert code == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_it_shows(once: tuple[str, str, int, Path], line: str) -> None:
    assert re.search(line, once[0]), once[0]


def test_each_line_of_its_course_says_when(once: tuple[str, str, int, Path]) -> None:
    times = [float(found) for found in re.findall(r"^\+(\d+\.\d\d)s  \S+/\S+  ", once[0], re.MULTILINE)]
    assert len(times) > 30
    assert times == sorted(times)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_in_the_middle_ends_it_clean(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "--once") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "team-b/infer" in line:
                break
        process.send_signal(number)
        _shown, complaints = process.communicate(timeout=LONGEST_SECONDS)
    assert complaints == ""
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_it_goes_on_until_it_is_ended(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        last = next(line for line in process.stdout if "the cluster goes on" in line)
        kubeconfig = Path(last.split("--kubeconfig ")[1].split()[0])
        assert kubeconfig.is_file()
        process.send_signal(signal.SIGINT)
        _shown, complaints = process.communicate(timeout=LONGEST_SECONDS)
    assert (complaints, process.returncode) == ("", 0)
    assert not kubeconfig.exists()


def test_whoever_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    with started(tmp_path, "--once") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        complaints = process.stderr.read()
        process.wait(LONGEST_SECONDS)
    assert complaints == ""
    assert list(tmp_path.iterdir()) == []
