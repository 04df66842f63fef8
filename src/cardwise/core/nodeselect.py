"""What a pod says about nodes: selector, node affinity, tolerations, read exactly as kube-scheduler reads them.

Source of the rules: the Kubernetes API reference (`NodeSelectorTerm`, `Toleration`) and the behaviour of the plugins
NodeAffinity, TaintToleration and NodeUnschedulable, 1.30 to 1.36. A term that the API server would not have taken (an
unknown operator, a wrong number of values, a key or value that is no label) matches nothing, as in kube-scheduler; a
manifest that never met an API server can hold one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NODE_NAME_FIELD = "metadata.name"

MOST_INT64 = (1 << 63) - 1
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_SUBDOMAIN_LETTERS = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node. Only the effects NoSchedule and NoExecute keep pods off; PreferNoSchedule ranks."""

    key: str
    value: str = ""
    effect: str

    @property
    def keeps_off(self) -> bool:
        """Whether a pod must tolerate this taint to be placed here."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that stands for a node's unschedulable flag: who tolerates the one passes the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod.

    An empty `operator` means Equal, an empty `effect` all effects, an empty `key` all keys. Gt and Lt compare the
    taint's value with the toleration's, as integers (Kubernetes 1.35, feature TaintTolerationComparisonOperators).
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration lets the pod pass the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        compare = _TOLERATION_OPERATORS.get(self.operator)
        return compare is not None and compare(taint.value, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One requirement on a label or a field: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Whether a label's value satisfies this; None is an absent label. An unknown operator matches nothing."""
        operator = _OPERATORS.get(self.operator)
        return operator is not None and operator.matches(value, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Requirements that must all hold: on labels (`expressions`) and on the node's name (`fields`, by metadata.name).

    `usable` is False for a term that matches no node at all: a wholly empty one, or one with a broken requirement.
    """

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()
    usable: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once per term instead of once per node: a table asks this of thousands of nodes.
        sound = all(map(_is_label_requirement, self.expressions)) and all(map(_is_field_requirement, self.fields))
        object.__setattr__(self, "usable", sound and bool(self.expressions or self.fields))

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node with these labels and this name satisfies every requirement."""
        return (
            self.usable
            and all(each.matches(labels.get(each.key)) for each in self.expressions)
            and all(each.matches(node_name if each.key == NODE_NAME_FIELD else "") for each in self.fields)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """All that a pod says about nodes, apart from amounts.

    `node_selector` are label keys and values, all of which must hold. `required` terms are ORed: None is no constraint,
    an empty tuple matches nothing. `preferred` are weights (1 to 100) with their terms.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    required: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def selects(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether node selector and required node affinity allow a node with these labels and this name."""
        if any(labels.get(key) != value for key, value in self.node_selector):
            return False
        return self.required is None or any(term.matches(labels, node_name) for term in self.required)

    def tolerates(self, taint: Taint) -> bool:
        """Whether any toleration lets the pod pass the taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def preferred_weight(self, labels: Mapping[str, str], node_name: str) -> int:
        """The sum of the weights of the preferred terms that match: kube-scheduler's score before it is normalised."""
        return sum(weight for weight, term in self.preferred if term.matches(labels, node_name))


class _Operator(NamedTuple):
    """How an operator matches a label's value (None: absent), and how many values it takes."""

    matches: Callable[[str | None, tuple[str, ...]], bool]
    takes: range


def int64(text: str) -> int | None:
    """The number that the text of a 64-bit decimal integer stands for, else None: no blanks, no `_`, unlike `int()`."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    value = int(match[1] + match[2])
    return value if -MOST_INT64 - 1 <= value <= MOST_INT64 else None


def _greater(left: str | None, right: str) -> bool:
    number, bound = None if left is None else int64(left), int64(right)
    return number is not None and bound is not None and number > bound


def _less(left: str | None, right: str) -> bool:
    number, bound = None if left is None else int64(left), int64(right)
    return number is not None and bound is not None and number < bound


_NO_VALUE, _ONE_VALUE, _SOME_VALUES = range(1), range(1, 2), range(1, 1 << 30)

_OPERATORS: dict[str, _Operator] = {
    "In": _Operator(lambda value, values: value in values, _SOME_VALUES),
    # An absent label is in no list, so it satisfies NotIn.
    "NotIn": _Operator(lambda value, values: value not in values, _SOME_VALUES),
    "Exists": _Operator(lambda value, _values: value is not None, _NO_VALUE),
    "DoesNotExist": _Operator(lambda value, _values: value is None, _NO_VALUE),
    "Gt": _Operator(lambda value, values: any(_greater(value, bound) for bound in values), _ONE_VALUE),
    "Lt": _Operator(lambda value, values: any(_less(value, bound) for bound in values), _ONE_VALUE),
}

_TOLERATION_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "": lambda of_taint, of_toleration: of_taint == of_toleration,
    "Equal": lambda of_taint, of_toleration: of_taint == of_toleration,
    "Exists": lambda _of_taint, _of_toleration: True,
    "Gt": _greater,
    "Lt": _less,
}


def _is_label_requirement(expression: Expression) -> bool:
    operator = _OPERATORS.get(expression.operator)
    return (
        operator is not None
        and len(expression.values) in operator.takes
        and _is_label_key(expression.key)
        and all(value == "" or _LABEL_NAME.fullmatch(value) for value in expression.values)
    )


def _is_field_requirement(expression: Expression) -> bool:
    """Fields know In and NotIn, with exactly one value, which need not be a label's."""
    return expression.operator in ("In", "NotIn") and len(expression.values) == 1


def _is_label_key(key: str) -> bool:
    """A name of at most 63 letters, with an optional DNS subdomain before a slash."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MOST_SUBDOMAIN_LETTERS or _SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return _LABEL_NAME.fullmatch(name) is not None
