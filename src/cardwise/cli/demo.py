"""`cardwise demo`: watch it work, without a cluster."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import signal
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cardwise.cli import options
from cardwise.cli.table import printable
from cardwise.cli.top import print_usage

if TYPE_CHECKING:
    from cardwise.sim.demo.play import Result
    from cardwise.sim.demo.stage import Stage

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAST_NODES, MOST_NODES = 5, 500
LEAST_COLUMNS, INDENT = 60, " " * 8

_log = logging.getLogger(__name__)


@click.command()
@click.option("--once", is_flag=True, help="End when all has been shown, instead of waiting for Ctrl-C.")
@click.option(
    "--nodes",
    type=click.IntRange(LEAST_NODES, MOST_NODES),
    default=6,
    show_default=True,
    help="How many nodes; each beyond the fifth brings two more pods.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Makes the cards' UUIDs and those pods' sizes.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log of the service and of what plays around it.")
def command(once: bool, nodes: int, seed: int, verbose: bool) -> None:
    """Run the scheduler in a cluster of make-believe: an API server in memory, kubelets and a kube-scheduler that play
    their parts, and the real service, which admits, places and wakes the pods of a small mixed workload.

    What happens is shown line by line, then every card and what is used of it. The API server can be reached with kubectl,
    by the kubeconfig that is printed, until Ctrl-C. Nothing is left behind.

    Exit code: 0 if every pod went where it should, 1 if one did not or it was ended before that.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # read when grpc is loaded, which complains at its end otherwise
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, stream=sys.stderr, force=True)
    import cardwise.sim.demo.play  # noqa: F401  (a second that no signal handler would cover)

    well = unheard = False
    try:
        well = asyncio.run(_run(once=once, nodes=nodes, seed=seed))
    except* BrokenPipeError:
        unheard = True
    except* Exception as errors:  # noqa: BLE001  (whatever part of it fails)
        _log.info("the demo ends", exc_info=errors)
        _complain(errors)
    if unheard:
        raise BrokenPipeError(errno.EPIPE, "nobody listens any more")  # click ends quietly then
    sys.exit(options.ALL_WELL if well else options.SOME_PENDING)


async def _run(*, once: bool, nodes: int, seed: int) -> bool:
    """Whether it went as it should. A signal ends it in good order, a second one at once."""
    from cardwise.sim.demo.play import play

    loop, stop, shown = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def ask() -> None:
        stop.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    async def then(stage: Stage, result: Result) -> None:
        _print_result(result)
        shown.set()
        if not once:
            click.echo(f"\nthe cluster goes on: kubectl --kubeconfig {stage.kubeconfig} get pods -A; Ctrl-C ends it")
            await stop.wait()

    for number in SIGNALS:
        loop.add_signal_handler(number, ask)
    with tempfile.TemporaryDirectory(prefix="cardwise-demo-") as folder:
        playing = asyncio.create_task(play(nodes, seed, Path(folder), _say, then))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((playing, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not playing.done() and not shown.is_set():
            playing.cancel()
        try:
            return not (await playing).astray
        except asyncio.CancelledError:
            return False


def _complain(errors: BaseExceptionGroup[Exception]) -> None:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _complain(error)
        else:
            click.echo(printable(f"error: {type(error).__name__}: {error} (--verbose shows more)"), err=True)


def _say(line: str) -> None:
    """Whole, for whoever reads it with a program; on a terminal broken into what fits there."""
    line = printable(line)
    if sys.stdout.isatty():
        line = textwrap.fill(line, max(LEAST_COLUMNS, shutil.get_terminal_size().columns - 1), subsequent_indent=INDENT)
    click.echo(line)


def _print_result(result: Result) -> None:
    click.echo()
    print_usage(result.usage)
    click.echo()
    for line in result.lines():
        click.echo(line)
    for pod, fate in result.astray.items():
        click.echo(printable(f"error: {pod} is {fate}, and should not be"), err=True)
