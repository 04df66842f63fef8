"""Every series that the scheduler tells of itself: name, labels, meaning, and the values that its labels can have.

One table: what is counted, the page's HELP lines and docs/metrics.md are made from it. Label values that are not listed
here are counted as OTHER, so that no text from outside makes series without end; nodes, cards and quotas are as many as
the cluster has.

Format: https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md
"""

from __future__ import annotations

from dataclasses import dataclass

from cardwise.core.checks import CHECKS
from cardwise.scheduler.webhook import Outcome

OTHER = "other"
"""The label value of what is not listed."""

Values = tuple[str, ...]
"""One value for each label."""

CODES: Values = (
    *dict.fromkeys(check.code for check in CHECKS),
    "AllocatedCardsInsufficientRequest",
    "CardTaken",
    "CardUnknown",
    "NodeInsufficientDevice",
    "NodeLocked",
    "NodeOutOfService",
    "NodeUnknown",
    "NotLeading",
    "NumaNotFit",
    "PodBound",
    "PodGone",
    "PodInvalid",
    "PodNotAdmitted",
    "ViewIncomplete",
)
"""The codes of refusals: of the cards' checks, of nodes, and of pods."""

OUTCOMES: Values = tuple(outcome.value for outcome in Outcome)
"""What becomes of an admission review."""

RESULTS: dict[str, Values] = {
    "filter": ("placed", "refused", "untouched", "error"),
    "prioritize": ("answered", "untouched", "error"),
    "preempt": ("answered", "refused", "untouched", "error"),
    "bind": ("placed", "refused", "in_doubt", "error"),
}
"""The verbs of the extender, and how each can end."""

