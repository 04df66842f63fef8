"""`cardwise scheduler`: the service beside a kube-scheduler."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import click

from cardwise.cli import options
from cardwise.cli.table import printable
from cardwise.kube.errors import KubeconfigError
from cardwise.scheduler import logs
from cardwise.scheduler.certificates import CertificateError
from cardwise.scheduler.config import SETTINGS, Config, ConfigError
from cardwise.scheduler.config_file import load
from cardwise.scheduler.selfsigned import SelfSignedError
from cardwise.scheduler.serving import ListenError
from cardwise.scheduler.settings import Setting

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _run(config: str | None, *, self_signed: bool, **given: str | tuple[str, ...] | None) -> None:
    """Place pods on a cluster: answer kube-scheduler's calls (filter, prioritize, preempt, bind) and the API server's
    admission reviews.

    What is configured stands in a YAML file, in flags, or in both; a flag wins over the file.

    It runs until SIGTERM or SIGINT. Exit code: 0 when asked to end, 2 if the configuration, a certificate or the kubeconfig
    is wrong.
    """
    if self_signed:
        given["admission_self_signed"] = "true"
    try:
        loaded = load(Path(config) if config is not None else None, _texts(given))
        logs.set_up(loaded.log.level, loaded.log.form, sys.stderr)
        asyncio.run(_serve(loaded))
    except KubeconfigError as error:
        _fail(f"kubeconfig: {error}")
    except (ConfigError, CertificateError, SelfSignedError, ListenError) as error:
        _fail(str(error))


def _fail(sentence: str) -> NoReturn:
    click.echo(printable(f"error: {sentence}"), err=True)
    sys.exit(options.BAD_INPUT)


async def _serve(config: Config) -> None:
    from cardwise.scheduler.service import run

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask() -> None:
        """Once; a second signal ends the process at once, as without us."""
        stop.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, ask)
    await run(config, stop)


def _texts(given: Mapping[str, str | tuple[str, ...] | None]) -> dict[str, str]:
    """The flags that were given, by key; a flag that was repeated has commas between."""
    by_name = {_parameter(row): row.key for row in SETTINGS}
    texts = {by_name[name]: value for name, value in given.items() if value is not None and value != ()}
    return {key: value if isinstance(value, str) else ",".join(value) for key, value in texts.items()}


def _parameter(row: Setting) -> str:
    return row.flag.removeprefix("--").replace("-", "_")


def _flags() -> Iterator[click.Option]:
    yield click.Option(["--config"], metavar="FILE", help="The configuration, in YAML.")
    yield click.Option(["--self-signed"], is_flag=True, help="Short for --admission-self-signed true.")
    for row in SETTINGS:
        many = row.kind.item is not None
        again = " Commas between, or the flag again for each." if many else ""
        yield click.Option(
            [row.flag],
            metavar="|".join(row.kind.names) or _METAVARS.get(row.kind.word, "TEXT"),
            multiple=many,
            help=f"{row.doc}{again} [default: {shown_default(row)}]",
        )


_METAVARS = {
    "whole number": "N",
    "seconds": "SECONDS",
    "path": "FILE",
    "address": "HOST:PORT",
    "true or false": "true|false",
}


def shown_default(row: Setting) -> str:
    """A setting's default as a flag's text would be."""
    match row.default:
        case bool():
            return "true" if row.default else "false"
        case list():
            return ",".join(row.default)
        case _:
            return str(row.default) or "(empty)"


command = click.Command("scheduler", callback=_run, params=list(_flags()), help=_run.__doc__)
