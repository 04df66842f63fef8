"""Plain tables: columns as wide as their widest cell.

Forty thousand cards are that many rows, which rich takes twenty seconds to lay out: cells here are text, nothing wraps.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

GAP = "  "


class Styled(str):
    """A cell with terminal colours of our own in it."""

    __slots__ = ()


def printable(text: str) -> str:
    """A text from outside as a terminal may show it: no escape sequences, one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> None:
    """Print rows under a header; the columns named in `right` end flush. Rows may be shorter than the header."""
    rows = [[cell if isinstance(cell, Styled) else printable(cell) for cell in row] for row in rows]
    widths = [len(name) for name in header]
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(click.unstyle(cell)))

    def line(row: Sequence[str]) -> str:
        cells = []
        for name, width, cell in zip(header, widths, row, strict=False):
            blanks = " " * (width - len(click.unstyle(cell)))
            cells.append(blanks + cell if name in right else cell + blanks)
        return GAP.join(cells).rstrip()

    click.echo("\n".join([click.style(line(header), bold=True), *map(line, rows)]))