WRITES: Values = ("binding", "wake", "event", "takeover", "lock", "label", "webhook_configuration", "secret")
WRITTEN: Values = ("ok", "failed", "in_doubt")
WOKEN: Values = ("sent", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One name on the page. `values` are what its labels can have, where that is known beforehand.

    `by_leader`: it describes the cluster, so the leader alone tells it, and a sum over all replicas is right.
    """

    name: str
    kind: str
    meaning: str
    labels: Values = ()
    values: tuple[Values, ...] = ()
    by_leader: bool = False


DECISIONS = Series(
    name="cardwise_decisions_total",
    kind="counter",
    labels=("verb", "result"),
    values=tuple((verb, result) for verb, results in RESULTS.items() for result in (*results, OTHER)),
    meaning="Calls of kube-scheduler that were answered, by verb and by how they ended.",
)
REFUSALS = Series(
    name="cardwise_refusals_total",
    kind="counter",
    labels=("code",),
    values=tuple((code,) for code in CODES),
    meaning="Filter calls that no node passed, each counted once: by the code that refused most nodes.",
)
REQUEST_SECONDS = Series(
    name="cardwise_request_seconds",
    kind="histogram",
    labels=("verb",),
    values=tuple((verb,) for verb in RESULTS),
    meaning="Seconds from a call of kube-scheduler to its answer, the API server's time in bind included.",
)
ADMISSION_SECONDS = Series(
    name="cardwise_admission_seconds", kind="histogram", meaning="Seconds from an admission review to its answer."
)
REVIEWS = Series(
    name="cardwise_admission_reviews_total",
    kind="counter",
    labels=("outcome",),
    values=tuple((outcome,) for outcome in OUTCOMES),
    meaning="Admission reviews that were answered, by what became of the pod.",
)
LAST_REVIEW = Series(
    name="cardwise_last_review_timestamp_seconds",
    kind="gauge",
    meaning="When the last admission review was answered, in seconds since 1970; 0 where none was since the start.",
)
WAKES = Series(
    name="cardwise_wakes_total",
    kind="counter",
    labels=("result",),
    values=tuple((result,) for result in WOKEN),
    meaning="Refused pods that fit again and were touched, so that kube-scheduler looks at them.",
)
API_WRITES = Series(
    name="cardwise_api_writes_total",
    kind="counter",
    labels=("kind", "result"),
    values=tuple((kind, result) for kind in WRITES for result in WRITTEN),
    meaning="Writes to the API server; in_doubt are those that were sent and not answered.",
)
RELISTS = Series(
    name="cardwise_watch_relists_total",
    kind="counter",
    labels=("resource",),
    meaning="Lists of a resource after the first: a watch could not go on where it broke off.",
)
RECONNECTS = Series(
    name="cardwise_watch_reconnects_total",
    kind="counter",
    labels=("resource",),
    meaning="Watches of a resource that were opened after the first; the server ends each within ten minutes.",
)
TROUBLES = Series(
    name="cardwise_watch_troubles_total",
    kind="counter",
    labels=("resource",),
    meaning="Lists and watches of a resource that failed.",
)
SKIPPED = Series(
    name="cardwise_watch_skipped_total",
    kind="counter",
    labels=("resource",),
    meaning="Objects of a resource that could not be read.",
)
BUILD_INFO = Series(
    name="cardwise_build_info", kind="gauge", labels=("version", "python"), meaning="What runs here; always 1."
)
LEADER = Series(
    name="cardwise_leader", kind="gauge", meaning="1 where this replica is the one that decides and binds, else 0."
)
VIEW_COMPLETE = Series(
    name="cardwise_view_complete",
    kind="gauge",
    meaning="1 where this replica has seen the whole cluster, 0 before; until then every pod is refused.",
)
PODS_WAITING = Series(
    name="cardwise_pods_waiting", kind="gauge", by_leader=True, meaning="Refused pods that wait for room."
)
RESERVATIONS = Series(
    name="cardwise_reservations",
    kind="gauge",
    by_leader=True,
    meaning="Placements that were decided and are not seen on the API server yet.",
)
NODES = Series(name="cardwise_nodes", kind="gauge", by_leader=True, meaning="Nodes that are known.")
NODES_OUT_OF_SERVICE = Series(
    name="cardwise_nodes_out_of_service",
    kind="gauge",
    by_leader=True,
    meaning="Known nodes that take no new pods.",
)
GATES_BUSY = Series(
    name="cardwise_gates_busy",
    kind="gauge",
    by_leader=True,
    meaning="Nodes of HAMi's plugin on which a pod is bound and has not got its cards yet.",
)
_QUOTA: Values = ("namespace", "quota", "resource")
QUOTA_USED = Series(
    name="cardwise_quota_used",
    kind="gauge",
    labels=_QUOTA,
    by_leader=True,
    meaning="What pods hold of a ResourceQuota, in the resource's own unit (cards, MiB, percent of one card).",
)
QUOTA_HARD = Series(
    name="cardwise_quota_hard",
    kind="gauge",
    labels=_QUOTA,
    by_leader=True,
    meaning="The limit of a ResourceQuota, in the resource's own unit.",
)


def _of_card(name: str, meaning: str) -> Series:
    labels = ("node", "card", "index", "model", "family")
    return Series(name=name, kind="gauge", labels=labels, by_leader=True, meaning=meaning)


CARD_SLOTS = _of_card("cardwise_card_slots", "How many containers the card can be shared by.")
CARD_SLOTS_USED = _of_card("cardwise_card_slots_used", "Slots that pods hold, reservations included.")
CARD_MEMORY_MIB = _of_card("cardwise_card_memory_mib", "The card's memory as it is registered, in MiB.")
CARD_MEMORY_USED_MIB = _of_card(
    "cardwise_card_memory_used_mib",
    "Memory that pods hold, reservations included, in MiB; more than the total where a card shrank under them.",
)
CARD_CORES_PERCENT = _of_card("cardwise_card_cores_percent", "The card's compute as it is registered, in percent.")
CARD_CORES_USED_PERCENT = _of_card(
    "cardwise_card_cores_used_percent", "Compute that pods hold, reservations included, in percent of one card."
)
CARD_HEALTHY = _of_card("cardwise_card_healthy", "1 where the card is healthy, else 0.")

WATCHED: tuple[tuple[Series, str], ...] = (
    (RELISTS, "relists"),
    (RECONNECTS, "reconnects"),
    (TROUBLES, "troubles"),
    (SKIPPED, "skipped"),
)
"""What is told of a watch, and its field in `kube.watch.Counts`."""

CARD_COLUMNS: tuple[tuple[Series, str], ...] = (
    (CARD_SLOTS, "slots_total"),
    (CARD_SLOTS_USED, "slots_used"),
    (CARD_MEMORY_MIB, "memory_total_mib"),
    (CARD_MEMORY_USED_MIB, "memory_used_mib"),
    (CARD_CORES_PERCENT, "cores_total_percent"),
    (CARD_CORES_USED_PERCENT, "cores_used_percent"),
    (CARD_HEALTHY, "healthy"),
)
"""What is told of a card, and its column in `core.cards.Cards`."""

SERIES: tuple[Series, ...] = (
    DECISIONS,
    REFUSALS,
    REQUEST_SECONDS,
    WAKES,
    API_WRITES,
    ADMISSION_SECONDS,
    REVIEWS,
    LAST_REVIEW,
    *(series for series, _field in WATCHED),
    LEADER,
    VIEW_COMPLETE,
    PODS_WAITING,
    RESERVATIONS,
    NODES,
    NODES_OUT_OF_SERVICE,
    GATES_BUSY,
    QUOTA_USED,
    QUOTA_HARD,
    *(series for series, _column in CARD_COLUMNS),
    BUILD_INFO,
)
"""All of them, in the order in which the documentation lists them."""
