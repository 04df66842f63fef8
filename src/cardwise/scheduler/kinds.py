"""What the value of a setting may be: words, names, addresses, numbers, lists; each with the sentence's end for errors.

A kind reads what YAML makes of a value. A flag's text is turned into the same first, so both are judged alike. Names follow
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Generic, TypeVar

from cardwise.wire.lists import comma_list

T = TypeVar("T")

LOCALHOST = "localhost"
MOST_PORT = 65535

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_OBJECT_NAME = re.compile(_SUBDOMAIN)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RESOURCE = re.compile(rf"{_SUBDOMAIN}/(?=.{{1,63}}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_MOST_RESOURCE_NAME = 253 - len("requests.")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}\.[0-9]{1,20}")
_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})", re.ASCII)
_ADDRESS_MUST = "HOST:PORT, with an IP address (version 6 in brackets) or localhost"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `host` is an IP address, without brackets, or `localhost`; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine (in a pod: only its containers) can reach it."""
        return self.host == LOCALHOST or ip_address(self.host).is_loopback

    @property
    def is_any(self) -> bool:
        """Whether it is every address of the machine."""
        return self.host != LOCALHOST and ip_address(self.host).is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """What a value may be.

    `word` names it in the reference, `must` in errors. `read` gives the value, or raises ValueError. `from_text` makes of
    a flag's text what a file would hold, or raises ValueError. `item` is the kind of a list's items, `names` are the words
    of a choice.
    """

    word: str
    must: str
    read: Callable[[object], T]
    from_text: Callable[[str], object] = str
    item: Kind[Any] | None = None
    names: tuple[str, ...] = ()


def _require(ok: object) -> None:
    if not ok:
        raise ValueError


def parsed(word: str, must: str, parse: Callable[[str], T]) -> Kind[T]:
    """A text that `parse` turns into a value; it raises ValueError for one that cannot be meant."""

    def read(raw: object) -> T:
        if isinstance(raw, str):
            return parse(raw)
        raise ValueError

    return Kind(word=word, must=must, read=read)


def _text(word: str, must: str, ok: Callable[[str], object]) -> Kind[str]:
    def parse(raw: str) -> str:
        _require(ok(raw))
        return raw

    return parsed(word, must, parse)


def choice(*names: str) -> Kind[str]:
    """One of these words."""
    kind = _text("choice", f"one of {', '.join(names)}", lambda raw: raw in names)
    return replace(kind, names=names)


def text() -> Kind[str]:
    """Any text of one line, also none."""
    return _text("text", "text of one line", lambda raw: raw.isprintable() and raw == raw.strip())


def user_name() -> Kind[str]:
    """A name that Kubernetes knows a user by."""
    must = "a user name, without commas and blanks"
    return _text("user name", must, lambda raw: raw and raw.isprintable() and not set(raw) & set(", "))


def object_name(*, empty: bool = False) -> Kind[str]:
    """The name of a Kubernetes object: a DNS subdomain."""
    must = "a name of small letters, digits, '-' and '.', at most 253 long" + ", or empty" * empty
    return _text("name", must, lambda raw: _is_name(_OBJECT_NAME, 253, raw) or (empty and not raw))


def label(*, empty: bool = False) -> Kind[str]:
    """The name of a namespace or a service: a DNS label."""
    must = "a name of small letters, digits and '-', at most 63 long" + ", or empty" * empty
    return _text("name", must, lambda raw: _is_name(_LABEL, 63, raw) or (empty and not raw))


def _is_name(pattern: re.Pattern[str], longest: int, raw: str) -> bool:
    return len(raw) <= longest and pattern.fullmatch(raw) is not None


def resource(*, empty: bool) -> Kind[str]:
    """The name of an extended resource: what kube-scheduler and quotas take for one.

    Source: IsExtendedResourceName in k8s.io/kubernetes/pkg/apis/core/v1/helper.
    """

    def ok(raw: str) -> bool:
        if not raw:
            return empty
        native = "kubernetes.io/" in raw or raw.startswith("requests.")
        return not native and _is_name(_RESOURCE, _MOST_RESOURCE_NAME, raw)

    must = "a resource name such as example.com/gpu, not of kubernetes.io" + ", or empty" * empty
    return _text("resource name", must, ok)


def path() -> Kind[Path | None]:
    """A file's path; None where it is empty."""

    def parse(raw: str) -> Path | None:
        _require(raw.isprintable())
        return Path(raw) if raw else None

    return parsed("path", "the path of a file, or empty", parse)


def address() -> Kind[Address]:
    """Where to listen, HOST:PORT."""
    return parsed("address", _ADDRESS_MUST, _address)


def address_or_none() -> Kind[Address | None]:
    """Where to listen; None where it is empty."""
    return parsed("address", f"{_ADDRESS_MUST}, or empty", lambda raw: _address(raw) if raw else None)


def loopback_address() -> Kind[Address]:
    """Where to listen so that only this machine can reach it."""

    def parse(raw: str) -> Address:
        found = _address(raw)
        _require(found.is_loopback)
        return found

    must = "a loopback address such as 127.0.0.1:8090, since what is served there has no authentication"
    return parsed("address", must, parse)


def _address(raw: str) -> Address:
    found = _HOST_AND_PORT.fullmatch(raw)
    if found is None or int(found["port"]) > MOST_PORT:
        raise ValueError
    host = found["six"] or found["host"]
    if host != LOCALHOST:
        ip_address(host)
    return Address(host, int(found["port"]))


def whole(least: int, most: int) -> Kind[int]:
    """A whole number within bounds."""

    def read(raw: object) -> int:
        if isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= most:
            return raw
        raise ValueError

    return Kind(word="whole number", must=f"a whole number, {least} to {most}", read=read, from_text=_number)


def seconds(least: float, most: float) -> Kind[float]:
    """A span of time, in plain seconds."""

    def read(raw: object) -> float:
        if isinstance(raw, int | float) and not isinstance(raw, bool) and least <= raw <= most:
            return raw
        raise ValueError

    must = f"a number of seconds, {least:g} to {most:g}"
    return Kind(word="seconds", must=must, read=read, from_text=_number)


def _number(raw: str) -> int | float:
    if _WHOLE.fullmatch(raw):
        return int(raw)
    _require(_DECIMAL.fullmatch(raw))
    return float(raw)


def switch() -> Kind[bool]:
    """True or false, and no other words for them."""

    def read(raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        raise ValueError

    def from_text(raw: str) -> bool:
        _require(raw in {"true", "false"})
        return raw == "true"

    return Kind(word="true or false", must="true or false", read=read, from_text=from_text)


def list_of(item: Kind[T], what: str) -> Kind[tuple[T, ...]]:
    """A list of `what`. As a flag: commas between the items, or the flag again for each; an empty text is no item."""

    def read(raw: object) -> tuple[T, ...]:
        if isinstance(raw, list):
            return tuple(map(item.read, raw))
        raise ValueError

    def from_text(raw: str) -> list[str]:
        return list(comma_list(raw))

    return Kind(word=f"list of {what}", must=f"a list of {what}", read=read, from_text=from_text, item=item)
