"""What admission does with a new pod: leave it, refuse it with a sentence, or take it with defaults and warnings.

Pure: the webhook and `simulate` apply the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from cardwise.core.family import Family
from cardwise.core.model import PodRequest
from cardwise.scheduler.inventory import Inventory
from cardwise.wire import names, objects
from cardwise.wire.families import FAMILIES
from cardwise.wire.pods import Defaults, asks_for_cards, containers_of, read_pod

DEFAULT_SCHEDULER = "default-scheduler"
SCHEDULER_NAME = "cardwise-scheduler"
HAMI_SCHEDULER = "hami-scheduler"
OWNED_KEYS = frozenset(key for family in FAMILIES for key in (family.to_allocate_key, family.allocated_key) if key)
"""Annotations that only the scheduler and the agents write, beside those with `names.OWNED_PREFIXES`."""


class Outcome(Enum):
    """What becomes of a pod."""

    UNTOUCHED = "asks for no managed resource"
    PASSED_BY = "is not ours to place"
    REFUSED = "is refused"
    ADMITTED = "is admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a cluster admits pods. `own_names` are scheduler names that mean us; `privileged` is `refuse` or `skip`.

    `one_node`: we choose the node, so soft rules that need several to choose from do not count, and pods are warned.
    """

    families: tuple[Family, ...] = FAMILIES
    defaults: Defaults = Defaults()
    own_names: frozenset[str] = frozenset((SCHEDULER_NAME, HAMI_SCHEDULER))
    privileged: str = "refuse"
    one_node: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The outcome. `reason` says why where the pod is not admitted; `limits` are what is written into its containers.

    `limits` are container name, resource and plain number.
    """

    outcome: Outcome
    request: PodRequest | None = None
    reason: str = ""
    limits: tuple[tuple[str, str, int], ...] = ()
    warnings: tuple[str, ...] = ()


def admit(
    pod: objects.Pod,
    rules: Rules,
    *,
    namespace_labels: Mapping[str, str] | None = None,
    inventory: Inventory | None = None,
    created: bool = True,
) -> Admission:
    """What becomes of this pod.

    `inventory` is what the cluster has, for warnings about what cannot work now. `created` is False for a pod that is
    in the cluster already: what others wrote on it since is no user's forgery.
    """
    asking = [each for each, _kind in containers_of(pod) if asks_for_cards(each, rules.families)]
    if not asking:
        return Admission(outcome=Outcome.UNTOUCHED)
    if reason := _not_ours(pod, rules, namespace_labels or {}):
        return Admission(outcome=Outcome.PASSED_BY, reason=reason)
    privileged = [each.name for each in asking if each.security_context and each.security_context.privileged]
    if privileged and rules.privileged == "skip":
        text = f"pod {pod.full_name}, container {privileged[0]}: is privileged and asks for cards; passed by"
        return Admission(outcome=Outcome.PASSED_BY, reason=text, warnings=(text,))
    reading = read_pod(pod, rules.families, rules.defaults)
    faults = [*_misplaced(pod, privileged), *reading.faults]
    if faults:
        return Admission(outcome=Outcome.REFUSED, reason="; ".join(faults), warnings=reading.warnings)
    if reading.request is None:
        return Admission(outcome=Outcome.UNTOUCHED, warnings=reading.warnings)
    warnings = [*reading.warnings, *(forged(pod) if created else ()), *(_soft_rules(pod) if rules.one_node else ())]
    if inventory is not None:
        warnings += inventory.doubts(reading.request)
    return Admission(
        outcome=Outcome.ADMITTED,
        request=reading.request,
        limits=reading.writes,
        warnings=tuple(warnings),
    )


def _not_ours(pod: objects.Pod, rules: Rules, namespace_labels: Mapping[str, str]) -> str:
    labels = pod.metadata.labels or {}
    label = f"{names.WEBHOOK_LABEL}={names.WEBHOOK_IGNORE}"
    if labels.get(names.WEBHOOK_LABEL) == names.WEBHOOK_IGNORE:
        return f"pod {pod.full_name}: label {label} keeps it from Cardwise"
    if namespace_labels.get(names.WEBHOOK_LABEL) == names.WEBHOOK_IGNORE:
        return f"pod {pod.full_name}: label {label} on its namespace keeps it from Cardwise"
    name = pod.spec.scheduler_name
    if name and name != DEFAULT_SCHEDULER and name not in rules.own_names:
        return f"pod {pod.full_name}: schedulerName is {name}, which is left alone; no card is recorded for it"
    return ""


def _misplaced(pod: objects.Pod, privileged: list[str]) -> list[str]:
    faults = [
        f"pod {pod.full_name}, container {name}: is privileged and asks for cards, must not be privileged"
        " (it would see every card of its node, whatever it is given)"
        for name in privileged
    ]
    if pod.spec.node_name:
        faults.append(
            f"pod {pod.full_name}: spec.nodeName is {pod.spec.node_name}, must be left out where cards are asked for"
            " (use a node selector)"
        )
    return faults


def owned_keys(keys: Iterable[str]) -> list[str]:
    """Those of these annotation keys that only the scheduler and the agents write, in order."""
    return sorted(key for key in keys if key in OWNED_KEYS or key.startswith(names.OWNED_PREFIXES))


def forged(pod: objects.Pod) -> list[str]:
    """A sentence for each annotation of ours on a new pod: who re-applies an exported pod sends them, meaning nothing."""
    return [
        f"pod {pod.full_name}: annotation {key} is written by the scheduler only, and is dropped"
        for key in owned_keys(pod.annotations)
    ]


def _soft_rules(pod: objects.Pod) -> list[str]:
    """Rules that one node chosen by us cannot honour: kube-scheduler scores nothing where one node is left."""
    spec = pod.spec
    affinity = spec.affinity or objects.Affinity()
    rules = [
        ("preferred pod affinity", affinity.pod_affinity and affinity.pod_affinity.preferred),
        ("preferred pod anti-affinity", affinity.pod_anti_affinity and affinity.pod_anti_affinity.preferred),
        (
            "topology spread with ScheduleAnyway",
            any(each.when_unsatisfiable == "ScheduleAnyway" for each in spec.topology_spread_constraints or ()),
        ),
    ]
    return [
        f"pod {pod.full_name}: {name} does not count, since the scheduler chooses one node" for name, on in rules if on
    ]
