"""Objects that are wrong, in files that are right: told, never a crash, never a zero, never "anything goes"."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cardwise.scheduler.inventory import Names
from cardwise.sim.documents import Document
from cardwise.sim.simulate import simulate
from cardwise.sim.snapshot import Snapshot
from commands import as_json, run
from manifests import (
    Object,
    card_record,
    card_records,
    node_object,
    pod_object,
    reasons,
    running_pod,
    simulated,
    snapshot_of,
    using,
    where,
    workload_object,
    world_of,
    write,
)

KEY = "hami.io/node-nvidia-register"
ONE = node_object("n1", card_records(1))


def without(value: Object, *path: str) -> Object:
    """The object without the field at this path."""
    first, *rest = path
    if not rest:
        return {key: inside for key, inside in value.items() if key != first}
    return {**value, first: without(value[first], *rest)}


def having(value: Object, path: str, new: Any) -> Object:
    """The object with another value at this path of keys, with dots between."""
    first, _, rest = path.partition(".")
    return {**value, first: having(value.get(first, {}), rest, new) if rest else new}


# -- fields of the wrong type, or missing ------------------------------------------------------------------------------

POD = pod_object("bad", gpu=1)
LOST = [
    pytest.param(without(POD, "metadata"), "Object missing required field `metadata`", id="no-metadata"),
    pytest.param(without(POD, "spec"), "Pod bad: Object missing required field `spec`", id="no-spec"),
    pytest.param(without(POD, "metadata", "name"), "Pod has no metadata.name", id="no-name"),
    pytest.param(having(POD, "metadata.name", ""), "Pod has no metadata.name", id="empty-name"),
    pytest.param(
        having(POD, "metadata.name", 5), "Pod 5: Expected `str`, got `int` - at `$.metadata.name`", id="name-5"
    ),
    pytest.param(
        having(POD, "metadata.annotations", {"a": True}),
        "Pod bad: metadata.annotations.a is true, must be a text",
        id="annotation-true",
    ),
    pytest.param(
        having(POD, "metadata.annotations", {"a": 5}),
        "Pod bad: metadata.annotations.a is 5, must be a text",
        id="annotation-5",
    ),
    pytest.param(
        having(POD, "metadata.annotations", {"a": None}),
        "Pod bad: metadata.annotations.a is null, must be a text",
        id="annotation-null",
    ),
    pytest.param(
        having(POD, "metadata.annotations", ["a"]),
        "Pod bad: Expected `object | null`, got `array`",
        id="annotation-list",
    ),
    pytest.param(
        having(POD, "metadata.labels", {"a": 1}), "Pod bad: metadata.labels.a is 1, must be a text", id="label-1"
    ),
    pytest.param(having(POD, "spec", []), "Pod bad: Expected `object`, got `array` - at `$.spec`", id="spec-list"),
    pytest.param(
        having(POD, "spec.containers", {"a": 1}), "Pod bad: Expected `array | null`, got `object`", id="containers-map"
    ),
    pytest.param(having(POD, "spec.containers", ["a"]), "Pod bad: Expected `object`, got `str`", id="container-text"),
    pytest.param(having(POD, "spec.nodeName", 7), "Pod bad: Expected `str`, got `int`", id="node-name-7"),
]


@pytest.mark.parametrize(("bad", "says"), LOST)
def test_an_object_that_cannot_be_read_is_an_error_and_nothing_else_is_lost(
    bad: Object, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path, bad, node_object("n1"), pod_object("p", gpu=1))
    result = run("simulate", path)
    assert result.exit_code == 2
    assert f"error: {path}, document 1: " in result.stderr
    assert says in result.stderr
    assert "1 of 1 pods placed" in result.stdout


UNMANAGED = [
    having(POD, "spec.containers", None),
    having(POD, "spec.containers", []),
    without(POD, "spec", "containers"),
    having(POD, "spec.containers", [{"name": "c", "resources": None}]),
    having(POD, "spec.containers", [{"name": "c", "resources": {"limits": None, "requests": None}}]),
    having(POD, "spec.containers", [{}]),
]


@pytest.mark.parametrize("pod", UNMANAGED, ids=["null", "empty", "missing", "no-resources", "no-limits", "no-name"])
def test_a_pod_without_containers_or_amounts_is_not_ours(pod: Object) -> None:
    assert simulated(ONE, pod).unmanaged == 1


NULLS = ["labels", "annotations", "creationTimestamp", "deletionTimestamp", "ownerReferences"]


@pytest.mark.parametrize("field", NULLS)
def test_null_metadata_is_as_if_left_out(field: str) -> None:
    assert list(where(simulated(ONE, having(pod_object("p", gpu=1), f"metadata.{field}", None)))) == ["p"]


@pytest.mark.parametrize(
    "path",
    ["metadata.namespace", "metadata.generateName", "metadata.uid", "spec.nodeName", "spec.schedulerName"],
)
def test_null_texts_are_as_if_left_out(path: str) -> None:
    """The API server takes null for any field that may be left out, and templates often leave `namespace:` blank."""
    assert len(where(simulated(ONE, having(pod_object("p", gpu=1), path, None)))) == 1


@pytest.mark.parametrize("field", ["key", "value", "effect", "operator"])
def test_a_null_in_a_toleration_is_as_if_left_out(field: str) -> None:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoSchedule", field: None}
    snapshot_of(pod_object("p", gpu=1, spec={"tolerations": [toleration]}))


def test_generated_names_are_told_apart() -> None:
    pods = [
        without(pod_object("", gpu=1, gpumem=1, meta={"generateName": "train-"}), "metadata", "name") for _ in range(3)
    ]
    assert len(where(simulated(ONE, *pods))) == 3


@pytest.mark.parametrize("path", ["metadata", "metadata.name"])
def test_a_node_without_metadata_is_an_error(path: str) -> None:
    snapshot = Snapshot()
    snapshot.add(Document("nodes.yaml", without(ONE, *path.split("."))))
    assert (len(snapshot.errors), snapshot.nodes) == (1, [])
    assert snapshot.errors[0].startswith("nodes.yaml: Node ")


def test_a_node_of_another_api_group_is_not_a_node() -> None:
    """Other projects have kinds of that name too, such as longhorn.io/v1beta2, and a cluster's dump holds them."""
    other = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "n1"}}
    assert list(where(simulated(other, ONE, pod_object("p", gpu=1)))) == ["p"]


