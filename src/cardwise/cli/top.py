"""`cardwise top`: every card, what is used of it, and by which pods."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from cardwise.cli import options
from cardwise.core.model import CardPolicy
from cardwise.sim.usage import CardUsage, Sums, Usage, usage_of

BAR_CELLS = 20
_NARROW = 120


@click.command()
@click.argument("more_files", nargs=-1, metavar="[FILE...]")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A snapshot or manifests; - is standard input.",
)
@options.output_option("table", "json")
def command(more_files: tuple[str, ...], files: tuple[str, ...], form: str) -> None:
    """Show every card: model, slots, memory and compute used and in total, and the pods on it; sums per node and in all.

    What is used is what running pods hold by their records. Exit code: 0, or 2 if the input is wrong.
    """
    snapshot, world = options.read([*files, *more_files], "default", options.rules("binpack", CardPolicy()))
    found = usage_of(world.cluster)
    options.say(snapshot, world.warnings)
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(as_object(found))))
    else:
        _print_table(found)
    sys.exit(options.BAD_INPUT if snapshot.errors else options.ALL_WELL)


def as_object(found: Usage) -> dict[str, Any]:
    """The usage as plain values: the interface of `-o json`."""
    return {
        "nodes": [
            {
                "node": node.node,
                "out_of_service": node.out_of_service,
                "cards": [asdict(card) for card in node.cards],
                "sum": asdict(node.sums),
            }
            for node in found.nodes
        ],
        "sum": asdict(found.sums),
    }


def _print_table(found: Usage) -> None:
    out = options.console()
    bars = out.is_terminal
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "CARD", "MODEL", "SLOTS", "MEMORY", "CORES"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("SLOTS", "MEMORY", "CORES") else "left")
    if bars:
        table.add_column("MEMORY USED")
    table.add_column("PODS", overflow="fold")
    for node in found.nodes:
        name = node.node
        for card in node.cards:
            table.add_row(
                name, *_row(card), *_bar(card.memory_used_mib, card.memory_total_mib, bars), _pods(card, bars)
            )
            name = ""
        if not node.cards:
            table.add_row(name, "no cards")
        elif len(node.cards) > 1:
            table.add_row(
                "", "sum", "", *_sums(node.sums), *_bar(node.sums.memory_used_mib, node.sums.memory_total_mib, bars)
            )
        if node.out_of_service:
            table.add_row("", f"out of service: {node.out_of_service}")
    table.add_row(
        "cluster",
        f"{found.sums.cards} cards",
        "",
        *_sums(found.sums),
        *_bar(found.sums.memory_used_mib, found.sums.memory_total_mib, bars),
    )
    out.print(table)


def _row(card: CardUsage) -> tuple[str, str, str, str, str]:
    state = "".join(f" ({word})" for word, on in (("unhealthy", not card.healthy), ("cordoned", card.cordoned)) if on)
    return (
        f"{card.index}: {card.uuid}{state}",
        card.model,
        f"{card.slots_used}/{card.slots_total}",
        f"{card.memory_used_mib}/{card.memory_total_mib} MiB",
        f"{card.cores_used_percent}/{card.cores_total_percent} %",
    )


def _sums(sums: Sums) -> tuple[str, str, str]:
    return (
        f"{sums.slots_used}/{sums.slots_total}",
        f"{sums.memory_used_mib}/{sums.memory_total_mib} MiB",
        f"{sums.cores_used_percent}/{sums.cores_total_percent} %",
    )


def _bar(used: int, total: int, shown: bool) -> tuple[Text, ...]:
    """A bar of the used share, on a terminal; more than all is shown as all, in red."""
    if not shown:
        return ()
    share = used / total if total > 0 else float(used > 0)
    cells = min(BAR_CELLS, round(share * BAR_CELLS))
    return (Text("█" * cells + "·" * (BAR_CELLS - cells), style="red" if share > 1 else "green"),)


def _pods(card: CardUsage, folded: bool) -> str:
    pods: Iterable[str] = card.pods
    return (" " if folded else ",").join(pods)
