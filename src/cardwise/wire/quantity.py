"""Kubernetes quantities: `2`, `500m`, `8Gi`, `1e3`.

Source: k8s.io/apimachinery, pkg/api/resource, the grammar in front of type Quantity. Values are exact, where Kubernetes
rounds up to billionths and stops at 2^63-1: who asks for either is refused later, by the bounds of the field.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from cardwise.core.family import Quantity
from cardwise.wire.errors import wrong

MOST_CHARACTERS = 64
MOST_EXPONENT = 30
SCALES = {suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)} | {
    suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
}
_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)


def parse_quantity(text: str | int | float) -> Quantity:  # noqa: PYI041 (an int is no float to whoever reads YAML)
    """The quantity that a text, or a number as YAML and JSON give it, stands for.

    The suffix of the result is "" where there is none or an exponent. Negative values are quantities too: the caller
    knows what may be negative. Raises `WireError` for anything outside the grammar, for more than 64 characters, and
    for exponents beyond 30 either way.
    """
    return _parse(text if isinstance(text, str) else _number_text(text))


def _number_text(value: object) -> str:
    # True is an int to Python, but no number to anyone who writes a manifest.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong("quantity", repr(value), "a number or a text")
    # The text of a huge int takes long to make, and beyond 4300 digits Python refuses with an error of its own.
    if isinstance(value, int) and value.bit_length() > MOST_CHARACTERS * 4:
        raise wrong("quantity", f"a number of {value.bit_length()} bits", f"at most {MOST_CHARACTERS} characters")
    return repr(value)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    if len(text) > MOST_CHARACTERS:
        raise wrong("quantity", text, f"at most {MOST_CHARACTERS} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise wrong("quantity", text, "a Kubernetes quantity, such as 2, 500m or 8Gi")
    suffix = match["suffix"] or ""
    return Quantity(text=text, value=Fraction(match["number"]) * _scale(text, suffix, match["exponent"]), suffix=suffix)


def _scale(text: str, suffix: str, exponent: str | None) -> Fraction:
    power = int(exponent or 0)
    if abs(power) > MOST_EXPONENT:
        raise wrong("quantity", text, f"a quantity with an exponent of -{MOST_EXPONENT} to {MOST_EXPONENT}")
    return SCALES[suffix] * Fraction(10) ** power
