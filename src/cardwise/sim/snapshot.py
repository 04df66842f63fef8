"""A snapshot: the nodes, pods, namespaces and workloads of some files, typed, with what was wrong with the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cardwise.sim.documents import Document, InputError, Progress, documents, read_text
from cardwise.wire import objects

WORKLOADS: dict[str, type[objects.Workload | objects.CronJob]] = {
    "Deployment": objects.Workload,
    "StatefulSet": objects.Workload,
    "ReplicaSet": objects.Workload,
    "ReplicationController": objects.Workload,
    "Job": objects.Workload,
    "CronJob": objects.CronJob,
    "DaemonSet": objects.Workload,
}
_KINDS: dict[str, type[msgspec.Struct]] = {
    "Node": objects.Node,
    "Pod": objects.Pod,
    "Namespace": objects.Namespace,
    **WORKLOADS,
}
MOST_SHOWN = 80


@dataclass(slots=True)
class Snapshot:
    """What the files hold, in their order. `errors` are what was lost to bad input; `skipped` counts what is no object."""

    namespace: str = "default"
    nodes: list[objects.Node] = field(default_factory=list)
    pods: list[objects.Pod] = field(default_factory=list)
    workloads: list[tuple[str, objects.Workload | objects.CronJob]] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    skipped: int = 0
    _seen: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, document: Document) -> None:
        """Take one document in: an object we read, one we do not, or none at all."""
        value = document.value
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or not isinstance(value.get("apiVersion"), str):
            self.skipped += 1
            self.warnings.append(f"{document.where}: is no Kubernetes object (no apiVersion and kind), skipped")
        elif kind in _KINDS:
            self._decode(document.where, kind, value)

    def _decode(self, where: str, kind: str, value: dict[str, Any]) -> None:
        try:
            decoded = msgspec.convert(value, _KINDS[kind])
        except (msgspec.ValidationError, UnicodeError) as error:
            self.errors.append(f"{where}: {kind} {_called(value)}: {error}")
            return
        meta: objects.Meta = decoded.metadata  # type: ignore[attr-defined]
        if kind not in ("Node", "Namespace") and not meta.namespace:
            meta.namespace = self.namespace
        if not meta.name and meta.generate_name:
            meta.name = f"{meta.generate_name}{len(self._seen)}"
        if not meta.name:
            self.errors.append(f"{where}: {kind} has no metadata.name")
            return
        key = (kind, meta.namespace, meta.name)
        if key in self._seen:
            self.warnings.append(f"{where}: {kind} {'/'.join(filter(None, key[1:]))} is there twice, the first counts")
            return
        self._seen.add(key)
        self._keep(kind, decoded)

    def _keep(self, kind: str, decoded: Any) -> None:
        if kind == "Node":
            self.nodes.append(decoded)
        elif kind == "Pod":
            self.pods.append(decoded)
        elif kind == "Namespace":
            self.namespaces[decoded.metadata.name] = decoded.metadata.labels or {}
        else:
            self.workloads.append((kind, decoded))


def _called(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return str(name)[:MOST_SHOWN] if name else "(no name)"


def load(paths: Iterable[str], namespace: str = "default", progress: Progress = lambda _done: None) -> Snapshot:
    """What these files hold (`-` is standard input). A file that cannot be read becomes an error of the snapshot.

    `namespace` is that of objects that name none. `progress` is called with the characters done since the last call.
    """
    snapshot = Snapshot(namespace=namespace)
    for path in paths:
        try:
            for document in documents(path, read_text(path), progress):
                snapshot.add(document)
        except InputError as error:
            snapshot.errors.append(str(error))
    return snapshot