# -- there twice -------------------------------------------------------------------------------------------------------


def test_of_two_nodes_or_pods_of_one_name_the_first_counts_and_this_is_told(tmp_path: Path) -> None:
    nodes = [node_object("n1", card_records(1)), node_object("n1", card_records(8))]
    pods = [pod_object("p", gpu=1), pod_object("p", gpu=9)]
    found = as_json("simulate", write(tmp_path, *nodes, *pods))
    assert [each["pod"] for each in found["placements"]] == ["ml/p"]
    assert sum("is there twice, the first counts" in text for text in found["warnings"]) == 2


def test_pods_of_one_name_in_two_namespaces_are_two(tmp_path: Path) -> None:
    pods = [pod_object("p", namespace=name, gpu=1, gpumem=1) for name in ("a", "b")]
    assert len(as_json("simulate", write(tmp_path, ONE, *pods))["placements"]) == 2


def test_a_uuid_that_is_there_twice_on_a_node_is_one_card() -> None:
    world = world_of(node_object("n1", [card_record("GPU-0"), card_record("GPU-0", 1)]), pod_object("p", gpu=2))
    assert any("card GPU-0 stands there more than once" in text for text in world.warnings)
    assert "needs 2 distinct NVIDIA cards, node has 1" in reasons(simulate(world))["p"]


# -- registers and links -----------------------------------------------------------------------------------------------

REGISTERS = [
    ("", "register is (empty), must be cards"),
    ("GPU-0,10,1,100,A40,0:", "card 1 of 1 has 6 fields"),
    ("GPU-0,10,1,100,A40,0,true", "must be cards that each end with ':'"),
    ("GPU-0,-1,1,100,A40,0,true:", "count is -1"),
    ("GPU-0,10,1.5,100,A40,0,true:", "devmem is 1.5"),
    ("GPU-0,10,99999999999,100,A40,0,true:", "devmem is 99999999999"),
    ("GPU-0,10,1,abc,A40,0,true:", "devcore is abc"),
    ("GPU-0,10,1,100,A40,0,maybe:", "health is maybe"),
    (",10,1,100,A40,0,true:", "id is (empty)"),
    ("{}", "must be a JSON array of cards"),
    ("[1]", "card 1 of 1 is 1"),
    ('[{"id":"GPU-0","count":"10"}]', 'count is "10"'),
    ('[{"id":"GPU-0"', "must be a JSON array of cards"),
    ("[" * 10_000, "must be a JSON array of cards"),
    ("x" * 1_000_000, "must be cards that each end with ':'"),
]


@pytest.mark.parametrize(("text", "says"), REGISTERS, ids=[text[:24] or "empty" for text, _says in REGISTERS])
def test_a_register_that_cannot_be_read_puts_its_node_out_of_service(text: str, says: str) -> None:
    world = world_of(node_object("n1", text), pod_object("p", gpu=1))
    [warning] = world.warnings
    assert warning.startswith(f"node n1: out of service: {KEY}: register")
    assert says in warning
    assert len(warning) < 400
    assert says in reasons(simulate(world))["p"]


def test_one_bad_register_stops_no_other_node() -> None:
    assert where(simulated(node_object("n0", "x"), ONE, pod_object("p", gpu=1)))["p"][0] == "n1"


@pytest.mark.parametrize("text", ["[]", ":", "null"])
def test_a_register_with_no_cards(text: str) -> None:
    world = world_of(node_object("n1", text), pod_object("p", gpu=1))
    assert len(world.warnings) >= 1
    assert "p" in reasons(simulate(world))


