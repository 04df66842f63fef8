"""Lines of the metrics page, made by hand: tens of thousands of gauges are too slow through a client library."""

from __future__ import annotations

from collections.abc import Iterable

from cardwise.scheduler.series import Series


def heading(series: Series) -> str:
    """The HELP and TYPE lines, which stand before all lines of a series."""
    return f"# HELP {series.name} {series.meaning}\n# TYPE {series.name} {series.kind}\n"


def labelled(names: Iterable[str], values: Iterable[str]) -> str:
    """Labels in their braces, each value escaped."""
    pairs = ",".join([f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)])
    return f"{{{pairs}}}"


def escaped(value: str) -> str:
    """A label's value as it may stand between quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def encoded(text: str) -> bytes:
    """Valid UTF-8, whatever came in from the cluster: half of a surrogate pair becomes `?`."""
    return text.encode("utf-8", "replace")
