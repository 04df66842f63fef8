"""What kube-scheduler itself checks about a node before it asks an extender, for offline use (replays, explanations).

Checked, with the outcome of a stock kube-scheduler 1.30 to 1.36: the unschedulable flag, taints, node selector and node
affinity, and the amounts that pods request. One check is our own: a node that is not Ready is refused outright, while
kube-scheduler goes by the taint that the node controller puts on such a node.

Not checked, so a node that fits here can still be refused there: pod affinity and anti-affinity, topology spread,
volumes (binding, zones, limits per node, exclusive access), host ports, resource claims, scheduling gates and gangs,
and affinity that the scheduler's own configuration adds. An extended resource that claims serve is absent from
allocatable, so its node is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cardwise.core.model import Refusal
from cardwise.core.nodeselect import MOST_INT64, PREFER_NO_SCHEDULE, UNSCHEDULABLE_TAINT, PodRules, Taint

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
HUGEPAGES_PREFIX = "hugepages-"

NOT_READY = "NodeNotReady"
UNSCHEDULABLE = "NodeUnschedulable"
TAINT_UNTOLERATED = "NodeTaintUntolerated"
AFFINITY_MISMATCH = "NodeAffinityMismatch"
TOO_MANY_PODS = "NodeTooManyPods"
INSUFFICIENT_RESOURCE = "NodeInsufficientResource"

AFFINITY_STEP = 1 << 20
"""How many untolerated PreferNoSchedule taints one point of preferred affinity outweighs: more than a node can have."""

_Item = TypeVar("_Item", bound=np.generic)
_MOST_AFFINITY = 1 << 40
_MOST_CACHED_RULES = 512  # a DaemonSet's pods name one node each: bounded memory there, at a price in time
_MOST_CHANGES = 4096
_NO_AMOUNTS = np.zeros(0, np.int64)
_BASIC = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)  # in the order in which kube-scheduler names them


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node as kube-scheduler's own checks see it.

    `allocatable` is by resource: cpu in millicores, memory and the like in bytes, others counts. None: nothing is known
    about amounts, none are checked. Where it is known, a missing cpu, memory, ephemeral-storage or pods is unlimited
    (nodes written by hand leave them out), a missing other resource is 0.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Mapping[str, int] | None = None


NO_NODE = NodeFacts(name="", ready=False)
"""What fits no pod: for a place in a table that no node has at present."""


class NodeTable:
    """Nodes in the caller's order, what is in use on each, and which of them fit a pod.

    Amounts are clamped to 0 to 2**63 - 1.
    """

    __slots__ = ("_allocatable", "_facts", "_fitting", "_free", "_preferences", "_used")

    def __init__(self, facts: Sequence[NodeFacts] = ()) -> None:
        self._facts = list(facts)
        self._allocatable = [_clamped_all(node.allocatable) for node in self._facts]
        # Exact sums as Python integers, so that removing is the inverse of adding whatever the size. The columns of
        # what is free follow from them; a column may be shorter than the table, until it is asked for.
        self._used: list[dict[str, int]] = [{} for _ in self._facts]
        self._free: dict[str, NDArray[np.int64]] = {}
        self._fitting = _Remembered(_passes, np.bool_)
        self._preferences = _Remembered(_preference, np.int64)

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """The nodes, in the order of every mask and index."""
        return tuple(self._facts)

    def set(self, index: int, facts: NodeFacts) -> None:
        """Put a node in the place of another; with the index after the last, behind them. What is in use there stays.

        Masks and preferences given before stay as they were. Raises IndexError for an index beyond that.
        """
        if not 0 <= index <= len(self):
            raise IndexError(f"index is {index}, must be 0 to {len(self)}")
        if index == len(self):
            self._facts.append(facts)
            self._allocatable.append(_clamped_all(facts.allocatable))
            self._used.append({})
            return
        if replace(facts, allocatable=None) != replace(self._facts[index], allocatable=None):
            self._fitting.changed(index)
            self._preferences.changed(index)
        self._facts[index] = facts
        self._allocatable[index] = _clamped_all(facts.allocatable)
        for name in self._free:
            self._refresh_free(index, name)

    def add_use(self, index: int, requests: Mapping[str, int]) -> None:
        """Count a pod's requests (as `peak_requests` returns them, `pods` included) as in use on a node."""
        for name, amount in requests.items():
            self._set_used(index, name, self._used[index].get(name, 0) + _clamped(amount))

    def remove_use(self, index: int, requests: Mapping[str, int]) -> None:
        """Take back what `add_use` counted. Raises ValueError, and changes nothing, where less than that is in use."""
        used = self._used[index]
        for name, amount in requests.items():
            if used.get(name, 0) < _clamped(amount):
                in_use, least = _shown(name, used.get(name, 0)), _shown(name, amount)
                raise ValueError(f"node {self._facts[index].name}: {name} in use is {in_use}, must be at least {least}")
        for name, amount in requests.items():
            self._set_used(index, name, used.get(name, 0) - _clamped(amount))

    def mask(self, rules: PodRules, requests: Mapping[str, int]) -> NDArray[np.bool_]:
        """True where a pod with these rules and requests fits; a new array. What is requested as 0 is not checked.

        After the first call for the same rules, this is a comparison of columns per requested resource.
        """
        fits = self._fitting.column(rules, self._facts).copy()
        for name, amount in requests.items():
            if amount > 0:
                fits &= self._column(name) >= _clamped(amount)
        return fits

    def refusals(self, rules: PodRules, requests: Mapping[str, int], index: int) -> tuple[Refusal, ...]:
        """Every reason why a node does not fit, empty exactly where `mask` is True.

        In kube-scheduler's words (newer ones leave out the key and value of a taint) and in the order of its checks.
        kube-scheduler stops at the first check that fails, and at the first taint; here all are named.
        """
        return _static_refusals(rules, self._facts[index]) + tuple(
            self._shortage(index, name, _clamped(requests[name]))
            for name in sorted(requests, key=_resource_order)
            if requests[name] > 0 and _clamped(requests[name]) > self._free_amount(index, name)
        )

    def preference(self, rules: PodRules) -> NDArray[np.int64]:
        """How well each node meets the pod's soft rules, higher is better; read-only.

        `AFFINITY_STEP` times the summed weight of the preferred terms that match, minus the number of PreferNoSchedule
        taints that the pod does not tolerate. kube-scheduler normalises the two and adds them, 2 to 3; here affinity
        comes first and taints break its ties. All 0 where there is neither.
        """
        return self._preferences.column(rules, self._facts)

    def _column(self, name: str) -> NDArray[np.int64]:
        """What is free of a resource on every node: made when it is asked for, then kept by `_refresh_free`."""
        column = self._free.get(name, _NO_AMOUNTS)
        if len(column) < len(self):
            amounts = [self._free_amount(index, name) for index in range(len(column), len(self))]
            column = self._free[name] = np.concatenate((column, np.array(amounts, np.int64)))
        return column

    def _set_used(self, index: int, name: str, amount: int) -> None:
        self._used[index][name] = amount
        self._refresh_free(index, name)

    def _refresh_free(self, index: int, name: str) -> None:
        column = self._free.get(name, _NO_AMOUNTS)
        if index < len(column):
            column[index] = self._free_amount(index, name)

    def _limit(self, index: int, name: str) -> int | None:
        """The allocatable amount; None is unlimited."""
        allocatable = self._allocatable[index]
        if allocatable is None:
            return None
        return allocatable.get(name, None if name in _BASIC else 0)

    def _free_amount(self, index: int, name: str) -> int:
        """Allocatable less used, within int64; below 0 where more is in use. Unlimited is the most, so all fits."""
        limit = self._limit(index, name)
        return MOST_INT64 if limit is None else max(limit - self._used[index].get(name, 0), -MOST_INT64)

    def _shortage(self, index: int, name: str, amount: int) -> Refusal:
        limit, used = self._limit(index, name) or 0, self._used[index].get(name, 0)
        reason = "Too many pods" if name == PODS else f"Insufficient {name}"
        free = f"{_shown(name, max(limit - used, 0))} of {_shown(name, limit)} free"
        over = f" ({_shown(name, used)} in use)" if used > limit else ""
        return Refusal(
            code=TOO_MANY_PODS if name == PODS else INSUFFICIENT_RESOURCE,
            text=f"{reason}: needs {_shown(name, amount)}, {free}{over}",
            lasting=amount > limit,
        )


