"""Files of Kubernetes objects: YAML or JSON, several documents, Lists; one bad file or document loses nothing else.

A large YAML list, as kubectl prints it, is read in pieces, so that the memory it takes is that of a piece.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cardwise.wire import yaml_text

PIECE_CHARACTERS = 2_000_000
_LIST_HEAD = re.compile(r"\A(?:(?:apiVersion: v1|kind: List|---)\n)*items:\n(?=- )")
_LIST_TAIL = re.compile(r"^(?!- |  |$)", re.MULTILINE)
_KNOWN_TAIL = re.compile(r"(?:kind: List\n?|metadata:\n|  (?:resourceVersion|selfLink): .*\n?|\n)*\Z")
_MARK = re.compile(r"^---(?=\s)", re.MULTILINE)
_ITEM = re.compile(r"^- ", re.MULTILINE)


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
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise InputError(msg) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        msg = f"{path}, line {line}: is no UTF-8 text (byte 0x{data[error.start]:02x})"
        raise InputError(msg) from error


def documents(path: str, text: str, progress: Progress = lambda _characters: None) -> Iterator[Document | InputError]:
    """Every object in a text, the items of Lists one by one, and an InputError for each document that cannot be parsed.

    `progress` is called with the number of characters done since the last call.
    """
    where = "standard input" if path == "-" else path
    pieces = _pieces(text)
    if pieces is None:
        yield from _whole(where, text)
        progress(len(text))
        return
    number = 0
    for start, piece in pieces:
        try:
            parsed = _parse(where, piece, text.count("\n", 0, start), checked=False)
        except InputError as error:
            yield error
            continue
        for item in parsed[0] if parsed else ():
            number += 1
            yield from _opened(f"{where}, item {number}", item)
        progress(len(piece))


def _whole(where: str, text: str) -> Iterator[Document | InputError]:
    """All of a text; where it cannot be parsed as a whole, one YAML document after another, so that the good ones count."""
    try:
        yield from _items(where, _json(text) or _parse(where, text, 0))
        return
    except InputError as error:
        marks = [match.start() for match in _MARK.finditer(text)]
        if not marks:
            yield error
            return
    starts = sorted({0, *marks})
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(text)], strict=True), 1):
        try:
            parsed = _parse(where, text[start:end], text.count("\n", 0, start))
        except InputError as error:
            yield error
        else:
            yield from _items(f"{where}, document {number}", parsed)


def _json(text: str) -> list[Any] | None:
    """JSON values one after another, or None: then it is YAML, or wrong, and YAML's errors name the line."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, RecursionError):
        pass
    values = []
    rest = text.strip()
    decoder = json.JSONDecoder()
    while rest:
        try:
            _value, end = decoder.raw_decode(rest)
            values.append(msgspec.json.decode(rest[:end]))  # stricter: no halves of characters
        except (ValueError, RecursionError):
            return None
        rest = rest[end:].lstrip()
    return values


def _items(where: str, values: Sequence[Any]) -> Iterator[Document]:
    """The documents that say something, Lists opened."""
    said = [value for value in values if value is not None]
    for number, value in enumerate(said, 1):
        yield from _opened(where if len(said) == 1 else f"{where}, document {number}", value)


def _opened(place: str, value: Any) -> Iterator[Document]:
    if isinstance(value, list) or (isinstance(value, dict) and _is_list(value)):
        for number, item in enumerate(value if isinstance(value, list) else _typed(value), 1):
            yield from _opened(f"{place}, item {number}", item)
    else:
        yield Document(place, value)


def _typed(value: dict[str, Any]) -> list[Any]:
    """A List's items; those of a PodList are pods, though a raw API answer does not say it of each."""
    kind = str(value.get("kind", "")).removesuffix("List")
    known = {"apiVersion": value.get("apiVersion"), "kind": kind} if kind else {}
    return [known | item if isinstance(item, dict) else item for item in value.get("items") or []]


def _is_list(value: dict[str, Any]) -> bool:
    if "kind" not in value:
        return isinstance(value.get("items"), list)
    return isinstance(value.get("items"), list | None) and str(value["kind"]).endswith("List")


def _parse(where: str, text: str, lines_before: int, *, checked: bool = True) -> list[Any]:
    try:
        return yaml_text.parse(text, checked=checked)
    except yaml_text.YamlError as error:
        line = f", line {error.line + lines_before}" if error.line else ""
        column = f", column {error.column}" if error.column else ""
        msg = f"{where}{line}{column}: is no YAML: {error.what}"
        raise InputError(msg) from error


def _pieces(text: str) -> list[tuple[int, str]] | None:
    """A list as kubectl prints it, cut between items; None for anything else or for what is small anyway."""
    if len(text) < 2 * PIECE_CHARACTERS:
        return None
    head = _LIST_HEAD.match(text)
    if head is None:
        return None
    tail = _LIST_TAIL.search(text, head.end())
    end = tail.start() if tail else len(text)
    if not _KNOWN_TAIL.match(text, end):
        return None
    cuts = [head.end()]
    while cuts[-1] + PIECE_CHARACTERS < end:
        item = _ITEM.search(text, cuts[-1] + PIECE_CHARACTERS, end)
        if item is None:
            break
        cuts.append(item.start())
    return [(start, text[start:stop]) for start, stop in zip(cuts, [*cuts[1:], end], strict=True)]
