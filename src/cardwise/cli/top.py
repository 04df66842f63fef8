"""`cardwise top`: every card, what is used of it, and by which pods."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
import msgspec

from cardwise.cli import options
from cardwise.cli.table import Styled, print_table, printable
from cardwise.core.model import CardPolicy
from cardwise.sim.usage import CardUsage, NodeUsage, Sums, Usage, usage_of

BAR_CELLS = 20


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
        print_usage(found)
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


def print_usage(found: Usage) -> None:
    """The usage as a table."""
    bars = sys.stdout.isatty()
    header = ("NODE", "CARD", "MODEL", "SLOTS", "MEMORY", "CORES", *(("MEMORY USED",) if bars else ()), "PODS")
    rows = [row for node in found.nodes for row in _node_rows(node, bars=bars)]
    sums = found.sums
    last = (
        "cluster",
        f"{sums.cards} cards",
        "",
        *_sums(sums),
        *_bar(sums.memory_used_mib, sums.memory_total_mib, bars),
    )
    print_table(header, [*rows, last], right=frozenset(("SLOTS", "MEMORY", "CORES")))
    for node in found.nodes:
        if node.out_of_service:
            click.echo(printable(f"{node.node} is out of service: {node.out_of_service}"))


def _node_rows(node: NodeUsage, *, bars: bool) -> Iterator[tuple[str, ...]]:
    """A row a card, and the sum where there are several."""
    name, sums = node.node, node.sums
    for card in node.cards:
        yield name, *_row(card), *_bar(card.memory_used_mib, card.memory_total_mib, bars), " ".join(card.pods)
        name = ""
    if len(node.cards) > 1:
        yield "", "sum", "", *_sums(sums), *_bar(sums.memory_used_mib, sums.memory_total_mib, bars)
    if not node.cards:
        yield name, "no cards"


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


def _bar(used: int, total: int, shown: bool) -> tuple[str, ...]:
    """A bar of the used share, on a terminal; more than all is shown as all, in red."""
    if not shown:
        return ()
    share = used / total if total > 0 else float(used > 0)
    cells = min(BAR_CELLS, round(share * BAR_CELLS))
    return (Styled(click.style("█" * cells + "·" * (BAR_CELLS - cells), fg="red" if share > 1 else "green")),)
