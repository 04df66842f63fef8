"""Amounts of resources in the text that a server gives back: `5000` comes back as `5k`, `1024Mi` as `1Gi`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_NO_AMOUNT = f"quantities must match the regular expression '{PATTERN}'"
_TEXT = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]{1,3}))"
)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGE = ("", "k", "M", "G", "T", "P", "E")
_SMALL = {"n": 3, "u": 2, "m": 1}


def canonical(amount: Any) -> str:
    """The amount in its shortest text of the same sort (binary, decimal, exponent), rounded up to a thousandth.

    Raises ValueError for what is no amount.
    """
    if amount is None:
        return "0"
    return _canonical(str(amount).strip())


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    match = _match(text)
    value = Fraction(ceil(_value(match) * 1000), 1000)
    if value.denominator != 1:
        return f"{value * 1000}m" if match["exponent"] is None else _exponent(value * 1000, -3)
    if match["binary"] and abs(value) >= 1024:
        return _shortest(int(value), 1024, _BINARY)
    return _exponent(value, 0) if match["exponent"] is not None else _shortest(int(value), 1000, _LARGE)


def value_of(amount: Any) -> Fraction:
    """The number that the text means; raises ValueError for what is no amount."""
    return _number(canonical(amount))


@lru_cache(maxsize=4096)
def _number(text: str) -> Fraction:
    return _value(_match(text))


def _match(text: str) -> re.Match[str]:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(_NO_AMOUNT)
    return match


def _value(match: re.Match[str]) -> Fraction:
    number: Fraction = Fraction(match["number"])
    if match["binary"]:
        return number * int(1024 ** _BINARY.index(match["binary"]))
    if match["exponent"] is not None:
        return number * Fraction(10) ** int(match["exponent"])
    suffix = match["decimal"] or ""
    power = -_SMALL[suffix] if suffix in _SMALL else _LARGE.index(suffix)
    return number * Fraction(1000) ** power


def _shortest(value: int, step: int, suffixes: tuple[str, ...]) -> str:
    rank = 0
    while value and value % step == 0 and rank < len(suffixes) - 1:
        value, rank = value // step, rank + 1
    return f"{value}{suffixes[rank]}"


def _exponent(value: Fraction, power: int) -> str:
    mantissa = int(value)
    while mantissa and mantissa % 1000 == 0:
        mantissa, power = mantissa // 1000, power + 3
    return f"{mantissa}e{power}" if power else str(mantissa)
