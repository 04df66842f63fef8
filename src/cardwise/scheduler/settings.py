"""One setting: its key, its flag, its default, what it may be, and what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast

from cardwise.scheduler.kinds import Kind
from cardwise.wire.errors import shown, wrong

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table of settings. `key` is the dotted path in YAML, `default` is as a file would hold it."""

    key: str
    kind: Kind[Any]
    default: object
    doc: str

    @property
    def flag(self) -> str:
        """The flag: the key in small letters with dashes, `--leader-election-lease-name`."""
        return "--" + re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", self.key).replace(".", "-")

    def read(self, name: str, raw: object) -> Any:
        """The value that a file holds. Raises WireError, which begins with `name`."""
        item = self.kind.item
        if item is not None and isinstance(raw, list):
            return tuple(_read(f"{name}[{n}]", item, each) for n, each in enumerate(raw))
        return _read(name, self.kind, raw)

    def read_text(self, name: str, text: str) -> Any:
        """The value that a flag gives. Raises WireError, which begins with `name`."""
        try:
            raw = self.kind.from_text(text)
        except ValueError:
            raise wrong(name, text, self.kind.must) from None
        return self.read(name, raw)


def _read(name: str, kind: Kind[T], raw: object) -> T:
    try:
        return kind.read(raw)
    except ValueError:
        raise wrong(name, _said_of(kind, raw), kind.must) from None


def _said_of(kind: Kind[Any], raw: object) -> str:
    """With its type where that alone is wrong: quotation marks do not show."""
    wants_text = kind.from_text is str
    if isinstance(raw, str) and not wants_text:
        return f"the text {shown(raw)}"
    if isinstance(raw, int | float) and not isinstance(raw, bool) and wants_text:
        return f"the number {raw}"
    return said(raw)


def said(raw: object) -> str:
    """A value out of YAML, as an error shows it."""
    match raw:
        case None:
            return "null"
        case bool():
            return "true" if raw else "false"
        case str() | int() | float():
            return str(raw)
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "a tagged value"


def setting(kind: Kind[T], default: object, doc: str) -> T:
    """A field of a dataclass that is a setting. Its key is the field's name in camelCase, below that of its section."""
    return field(default=kind.read(default), metadata={"kind": kind, "raw": default, "doc": doc})


def camel(name: str) -> str:
    """A Python name as a key in YAML."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def settings_of(section: type[Any], prefix: str = "") -> tuple[Setting, ...]:
    """The settings of a dataclass and of the sections in it, which are fields with a dataclass as default."""
    found: list[Setting] = []
    for each in fields(section):
        key = prefix + camel(each.name)
        if each.metadata:
            kind, raw, doc = (each.metadata[part] for part in ("kind", "raw", "doc"))
            found.append(Setting(key=key, kind=kind, default=raw, doc=doc))
        elif is_dataclass(each.default):
            found += settings_of(type(each.default), f"{key}.")
    return tuple(found)


def made_of(section: type[T], values: Mapping[str, Any], prefix: str = "", **others: Any) -> T:
    """The dataclass with these values by key; where there is none, the default. `others` are fields that are no setting."""
    given: dict[str, Any] = dict(others)
    for each in fields(cast("Any", section)):
        key = prefix + camel(each.name)
        if each.metadata:
            given[each.name] = values.get(key, each.default)
        elif is_dataclass(each.default):
            given[each.name] = made_of(type(each.default), values, f"{key}.")
    return section(**given)
