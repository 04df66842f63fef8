"""YAML text → values, with the line of whatever is wrong.

py-yaml12 parses: it is fast and has Kubernetes' types (timestamps stay text). It says nothing of a key that stands twice,
of which only the last counts, and a nesting without end overflows its stack. So libyaml's events are looked through
first, which costs a tenth of a second per megabyte and two for nothing else.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
import yaml12

COMPACT_NESTING = "- " * 200
_LINE = re.compile(r" at byte \d+ line (\d+) column (\d+)$")
_MERGE = "<<"


class YamlError(ValueError):
    """What is wrong with a text, and where: line and column count from 1, 0 where it is not known."""

    def __init__(self, what: str, line: int = 0, column: int = 0) -> None:
        super().__init__(what)
        self.what, self.line, self.column = what, line, column


def parse(text: str, *, checked: bool = True) -> list[Any]:
    """The documents of a text. Raises YamlError.

    `checked` False leaves out the search for keys that stand twice: for what a program printed.
    """
    if (nul := text.find("\0")) >= 0:
        raise YamlError("a NUL character", text.count("\n", 0, nul) + 1)
    if COMPACT_NESTING in text:
        raise YamlError("nested too deeply", text.count("\n", 0, text.index(COMPACT_NESTING)) + 1)
    if checked:
        _check(text)
    try:
        documents: list[Any] = yaml12.parse_yaml(text, multi=True)
    except ValueError as error:
        raise _located(str(error)) from error
    return documents


def _located(error: str) -> YamlError:
    what = error.removeprefix("YAML parse error: ")
    match = _LINE.search(what)
    return YamlError(what[: match.start()], int(match[1]), int(match[2])) if match else YamlError(what)


def _check(text: str) -> None:
    """Look for keys that stand twice and for nesting without end. Any other fault is the parser's to tell."""
    open_keys: list[_Keys] = []
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            _take(event, open_keys)
    except yaml.MarkedYAMLError as error:
        if "nesting" in str(error.problem):
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            raise YamlError("nested too deeply", line) from error
    except yaml.YAMLError:
        return


class _Keys:
    """The keys of one open mapping so far (None for a sequence), and whether the next node is a key."""

    def __init__(self, seen: set[str] | None) -> None:
        self.seen = seen
        self.at_key = True


def _take(event: yaml.Event, open_keys: list[_Keys]) -> None:
    if isinstance(event, yaml.CollectionEndEvent):
        open_keys.pop()
        return
    if not isinstance(event, yaml.NodeEvent):
        return
    if open_keys and open_keys[-1].seen is not None:
        _count(event, open_keys[-1], open_keys[-1].seen)
    if isinstance(event, yaml.CollectionStartEvent):
        open_keys.append(_Keys(set() if isinstance(event, yaml.MappingStartEvent) else None))


def _count(event: yaml.NodeEvent, keys: _Keys, seen: set[str]) -> None:
    if keys.at_key and isinstance(event, yaml.ScalarEvent):
        if event.value in seen and event.value != _MERGE:
            line, column = (mark.line + 1, mark.column + 1) if (mark := event.start_mark) else (0, 0)
            raise YamlError(f"key {event.value[:80]} stands twice", line, column)
        seen.add(event.value)
    keys.at_key = not keys.at_key