@pytest.mark.parametrize(
    "sizes",
    [{"devmem": 0}, {"count": 0}, {"devcore": 0}],
)
def test_a_card_of_no_size_takes_nothing_that_needs_it(sizes: Object) -> None:
    node = node_object("n1", card_records(1, **sizes))
    assert where(simulated(node, pod_object("p", gpu=1, percent=50, gpucores=10))) == {}


LINKS = [
    pytest.param(
        [{"uuid": "GPU-0", "score": {"GPU-1": 5}}, {"uuid": "GPU-1", "score": {"GPU-0": 9}}], "smaller", id="asymmetric"
    ),
    pytest.param([{"uuid": "GPU-0", "score": {"GPU-1": 5}}], "no scores for 1 of 2 cards", id="short"),
    pytest.param(
        [
            {"uuid": "GPU-0", "score": {"GPU-1": 5, "GPU-x": 9}},
            {"uuid": "GPU-1", "score": {"GPU-0": 5}},
        ],
        "scores of card GPU-x, which the node does not register",
        id="unknown-card",
    ),
    pytest.param([{"uuid": "GPU-0", "score": {"GPU-1": "x"}}], "no links are known", id="no-number"),
    pytest.param([5], "no links are known", id="no-rows"),
]


@pytest.mark.parametrize(("links", "says"), LINKS)
def test_links_that_are_odd_are_told_and_the_node_still_serves(links: list[Any], says: str) -> None:
    pod = pod_object("p", {"hami.io/gpu-scheduler-policy": "topology-aware"}, gpu=2, gpumem=1)
    world = world_of(node_object("n1", card_records(2), links=links), pod)
    assert any(says in warning for warning in world.warnings)
    assert where(simulate(world))["p"] == ("n1", ["GPU-0", "GPU-1"])


@pytest.mark.parametrize("amount", ["abc", "", "-5", "1e99"])
def test_amounts_of_a_node_that_are_no_quantities_let_nothing_in(amount: str) -> None:
    node = node_object("n1", card_records(1), status={"allocatable": {"cpu": amount, "nvidia.com/gpu": "10"}})
    pod = pod_object("p", gpu=1, spec={}, cpu="1")
    assert where(simulated(node, pod)) == {}


@pytest.mark.parametrize("amount", ["abc", "", "1e99"])
def test_other_amounts_of_a_pod_that_are_no_quantities_keep_it_waiting(amount: str) -> None:
    assert "is" in reasons(simulated(ONE, pod_object("p", gpu=1, cpu=amount)))["p"]


# -- large and odd -----------------------------------------------------------------------------------------------------

KEYS = ["nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "hami.io/gpu-scheduler-policy", "hami.io/vgpu-x"]


@pytest.mark.parametrize("key", KEYS)
def test_an_annotation_of_a_megabyte_makes_no_line_of_a_megabyte(key: str, tmp_path: Path) -> None:
    result = run("simulate", write(tmp_path, ONE, pod_object("p", {key: "x" * 1_000_000}, gpu=1)))
    assert len(result.stdout) + len(result.stderr) < 10_000


def test_an_assignment_of_a_megabyte_is_read_in_no_time() -> None:
    world = world_of(ONE, running_pod("r", "n1", "x" * 1_000_000, gpu=1), pod_object("p", gpu=1))
    assert all(len(warning) < 1000 for warning in world.warnings)
    assert where(simulate(world)) == {}


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path) -> None:
    """Whoever may name a pod in a dump must not be able to write escape sequences or lines into another's output."""
    pod = pod_object("evil\x1b]0;title\x07\nfake/pod: placed", gpu=1)
    result = run("simulate", write(tmp_path, ONE, pod))
    assert "\x1b" not in result.stdout + result.stderr
    assert "\nfake/pod: placed" not in result.stdout


@pytest.mark.parametrize(
    "workload",
    [
        workload_object("Deployment", "w", POD, replicas=-3),
        having(workload_object("Deployment", "w", POD), "spec", {}),
        having(workload_object("Job", "w", POD), "spec.template", None),
        having(workload_object("Job", "w", POD), "spec.template", {}),
    ],
    ids=["negative", "no-template", "null-template", "empty-template"],
)
def test_workloads_without_pods_are_no_crash(workload: Object) -> None:
    assert where(simulated(ONE, workload)) == {}


def test_a_hold_on_a_node_that_is_not_there_is_told() -> None:
    world = world_of(running_pod("r", "gone", using(("GPU-0", 1, 0)), gpu=1), ONE, pod_object("p", gpu=1))
    assert "pod ml/r runs on node gone, which is not in the input" in world.warnings
    assert list(where(simulate(world))) == ["p"]


@pytest.mark.parametrize("at", [0, 9, 30], ids=["first-letter", "in-the-middle", "near-the-end"])
def test_the_closest_uuid_of_many_is_found_by_its_beginning_or_its_end(at: int) -> None:
    number = random.Random(1)
    known = [f"GPU-{UUID(int=number.getrandbits(128))}" for _ in range(8000)]
    wanted = known[17]
    misspelt = wanted[: 4 + at] + "z" + wanted[5 + at :]
    assert Names.of(known).closest(misspelt) == f" (did you mean {wanted}?)"
