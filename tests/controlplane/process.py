"""One child process with a log file, and waiting for what it promises."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


class StartFailedError(RuntimeError):
    """A process ended, or did not get ready in time; the text names it and ends with the tail of its log."""


class Process:
    """A running child. Its output goes to `log`; only this child is ever signalled, by its own handle."""

    def __init__(self, name: str, argv: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(  # its own session: Ctrl-C goes to the tests, which then stop it in order
                [*_dies_with_us(), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return self._child.poll() is None

    def end(self, *, seconds: float) -> int:
        """Ask it to end, and give its exit status; raises subprocess.TimeoutExpired where that takes longer."""
        self._child.terminate()
        return self._child.wait(seconds)

    def kill(self) -> None:
        """End it at once, without a word."""
        self._child.kill()
        self._child.wait()

    def stop(self, *, grace_seconds: float = 2.0) -> None:
        """Return when it is gone: asked first, killed once `grace_seconds` are over."""
        self._child.terminate()
        try:
            self._child.wait(max(grace_seconds, 0))
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return when `ready()` holds; raises StartFailedError where the process ends before, or the time is over."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running():
                raise StartFailedError(f"{self.name} ended with status {self._child.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise StartFailedError(f"{self.name} was not ready after {seconds:g} s:\n{self.log_tail()}")
            time.sleep(POLL_SECONDS)

    def log_tail(self, *, lines: int = 15) -> str:
        """The last `lines` of what it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def wait_for(what: str, look: Callable[[], T | None], *, seconds: float = 10.0) -> T:
    """The first value of `look()` that is true; raises TimeoutError, naming `what`, after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {seconds:g} s")
        time.sleep(POLL_SECONDS)


def free_ports(count: int) -> list[int]:
    """Distinct TCP ports that are free on 127.0.0.1 now; another process may still take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def accepts(port: int) -> bool:
    """Whether something listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _dies_with_us() -> list[str]:
    """A prefix with which the child is killed when the tests are killed, so that none is left behind."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
