"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902), pure: what is given is never changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from cardwise.sim.apiserver.objects import Json

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_MISSING = object()


class PatchError(ValueError):
    """A JSON patch that does not fit the document, or is none."""


def merge(target: Any, patch: Any) -> Any:
    """The target after a merge patch: null takes a key away, an object is merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def apply(document: Any, operations: list[Any]) -> Any:
    """The document after all operations in order; raises PatchError where one does not apply, with nothing changed."""
    for operation in operations:
        document = _apply_one(document, operation)
    return document


def _apply_one(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
        raise PatchError(f"patch operation {operation!r} must be an object with a text op")
    run = _OPERATIONS.get(operation["op"])
    if run is None:
        raise PatchError(f"op is {operation['op']}, must be one of {', '.join(_OPERATIONS)}")
    return run(document, operation)


def _add(document: Any, operation: Json) -> Any:
    return _put(document, _pointer(operation, "path"), deepcopy(_value(operation)), adds=True)


def _remove(document: Any, operation: Json) -> Any:
    path = _pointer(operation, "path")
    _get(document, path)
    return _put(document, path, _MISSING, adds=False)


def _replace(document: Any, operation: Json) -> Any:
    path = _pointer(operation, "path")
    _get(document, path)
    return _put(document, path, deepcopy(_value(operation)), adds=False)


def _move(document: Any, operation: Json) -> Any:
    source, path = _pointer(operation, "from"), _pointer(operation, "path")
    if path[: len(source)] == source and path != source:
        raise PatchError("a value cannot be moved into itself")
    value = _get(document, source)
    return value if not path else _put(_put(document, source, _MISSING, adds=False), path, value, adds=True)


def _copy(document: Any, operation: Json) -> Any:
    value = deepcopy(_get(document, _pointer(operation, "from")))
    return _put(document, _pointer(operation, "path"), value, adds=True)


def _test(document: Any, operation: Json) -> Any:
    if not _same(_get(document, _pointer(operation, "path")), _value(operation)):
        raise PatchError(f"testing path {operation['path']} failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, Json], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: true is no number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _value(operation: Json) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation['op']} of {operation['path']} has no value")
    return operation["value"]


def _pointer(operation: Json, name: str) -> tuple[str, ...]:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{name} is {text!r}, must be a JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def _get(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        else:
            raise PatchError(f"nothing is at {part}")
    return document


def _put(document: Any, path: tuple[str, ...], value: Any, *, adds: bool) -> Any:
    """A copy of the document along `path` with the value there, or without it where the value is _MISSING."""
    if not path:
        return None if value is _MISSING else value
    part, rest = path[0], path[1:]
    if isinstance(document, dict):
        return _put_key(document, part, rest, value, adds=adds)
    if isinstance(document, list):
        return _put_item(document, part, rest, value, adds=adds)
    raise PatchError(f"nothing can be put under {part}")


def _put_key(document: Json, part: str, rest: tuple[str, ...], value: Any, *, adds: bool) -> Json:
    changed = dict(document)
    if rest:
        changed[part] = _put(_get(document, (part,)), rest, value, adds=adds)
    elif value is _MISSING:
        del changed[part]
    else:
        changed[part] = value
    return changed


def _put_item(document: list[Any], part: str, rest: tuple[str, ...], value: Any, *, adds: bool) -> list[Any]:
    changed = list(document)
    if not rest and adds:
        changed.insert(len(document) if part == "-" else _index(part, len(document)), value)
        return changed
    index = _index(part, len(document) - 1)
    if rest:
        changed[index] = _put(document[index], rest, value, adds=adds)
    elif value is _MISSING:
        del changed[index]
    else:
        changed[index] = value
    return changed


def _index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdigit()) or (part != "0" and part.startswith("0")) or int(part) > last:
        raise PatchError(f"{part} is no index of a list that ends at {last}")
    return int(part)
