"""What can be configured, as data: every key with its default, what it may be, and its meaning.

`SETTINGS` is the one table. The file's keys, the command's flags and help, the reference in docs/configuration.md and the
example in deploy/scheduler.yaml all come out of it. Reading a file is in `config_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cardwise.core.family import MOST_CARDS, Family
from cardwise.core.model import MOST, WHOLE_CARD_CORES_PERCENT, CardPolicy
from cardwise.core.policy import CARD_POLICIES, NODE_POLICIES
from cardwise.scheduler import kinds
from cardwise.scheduler.admission import HAMI_SCHEDULER, SCHEDULER_NAME, Rules
from cardwise.scheduler.kinds import Address, Kind
from cardwise.scheduler.settings import Setting, camel, made_of, setting, settings_of
from cardwise.wire.families import FAMILIES
from cardwise.wire.pods import Defaults
from cardwise.wire.policies import card_policy

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMS = ("json", "text")
NAMESPACE = "kube-system"
_ACCOUNTS = (SCHEDULER_NAME, "cardwise-agent", "hami-device-plugin")
WRITERS = [f"system:serviceaccount:{NAMESPACE}:{account}" for account in _ACCOUNTS]

_CARD_POLICY = kinds.parsed(
    "policies", f"one of {', '.join(CARD_POLICIES)}, or several with commas between", card_policy
)


class ConfigError(ValueError):
    """What is wrong with a file or a flag, in one sentence: where, what it is, what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """For pods that name none."""

    node: str = setting(
        kinds.choice(*NODE_POLICIES), "binpack", "How nodes are ranked, for pods that name no node policy."
    )
    cards: CardPolicy = setting(
        _CARD_POLICY, "spread", "How a node's cards are ranked, for pods that name no card policy."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """What kube-scheduler calls."""

    address: Address = setting(
        kinds.loopback_address(),
        "127.0.0.1:8090",
        "Where kube-scheduler's calls (filter, prioritize, preempt, bind) are answered.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The webhook."""

    address: Address | None = setting(
        kinds.address_or_none(),
        "0.0.0.0:9443",
        "Where the API server's admission reviews are answered, over TLS; empty for no webhook.",
    )
    certificate: Path | None = setting(
        kinds.path(), "", "PEM file with the webhook's certificate; it is read again when it changes."
    )
    key: Path | None = setting(kinds.path(), "", "PEM file with the private key of that certificate.")
    self_signed: bool = setting(
        kinds.switch(),
        False,
        "Make the certificate ourselves, keep it in a secret, and write its authority into the webhook configuration.",
    )
    service: str = setting(
        kinds.label(),
        SCHEDULER_NAME,
        "Service by which the API server reaches the webhook: the name in a certificate of our own.",
    )
    secret: str = setting(
        kinds.object_name(), "cardwise-webhook", "Secret that holds the certificate of our own, for all replicas."
    )
    webhook_configuration: str = setting(
        kinds.object_name(),
        "cardwise",
        "MutatingWebhookConfiguration that the authority of our own is written into.",
    )
    privileged: str = setting(
        kinds.choice("refuse", "skip"),
        "refuse",
        "What becomes of a pod with a privileged container that asks for cards: refused, or passed by with a warning.",
    )
    runtime_class: str = setting(
        kinds.object_name(empty=True), "", "Runtime class for pods that ask for cards and name none; empty for none."
    )
    writers: tuple[str, ...] = setting(
        kinds.list_of(kinds.user_name(), "user names"),
        WRITERS,
        "Users that may write the annotations that the scheduler and the agents own; nobody else may.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What Prometheus and the kubelet's probes ask."""

    address: Address = setting(
        kinds.address(),
        "0.0.0.0:9395",
        "Where /metrics, /healthz and /readyz are answered.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """Which replica writes."""

    enabled: bool = setting(
        kinds.switch(),
        True,
        "Bind only while the kube-scheduler beside us holds its lease; false where there is one replica without a lease.",
    )
    namespace: str = setting(kinds.label(), NAMESPACE, "Namespace of kube-scheduler's lease.")
    lease_name: str = setting(
        kinds.object_name(), SCHEDULER_NAME, "kube-scheduler's lease, resourceName in its configuration."
    )
    identity: str = setting(
        kinds.text(),
        "",
        "Host name by which the kube-scheduler beside us holds the lease (as HOST_UUID); empty for this host's name.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPod:
    """The pod that this process runs in."""

    name: str = setting(
        kinds.object_name(empty=True),
        "",
        "Our own pod, empty for $POD_NAME: a new leader patches it to prove that its view is fresh; without it the pods are"
        " listed again instead.",
    )
    namespace: str = setting(kinds.label(empty=True), "", "Namespace of our own pod, empty for $POD_NAMESPACE.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is logged, to standard error."""

    level: str = setting(kinds.choice(*LOG_LEVELS), "info", "The least level that is logged.")
    form: str = setting(kinds.choice(*LOG_FORMS), "json", "How a line of the log looks.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The scheduler's configuration. `records` are the families as configured."""

    scheduler_name: str = setting(
        kinds.object_name(),
        SCHEDULER_NAME,
        "kube-scheduler's profile that calls us; admission writes it into pods that ask for cards.",
    )
    also_named: tuple[str, ...] = setting(
        kinds.list_of(kinds.object_name(), "names"),
        [HAMI_SCHEDULER],
        "Other scheduler names that pods use and that mean us.",
    )
    node_choice: str = setting(
        kinds.choice("cardwise", "kube-scheduler"),
        "cardwise",
        "Who chooses the node: cardwise answers with the best one, or kube-scheduler gets all that fit, with scores.",
    )
    policies: Policies = Policies()
    kubeconfig: str = setting(
        kinds.text(),
        "",
        "How to reach the API server; empty for $KUBECONFIG, else ~/.kube/config, else the pod's service account.",
    )
    extender: Extender = Extender()
    admission: Admission = Admission()
    metrics: Metrics = Metrics()
    leader_election: LeaderElection = LeaderElection()
    pod: OwnPod = OwnPod()
    bind_timeout_seconds: float = setting(
        kinds.seconds(0.1, 60),
        5,
        "How long the write that binds a pod may take; kube-scheduler's httpTimeout must hold it.",
    )
    reservation_seconds: float = setting(
        kinds.seconds(60, 86400),
        1200,
        "How long a decision is kept for a pod that is never bound nor refused: beyond kube-scheduler's longest wait.",
    )
    gate_wait_seconds: float = setting(
        kinds.seconds(0, 600),
        10,
        "How long bind waits for a node that hands cards to one pod at a time; kube-scheduler's httpTimeout must hold it.",
    )
    log: Log = Log()
    records: tuple[Family, ...] = FAMILIES

    def families(self) -> tuple[Family, ...]:
        """The families, with the resource names, defaults and factors that are configured."""
        return self.records

    def rules(self) -> Rules:
        """How pods are admitted."""
        return Rules(
            families=self.records,
            defaults=Defaults(node_policy=self.policies.node, card_policy=self.policies.cards),
            own_names=frozenset((self.scheduler_name, *self.also_named)),
            privileged=self.admission.privileged,
            one_node=self.node_choice == "cardwise",
        )

    @property
    def namespace(self) -> str:
        """Where our own objects are: the own pod's namespace, else the lease's."""
        return self.pod.namespace or self.leader_election.namespace


_AMOUNT = kinds.whole(0, MOST)
_NAMED, _NAMED_OR_NOT = kinds.resource(empty=False), kinds.resource(empty=True)
FAMILY_FIELDS: dict[str, tuple[Kind[Any], str]] = {
    "count_resource": (_NAMED, "Resource that counts {title} cards."),
    "memory_resource": (_NAMED_OR_NOT, "Resource that asks for memory of each {title} card."),
    "memory_percent_resource": (_NAMED_OR_NOT, "Resource that asks for memory of each {title} card in percent."),
    "cores_resource": (_NAMED_OR_NOT, "Resource that asks for compute of each {title} card in percent."),
    "priority_resource": (_NAMED_OR_NOT, "Resource that gives a task its priority on {title} cards."),
    "default_count": (
        kinds.whole(0, MOST_CARDS),
        "{title} cards where memory or compute is asked without a count; 0 for none.",
    ),
    "default_memory_mib": (_AMOUNT, "MiB of each {title} card where no memory is asked; 0 for the whole card."),
    "default_cores_percent": (
        kinds.whole(0, WHOLE_CARD_CORES_PERCENT),
        "Percent of each {title} card's compute where none is asked; for a whole card it is always 100.",
    ),
    "memory_factor": (kinds.whole(1, MOST), "MiB that 1 of the memory resource of {title} cards stands for."),
}
"""The fields of a family that can be configured, with what is said of them."""


def family_key(family: Family, name: str) -> str:
    """The key of a field of a family."""
    return f"families.{family.name}.{camel(name)}"


def configured(family: Family, values: Mapping[str, Any]) -> Family:
    """The family with these values by key."""
    given = {name: values[key] for name in FAMILY_FIELDS if (key := family_key(family, name)) in values}
    return replace(family, **given)


def made(values: Mapping[str, Any]) -> Config:
    """The configuration with these values by key, all else as by default."""
    return made_of(Config, values, records=tuple(configured(family, values) for family in FAMILIES))


def _family_settings(family: Family) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            key=family_key(family, name),
            kind=kind,
            default=getattr(family, name),
            doc=doc.format(title=family.title),
        )
        for name, (kind, doc) in FAMILY_FIELDS.items()
    )


SETTINGS = (*settings_of(Config), *(row for family in FAMILIES for row in _family_settings(family)))
"""Every setting, in the order of the reference."""
