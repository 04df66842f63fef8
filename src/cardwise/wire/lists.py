"""Comma lists and switches in annotations."""

from __future__ import annotations

from cardwise.wire.errors import WireError

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def comma_list(text: str) -> tuple[str, ...]:
    """The items, in order, each once; blanks around them and empty items do not count."""
    return tuple(dict.fromkeys(item for part in text.split(",") if (item := part.strip())))


def switch(text: str) -> bool:
    """A boolean as Go's ParseBool reads it. Raises WireError for anything else, an empty text included."""
    word = text.strip()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    msg = f"is {text[:80] or '(empty)'}, must be true or false"
    raise WireError(msg)