class _Remembered(Generic[_Item]):
    """By rules, a value for every node: made when it is first asked for, and again only for nodes that changed since."""

    __slots__ = ("_changed", "_columns", "_kind", "_value")

    def __init__(self, value: Callable[[PodRules, NodeFacts], int], kind: type[_Item]) -> None:
        self._value, self._kind = value, kind
        self._columns: dict[PodRules, tuple[NDArray[_Item], int]] = {}
        self._changed: list[int] = []

    def changed(self, index: int) -> None:
        """A node is another than before."""
        self._changed.append(index)
        if len(self._changed) > _MOST_CHANGES:
            self._changed.clear()
            self._columns.clear()

    def column(self, rules: PodRules, facts: Sequence[NodeFacts]) -> NDArray[_Item]:
        """The values, read-only; what was given out before is left as it was."""
        column, read = self._columns.get(rules, (np.zeros(0, self._kind), len(self._changed)))
        stale = {index for index in self._changed[read:] if index < len(column)}
        if stale or len(column) < len(facts) or rules not in self._columns:
            column = np.concatenate((column, self._values(rules, facts[len(column) :])))
            for index in stale:
                column[index] = self._value(rules, facts[index])
            column.flags.writeable = False
        if rules not in self._columns and len(self._columns) >= _MOST_CACHED_RULES:
            self._columns.clear()
        self._columns[rules] = column, len(self._changed)
        return column

    def _values(self, rules: PodRules, facts: Sequence[NodeFacts]) -> NDArray[_Item]:
        return np.fromiter((self._value(rules, node) for node in facts), dtype=self._kind, count=len(facts))


