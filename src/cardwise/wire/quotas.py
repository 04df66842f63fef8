"""ResourceQuotas, as far as they limit cards: `limits.<resource>` of a family's count, memory and cores.

Kubernetes itself does not enforce these keys (it knows extended resources as `requests.<resource>` only, which are left
to it). Which pods a quota counts is decided by its scopes, as in Kubernetes (pkg/quota/v1/evaluator/core/pods.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cardwise.core.family import BINARY_BYTES, DECIMAL_BYTES, MIB, Family, Quantity
from cardwise.core.model import PodTraits
from cardwise.wire import objects
from cardwise.wire.errors import WireError, shown, wrong
from cardwise.wire.quantity import parse_quantity

LIMITS = "limits."
MOST_HARD = (1 << 62) - 1
MOST_ROUND_MIB = 10**9
"""The API server writes 1000000 as 1M and 10^9 as 1G. Below this, M are millions of MiB; above, bytes may be meant."""
_COMPUTE = ("cpu", "memory")


class ScopeExpression(objects.Object):
    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(objects.Object):
    match_expressions: list[ScopeExpression] | None = None


class QuotaSpec(objects.Object):
    hard: objects.Amounts | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuota(objects.Object):
    metadata: objects.Meta
    spec: QuotaSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hard:
    """The most of one family that the pods of a quota may take together; None is no limit."""

    cards: int | None = None
    memory_mib: int | None = None
    cores_percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRule:
    """One condition on the pods that a quota counts."""

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def holds(self, traits: PodTraits) -> bool:
        """Whether a pod meets it."""
        if self.scope == _PRIORITY_CLASS:
            return _OPERATORS[self.operator](traits.priority_class, self.values)
        return _SCOPES[self.scope](traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReading:
    """A quota on cards: its limits by family, and which pods it counts: those that meet all rules.

    `unreadable` says by family what cannot be read, so that nothing is known of the limit. `warnings` are whole sentences.
    """

    namespace: str
    name: str
    hard: Mapping[str, Hard] = field(default_factory=dict)
    rules: tuple[ScopeRule, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def is_of_cards(self) -> bool:
        """Whether it says anything about cards."""
        return bool(self.hard or self.unreadable)

    def counts(self, traits: PodTraits | None) -> bool:
        """Whether it counts a pod. A pod of which nothing is known (None) is counted by every quota."""
        return traits is None or all(rule.holds(traits) for rule in self.rules)


_PRIORITY_CLASS = "PriorityClass"
_SCOPES: Mapping[str, Callable[[PodTraits], bool]] = {
    "Terminating": lambda traits: traits.terminating,
    "NotTerminating": lambda traits: not traits.terminating,
    "BestEffort": lambda traits: traits.best_effort,
    "NotBestEffort": lambda traits: not traits.best_effort,
}
_OPERATORS: Mapping[str, Callable[[str, tuple[str, ...]], bool]] = {
    "Exists": lambda name, _values: bool(name),
    "DoesNotExist": lambda name, _values: not name,
    "In": lambda name, values: name in values,
    "NotIn": lambda name, values: name not in values,
}


def read_quota(quota: ResourceQuota, families: Iterable[Family]) -> QuotaReading:
    """What a quota says about cards. Never raises: a limit that cannot be read is in `unreadable`, and among `warnings`."""
    namespace, name = quota.metadata.namespace or "default", quota.metadata.name
    where = f"quota {namespace}/{name}"
    spec = quota.spec or QuotaSpec()
    given = spec.hard or {}
    hard: dict[str, Hard] = {}
    unreadable: dict[str, str] = {}
    warnings: list[str] = []
    for family in families:
        try:
            limits = _hard(given, family)
        except WireError as error:
            unreadable[family.name] = str(error)
            warnings.append(f"{where}: {error}; until then no new pod there gets {family.title} cards")
            continue
        if limits != Hard():
            hard[family.name] = limits
        key = LIMITS + family.memory_percent_resource
        if family.memory_percent_resource and key in given:
            warnings.append(f"{where}: {key} limits nothing; {LIMITS}{family.memory_resource} counts percentages too")
    rules = tuple(_rules(spec, where, warnings)) if hard or unreadable else ()
    return QuotaReading(
        namespace=namespace, name=name, hard=hard, rules=rules, unreadable=unreadable, warnings=tuple(warnings)
    )


def unreadable_quota(namespace: str, name: str, why: str, families: Iterable[Family]) -> QuotaReading:
    """The reading of an object that cannot be decoded at all: nothing is known of any of its limits."""
    return QuotaReading(namespace=namespace, name=name, unreadable={family.name: why for family in families})


def read_traits(spec: objects.PodSpec) -> PodTraits:
    """What the scopes of quotas look at."""
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    resources = [spec.resources, *(container.resources for container in containers)]
    return PodTraits(
        priority_class=spec.priority_class_name,
        best_effort=not any(_asks_compute(each) for each in resources if each is not None),
        terminating=spec.active_deadline_seconds is not None,
    )


def _hard(given: objects.Amounts, family: Family) -> Hard:
    """The limits on one family. Raises WireError for the first that cannot be meant."""

    def limit(resource: str, read: Callable[[str, objects.Amount], int]) -> int | None:
        key = LIMITS + resource
        return read(key, given[key]) if resource and key in given else None

    return Hard(
        cards=limit(family.count_resource, _whole),
        memory_mib=limit(family.memory_resource, lambda key, amount: _mib(key, amount, family.memory_factor)),
        cores_percent=limit(family.cores_resource, _whole),
    )


def _whole(key: str, amount: objects.Amount) -> int:
    value = _quantity(key, amount).value
    if value.denominator != 1 or not 0 <= value <= MOST_HARD:
        raise wrong(key, amount, f"a whole number, 0 to {MOST_HARD}")
    return int(value)


def _mib(key: str, amount: objects.Amount, factor: int) -> int:
    """MiB over all cards: a plain number (or thousands and millions of it) is MiB, a binary suffix is bytes."""
    quantity = _quantity(key, amount)
    if quantity.suffix in DECIMAL_BYTES and quantity.value >= MOST_ROUND_MIB:
        raise wrong(key, amount, f"a plain number of MiB below {MOST_ROUND_MIB}, or bytes as in {shown(amount)}i")
    mib = quantity.value / MIB if quantity.suffix in BINARY_BYTES else quantity.value * factor
    if mib.denominator != 1 or not 0 <= mib <= MOST_HARD:
        raise wrong(key, amount, f"a whole number of MiB, 0 to {MOST_HARD}")
    return int(mib)


def _quantity(key: str, amount: objects.Amount) -> Quantity:
    try:
        return parse_quantity(amount)
    except WireError as error:
        msg = f"{key} {str(error).removeprefix('quantity ')}"
        raise WireError(msg) from error


def _rules(spec: QuotaSpec, where: str, warnings: list[str]) -> Iterable[ScopeRule]:
    """The scopes that are known. What is not known is left out, so that the quota rather counts too many pods."""
    selector = spec.scope_selector or ScopeSelector()
    rules = [ScopeRule(scope=scope) for scope in spec.scopes or ()] + [
        ScopeRule(scope=each.scope_name, operator=each.operator, values=tuple(each.values or ()))
        for each in selector.match_expressions or ()
    ]
    for rule in rules:
        known = rule.scope in _SCOPES and rule.operator == "Exists"
        if known or (rule.scope == _PRIORITY_CLASS and rule.operator in _OPERATORS):
            yield rule
        else:
            text = f"{shown(rule.scope)} {shown(rule.operator)}"
            warnings.append(f"{where}: scope {text} is not known for cards; the quota counts pods whatever it says")


def _asks_compute(resources: objects.Resources) -> bool:
    amounts = [
        each[name] for each in (resources.limits, resources.requests) if each for name in _COMPUTE if name in each
    ]
    return any(_is_some(amount) for amount in amounts)


def _is_some(amount: objects.Amount) -> bool:
    try:
        return parse_quantity(amount).value > 0
    except WireError:
        return True
