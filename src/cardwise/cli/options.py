"""Options and steps that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from cardwise.cli.table import printable
from cardwise.core.model import CardPolicy
from cardwise.scheduler.admission import Rules
from cardwise.sim.snapshot import Snapshot, load
from cardwise.sim.world import World, build
from cardwise.wire.errors import WireError
from cardwise.wire.pods import Defaults
from cardwise.wire.policies import card_policy, node_policy

ALL_WELL, SOME_PENDING, BAD_INPUT = 0, 1, 2
_Value = TypeVar("_Value")
Command = Callable[..., Any]


def _parsed(parse: Callable[[str], _Value]) -> Callable[[click.Context, click.Parameter, str], _Value]:
    def callback(_context: click.Context, _parameter: click.Parameter, text: str) -> _Value:
        try:
            return parse(text)
        except WireError as error:
            raise click.BadParameter(str(error)) from error

    return callback


def policy_options(command: Command) -> Command:
    """`--node-policy` and `--gpu-policy`: the cluster's defaults."""
    for option in (
        click.option(
            "--gpu-policy",
            default="spread",
            show_default=True,
            callback=_parsed(card_policy),
            help="How cards of a node are ranked: binpack, spread, numa, topology-aware, mutex, or a comma chain.",
        ),
        click.option(
            "--node-policy",
            default="binpack",
            show_default=True,
            callback=_parsed(node_policy),
            help="How nodes are ranked: binpack or spread.",
        ),
    ):
        command = option(command)
    return command


def file_option(command: Command) -> Command:
    """`-f`, as often as one likes."""
    text = "A snapshot or manifests; - is standard input."
    return click.option("-f", "--file", "files", multiple=True, required=True, metavar="FILE", help=text)(command)


def output_option(*forms: str) -> Callable[[Command], Command]:
    """`-o`, the first form being the default."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="Output form."
    )


def rules(chosen_node_policy: str, chosen_card_policy: CardPolicy) -> Rules:
    """How pods are admitted, with these default policies."""
    return Rules(defaults=Defaults(node_policy=chosen_node_policy, card_policy=chosen_card_policy))


def read(paths: Sequence[str], namespace: str, chosen: Rules) -> tuple[Snapshot, World]:
    """The snapshot in these files and the world it shows, with a progress bar where somebody watches."""
    size = sum(Path(path).stat().st_size for path in paths if path != "-" and Path(path).is_file())
    with bar("reading", size) as advance:
        snapshot = load(paths, namespace, advance)
    return snapshot, build(snapshot, chosen)


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal; nothing at all elsewhere. Gives the function that advances it."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    with click.progressbar(length=total, label=what, file=sys.stderr) as progress:
        yield progress.update


def say(snapshot: Snapshot, warnings: Sequence[str]) -> None:
    """Errors and warnings to standard error, each once, one a line."""
    for error in snapshot.errors:
        click.echo(printable(f"error: {error}"), err=True)
    for warning in dict.fromkeys(warnings):
        click.echo(printable(f"warning: {warning}"), err=True)
    if snapshot.skipped:
        documents = "document was" if snapshot.skipped == 1 else "documents were"
        click.echo(f"warning: {snapshot.skipped} {documents} skipped", err=True)
