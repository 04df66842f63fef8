"""How a node's cards are shared: slots, scaling, what is left out; for all nodes, and otherwise for some of them.

    cards:                     # for every node
      slotsPerCard: 10
    nodes:                     # what matches is applied in order: the later one wins, key by key
      - selector: {matchLabels: {gpu-type: a100}}
        slotsPerCard: 20
      - name: gpu-7
        leaveOut: [3, GPU-0b1c2d3e-1111-2222-3333-444455556666]

HAMi calls these deviceSplitCount, deviceMemoryScaling, deviceCoreScaling, preConfiguredDeviceMemory and filterdevices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from cardwise.agent.yaml_fields import (
    Reader,
    choice,
    given,
    inside,
    items,
    mapping,
    number,
    refusal,
    required,
    text,
    whole,
)
from cardwise.core.model import MOST
from cardwise.core.nodeselect import Expression, Term
from cardwise.wire.errors import WireError

MOST_SLOTS = 1000
"""Per card: the kubelet is sent an identifier for each, of all cards in one message, which may not exceed 4 MiB."""
LEAST_SCALING, MOST_SCALING = Fraction(1, 100), Fraction(100)
REGISTER_FORMS = ("json", "text")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How the cards of one node are shared.

    `unified_memory_mib` is what a card has that shares the host's memory; 0: such cards are left out. `leave_out` are
    UUIDs, and the library's numbers of cards.
    """

    slots_per_card: int = 10
    memory_scaling: Fraction = Fraction(1)
    cores_scaling: Fraction = Fraction(1)
    unified_memory_mib: int = 0
    leave_out: frozenset[str | int] = frozenset()
    register_format: str = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What holds for one node by name, or for those that a selector matches: values by field of `Sharing`."""

    name: str = ""
    selector: Term | None = None
    values: Mapping[str, Any]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it holds for this node."""
        return self.name == name if self.selector is None else self.selector.matches(labels, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules:
    """How the cards of all nodes are shared."""

    default: Sharing = Sharing()
    overrides: tuple[Override, ...] = ()

    def of(self, name: str, labels: Mapping[str, str]) -> Sharing:
        """How this node's cards are shared: the default, then every override that matches, in order."""
        sharing = self.default
        for override in self.overrides:
            if override.matches(name, labels):
                sharing = replace(sharing, **override.values)
        return sharing


def _leave_out(where: str, raw: object) -> frozenset[str | int]:
    return frozenset(_card_name(place, item) for place, item in items(where, raw))


def _card_name(where: str, raw: object) -> str | int:
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MOST:
        return raw
    if isinstance(raw, str) and raw.strip() and not raw.strip().isdigit():
        return raw.strip()
    raise refusal(where, raw, "a card's UUID, or its number")


_SCALING = number(LEAST_SCALING, MOST_SCALING)
KEYS: Mapping[str, tuple[str, Reader[Any]]] = {
    "slotsPerCard": ("slots_per_card", whole(1, MOST_SLOTS)),
    "memoryScaling": ("memory_scaling", _SCALING),
    "coresScaling": ("cores_scaling", _SCALING),
    "unifiedMemoryMib": ("unified_memory_mib", whole(0, MOST)),
    "leaveOut": ("leave_out", _leave_out),
    "registerFormat": ("register_format", choice(*REGISTER_FORMS)),
}
"""The keys of a file, with the field of `Sharing` and what reads it."""


def read_sharing(where: str, cards: object, nodes: object) -> SharingRules:
    """The rules that stand under `cards` and `nodes` of a file; None where a key is left out.

    `where` names the file in errors. Raises WireError with the key, what it is and what it must be.
    """
    place = inside(where, "cards")
    default = replace(Sharing(), **_values(place, mapping(place, cards, KEYS)))
    overrides = tuple(_override(at, raw) for at, raw in items(inside(where, "nodes"), nodes))
    return SharingRules(default=default, overrides=overrides)


def _values(where: str, fields: Mapping[str, object]) -> dict[str, Any]:
    return {name: read(inside(where, key), fields[key]) for key, (name, read) in KEYS.items() if key in fields}


def _override(where: str, raw: object) -> Override:
    fields = mapping(where, raw, ("name", "selector", *KEYS))
    if ("name" in fields) == ("selector" in fields):
        many = "both" if "name" in fields else "neither"
        raise WireError(f"{where} has {many} of name and selector, must have one of them")
    name = given(where, fields, "name", text, "")
    selector = _selector(inside(where, "selector"), fields["selector"]) if "selector" in fields else None
    return Override(name=name, selector=selector, values=_values(where, fields))


def _selector(where: str, raw: object) -> Term:
    """A label selector as Kubernetes writes it."""
    fields = mapping(where, raw, ("matchLabels", "matchExpressions"))
    place = inside(where, "matchLabels")
    labels = fields.get("matchLabels")
    pairs = mapping(place, labels, labels if isinstance(labels, dict) else ())
    rows = items(inside(where, "matchExpressions"), fields.get("matchExpressions"))
    if not pairs and not rows:
        raise WireError(f"{where} selects nothing, must hold matchLabels or matchExpressions (all nodes: under cards)")
    found = [(inside(place, str(key)), _equal(inside(place, str(key)), key, value)) for key, value in pairs.items()]
    found += [(at, _expression(at, row)) for at, row in rows]
    for at, each in found:
        if not Term(expressions=(each,)).usable:
            raise WireError(
                f"{at} is no requirement on a label that Kubernetes knows, must be a label's key and values"
            )
    return Term(expressions=tuple(each for _at, each in found))


def _equal(where: str, key: object, value: object) -> Expression:
    if isinstance(key, str) and isinstance(value, str):
        return Expression(key=key, operator="In", values=(value,))
    raise refusal(where, value, "a label's value (a number or true needs quotation marks)")


def _expression(where: str, raw: object) -> Expression:
    fields = mapping(where, raw, ("key", "operator", "values"))
    place = inside(where, "values")
    return Expression(
        key=required(where, fields, "key", text),
        operator=required(where, fields, "operator", choice(*_OPERATORS)),
        values=tuple(_label_value(at, each) for at, each in items(place, fields.get("values"))),
    )


def _label_value(where: str, raw: object) -> str:
    if isinstance(raw, str):
        return raw
    raise refusal(where, raw, "a label's value (a number or true needs quotation marks)")
