"""Kubernetes objects as plain JSON: never changed once they are stored, so that parts of them can be shared."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

# In the order in which a real server writes them.
METADATA_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)


def metadata_of(value: Json) -> Json:
    """The object's metadata, empty where there is none."""
    return value.get("metadata") or {}


def with_metadata(value: Json, **changes: Any) -> Json:
    """The object with these fields of its metadata; what is None, empty or unknown to Kubernetes is left out."""
    merged = metadata_of(value) | changes
    kept = {name: merged[name] for name in METADATA_FIELDS if merged.get(name) not in (None, "", {}, [])}
    return value | {"metadata": kept}


def without(value: Json, *names: str) -> Json:
    return {name: each for name, each in value.items() if name not in names}


def without_nulls(value: Any) -> Any:
    """The value without what is null, at any depth: a server takes it as left out."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def name_of(value: Json) -> str:
    name: str = metadata_of(value).get("name") or ""
    return name


def namespace_of(value: Json) -> str:
    namespace: str = metadata_of(value).get("namespace") or ""
    return namespace


def key_of(namespace: str, name: str) -> str:
    """The object's place among its kind, in whose order lists come."""
    return f"{namespace}/{name}" if namespace else name


def at(value: Any, path: Iterable[str]) -> Any:
    """What stands under these names, None where one of them is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def timestamp(seconds: float) -> str:
    """The time in Kubernetes' text, UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """Seconds since the epoch of a time in Kubernetes' text, with or without parts of a second; raises ValueError."""
    return datetime.fromisoformat(text).timestamp()
