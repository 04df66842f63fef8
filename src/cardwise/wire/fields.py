"""The single fields of the wire formats: each reader returns the value, or raises `WireError` with place and bounds.

In JSON a field that is left out or null is the zero value of its type, as in the Go programs that write these texts.
"""

from __future__ import annotations

import re

import msgspec

from cardwise.wire.errors import as_json, wrong

MOST_INT32 = (1 << 31) - 1
LEAST_INT32 = -(1 << 31)
_UUID = re.compile(r"[^,:;\s](?:[^,:;]*[^,:;\s])?")


def card_uuid(where: str, field: str, text: str) -> str:
    """A card's UUID, which every format must be able to name: it is refused where an assignment could not hold it."""
    if _UUID.fullmatch(text) and text.isprintable():
        return text
    raise wrong(f"{where}: {field}", text, "a card's UUID, without ',', ':' and ';'")


def text_number(where: str, field: str, text: str, least: int = 0) -> int:
    """A whole number out of a text form, `least` to 2147483647."""
    # The length comes first: int() of a very long text takes long, and then raises an error of its own.
    if len(text) <= 20 and text.isascii() and text.removeprefix("-").isdigit():
        number = int(text)
        if least <= number <= MOST_INT32:
            return number
    raise wrong(f"{where}: {field}", text, f"a whole number, {least} to {MOST_INT32}")


def text_flag(where: str, field: str, text: str) -> bool:
    """A truth value out of a text form."""
    if text not in {"true", "false"}:
        raise wrong(f"{where}: {field}", text, "true or false")
    return text == "true"


def parse_array(what: str, text: str, of: str) -> list[object]:
    """The elements of a text that must be a JSON array; `of` says in an error what the elements are."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise wrong(what, text, f"a JSON array of {of} ({error})") from None
    if not isinstance(value, list):
        raise wrong(what, text, f"a JSON array of {of}")
    return value


def json_number(where: str, field: str, value: object, least: int = 0, most: int = MOST_INT32) -> int:
    """A whole number out of JSON, `least` to `most`."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise wrong(f"{where}: {field}", as_json(value), f"a whole number, {least} to {most}")


def json_flag(where: str, field: str, value: object) -> bool:
    """A truth value out of JSON."""
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    raise wrong(f"{where}: {field}", as_json(value), "true or false")


def json_text(where: str, field: str, value: object) -> str:
    """A text out of JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise wrong(f"{where}: {field}", as_json(value), "a JSON string")


def json_array(where: str, field: str, value: object) -> list[object]:
    """The elements of an array within JSON."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise wrong(f"{where}: {field}", as_json(value), "a JSON array")


def json_object(where: str, value: object) -> dict[str, object]:
    """The fields of an object within JSON."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise wrong(where, as_json(value), "a JSON object")
