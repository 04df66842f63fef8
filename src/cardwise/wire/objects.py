"""The parts of Kubernetes objects that Cardwise reads, typed. What is not named here is skipped while decoding.

Field names are Kubernetes' own in camel case on the wire. Anything that Kubernetes may leave out or send as null has a
default; use the `or` of its emptiness.
"""

from __future__ import annotations

from typing import Any

import msgspec

Amount = str | int | float
Amounts = dict[str, Amount]
Texts = dict[str, str]


class Object(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of all: camel case on the wire, defaults left out."""


class OwnerReference(Object):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Object):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(Object):
    limits: Amounts | None = None
    requests: Amounts | None = None


class SecurityContext(Object):
    privileged: bool | None = None


class ContainerPort(Object):
    host_port: int | None = None


class Container(Object):
    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    security_context: SecurityContext | None = None
    ports: list[ContainerPort] | None = None


class Toleration(Object):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Expression(Object):
    key: str
    operator: str
    values: list[str] | None = None


class Term(Object):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Object):
    node_selector_terms: list[Term] | None = None


class PreferredTerm(Object):
    weight: int
    preference: Term


class NodeAffinity(Object):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(Object):
    required: list[Any] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[Any] | None = msgspec.field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Object):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SchedulingGate(Object):
    name: str = ""


class SpreadConstraint(Object):
    when_unsatisfiable: str = "DoNotSchedule"


class Volume(Object):
    persistent_volume_claim: Any = None
    ephemeral: Any = None


class PodSpec(Object):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: Texts | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    overhead: Amounts | None = None
    resources: Resources | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Any] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None


class PodCondition(Object):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(Object):
    phase: str = ""
    conditions: list[PodCondition] | None = None
    nominated_node_name: str = ""


class Pod(Object):
    metadata: Meta
    spec: PodSpec
    status: PodStatus | None = None

    @property
    def namespace(self) -> str:
        """The namespace; `default` where none is named."""
        return self.metadata.namespace or "default"

    @property
    def full_name(self) -> str:
        """Namespace and name, as users write them."""
        return f"{self.namespace}/{self.metadata.name}"

    @property
    def annotations(self) -> Texts:
        """The annotations, empty where there are none."""
        return self.metadata.annotations or {}

    @property
    def version(self) -> str:
        """The resource version, empty in a manifest."""
        return self.metadata.resource_version

    @property
    def ended(self) -> bool:
        """Whether it has run to its end and holds nothing any more."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")


class Taint(Object):
    key: str = ""
    value: str = ""
    effect: str = ""


class Condition(Object):
    type: str = ""
    status: str = ""


class NodeSpec(Object):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Object):
    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class Node(Object):
    metadata: Meta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None

    @property
    def version(self) -> str:
        """The resource version, empty in a manifest."""
        return self.metadata.resource_version


class Namespace(Object):
    metadata: Meta


class PodTemplate(Object):
    metadata: Meta | None = None
    spec: PodSpec | None = None


class WorkloadStatus(Object):
    """How many pods a controller has made so far, in the words of each kind."""

    replicas: int = 0
    active: int = 0
    succeeded: int = 0


class WorkloadSpec(Object):
    """What Deployments, StatefulSets, ReplicaSets and Jobs say about their pods."""

    template: PodTemplate | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class Workload(Object):
    metadata: Meta
    spec: WorkloadSpec
    status: WorkloadStatus | None = None


class JobTemplate(Object):
    spec: WorkloadSpec
    metadata: Meta | None = None


class CronJobSpec(Object):
    job_template: JobTemplate
    suspend: bool | None = None


class CronJob(Object):
    metadata: Meta
    spec: CronJobSpec
