"""YAML text → values, with the line of whatever is wrong.

py-yaml12 parses: it is fast and has Kubernetes' types (timestamps stay text). It says nothing of a key that stands twice,
of which only the last counts, a nesting without end overflows its stack, and it copies what an alias names. So libyaml's
events are looked through first, which costs a tenth of a second per megabyte.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
import yaml12

COMPACT_NESTING = "- " * 200
_LINE = re.compile(r" at byte \d+ line (\d+) column (\d+)$")
_MERGE = "<<"
_ALIAS = re.compile(r"(?:^|[\s,\[{:-])\*[^\s*]", re.MULTILINE)
MOST_NODES = 1_000_000
"""More than this, aliases written out, is no manifest: a few lines of nested aliases would fill any memory."""


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
    if checked or _ALIAS.search(text):
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
    """Look for keys that stand twice, nesting without end, and aliases that multiply. The rest is the parser's to tell."""
    seen = _Seen()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            seen.take(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        if "nesting" in str(error.problem):
            raise YamlError("nested too deeply", line) from error
        if _ALIAS.search(text):  # what could not be looked through to its end may still multiply
            raise YamlError(str(error.problem), line) from error
    except yaml.YAMLError:
        return


class _Open:
    """One open collection: its keys so far (None for a sequence), whether a key comes next, its anchor and its size."""

    def __init__(self, keys: set[str] | None, anchor: str | None) -> None:
        self.keys, self.anchor = keys, anchor
        self.at_key = True
        self.nodes = 1


class _Seen:
    """What the events of a text said so far; sizes are counted as if every alias were written out."""

    def __init__(self) -> None:
        self._open = [_Open(None, None)]
        self._anchored: dict[str, int] = {}

    def take(self, event: yaml.Event) -> None:
        """Take one event in. Raises YamlError."""
        if isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            self._add(ended.nodes, ended.anchor, event)
        elif isinstance(event, yaml.NodeEvent):
            self._key(event)
            if isinstance(event, yaml.CollectionStartEvent):
                self._open.append(_Open(set() if isinstance(event, yaml.MappingStartEvent) else None, event.anchor))
            elif isinstance(event, yaml.AliasEvent):
                self._add(self._anchored.get(str(event.anchor), 1), None, event)
            else:
                self._add(1, event.anchor, event)

    def _add(self, nodes: int, anchor: str | None, event: yaml.Event) -> None:
        if anchor:
            self._anchored[anchor] = nodes
        self._open[-1].nodes += nodes
        if self._open[-1].nodes > MOST_NODES and self._anchored:
            raise YamlError("aliases that multiply beyond all measure", *_place(event))

    def _key(self, event: yaml.NodeEvent) -> None:
        inside = self._open[-1]
        if inside.keys is None:
            return
        if inside.at_key and isinstance(event, yaml.ScalarEvent):
            if event.value in inside.keys and event.value != _MERGE:
                raise YamlError(f"key {event.value[:80]} stands twice", *_place(event))
            inside.keys.add(event.value)
        inside.at_key = not inside.at_key


def _place(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)
