"""A snapshot: the nodes, pods, namespaces and workloads of some files, typed, with what was wrong with the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cardwise.sim.documents import Document, InputError, Progress, documents, read_text
from cardwise.wire import objects
from cardwise.wire.errors import shown

_KINDS: dict[tuple[str, str], type[msgspec.Struct]] = {
    ("", "Node"): objects.Node,
    ("", "Pod"): objects.Pod,
    ("", "Namespace"): objects.Namespace,
    ("", "ReplicationController"): objects.Workload,
    ("apps", "Deployment"): objects.Workload,
    ("apps", "StatefulSet"): objects.Workload,
    ("apps", "ReplicaSet"): objects.Workload,
    ("apps", "DaemonSet"): objects.Workload,
    ("batch", "Job"): objects.Workload,
    ("batch", "CronJob"): objects.CronJob,
}
"""What is read, by API group and kind: another group's Node is no Node."""
_NEVER_NULL = ("limits", "requests", "allocatable", "capacity", "overhead", "annotations", "nodeSelector")
"""Maps in which a null is no left-out value but a slip: it would make a request or a wish disappear."""
Key = tuple[str, str, str]
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


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
    _seen: dict[Key, int] = field(default_factory=dict)
    _uids: set[str] = field(default_factory=set)

    def place_of(self, kind: str, meta: objects.Meta) -> int:
        """Where the object stands among all that were read."""
        return self._seen[kind, meta.namespace, meta.name]

    def add(self, document: Document | InputError) -> None:
        """Take one document in: an object we read, one we do not, none at all, or what could not be parsed."""
        if isinstance(document, InputError):
            self.errors.append(str(document))
            return
        value = document.value
        kind = value.get("kind") if isinstance(value, dict) else None
        version = value.get("apiVersion") if isinstance(value, dict) else None
        if not isinstance(kind, str) or not isinstance(version, str):
            self.skipped += 1
            self.warnings.append(f"{document.where}: is no Kubernetes object (no apiVersion and kind), skipped")
        elif known := _KINDS.get((version.rpartition("/")[0], kind)):
            self._decode(document.where, kind, known, value)

    def _decode(self, where: str, kind: str, known: type[msgspec.Struct], value: dict[str, Any]) -> None:
        try:
            decoded = _converted(value, known)
        except (msgspec.ValidationError, UnicodeError) as error:
            self.errors.append(f"{where}: {kind} {_called(value)}: {map_fault(value) or error}")
            return
        meta: objects.Meta = decoded.metadata  # type: ignore[attr-defined]
        if kind not in ("Node", "Namespace") and not meta.namespace:
            meta.namespace = self.namespace
        if not meta.name and meta.generate_name:
            meta.name = f"{meta.generate_name}{len(self._seen)}"
        if fault := _name_fault(meta):
            self.errors.append(f"{where}: {kind} {fault}")
            return
        key = (kind, meta.namespace, meta.name)
        if key in self._seen:
            self.warnings.append(f"{where}: {kind} {'/'.join(filter(None, key[1:]))} is there twice, the first counts")
            return
        self._seen[key] = len(self._seen)
        self._tell_apart(where, kind, meta)
        self._keep(kind, decoded)

    def _tell_apart(self, where: str, kind: str, meta: objects.Meta) -> None:
        """A copy of a pod under another name brings the first one's uid along; each must hold for itself."""
        if kind != "Pod" or not meta.uid:
            return
        if meta.uid in self._uids:
            self.warnings.append(
                f"{where}: Pod {meta.namespace}/{meta.name} has the uid of another pod, which is ignored"
            )
            meta.uid = ""
        self._uids.add(meta.uid)

    def _keep(self, kind: str, decoded: Any) -> None:
        if kind == "Node":
            self.nodes.append(decoded)
        elif kind == "Pod":
            self.pods.append(decoded)
        elif kind == "Namespace":
            self.namespaces[decoded.metadata.name] = decoded.metadata.labels or {}
        else:
            self.workloads.append((kind, decoded))


def _converted(value: dict[str, Any], known: type[msgspec.Struct]) -> msgspec.Struct:
    """The object, typed. Null means left out, as to the API server; that is rare enough to be the second try."""
    try:
        return msgspec.convert(value, known)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(value), known)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None}
        return {key: each if key in _NEVER_NULL else _without_nulls(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def map_fault(value: dict[str, Any]) -> str:
    """The first entry of a map of texts or amounts that is neither, named by its key, which the decoder does not tell."""
    for path, entries, kinds, must in _maps(value):
        for key, entry in entries.items():
            if not isinstance(entry, kinds) or isinstance(entry, bool):
                return f"{path}.{shown(key)} is {shown(entry)}, must be {must}"
    return ""


def _maps(value: dict[str, Any]) -> Iterator[tuple[str, dict[Any, Any], tuple[type, ...], str]]:
    for path, inner in _walk(value, ""):
        name = path.rpartition(".")[2]
        if name in ("annotations", "labels", "nodeSelector"):
            yield path, inner, (str,), "a text (in quotation marks)"
        elif name in ("limits", "requests", "allocatable", "capacity"):
            yield path, inner, (str, int, float), "an amount"


def _walk(value: Any, path: str) -> Iterator[tuple[str, dict[Any, Any]]]:
    if isinstance(value, dict):
        yield path, value
        for key, each in value.items():
            yield from _walk(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _walk(each, f"{path}[{number}]")


def _name_fault(meta: objects.Meta) -> str:
    if not meta.name:
        return "has no metadata.name"
    for key, name in (("name", meta.name), ("namespace", meta.namespace)):
        if name and not _NAME.fullmatch(name):
            return f"metadata.{key} is {shown(name)}, must be small letters, digits, - and ."
    return ""


def _called(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return shown(name) if isinstance(name, str | int) and name != "" else "(no name)"


def load(paths: Iterable[str], namespace: str = "default", progress: Progress = lambda _done: None) -> Snapshot:
    """What these files hold (`-` is standard input). What cannot be read or parsed becomes an error of the snapshot.

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
