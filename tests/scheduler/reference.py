"""The reference page's tables and the example file, out of the table of settings."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import yaml

from cardwise.scheduler.config import SETTINGS
from cardwise.scheduler.settings import Setting

BEGIN, END = "<!-- settings: written by the tests, REGOLD=1 -->", "<!-- end of settings -->"
HEAD = """\
# The configuration of `cardwise scheduler`, with every key at its default, but for admission.selfSigned (false).
# What is left out is as by default. What each may be, and the flags: docs/configuration.md.
"""
CHANGED: dict[str, object] = {"admission.selfSigned": True}
"""Where the example is not the default: without a certificate there is no webhook."""
WIDTH = 118


def tables() -> str:
    """One table a section, the keys without one first."""
    parts = [BEGIN, ""]
    for section, rows in groupby(_ordered(), section_of):
        parts += [f"### `{section}`", ""] if section else ["### At the top", ""]
        parts += ["| key, flag | default | meaning |", "|---|---|---|", *map(_row, rows), ""]
    return "\n".join([*parts, END])


def section_of(row: Setting) -> str:
    """The dotted path of the section that a key stands in."""
    return row.key.rpartition(".")[0]


def _ordered() -> list[Setting]:
    """As in the table, each section in one piece: `admission` does not part the keys at the top."""
    order = list(dict.fromkeys(map(section_of, SETTINGS)))
    return sorted(SETTINGS, key=lambda row: order.index(section_of(row)))


def _row(row: Setting) -> str:
    default = f"`{_value(row.default)}`" if row.default != "" else "empty"
    if isinstance(row.default, list):
        default = ", ".join(f"`{each}`" for each in row.default)
    return f"| `{row.key}`<br>`{row.flag}` | {default} | {row.doc} Must be {row.kind.must}. |"


def example() -> str:
    """A file with every key, each below what it means."""
    lines = [HEAD]
    open_sections: list[str] = []
    for row in _ordered():
        sections = section_of(row).split(".") if section_of(row) else []
        shared = sum(1 for one, other in zip(open_sections, sections, strict=False) if one == other)
        lines += [_opened(sections[depth], depth) for depth in range(shared, len(sections))]
        open_sections = sections
        lines += _entry(row, "  " * len(sections))
    return "\n".join(lines) + "\n"


def _opened(section: str, depth: int) -> str:
    return "\n" * (depth == 0) + "  " * depth + f"{section}:"


def _entry(row: Setting, indent: str) -> Iterable[str]:
    yield from (f"{indent}# {line}" for line in _wrapped(row.doc, WIDTH - len(indent)))
    name = row.key.rpartition(".")[2]
    value = CHANGED.get(row.key, row.default)
    if isinstance(value, list):
        yield f"{indent}{name}:"
        yield from (f"{indent}  - {_value(each)}" for each in value)
    else:
        yield f"{indent}{name}: {_value(value)}"


def _value(value: object) -> str:
    """A scalar as YAML writes it."""
    return yaml.safe_dump(value, default_style=None, width=10_000).removesuffix("...\n").strip().replace("''", '""')


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
