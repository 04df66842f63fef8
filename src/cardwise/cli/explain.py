"""`cardwise explain`: why a pod does not fit, and what would make it fit."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import click
import msgspec
import yaml12

from cardwise.cli import options
from cardwise.cli.table import printable
from cardwise.core.explain import CardVerdict, NodeVerdict
from cardwise.core.model import CardPolicy, PodRequest
from cardwise.sim.explain import Explanation, UnknownPodError, explain, find_pod

MOST_NODES = 20


@click.command()
@click.argument("pod", metavar="NAMESPACE/POD")
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
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of a pod or manifest that names none."
)
@click.option("--all-nodes", is_flag=True, help=f"Show every node, not only the {MOST_NODES} that come closest.")
@options.policy_options
@options.output_option("text", "json", "yaml")
def command(
    pod: str,
    more_files: tuple[str, ...],
    files: tuple[str, ...],
    namespace: str,
    all_nodes: bool,
    node_policy: str,
    gpu_policy: CardPolicy,
    form: str,
) -> None:
    """Say where NAMESPACE/POD would go, or for each node and card why not, and the smallest changes that would help.

    Every change told was planned before: it does make the pod fit. The pod is judged beside what runs now; other pending
    pods are left out of account.

    Exit code: 0 if the pod fits or runs, 1 if it does not fit, 2 if the input is wrong.
    """
    snapshot, world = options.read([*files, *more_files], namespace, options.rules(node_policy, gpu_policy))
    full_name = pod if "/" in pod else f"{namespace}/{pod}"
    try:
        found = explain(world, find_pod(world, snapshot, full_name))
    except UnknownPodError as error:
        options.say(snapshot, [])
        raise click.BadParameter(str(error), param_hint="NAMESPACE/POD") from error
    options.say(snapshot, [*world.warnings, *found.warnings])
    if form == "text":
        _print_text(found, MOST_NODES if not all_nodes else len(found.nodes))
    else:
        whole = as_object(found)
        click.echo(yaml12.format_yaml(whole) if form == "yaml" else msgspec.json.format(msgspec.json.encode(whole)))
    well = found.fits or found.state == "runs"
    sys.exit(options.BAD_INPUT if snapshot.errors else options.ALL_WELL if well else options.SOME_PENDING)


def as_object(found: Explanation) -> dict[str, Any]:
    """The explanation as plain values: the interface of `-o json`."""
    return {
        "pod": found.pod,
        "fits": found.fits,
        "never_fits": found.never_fits,
        "reason": found.reason,
        "state": found.state,
        "bound_to": found.bound_to,
        "node": found.placement.node if found.placement else "",
        "nearest": found.nearest.node if found.nearest else "",
        "nodes": {verdict.node: _node(verdict) for verdict in found.nodes},
        "changes": [{"change": change.change, "node": change.node} for change in found.changes],
        "headroom": found.headroom,
        "warnings": list(found.warnings),
    }


def _node(verdict: NodeVerdict) -> dict[str, Any]:
    return {
        "fits": verdict.fits,
        "reason": verdict.reason,
        "rules": [refusal.text for refusal in verdict.rules],
        "container": verdict.container,
        "cards": {
            card.card.uuid: {"fits": not card.check, "check": card.check, "code": card.code, "reason": card.says}
            for card in verdict.cards
        },
    }


def _print_text(found: Explanation, most: int) -> None:
    _print_verdict(found)
    if found.request is None:
        return
    _line(f"asks: {_asks(found.request)}")
    if found.nearest:
        _print_nodes(found, most)
        _line(f"\nnearest: {found.nearest.node} ({found.nearest.reason})")
        _print_changes(found)
    included = ", this one included" if found.state == "waits" and found.headroom else ""
    _line(f"\npods of this shape that fit now: {found.headroom}{included}")


def _line(text: str, *, bold: bool = False) -> None:
    """One line, after a blank one where the text begins so."""
    head = "\n" * text.startswith("\n")
    click.secho(head + printable(text.removeprefix("\n")), bold=bold)


def _print_verdict(found: Explanation) -> None:
    if found.state != "waits":
        state = f"is on node {found.bound_to}" if found.state == "runs" else "has ended"
        _line(f"{found.pod} {state}; what follows is about another pod of its shape")
    if found.placement:
        cards = [
            f"{container.name} on {card.index}: {card.uuid}"
            for container in found.placement.containers
            for card in container.cards
        ]
        _line(f"{found.pod} fits: node {found.placement.node}, {', '.join(cards)}")
    elif found.fits:
        _line(found.reason)
    elif found.nearest is None:
        _line(f"{found.pod} is not placed: {found.reason}")
    elif found.never_fits:
        _line(f"{found.pod} never fits: no pod's leaving would help")
    else:
        _line(f"{found.pod} does not fit now")


def _asks(request: PodRequest) -> str:
    parts = []
    for container in request.containers:
        for asked in container.cards:
            memory = f"{asked.memory_mib} MiB" if asked.memory_mib else f"{asked.memory_percent} % of memory"
            number = f"{asked.count} {asked.family} card{'s' * (asked.count != 1)}"
            parts.append(f"container {container.name} {number} with {memory} and {asked.cores_percent} % of compute")
    return "; ".join(parts)


def _print_nodes(found: Explanation, most: int) -> None:
    refused = sorted((verdict for verdict in found.nodes if not verdict.fits), key=_closeness)
    for verdict in refused[:most]:
        _line(f"\n{verdict.node}: {verdict.reason}", bold=True)
        for card in verdict.cards:
            _line(f"  {card.card.index}: {card.card.uuid} {card.card.model}: {_verdict(card)}")
    rest = Counter(verdict.reason for verdict in refused[most:])
    if rest:
        _line(f"\nand {rest.total()} more nodes:")
    for reason, count in rest.most_common(MOST_NODES):
        _line(f"  {count}: {reason}")


def _closeness(verdict: NodeVerdict) -> tuple[int, int, str]:
    return len(verdict.rules), -sum(not card.check for card in verdict.cards), verdict.node


def _verdict(card: CardVerdict) -> str:
    return f"{card.code}: {card.says}" if card.check else "fits"


def _print_changes(found: Explanation) -> None:
    if not found.changes:
        _line("\nno single change of what it asks of cards, and no single pod's ending, would make it fit")
        return
    _line("\nany one of these would make it fit:")
    for change in found.changes:
        _line(f"  {change.change} (on {change.node})")
