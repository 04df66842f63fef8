"""The one error of every decoder here, and how values from outside are shown in it and in warnings."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MOST_SHOWN = 80
MOST_WARNINGS = 5


class WireError(ValueError):
    """A text from outside that cannot be meant: says where in the text, what is there, and what it must be."""


def wrong(where: str, value: object, must: str) -> WireError:
    """The error for a value that stands at `where`: `register, card 1 of 2: count is -1, must be ...`."""
    return WireError(f"{where} is {shown(value)}, must be {must}")


def shown(value: object) -> str:
    """A value as logs and events may hold it: one printable line of at most 80 characters.

    A str is taken as it stands; anything else comes out of JSON and is shown as JSON.
    """
    if not isinstance(value, str):
        value = as_json(value)
    if not value:
        return "(empty)"
    text = value[: MOST_SHOWN + 1]
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def as_json(value: object) -> str:
    """What was read out of JSON, as JSON again: a text keeps its quotation marks."""
    return msgspec.json.encode(value).decode()


def few(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first warnings, and how many more there are: one broken text must not flood a log."""
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    return (*warnings[:MOST_WARNINGS], f"and {len(warnings) - MOST_WARNINGS} more")
