"""What Kubernetes objects say about nodes and amounts, as the core's node fit reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from cardwise.core.nodefit import CPU, NodeFacts, peak_requests
from cardwise.core.nodeselect import Expression, PodRules, Taint, Term, Toleration
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.quantity import parse_quantity


def read_facts(node: objects.Node) -> NodeFacts:
    """The node as kube-scheduler's checks see it. Raises WireError for an amount that is no quantity.

    Where the object has no status (a manifest written by hand), nothing is known about amounts, and it counts as Ready.
    """
    spec = node.spec or objects.NodeSpec()
    status = node.status or objects.NodeStatus()
    ready = next((condition.status for condition in status.conditions or () if condition.type == "Ready"), "True")
    amounts = status.allocatable or status.capacity
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        ready=ready == "True",
        allocatable=None if not amounts else _amounts(amounts, "allocatable", down=True),
    )


def read_rules(spec: objects.PodSpec) -> PodRules:
    """What the pod says about nodes, apart from amounts."""
    affinity = (spec.affinity and spec.affinity.node_affinity) or objects.NodeAffinity()
    required = affinity.required
    return PodRules(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        required=None if required is None else tuple(map(_term, required.node_selector_terms or ())),
        preferred=tuple((each.weight, _term(each.preference)) for each in affinity.preferred or ()),
        tolerations=tuple(
            Toleration(key=each.key, operator=each.operator, value=each.value, effect=each.effect)
            for each in spec.tolerations or ()
        ),
    )


def read_requests(spec: objects.PodSpec, without: Iterable[str] = ()) -> dict[str, int]:
    """What kube-scheduler counts for the pod at its peak, the resources in `without` left out.

    Where a container sets a limit and no request, the API server makes the limit the request. Raises WireError for an
    amount that is no quantity.
    """
    skip = frozenset(without)
    init = [(each.restart_policy == "Always", _requests(each.resources, skip)) for each in spec.init_containers or ()]
    apps = [_requests(each.resources, skip) for each in spec.containers or ()]
    overhead = _amounts(spec.overhead or {}, "overhead")
    return peak_requests(init, apps, overhead, _requests(spec.resources, skip) if spec.resources else None)


def _requests(resources: objects.Resources | None, skip: frozenset[str]) -> dict[str, int]:
    if resources is None:
        return {}
    asked = {**(resources.limits or {}), **(resources.requests or {})}
    return _amounts({name: amount for name, amount in asked.items() if name not in skip}, "requests")


def _amounts(amounts: Mapping[str, objects.Amount], where: str, *, down: bool = False) -> dict[str, int]:
    return {name: _amount(name, amount, where, down=down) for name, amount in amounts.items()}


def _amount(name: str, amount: objects.Amount, where: str, *, down: bool) -> int:
    """CPU in millicores, all else in its own unit; fractions of that are rounded against whoever asks."""
    try:
        value = parse_quantity(amount).value
    except WireError as error:
        msg = f"{where}.{name} {str(error).removeprefix('quantity ')}"
        raise WireError(msg) from error
    if name == CPU:
        value *= 1000
    if value.denominator == 1:
        return int(value)
    return int(value) if down else ceil(value)


def _term(term: objects.Term) -> Term:
    return Term(
        expressions=tuple(map(_expression, term.match_expressions or ())),
        fields=tuple(map(_expression, term.match_fields or ())),
    )


def _expression(each: objects.Expression) -> Expression:
    return Expression(key=each.key, operator=each.operator, values=tuple(each.values or ()))
