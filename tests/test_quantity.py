"""Kubernetes quantities: the grammar, exact values, and one error for everything outside it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.wire.errors import MOST_SHOWN, WireError
from cardwise.wire.quantity import parse_quantity
from mutations import attempt, broken

VALID = [
    ("0", 0, ""),
    ("2", 2, ""),
    ("007", 7, ""),
    ("+5", 5, ""),
    ("-3", -3, ""),
    ("1.5", Fraction(3, 2), ""),
    ("5.", 5, ""),
    (".5", Fraction(1, 2), ""),
    ("-.5", Fraction(-1, 2), ""),
    ("100n", Fraction(1, 10**7), "n"),
    ("100u", Fraction(1, 10**4), "u"),
    ("500m", Fraction(1, 2), "m"),
    ("5k", 5000, "k"),
    ("8M", 8 * 10**6, "M"),
    ("8G", 8 * 10**9, "G"),
    ("1T", 10**12, "T"),
    ("1P", 10**15, "P"),
    ("1E", 10**18, "E"),
    ("1Ki", 2**10, "Ki"),
    ("1Mi", 2**20, "Mi"),
    ("8Gi", 2**33, "Gi"),
    ("1.5Gi", 3 * 2**29, "Gi"),
    ("1Ti", 2**40, "Ti"),
    ("1Pi", 2**50, "Pi"),
    ("1Ei", 2**60, "Ei"),
    ("1e3", 1000, ""),
    ("1E3", 1000, ""),
    ("1.5e-2", Fraction(15, 1000), ""),
    ("1e+30", 10**30, ""),
    ("1e-30", Fraction(1, 10**30), ""),
    ("9" * 64, 10**64 - 1, ""),
]

NUMBERS = [
    (2, "2", 2),
    (-1, "-1", -1),
    (2**63, "9223372036854775808", 2**63),
    (2.0, "2.0", 2),
    (0.1, "0.1", Fraction(1, 10)),
    (1e22, "1e+22", 10**22),
    (-0.0, "-0.0", 0),
]

BROKEN = [
    *(
        "",
        "abc",
        " 1",
        "1 ",
        "1\n",
        "1 Gi",
        "0x10",
        "inf",
        "nan",
        "1_000",
        "1,5",
        "--1",
        "+-1",
        "+",
        ".",
        "-.",
        "Gi",
        "m",
    ),
    *("1ki", "1K", "1mi", "1Gib", "1GiB", "1i", "1e", "1e+", "1e1.5", "1e3k", "1.2.3", "1e31", "1e-31", "1e999999999"),
    *("\N{ARABIC-INDIC DIGIT ONE}", "\N{SUPERSCRIPT TWO}", "1\N{FULLWIDTH DIGIT ONE}", "\x00", "1\x00", "9" * 65),
]

NO_NUMBERS = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "huge float": 1e300,
    "tiny float": 5e-324,
    "65 digits": 10**64,
    "5001 digits": 10**5000,
    "true": True,
    "false": False,
}


@pytest.mark.parametrize(("text", "value", "suffix"), VALID, ids=[text[:12] for text, _, _ in VALID])
def test_a_text_of_the_grammar_has_its_exact_value_and_suffix(text: str, value: Fraction, suffix: str) -> None:
    quantity = parse_quantity(text)
    assert (quantity.text, quantity.value, quantity.suffix) == (text, value, suffix)


@pytest.mark.parametrize(("number", "text", "value"), NUMBERS, ids=[text for _, text, _ in NUMBERS])
def test_a_number_as_yaml_gives_it_is_taken_as_it_is_written(number: float, text: str, value: Fraction) -> None:
    quantity = parse_quantity(number)
    assert (quantity.text, quantity.value, quantity.suffix) == (text, value, "")


@pytest.mark.parametrize("text", BROKEN, ids=[repr(text[:12]) for text in BROKEN])
def test_a_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(WireError, match=r"^quantity is .+, must be "):
        parse_quantity(text)


@pytest.mark.parametrize("number", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_a_number_that_no_quantity_can_be_is_refused(number: float) -> None:
    with pytest.raises(WireError, match=r"^quantity is .+, must be "):
        parse_quantity(number)


def test_the_error_names_the_value_and_what_it_must_be() -> None:
    with pytest.raises(WireError) as caught:
        parse_quantity("1 Gi")
    assert str(caught.value) == "quantity is 1 Gi, must be a Kubernetes quantity, such as 2, 500m or 8Gi"


def test_a_long_or_unprintable_value_does_not_flood_or_forge_a_log() -> None:
    with pytest.raises(WireError) as caught:
        parse_quantity("x\n" * 10**6)
    shown = str(caught.value).removeprefix("quantity is ").partition(", must be ")[0]
    assert len(shown) <= MOST_SHOWN
    assert shown.isprintable()


@given(broken([text for text, _, _ in VALID]))
def test_any_text_is_a_quantity_or_a_wire_error(text: str) -> None:
    quantity = attempt(lambda: parse_quantity(text))
    if isinstance(quantity, WireError):
        assert len(str(quantity)) < 3 * MOST_SHOWN
    else:
        assert quantity.text == text


@given(st.integers() | st.floats())
def test_any_number_is_a_quantity_of_its_value_or_a_wire_error(number: float) -> None:
    quantity = attempt(lambda: parse_quantity(number))
    if isinstance(quantity, WireError):
        assert str(quantity).startswith("quantity is ")
    else:
        assert type(number)(quantity.value) == number


@given(
    st.integers(-(2**63), 2**63),
    st.sampled_from(["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)
def test_a_suffix_multiplies(number: int, suffix: str) -> None:
    base = 1024 if suffix.endswith("i") else 1000
    power = "kMGTPE".index(suffix[0].replace("K", "k")) + 1 if suffix else 0
    assert parse_quantity(f"{number}{suffix}").value == number * base**power
