"""Reading the agent's files: each reader returns the value, or raises `WireError` with file, key, value and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TypeVar

from cardwise.wire import yaml_text
from cardwise.wire.errors import MOST_SHOWN, WireError, as_json, shown, wrong

T = TypeVar("T")

Reader = Callable[[str, object], T]
"""Takes where a value stands, for errors, and the value."""


def document(where: str, path: Path) -> object:
    """The one document of a file; None where it is empty."""
    try:
        documents = yaml_text.parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise WireError(f"{where} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{where} is no UTF-8 text") from error
    except yaml_text.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise WireError(f"{where}{line}: {shown(error.what)}, must be YAML in which every key stands once") from error
    if len(documents) > 1:
        raise wrong(where, f"{len(documents)} documents", "one")
    return documents[0] if documents else None


def refusal(where: str, raw: object, must: str) -> WireError:
    """The error for a value that stands at `where`."""
    return wrong(where, _said(raw), must)


def _said(raw: object) -> str:
    match raw:
        case str():
            return f"the text {shown(raw)}"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case float() if not isfinite(raw):
            return "no finite number"
        case None | bool() | int() | float():
            return str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else as_json(raw)
        case _:
            return "a tagged value"


def mapping(where: str, raw: object, known: Iterable[str]) -> dict[str, object]:
    """The values of a mapping that may hold these keys and no others; an empty one says nothing."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise refusal(where, raw, "a mapping")
    known = tuple(known)
    for key in raw:
        if key not in known:
            word = key if isinstance(key, str) else _said(key)
            near = get_close_matches(word[:MOST_SHOWN], known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise WireError(f"{where}: {shown(word)} is no known key{hint}, must be one of {', '.join(known)}")
    return raw


def items(where: str, raw: object) -> list[tuple[str, object]]:
    """The items of a list, each with where it stands."""
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise refusal(where, raw, "a list")
    return [(f"{where}[{number}]", item) for number, item in enumerate(raw)]


def given(where: str, fields: dict[str, object], key: str, read: Reader[T], default: T) -> T:
    """The value of a key, or the default where the key is left out."""
    return read(inside(where, key), fields[key]) if key in fields else default


def required(where: str, fields: dict[str, object], key: str, read: Reader[T]) -> T:
    """The value of a key that must be there."""
    if key not in fields:
        raise WireError(f"{inside(where, key)} is left out, must be given")
    return read(inside(where, key), fields[key])


def inside(where: str, key: str) -> str:
    """Where a key stands: below the file with a colon, below another key with a dot."""
    return f"{where}.{key}" if ": " in where else f"{where}: {key}"


def whole(least: int, most: int) -> Reader[int]:
    """A whole number within bounds."""

    def read(where: str, raw: object) -> int:
        if isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= most:
            return raw
        raise refusal(where, raw, f"a whole number, {least} to {most}")

    return read


def number(least: Fraction, most: Fraction) -> Reader[Fraction]:
    """A number within bounds, exactly as it was written: 1.15 is 115 hundredths."""

    def read(where: str, raw: object) -> Fraction:
        if isinstance(raw, int | float) and not isinstance(raw, bool) and least <= raw <= most:
            return Fraction(str(raw))
        raise refusal(where, raw, f"a number, {float(least):g} to {float(most):g}")

    return read


def text(where: str, raw: object) -> str:
    """A text of one line that says something."""
    if isinstance(raw, str) and raw.isprintable() and raw.strip():
        return raw
    raise refusal(where, raw, "a text of one line")


def truth(where: str, raw: object) -> bool:
    """True or false."""
    if isinstance(raw, bool):
        return raw
    raise refusal(where, raw, "true or false")


def choice(*names: str) -> Reader[str]:
    """One of these words."""

    def read(where: str, raw: object) -> str:
        if isinstance(raw, str) and raw in names:
            return raw
        raise refusal(where, raw, f"one of {', '.join(names)}")

    return read
