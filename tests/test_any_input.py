"""Whatever stands in a file is placed, waits with a reason, or is named in a sentence. Nothing crashes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardwise.scheduler.admission import Rules
from cardwise.sim.documents import Document, documents
from cardwise.sim.explain import explain
from cardwise.sim.simulate import Result, simulate
from cardwise.sim.snapshot import Snapshot
from cardwise.sim.usage import usage_of
from cardwise.sim.world import build
from cardwise.wire.families import HYGON, NVIDIA

EXAMPLE = Path(__file__).parent.parent / "examples" / "cluster.yaml"
OBJECTS = [each.value for each in documents("cluster.yaml", EXAMPLE.read_text()) if isinstance(each, Document)]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["-1", "5k", "16Gi", "8G", "0", "1e400", "Exists", "In", "true", "spraed", "slot=1", "GPU-x,NVIDIA,1,1:;"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@st.composite
def broken_objects(draw: st.DrawFn) -> list[Any]:
    """The example's objects with a few parts replaced by anything."""
    objects = copy.deepcopy(OBJECTS)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from([place for place in places(objects) if place]))
        parent: Any = objects
        try:
            for key in path:
                parent = parent[key]
            parent[last] = draw(values)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier replacement took this place away
    return objects


def run(objects: list[Any]) -> tuple[Snapshot, Result]:
    snapshot = Snapshot()
    for number, value in enumerate(objects):
        snapshot.add(Document(f"document {number}", value))
    world = build(snapshot, Rules())
    for pod in world.waiting[:2]:
        explain(world, pod)
    usage_of(world.cluster)
    return snapshot, simulate(world, detailed=True)


@settings(max_examples=150)
@given(broken_objects())
def test_any_part_of_an_object_may_be_anything(objects: list[Any]) -> None:
    _snapshot, result = run(objects)
    assert all(pending.reason for pending in result.pending)


@settings(max_examples=150)
@given(st.lists(values, max_size=4))
def test_what_is_no_object_is_named_skipped_and_counted(objects: list[Any]) -> None:
    snapshot, result = run(objects)
    assert snapshot.skipped == len(objects)
    assert len(snapshot.warnings) == len(objects)
    assert not result.placed


@settings(max_examples=200)
@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*!|>'\"%#\n a1", max_size=60))
def test_any_text_is_documents_or_one_error_that_names_the_file(text: str) -> None:
    said = [each.where if isinstance(each, Document) else str(each) for each in documents("some.yaml", text)]
    assert all(each.startswith("some.yaml") for each in said)


@given(st.binary(max_size=40), st.sampled_from(range(5)))
def test_any_bytes_in_any_annotation_of_a_node_or_pod(data: bytes, which: int) -> None:
    objects = copy.deepcopy(OBJECTS)
    for each in objects[:6]:
        annotations = each["metadata"].setdefault("annotations", {})
        key = sorted(annotations)[which % len(annotations)]
        annotations[key] = data.decode("utf-8", "replace")
    _snapshot, result = run(objects)
    assert all(pending.reason for pending in result.pending)


@pytest.mark.parametrize(
    "text",
    [
        "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895",
        "Requesting_2024.01.10 04:06:57",
        "Requesting_2026-01-10 04:06:57",
        "Deleted_2024.05.20 11:44:46",
        "",
        "anything",
    ],
)
def test_a_handshake_decides_nothing(text: str) -> None:
    objects = copy.deepcopy(OBJECTS)
    for each in objects[:3]:
        each["metadata"]["annotations"]["hami.io/node-handshake"] = text
    assert run(objects)[1] == run(OBJECTS)[1]


def dcu_objects(**annotations: str) -> list[Any]:
    register = "DCU-0,4,65536,60,DCU-K100_AI,0,true:DCU-1,4,65536,60,DCU-Z100,1,true:"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "d", "annotations": {HYGON.register_key: register}},
    }
    limits = {HYGON.count_resource: 1, HYGON.memory_resource: 20000, HYGON.cores_resource: 30}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    return [node, pod]


def test_a_second_family_is_placed_by_its_record_alone() -> None:
    """Hygon's cards and keys: nothing but data tells them from NVIDIA's."""
    _snapshot, result = run(dcu_objects(**{HYGON.avoid_models_key: "K100"}))
    (placed,) = result.placed
    assert [card.uuid for card in placed.placement.containers[0].cards] == ["DCU-1"]


def test_a_familys_lists_do_not_touch_another_familys_cards() -> None:
    _snapshot, result = run(dcu_objects(**{NVIDIA.avoid_models_key: "DCU", NVIDIA.use_uuids_key: "GPU-0"}))
    assert len(result.placed) == 1


def test_the_example_reads_the_same_as_json() -> None:
    whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS})
    assert [each.value for each in documents("-", whole) if isinstance(each, Document)] == OBJECTS


def test_half_a_character_is_no_text(tmp_path: Path) -> None:
    """JSON can spell it, no encoding can write it: it is refused where it comes in."""
    (found,) = documents("some.json", '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud800"}}')
    assert not isinstance(found, Document)
