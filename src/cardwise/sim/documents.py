"""Files of Kubernetes objects: YAML or JSON, several documents, Lists; one bad file or document loses nothing else.

A large YAML list, as kubectl prints it, is read in pieces, so that the memory it takes is that of a piece.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml12

PIECE_CHARACTERS = 2_000_000
_LIST_HEAD = re.compile(r"\A(?:(?:apiVersion: v1|kind: List|---)\n)*items:\n(?=- )")
_LIST_TAIL = re.compile(r"^(?!- |  |$)", re.MULTILINE)
_ITEM = re.compile(r"^- ", re.MULTILINE)
_LINE = re.compile(r" at byte \d+ line (\d+) column (\d+)$")


class InputError(ValueError):
    """A file that cannot be read or parsed: the path, the line where there is one, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file, as parsed, and where it stands (`pods.yaml, document 3`), for messages."""

    where: str
    value: Any


Progress = Callable[[int], None]


def read_text(path: str) -> str:
    """A file's text; `-` is standard input. Raises InputError with the path and the reason."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise InputError(msg) from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        msg = f"{path}, line {line}: is no UTF-8 text (byte 0x{data[error.start]:02x})"
        raise InputError(msg) from error


def documents(path: str, text: str, progress: Progress = lambda _characters: None) -> Iterator[Document]:
    """Every object in a text, the items of Lists one by one. Raises InputError where the text is neither YAML nor JSON.

    `progress` is called with the number of characters done since the last call.
    """
    where = "standard input" if path == "-" else path
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # flow-style YAML, several JSON documents, or wrong: YAML is a superset, and its errors name the line
        else:
            yield from _items(where, [value])
            progress(len(text))
            return
    pieces = _pieces(text)
    if pieces is None:
        yield from _items(where, _parse(where, text, 0))
        progress(len(text))
        return
    number = 0
    for start, piece in pieces:
        parsed = _parse(where, piece, text.count("\n", 0, start))
        for item in parsed[0] if parsed else ():
            number += 1
            yield Document(f"{where}, item {number}", item)
        progress(len(piece))


def _items(where: str, values: Sequence[Any]) -> Iterator[Document]:
    """The documents that say something, Lists opened."""
    said = [value for value in values if value is not None]
    for number, value in enumerate(said, 1):
        place = where if len(said) == 1 else f"{where}, document {number}"
        if isinstance(value, list) or (isinstance(value, dict) and _is_list(value)):
            items = value if isinstance(value, list) else value.get("items") or []
            yield from (Document(f"{place}, item {at}", item) for at, item in enumerate(items, 1))
        else:
            yield Document(place, value)


def _is_list(value: dict[str, Any]) -> bool:
    return isinstance(value.get("items"), list | None) and str(value.get("kind", "")).endswith("List")


def _parse(where: str, text: str, lines_before: int) -> list[Any]:
    try:
        parsed: list[Any] = yaml12.parse_yaml(text, multi=True)
    except ValueError as error:
        raise InputError(_located(where, str(error), lines_before)) from error
    return parsed


def _located(where: str, error: str, lines_before: int) -> str:
    what = error.removeprefix("YAML parse error: ")
    match = _LINE.search(what)
    if match is None:
        return f"{where}: is no YAML: {what}"
    line, column = int(match[1]) + lines_before, match[2]
    return f"{where}, line {line}, column {column}: is no YAML: {what[: match.start()]}"


def _pieces(text: str) -> list[tuple[int, str]] | None:
    """A list as kubectl prints it, cut between items; None for anything else or for what is small anyway."""
    if len(text) < 2 * PIECE_CHARACTERS:
        return None
    head = _LIST_HEAD.match(text)
    if head is None:
        return None
    tail = _LIST_TAIL.search(text, head.end())
    end = tail.start() if tail else len(text)
    if "\n---" in text or "\n..." in text[:end]:
        return None
    cuts = [head.end()]
    while cuts[-1] + PIECE_CHARACTERS < end:
        item = _ITEM.search(text, cuts[-1] + PIECE_CHARACTERS, end)
        if item is None:
            break
        cuts.append(item.start())
    return [(start, text[start:stop]) for start, stop in zip(cuts, [*cuts[1:], end], strict=True)]
