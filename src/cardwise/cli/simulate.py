"""`cardwise simulate`: place pending pods offline."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec
import yaml12

from cardwise.cli import options
from cardwise.cli.table import print_table, printable
from cardwise.core.model import CardAllocation, CardPolicy, ContainerAllocation
from cardwise.sim.simulate import NodeReason, Pending, Placed, Result, simulate
from cardwise.sim.world import World


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-n",
    "--namespace",
    default=None,
    help="Report only this namespace's pods; also the namespace of manifests without one.",
)
@options.policy_options
@options.output_option("table", "json", "yaml")
def command(files: tuple[str, ...], namespace: str | None, node_policy: str, gpu_policy: CardPolicy, form: str) -> None:
    """Place the pending pods in FILE... and say which node and cards each gets, or why it waits.

    FILE is what `kubectl get nodes,pods -A -o yaml` prints, or any manifests: YAML or JSON, several documents, Lists, and
    Deployments, StatefulSets, ReplicaSets, Jobs and CronJobs, whose pods are placed too. - is standard input.

    Exit code: 0 if all pods are placed, 1 if some wait, 2 if the input is wrong.
    """
    snapshot, world = options.read(files, namespace or "default", options.rules(node_policy, gpu_policy))
    with options.bar("placing", len(world.waiting)) as advance:
        result = simulate(world, detailed=form != "table", namespace=namespace, progress=lambda _done, _all: advance(1))
    warnings = [*world.warnings, *result.warnings]
    if result.unmanaged:
        warnings.append(f"{result.unmanaged} pending pods ask for no card and are left to kube-scheduler")
    if namespace is not None and not result.placed and not result.pending:
        warnings.append(f"no pod of namespace {namespace} waits for cards")
    options.say(snapshot, warnings)
    if form == "table":
        _print_table(result)
    else:
        _print_object(world, result, [*(f"error: {error}" for error in snapshot.errors), *warnings], form)
    bad = bool(snapshot.errors)
    sys.exit(options.BAD_INPUT if bad else options.SOME_PENDING if result.pending else options.ALL_WELL)


def _print_object(world: World, result: Result, warnings: list[str], form: str) -> None:
    if form == "yaml":
        placements = [_placement(placed) for placed in result.placed]
        pending = [_pending(world, each) for each in result.pending]
        whole = {"placements": placements, "pending": pending, "warnings": list(dict.fromkeys(warnings))}
        click.echo(yaml12.format_yaml(whole))
        return
    for piece in _json(world, result, warnings):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _json(world: World, result: Result, warnings: list[str]) -> Iterator[bytes]:
    """One object, an entry a line, made as it is written: thousands of pods times nodes do not fit in memory at once."""
    encode = msgspec.json.encode
    yield b'{"placements": ['
    yield from _entries(encode(_placement(placed)) for placed in result.placed)
    yield b'],\n "pending": ['
    yield from _entries(encode(_pending(world, each)) for each in result.pending)
    yield b'],\n "warnings": ['
    yield from _entries(encode(warning) for warning in dict.fromkeys(warnings))
    yield b"]}\n"


def _entries(encoded: Iterable[bytes]) -> Iterator[bytes]:
    for number, entry in enumerate(encoded):
        yield (b",\n  " if number else b"\n  ") + entry


def _placement(placed: Placed) -> dict[str, Any]:
    placement = placed.placement
    containers = [{"name": c.name, "cards": [_card(card) for card in c.cards]} for c in placement.containers]
    return {"pod": placed.pod, "node": placement.node, "containers": containers}


def _card(card: CardAllocation) -> dict[str, Any]:
    return {"uuid": card.uuid, "index": card.index, "memory_mib": card.memory_mib, "cores": card.cores_percent}


def _pending(world: World, pending: Pending) -> dict[str, Any]:
    nodes = {
        world.cluster.cards.node(n).name: _node_reason(world, n, reason)
        for n, reason in enumerate(pending.nodes)
        if reason is not None
    }
    return {"pod": pending.pod, "reason": pending.reason, "nodes": nodes}


def _node_reason(world: World, n: int, reason: NodeReason) -> dict[str, Any]:
    uuids = (card.uuid for card in world.cluster.cards.node(n).cards)
    return {
        "reason": reason.reason,
        "cards": {uuid: code for uuid, code in zip(uuids, reason.codes, strict=False) if code},
    }


HEADER = ("POD", "NODE", "CONTAINER", "CARD", "MEMORY", "CORES")


def _print_table(result: Result) -> None:
    if result.placed:
        rows = [row for placed in result.placed for row in _rows(placed)]
        print_table(HEADER, rows, right=frozenset(("MEMORY", "CORES")))
        click.echo()
    if result.pending:
        click.secho("PENDING", bold=True)
        for pending in result.pending:
            said = pending.reason.startswith(f"pod {pending.pod}")
            click.echo(printable(pending.reason if said else f"{pending.pod}: {pending.reason}"))
        click.echo()
    total = len(result.placed) + len(result.pending)
    nodes = len({placed.placement.node for placed in result.placed})
    on = f", on {nodes} node{'s' * (nodes != 1)}" if nodes else ""
    click.echo(f"{len(result.placed)} of {total} pods placed{on}; {len(result.pending)} pending")


def _rows(placed: Placed) -> Iterator[tuple[str, ...]]:
    """A row a card; pod and node stand in the first one only."""
    pod, node = placed.pod, placed.placement.node
    for container in placed.placement.containers:
        for card in container.cards:
            yield pod, node, *_cells(container, card)
            pod = node = ""


def _cells(container: ContainerAllocation, card: CardAllocation) -> tuple[str, str, str, str]:
    return container.name, f"{card.index}: {card.uuid}", f"{card.memory_mib} MiB", f"{card.cores_percent} %"
