"""`cardwise`, also as `kubectl cardwise`: the commands, each loaded when it is first called."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import cast

import click

COMMANDS = {
    "demo": "Watch it work, without a cluster.",
    "simulate": "Place pending pods on a snapshot or on manifests.",
    "explain": "Say why a pod does not fit, and what would make it fit.",
    "top": "Show every card: what is used, and by which pods.",
    "scheduler": "Place pods on a cluster, beside a kube-scheduler.",
}


class _Commands(click.Group):
    """Commands by name, imported when called: `cardwise --help` loads no NumPy."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"cardwise.cli.{cmd_name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("cardwise"), message="cardwise %(version)s")
def main() -> None:
    """Places Kubernetes pods on shared GPU cards: which node, and which card on it."""