def peak_requests(
    init: Sequence[tuple[bool, Mapping[str, int]]],
    apps: Sequence[Mapping[str, int]],
    overhead: Mapping[str, int],
    pod_level: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """What kube-scheduler counts for a pod, by resource, in the units of the input; 1 `pods` is added.

    `init` are the init containers in their order, with True for a sidecar (restartPolicy Always), which stays beside
    all that follow. `pod_level` are requests of the pod as a whole (`spec.resources`, from 1.34 on by default): its
    cpu, memory and hugepages replace what the containers add up to. Source: "Resource sharing within containers" and
    "Pod-level resource specification" in the Kubernetes documentation.
    """
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for always, requests in init:
        running = _added(sidecars, requests)
        peak = _larger(peak, running)
        if always:
            sidecars = running
    running = sidecars
    for requests in apps:
        running = _added(running, requests)
    peak = _larger(peak, running)
    for name, amount in (pod_level or {}).items():
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX):
            peak[name] = amount
    return _added(peak, overhead) | {PODS: 1}


def _says_not_ready(_rules: PodRules, node: NodeFacts) -> tuple[str, ...]:
    return () if node.ready else ("node is not Ready",)


def _says_unschedulable(rules: PodRules, node: NodeFacts) -> tuple[str, ...]:
    return ("node(s) were unschedulable",) if _is_shut(rules, node) else ()


def _says_taints(rules: PodRules, node: NodeFacts) -> tuple[str, ...]:
    """One sentence per taint. The taint that only mirrors the unschedulable flag is not a second reason."""
    return tuple(
        f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        for taint in node.taints
        if taint.keeps_off
        and not rules.tolerates(taint)
        and not (taint == UNSCHEDULABLE_TAINT and _is_shut(rules, node))
    )


def _says_affinity(rules: PodRules, node: NodeFacts) -> tuple[str, ...]:
    return () if rules.selects(node.labels, node.name) else ("node(s) didn't match Pod's node affinity/selector",)


STATIC_CHECKS: tuple[tuple[str, Callable[[PodRules, NodeFacts], tuple[str, ...]]], ...] = (
    (NOT_READY, _says_not_ready),
    (UNSCHEDULABLE, _says_unschedulable),
    (TAINT_UNTOLERATED, _says_taints),
    (AFFINITY_MISMATCH, _says_affinity),
)
"""What no pod's leaving changes, in kube-scheduler's order: a code, and what it says of a node (nothing: it passes)."""


def _static_refusals(rules: PodRules, node: NodeFacts) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(code=code, text=text, lasting=True) for code, says in STATIC_CHECKS for text in says(rules, node)
    )


def _is_shut(rules: PodRules, node: NodeFacts) -> bool:
    return node.unschedulable and not rules.tolerates(UNSCHEDULABLE_TAINT)


def _passes(rules: PodRules, node: NodeFacts) -> bool:
    return not any(says(rules, node) for _, says in STATIC_CHECKS)


def _preference(rules: PodRules, node: NodeFacts) -> int:
    affinity = rules.preferred_weight(node.labels, node.name)
    disliked = sum(taint.effect == PREFER_NO_SCHEDULE and not rules.tolerates(taint) for taint in node.taints)
    return max(-_MOST_AFFINITY, min(affinity, _MOST_AFFINITY)) * AFFINITY_STEP - min(disliked, AFFINITY_STEP - 1)


def _clamped(amount: int) -> int:
    return max(0, min(amount, MOST_INT64))


def _clamped_all(amounts: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if amounts is None else {name: _clamped(amount) for name, amount in amounts.items()}


def _resource_order(name: str) -> tuple[int, str]:
    return _BASIC.index(name) if name in _BASIC else len(_BASIC), name


def _shown(name: str, amount: int) -> str:
    """An amount with its unit: cpu in m; bytes in the largest of Gi, Mi and Ki that leaves a whole number."""
    if name == CPU:
        return f"{amount}m"
    if amount and (name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGEPAGES_PREFIX)):
        for suffix, shift in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
    return str(amount)


def _added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {**left, **{name: left.get(name, 0) + amount for name, amount in right.items()}}


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {**left, **{name: max(left.get(name, 0), amount) for name, amount in right.items()}}
