"""The table of what is served. Discovery, routes, errors and selectors all read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS = {"status": ("get", "patch", "update")}
NAMES_ONLY: Mapping[str, tuple[str, ...]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One row. `storage` is where its objects lie: the two kinds of events are two views of the same ones.

    `fields` are what field selectors may name, and where in the stored object it stands. Where `own_fields` is False a
    real server knows only names, and refuses others in other words. `counts_generations`: metadata.generation is kept.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subresource_kinds: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NAMES_ONLY)
    own_fields: bool = False
    counts_generations: bool = False
    creates_on_update: bool = False
    updates_unread: bool = True
    returns_deleted: bool = False
    storage: str = ""

    @property
    def stored_as(self) -> str:
        return self.storage or self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in errors: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def singular(self) -> str:
        return self.kind.lower()


def _fields(*paths: str, **renamed: str) -> dict[str, tuple[str, ...]]:
    """Field labels by the path they have in the stored object, which mostly is the label itself."""
    named = {path: path for path in paths} | renamed
    return {label: tuple(path.split(".")) for label, path in named.items()}


def _event_fields(about: str, reporter: str) -> dict[str, tuple[str, ...]]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    referred = {f"{about}.{part}": ("involvedObject", part) for part in parts}
    plain = _fields("metadata.name", "metadata.namespace", "reason", "type")
    return referred | plain | {reporter: ("reportingComponent",)}


PODS = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=STATUS | {"binding": ("create",)},
    subresource_kinds={"binding": "Binding"},
    fields=_fields(
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    own_fields=True,
    counts_generations=True,
    returns_deleted=True,
)
NODES = Resource(
    plural="nodes",
    kind="Node",
    namespaced=False,
    short_names=("no",),
    subresources=STATUS,
    fields=_fields("metadata.name", "spec.unschedulable"),
    own_fields=True,
)
NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=STATUS,
    fields=_fields("metadata.name", "status.phase"),
    own_fields=True,
)
CORE_EVENTS = Resource(
    plural="events",
    kind="Event",
    short_names=("ev",),
    fields=_event_fields("involvedObject", "reportingComponent") | {"source": ("source", "component")},
    own_fields=True,
    creates_on_update=True,
)
EVENTS = Resource(
    plural="events",
    kind="Event",
    group="events.k8s.io",
    short_names=("ev",),
    fields=_event_fields("regarding", "reportingController"),
    own_fields=True,
    creates_on_update=True,
)
LEASES = Resource(
    plural="leases",
    kind="Lease",
    group="coordination.k8s.io",
    creates_on_update=True,
    updates_unread=False,
)
PRIORITY_CLASSES = Resource(
    plural="priorityclasses",
    kind="PriorityClass",
    group="scheduling.k8s.io",
    namespaced=False,
    short_names=("pc",),
    counts_generations=True,
)
MUTATING_WEBHOOKS = Resource(
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    group="admissionregistration.k8s.io",
    namespaced=False,
    categories=("api-extensions",),
    counts_generations=True,
    updates_unread=False,
)

RESOURCES: tuple[Resource, ...] = (
    Resource(plural="bindings", kind="Binding", verbs=("create",)),
    CORE_EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Resource(
        plural="resourcequotas", kind="ResourceQuota", short_names=("quota",), subresources=STATUS, returns_deleted=True
    ),
    Resource(plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",), returns_deleted=True),
    Resource(
        plural="deployments",
        kind="Deployment",
        group="apps",
        short_names=("deploy",),
        categories=("all",),
        subresources=STATUS,
        counts_generations=True,
    ),
    Resource(
        plural="replicasets",
        kind="ReplicaSet",
        group="apps",
        short_names=("rs",),
        categories=("all",),
        subresources=STATUS,
        counts_generations=True,
    ),
    EVENTS,
    MUTATING_WEBHOOKS,
    PRIORITY_CLASSES,
    LEASES,
    *(
        # What a stock kube-scheduler lists before it starts. Nothing here does anything with them.
        Resource(plural=f"{kind.lower()}s", kind=kind, group=group, namespaced=namespaced, subresources=STATUS)
        for kind, group, namespaced in (
            ("Service", "", True),
            ("ReplicationController", "", True),
            ("PersistentVolume", "", False),
            ("PersistentVolumeClaim", "", True),
            ("StatefulSet", "apps", True),
            ("PodDisruptionBudget", "policy", True),
            ("CSINode", "storage.k8s.io", False),
            ("CSIDriver", "storage.k8s.io", False),
            ("VolumeAttachment", "storage.k8s.io", False),
            ("ResourceClaim", "resource.k8s.io", True),
            ("ResourceSlice", "resource.k8s.io", False),
            ("DeviceTaintRule", "resource.k8s.io", False),
        )
    ),
    Resource(plural="storageclasses", kind="StorageClass", group="storage.k8s.io", namespaced=False),
    Resource(plural="csistoragecapacities", kind="CSIStorageCapacity", group="storage.k8s.io"),
    Resource(plural="deviceclasses", kind="DeviceClass", group="resource.k8s.io", namespaced=False),
)

BY_PATH = {(each.group, each.version, each.plural): each for each in RESOURCES}
BY_KIND = {(each.api_version, each.kind): each for each in RESOURCES}
BY_PLURAL = {each.plural: each for each in reversed(RESOURCES)}  # of the two kinds of events, the core one
GROUP_VERSIONS = tuple(dict.fromkeys((each.group, each.version) for each in RESOURCES))
