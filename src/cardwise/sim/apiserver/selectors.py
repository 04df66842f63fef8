"""Label selectors (equality and sets) and field selectors, read from their text as a real server reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cardwise.sim.apiserver import errors
from cardwise.sim.apiserver.objects import Json, at, metadata_of
from cardwise.sim.apiserver.resources import Resource

_TOKEN = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_KEY = re.compile(r"([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FIELD_ITEM = re.compile(r"((?:[^\\,]|\\.)+)(?:,|$)")
_SYMBOLS = frozenset(("==", "!=", *"=!,()<>"))
_PLAIN_OPERATORS = {"=": "in", "==": "in", "!=": "notin", "<": "<", ">": ">"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One demand on the labels. `operator` is in, notin, exists, absent, < or >; notin holds where the key is absent."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        if found is None or self.operator in ("exists", "absent"):
            return (found is None) == (self.operator in ("absent", "notin"))
        if self.operator in ("<", ">"):
            return _compares(found, self.operator, self.values[0])
        return (found in self.values) == (self.operator == "in")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTerm:
    path: tuple[str, ...]
    value: str
    equal: bool = True

    def holds(self, value: Json) -> bool:
        return (_text(at(value, self.path), self.path) == self.value) == self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind are asked for."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def selective(self) -> bool:
        """Whether it asks for less than all of a namespace or cluster."""
        return bool(self.labels or self.fields)

    def holds(self, value: Json) -> bool:
        metadata = metadata_of(value)
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        return all(each.holds(labels) for each in self.labels) and all(each.holds(value) for each in self.fields)


def read_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector's text; raises RefusedError (400) where it cannot be read."""
    return _LabelReader(text).requirements() if text.strip() else ()


def read_fields(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """The terms of a field selector's text; raises RefusedError (400) for a field that this kind cannot be asked by."""
    items = _FIELD_ITEM.findall(text)
    return tuple(_field_term(each, resource) for each in items)


def match_selector(selector: Json | None) -> tuple[Requirement, ...]:
    """The requirements of a LabelSelector object (matchLabels, matchExpressions), as in webhook configurations.

    Raises ValueError for an unknown operator.
    """
    selector = selector or {}
    labels = selector.get("matchLabels") or {}
    plain = [Requirement(key=key, operator="in", values=(value,)) for key, value in labels.items()]
    expressions = selector.get("matchExpressions") or ()
    return (*plain, *(_expression(each) for each in expressions))


_EXPRESSIONS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def _expression(expression: Json) -> Requirement:
    operator = expression.get("operator", "")
    if operator not in _EXPRESSIONS:
        raise ValueError(f"{operator} is not a valid selector operator")
    values = tuple(expression.get("values") or ())
    return Requirement(key=expression.get("key", ""), operator=_EXPRESSIONS[operator], values=values)


def _compares(found: str, operator: str, bound: str) -> bool:
    try:
        return int(found) < int(bound) if operator == "<" else int(found) > int(bound)
    except ValueError:
        return False


class _LabelReader:
    """A cursor over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def requirements(self) -> tuple[Requirement, ...]:
        read = [self._requirement()]
        while self._peek():
            self._take(",")
            read.append(self._requirement())
        return tuple(read)

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take("!")
            return Requirement(key=self._key(), operator="absent")
        key = self._key()
        if self._peek() in ("", ","):
            return Requirement(key=key, operator="exists")
        operator = self._pop()
        if operator in ("in", "notin"):
            return Requirement(key=key, operator=operator, values=self._set())
        if operator not in _PLAIN_OPERATORS:
            raise _unreadable(operator, "in, notin, =, ==, !=, gt, lt")
        return Requirement(key=key, operator=_PLAIN_OPERATORS[operator], values=(self._value(),))

    def _key(self) -> str:
        word = self._word("!, identifier, or 'end of string'" if self._next == 0 else "identifier")
        if not _KEY.fullmatch(word):
            raise errors.bad_request(f'unable to parse requirement: <nil>: Invalid value: "{word}": is no label key')
        return word

    def _set(self) -> tuple[str, ...]:
        self._take("(")
        values = [self._value()]
        while self._peek() == ",":
            self._take(",")
            values.append(self._value())
        if self._peek() != ")":
            raise _unreadable(self._peek(), "',', ')' or identifier")
        self._take(")")
        return tuple(values)

    def _value(self) -> str:
        """A word, or nothing where the value is empty."""
        return "" if self._peek() in ("", ",", ")") else self._word("identifier")

    def _word(self, expected: str) -> str:
        if not self._peek() or self._peek() in _SYMBOLS:
            raise _unreadable(self._peek(), expected)
        return self._pop()

    def _take(self, symbol: str) -> None:
        if self._peek() != symbol:
            raise _unreadable(self._peek(), f"'{symbol}'")
        self._next += 1

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _pop(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _unreadable(found: str, expected: str) -> errors.RefusedError:
    return errors.bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")


def _field_term(item: str, resource: Resource) -> FieldTerm:
    match = re.fullmatch(r"([^=!<>\\]*)(!=|==|=)(.*)", item)
    if match is None:
        raise errors.bad_request(f"invalid selector: '{item}'; can't understand '{item}'")
    label, operator, value = match.groups()
    if label not in resource.fields:
        raise errors.bad_request(_unknown_field(label, resource))
    text = re.sub(r"\\([\\,=])", r"\1", value)
    return FieldTerm(path=resource.fields[label], value=text, equal=operator != "!=")


def _unknown_field(label: str, resource: Resource) -> str:
    if resource.own_fields:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


_BOOLEANS: Sequence[tuple[str, ...]] = (("spec", "unschedulable"), ("spec", "hostNetwork"))


def _text(value: object, path: tuple[str, ...]) -> str:
    if path in _BOOLEANS:
        return "true" if value else "false"
    return "" if value is None else str(value)
