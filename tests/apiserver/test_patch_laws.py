"""Laws of patches: RFC 7386, RFC 6902, and lists that merge by their key."""

from __future__ import annotations

import contextlib
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.sim.apiserver import patch, strategic

NAMES = st.sampled_from(["a", "b", "c/d", "e~f", ""])
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "y"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
FULL = st.recursive(  # a merge patch cannot say null
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, FULL, max_size=4)


def pointer(path: tuple[Any, ...]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def paths_of(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places below the value itself."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for part, each in parts for path in ((*prefix, part), *paths_of(each, (*prefix, part)))]


def merge_difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one object to another."""
    changes: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            changes[name] = merge_difference(old[name], value)
        elif name not in old or not patch._same(old[name], value):
            changes[name] = value
    return changes


@pytest.mark.parametrize(
    ("target", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        (["a", "b"], ["c"], ["c"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_as_in_its_rfc(target: Any, change: Any, result: Any) -> None:
    assert patch.merge(target, change) == result


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_any_object_to_any_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = deepcopy(old)
    assert patch._same(patch.merge(old, merge_difference(old, new)), new)
    assert old == before


@given(VALUES, VALUES)
def test_a_merge_patch_twice_is_a_merge_patch_once(target: Any, change: Any) -> None:
    once = patch.merge(target, change)
    assert patch.merge(once, change) == once


@given(VALUES, VALUES)
def test_without_lists_of_objects_strategic_is_merge(target: Any, change: Any) -> None:
    """Names that no list has a key for, and no directives: the two kinds of patch are one."""
    assert strategic.merge(target, change) == patch.merge(target, change)


@given(VALUES, st.data())
def test_what_is_added_is_found(document: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([(), *paths_of(document)]))
    value = data.draw(VALUES)
    before = deepcopy(document)
    changed = patch.apply(document, [{"op": "add", "path": pointer(path), "value": value}])
    assert patch.apply(changed, [{"op": "test", "path": pointer(path), "value": value}]) is changed
    assert document == before


@given(st.lists(VALUES, max_size=3), st.data())
def test_adding_and_removing_again_changes_nothing(document: list[Any], data: st.DataObject) -> None:
    spot = f"/{data.draw(st.integers(0, len(document)))}"
    assert patch.apply(document, [{"op": "add", "path": spot, "value": 7}, {"op": "remove", "path": spot}]) == document


@given(VALUES, st.data())
def test_replacing_by_itself_and_copying_over_itself_change_nothing(document: Any, data: st.DataObject) -> None:
    places = paths_of(document)
    if places:
        spot = pointer(data.draw(st.sampled_from(places)))
        value = patch._get(document, patch._pointer({"path": spot}, "path"))
        assert patch.apply(document, [{"op": "replace", "path": spot, "value": value}]) == document
        assert patch.apply(document, [{"op": "move", "from": spot, "path": spot}]) == document


@given(OBJECTS, st.data())
def test_moving_is_removing_and_adding(document: dict[str, Any], data: st.DataObject) -> None:
    if document:
        name = data.draw(st.sampled_from(sorted(document)))
        moved = patch.apply(document, [{"op": "move", "from": pointer((name,)), "path": "/new"}])
        assert moved == {each: value for each, value in document.items() if each != name} | {"new": document[name]}


@given(VALUES, VALUES)
def test_a_test_holds_exactly_for_what_is_the_same_json(one: Any, other: Any) -> None:
    try:
        patch.apply(one, [{"op": "test", "path": "", "value": other}])
        held = True
    except patch.PatchError:
        held = False
    assert held == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@given(
    VALUES,
    st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "move", "copy", "test", "x"])},
            optional={
                "path": st.sampled_from(["", "/a", "/0", "/-", "/a/b", "/01", "x", 5]),
                "from": st.sampled_from(["", "/a", "/0", "/a/b"]),
                "value": VALUES,
            },
        ),
        max_size=4,
    ),
)
def test_any_json_patch_applies_or_is_refused(document: Any, operations: list[Any]) -> None:
    before = deepcopy(document)
    with contextlib.suppress(patch.PatchError):
        patch.apply(document, operations)
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/list/2"},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "replace", "path": "/list/-", "value": 1},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "move", "from": "/map", "path": "/map/inside"},
        {"op": "test", "path": "/list/0", "value": True},
    ],
    ids=str,
)
def test_what_a_json_patch_may_not_do(operation: dict[str, Any]) -> None:
    with pytest.raises(patch.PatchError):
        patch.apply({"list": [1, 2], "text": "t", "map": {}}, [operation])


STRATEGIC = [
    pytest.param(
        {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
        {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]},
        {"containers": [{"name": "a", "image": "2"}, {"name": "b"}, {"name": "c"}]},
        id="merge-by-name",
    ),
    pytest.param(
        {"conditions": [{"type": "A"}, {"type": "B"}]},
        {"conditions": [{"$patch": "delete", "type": "A"}]},
        {"conditions": [{"type": "B"}]},
        id="delete",
    ),
    pytest.param(
        {"volumes": [{"name": "a"}]},
        {"volumes": [{"$patch": "replace"}, {"name": "b"}]},
        {"volumes": [{"name": "b"}]},
        id="replace-list",
    ),
    pytest.param({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}, {"m": {"b": 2}}, id="replace-map"),
    pytest.param({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}, id="delete-map"),
    pytest.param({"m": {"a": 1, "b": 2}}, {"m": {"$retainKeys": ["b"], "b": 3}}, {"m": {"b": 3}}, id="retain"),
    pytest.param({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}, id="set"),
    pytest.param(
        {"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}, id="remove"
    ),
    pytest.param(
        {"env": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
        {"$setElementOrder/env": [{"name": "c"}, {"name": "a"}]},
        {"env": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
        id="order",
    ),
    pytest.param({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}, id="no-key-list"),
    pytest.param({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, id="plain-list"),
]


@pytest.mark.parametrize(("target", "change", "result"), STRATEGIC)
def test_strategic_merge(target: Any, change: Any, result: Any) -> None:
    before = deepcopy(target)
    assert strategic.merge(target, change) == result
    assert target == before


@pytest.mark.parametrize("change", [{"$patch": "x"}, {"containers": [{"image": "1"}]}], ids=["directive", "no-key"])
def test_strategic_merges_that_make_no_sense(change: Any) -> None:
    with pytest.raises(ValueError, match=r"\$patch|merge key"):
        strategic.merge({"containers": [{"name": "a"}]}, change)
