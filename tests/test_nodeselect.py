"""Selectors, node affinity and tolerations mean what they mean to kube-scheduler, corner by corner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.nodeselect import Expression, PodRules, Taint, Term, Toleration, int64

LABELS = {"zone": "a", "size": "10", "empty": "", "word": "ten"}


def on(key: str, operator: str, *values: str) -> Expression:
    return Expression(key=key, operator=operator, values=values)


def term(*expressions: Expression, fields: tuple[Expression, ...] = ()) -> Term:
    return Term(expressions=expressions, fields=fields)


def taint(key: str = "gpu", value: str = "yes", effect: str = "NoSchedule") -> Taint:
    return Taint(key=key, value=value, effect=effect)


EXPRESSIONS = {
    "In: one of the values": (on("zone", "In", "b", "a"), True),
    "In: none of the values": (on("zone", "In", "b"), False),
    "In: label absent": (on("rack", "In", "a"), False),
    "In: the empty value is a value": (on("empty", "In", ""), True),
    "In: absent is not empty": (on("rack", "In", ""), False),
    "NotIn: one of the values": (on("zone", "NotIn", "b", "a"), False),
    "NotIn: none of the values": (on("zone", "NotIn", "b"), True),
    "NotIn: label absent": (on("rack", "NotIn", "a"), True),
    "Exists: present": (on("zone", "Exists"), True),
    "Exists: present and empty": (on("empty", "Exists"), True),
    "Exists: absent": (on("rack", "Exists"), False),
    "DoesNotExist: present": (on("empty", "DoesNotExist"), False),
    "DoesNotExist: absent": (on("rack", "DoesNotExist"), True),
    "Gt: greater": (on("size", "Gt", "9"), True),
    "Gt: equal": (on("size", "Gt", "10"), False),
    "Gt: as numbers, not as text": (on("size", "Gt", "9999"), False),
    "Gt: leading zeros": (on("size", "Gt", "009"), True),
    "Gt: label is no number": (on("word", "Gt", "1"), False),
    "Gt: label absent": (on("rack", "Gt", "1"), False),
    "Lt: less": (on("size", "Lt", "11"), True),
    "Lt: equal": (on("size", "Lt", "10"), False),
    "Lt: label absent": (on("rack", "Lt", "1"), False),
    "key with a prefix": (on("nvidia.com/gpu.product", "DoesNotExist"), True),
}

BROKEN = {
    "In without values": on("zone", "In"),
    "NotIn without values": on("rack", "NotIn"),
    "Exists with a value": on("zone", "Exists", "a"),
    "DoesNotExist with a value": on("rack", "DoesNotExist", "a"),
    "Gt without a value": on("size", "Gt"),
    "Gt with two values": on("size", "Gt", "1", "2"),
    "Gt with a word": on("size", "Gt", "one"),
    "Gt with a negative number, which is no label": on("size", "Gt", "-1"),
    "Lt beyond 64 bits": on("size", "Lt", "9223372036854775808"),
    "unknown operator": on("zone", "Equals", "a"),
    "operator in the wrong case": on("zone", "in", "a"),
    "no key": on("", "DoesNotExist"),
    "key with a blank": on("my zone", "DoesNotExist"),
    "key with an empty prefix": on("/zone", "DoesNotExist"),
    "key with a prefix in upper case": on("Example.com/zone", "DoesNotExist"),
    "key too long": on("z" * 64, "DoesNotExist"),
    "key prefix too long": on("e." * 127 + "io/zone", "DoesNotExist"),
    "value that is no label": on("zone", "NotIn", "a b"),
    "value too long": on("zone", "NotIn", "a" * 64),
    "one sound value, one broken": on("zone", "In", "a", "-"),
}

FIELDS = {
    "In: this node": (on("metadata.name", "In", "n1"), True),
    "In: another node": (on("metadata.name", "In", "n2"), False),
    "NotIn: this node": (on("metadata.name", "NotIn", "n1"), False),
    "NotIn: another node": (on("metadata.name", "NotIn", "n2"), True),
    "In: two names are broken": (on("metadata.name", "In", "n1", "n2"), False),
    "NotIn: no name is broken": (on("metadata.name", "NotIn"), False),
    "Exists is broken": (on("metadata.name", "Exists"), False),
    "another field is empty": (on("metadata.uid", "In", "n1"), False),
}

TOLERATIONS = {
    "Equal: same value": (Toleration(key="gpu", operator="Equal", value="yes"), True),
    "Equal: other value": (Toleration(key="gpu", operator="Equal", value="no"), False),
    "no operator means Equal": (Toleration(key="gpu", value="yes"), True),
    "no operator, other value": (Toleration(key="gpu"), False),
    "Exists: any value": (Toleration(key="gpu", operator="Exists"), True),
    "Exists: other key": (Toleration(key="cpu", operator="Exists"), False),
    "Exists: no key matches all": (Toleration(operator="Exists"), True),
    "Equal: no key, same value": (Toleration(value="yes"), True),
    "same effect": (Toleration(operator="Exists", effect="NoSchedule"), True),
    "other effect": (Toleration(operator="Exists", effect="NoExecute"), False),
    "unknown operator": (Toleration(key="gpu", operator="In", value="yes"), False),
    "Gt: no numbers": (Toleration(key="gpu", operator="Gt", value="yes"), False),
}

NUMERIC_TOLERATIONS = {
    "Gt: the taint is greater": ("Gt", "9", "10", True),
    "Gt: equal": ("Gt", "10", "10", False),
    "Gt: the taint is less": ("Gt", "11", "10", False),
    "Lt: the taint is less": ("Lt", "11", "10", True),
    "Lt: equal": ("Lt", "10", "10", False),
    "Lt: negative numbers": ("Lt", "-1", "-2", True),
    "Lt: the taint is no number": ("Lt", "10", "1x", False),
    "Gt: the taint is beyond 64 bits": ("Gt", "1", "9223372036854775808", False),
}


@pytest.mark.parametrize(("expression", "matches"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expression_operators(expression: Expression, matches: bool) -> None:
    assert term(expression).matches(LABELS, "n1") is matches


@pytest.mark.parametrize("expression", BROKEN.values(), ids=BROKEN)
def test_a_term_with_a_broken_requirement_matches_nothing(expression: Expression) -> None:
    assert not term(on("zone", "Exists"), expression).matches(LABELS, "n1")


@pytest.mark.parametrize(("field", "matches"), FIELDS.values(), ids=FIELDS)
def test_fields_are_the_name_of_the_node(field: Expression, matches: bool) -> None:
    assert term(fields=(field,)).matches(LABELS, "n1") is matches


def test_a_wholly_empty_term_matches_nothing() -> None:
    assert not Term().matches(LABELS, "n1")


def test_all_requirements_of_a_term_must_hold() -> None:
    zone, name = on("zone", "In", "a"), on("metadata.name", "In", "n1")
    assert term(zone, fields=(name,)).matches(LABELS, "n1")
    assert not term(zone, on("rack", "Exists"), fields=(name,)).matches(LABELS, "n1")
    assert not term(zone, fields=(name,)).matches(LABELS, "n2")


def test_terms_are_ored_and_a_broken_one_leaves_the_others() -> None:
    rules = PodRules(required=(term(on("zone", "In")), term(on("zone", "In", "b")), term(on("size", "Gt", "5"))))
    assert rules.selects(LABELS, "n1")
    assert not rules.selects({"zone": "c"}, "n1")


@pytest.mark.parametrize(
    ("rules", "selects"),
    [
        pytest.param(PodRules(), True, id="no rules"),
        pytest.param(PodRules(required=()), False, id="required without terms"),
        pytest.param(PodRules(required=(Term(),)), False, id="required with an empty term"),
        pytest.param(PodRules(node_selector=(("zone", "a"), ("size", "10"))), True, id="selector holds"),
        pytest.param(PodRules(node_selector=(("zone", "a"), ("size", "11"))), False, id="selector holds in part"),
        pytest.param(PodRules(node_selector=(("rack", ""),)), False, id="selector: absent is not empty"),
        pytest.param(
            PodRules(node_selector=(("zone", "b"),), required=(term(on("zone", "In", "a")),)),
            False,
            id="selector and affinity must both hold",
        ),
    ],
)
def test_selector_and_required_affinity(rules: PodRules, selects: bool) -> None:
    assert rules.selects(LABELS, "n1") is selects


def test_weights_of_matching_preferred_terms_add_up() -> None:
    here, there = term(on("zone", "In", "a")), term(on("zone", "In", "b"))
    rules = PodRules(preferred=((10, here), (5, there), (3, term(on("size", "Exists"))), (50, Term())))
    assert rules.preferred_weight(LABELS, "n1") == 13


@pytest.mark.parametrize(("toleration", "tolerates"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_toleration_operators(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(taint()) is tolerates


@pytest.mark.parametrize(
    ("operator", "of_toleration", "of_taint", "tolerates"), NUMERIC_TOLERATIONS.values(), ids=NUMERIC_TOLERATIONS
)
def test_numeric_tolerations(operator: str, of_toleration: str, of_taint: str, tolerates: bool) -> None:
    toleration = Toleration(key="gpu", operator=operator, value=of_toleration)
    assert toleration.tolerates(taint(value=of_taint)) is tolerates


def test_one_matching_toleration_is_enough() -> None:
    rules = PodRules(tolerations=(Toleration(key="cpu", operator="Exists"), Toleration(key="gpu", operator="Exists")))
    assert rules.tolerates(taint())
    assert not PodRules().tolerates(taint())


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_int64_reads_every_64_bit_integer(number: int) -> None:
    assert int64(str(number)) == number


NO_INT64 = {
    "empty": "",
    "a sign alone": "-",
    "underscore": "1_000",
    "blank": " 1",
    "line end": "1\n",
    "fraction": "1.0",
    "hexadecimal": "0x1",
    "other digits": "\u0661",
    "one too many": str(1 << 63),
    "one too few": str(-(1 << 63) - 1),
    "more digits than int() takes": "9" * 5000,
}


@pytest.mark.parametrize("text", NO_INT64.values(), ids=NO_INT64)
def test_int64_refuses_what_go_refuses(text: str) -> None:
    assert int64(text) is None


@pytest.mark.parametrize(
    ("text", "number"), [("+7", 7), ("-0", 0), ("0" * 5000 + "7", 7)], ids=["plus", "zero", "zeros"]
)
def test_int64_takes_what_go_takes(text: str, number: int) -> None:
    assert int64(text) == number


def test_equal_rules_are_one_key() -> None:
    rules = [PodRules(required=(term(on("zone", "In", "a")),)) for _ in range(2)]
    assert len(set(rules)) == 1
