"""Strategic merge patch, as far as kubectl and kubelets use it: lists of objects merge by a key.

A real server reads the key of each list from its types. Here it goes by the list's name alone, which is enough for the
kinds that are served. Lists that are not named replace. Directives: `$patch` (merge, replace, delete), `$retainKeys`,
`$deleteFromPrimitiveList/NAME`; `$setElementOrder/NAME` orders the list that it names.
"""

from __future__ import annotations

from typing import Any

from cardwise.sim.apiserver.objects import Json, without

KEYS = {
    "addresses": "type",
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
SETS = frozenset(("finalizers",))
_REMOVE, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merge(target: Any, patch: Any) -> Any:
    """The target after the patch; raises ValueError for a directive or a list item that makes no sense."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch", "merge")
    if directive not in ("merge", "replace", "delete"):
        raise ValueError(f"$patch is {directive!r}, must be merge, replace or delete")
    if directive != "merge":
        return {} if directive == "delete" else without(patch, "$patch")
    merged = _retained(dict(target) if isinstance(target, dict) else {}, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(merged, name, value)
    return _with_list_directives(merged, patch)


def _retained(target: Json, patch: Json) -> Json:
    retained = patch.get("$retainKeys")
    return target if retained is None else {name: each for name, each in target.items() if name in retained}


def _merge_field(merged: Json, name: str, value: Any) -> None:
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, list):
        merged[name] = _merge_list(merged.get(name) or [], value, name)
    else:
        merged[name] = merge(merged.get(name), value)


def _merge_list(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    if name in SETS:
        return target + [each for each in patch if each not in target]
    if name not in KEYS or not all(isinstance(each, dict) for each in (*target, *patch)):
        return patch
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if each != {"$patch": "replace"}]
    merged = {each.get(KEYS[name]): each for each in target}
    for each in patch:
        _merge_item(merged, each, KEYS[name])
    return list(merged.values())


def _merge_item(merged: dict[Any, Json], each: Json, key: str) -> None:
    if key not in each:
        raise ValueError(f"map: {each} does not contain declared merge key: {key}")
    if each.get("$patch") == "delete":
        merged.pop(each[key], None)
    else:
        merged[each[key]] = merge(merged.get(each[key]), each)


def _with_list_directives(merged: Json, patch: Json) -> Json:
    for directive, value in patch.items():
        name = directive.partition("/")[2]
        if directive.startswith(_REMOVE):
            merged[name] = [each for each in merged.get(name) or [] if each not in value]
        elif directive.startswith(_ORDER) and name in merged:
            merged[name] = _ordered(merged[name], value, name)
    return merged


def _ordered(items: list[Any], order: list[Any], name: str) -> list[Any]:
    """What the order names comes in that order, at the places that these items had; the rest stays where it is."""
    key = KEYS.get(name)

    def mark(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ranks = {mark(each): rank for rank, each in enumerate(order)}
    sorted_items = iter(sorted((each for each in items if mark(each) in ranks), key=lambda each: ranks[mark(each)]))
    return [next(sorted_items) if mark(each) in ranks else each for each in items]
