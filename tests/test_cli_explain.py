"""`cardwise explain`, as its users meet it: what it says is so, and what it advises works."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardwise.sim.explain import Explanation, explain
from commands import as_json, golden, on_terminal, process, run
from manifests import (
    Object,
    card_record,
    card_records,
    container_object,
    node_object,
    pod_object,
    running_pod,
    simulated,
    to_yaml,
    using,
    where,
    workload_object,
    world_of,
    write,
)

CARD_POLICY = "hami.io/gpu-scheduler-policy"
A40, A100 = "NVIDIA-NVIDIA A40", "NVIDIA-NVIDIA A100"
ONE = node_object("n1", card_records(1))
TWO = node_object("n1", card_records(2))


def used(name: str, uuid: str, mib: int, cores: int = 0, node: str = "n1") -> Object:
    return running_pod(name, node, using((uuid, mib, cores)), gpu=1, gpumem=mib, gpucores=cores)


def explained(*objects: Object) -> Explanation:
    """The explanation of the one pod that waits."""
    world = world_of(*objects)
    [pod] = world.waiting
    return explain(world, pod)


# -- every change that is told works -----------------------------------------------------------------------------------

SIZE = re.compile(
    r"(?:container (?P<container>\S+): )?(?P<resource>\S+) (?P<value>\d+)(?: MiB| %)? instead of \d+(?: MiB| %)?"
)
MODEL = re.compile(r"another model \((?P<key>\S+): (?P<model>.+)\)")
DROPPED = re.compile(r"without (?:(?P<item>\S+) in )?(?P<key>\S+)")
ENDING = re.compile(r"pod (?P<pod>\S+) ending")


def changed(objects: tuple[Object, ...], change: str) -> list[Object]:
    """The objects after the user did what the sentence says, and nothing else; the pod that waits is the last."""
    objects = copy.deepcopy(objects)
    pod = objects[-1]
    annotations = pod["metadata"]["annotations"]
    if match := ENDING.fullmatch(change):
        return [each for each in objects if f"ml/{each['metadata']['name']}" != match["pod"]]
    if match := SIZE.fullmatch(change):
        containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        [one] = (
            [each for each in containers if each["name"] == match["container"]]
            if match["container"]
            else containers[:1]
        )
        one["resources"]["limits"][match["resource"]] = int(match["value"])
    elif change == "card policy without mutex":
        left = [name for name in annotations[CARD_POLICY].split(",") if name != "mutex"]
        annotations[CARD_POLICY] = ",".join(left or ["spread"])
    elif match := MODEL.fullmatch(change):
        annotations[match["key"]] = match["model"]
    elif match := DROPPED.fullmatch(change):
        rest = [item for item in annotations.pop(match["key"]).split(",") if match["item"] and item != match["item"]]
        annotations |= {match["key"]: ",".join(rest)} if rest else {}
    else:
        raise AssertionError(f"a change that this test cannot make: {change}")
    return list(objects)


def check_changes(objects: tuple[Object, ...]) -> list[str]:
    """Make each change and place the pod. Gives the sentences."""
    found = explained(*objects)
    for change in found.changes:
        placed = where(simulated(*changed(objects, change.change)))
        assert placed.get("p", ("nowhere", []))[0] == change.node, change.change
    return [change.change for change in found.changes]


NUMA = node_object("n1", [card_record(f"GPU-{n}", n, numa=n) for n in range(2)])
MIXED = node_object("n1", [card_record("GPU-0", type=A40), card_record("GPU-1", 1, type=A100)])
FULL_A40 = used("r", "GPU-0", 24576)
SCENES = [
    pytest.param(
        (ONE, used("r", "GPU-0", 20000), pod_object("p", gpu=1, gpumem=5000)),
        ["nvidia.com/gpumem 4576 MiB instead of 5000 MiB", "pod ml/r ending"],
        id="less-memory",
    ),
    pytest.param(
        (ONE, used("r", "GPU-0", 12288), pod_object("p", gpu=1, percent=60)),
        ["nvidia.com/gpumem-percentage 50 % instead of 60 %", "pod ml/r ending"],
        id="less-percent",
    ),
    pytest.param(
        (ONE, used("r", "GPU-0", 1, 60), pod_object("p", gpu=1, gpumem=1, gpucores=50)),
        ["nvidia.com/gpucores 40 % instead of 50 %", "pod ml/r ending"],
        id="fewer-cores",
    ),
    pytest.param((ONE, pod_object("p", gpu=2, gpumem=1)), ["nvidia.com/gpu 1 instead of 2"], id="fewer-cards"),
    pytest.param(
        (MIXED, FULL_A40, pod_object("p", {"nvidia.com/use-gputype": "A40"}, gpu=1, gpumem=5)),
        [f"another model (nvidia.com/use-gputype: {A100})", "pod ml/r ending"],
        id="another-model",
    ),
    pytest.param(
        (MIXED, FULL_A40, pod_object("p", {"nvidia.com/nouse-gputype": "A100"}, gpu=1, gpumem=5)),
        ["pod ml/r ending"],
        id="a-refused-model",
    ),
    pytest.param(
        (TWO, used("r", "GPU-0", 24576), pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-0"}, gpu=1, gpumem=5)),
        ["without nvidia.com/use-gpuuuid", "pod ml/r ending"],
        id="any-uuid",
    ),
    pytest.param(
        (TWO, pod_object("p", {"nvidia.com/nouse-gpuuuid": "GPU-0"}, gpu=2, gpumem=5)),
        ["nvidia.com/gpu 1 instead of 2", "without GPU-0 in nvidia.com/nouse-gpuuuid"],
        id="a-uuid-less",
    ),
    pytest.param(
        (NUMA, pod_object("p", {"nvidia.com/numa-bind": "true"}, gpu=2, gpumem=5)),
        ["nvidia.com/gpu 1 instead of 2", "without nvidia.com/numa-bind"],
        id="no-numa-binding",
    ),
    pytest.param(
        (ONE, pod_object("p", {"nvidia.com/vgpu-mode": "mps"}, gpu=1, gpumem=5)),
        ["without nvidia.com/vgpu-mode"],
        id="mode",
    ),
    pytest.param(
        (ONE, used("r", "GPU-0", 5), pod_object("p", {CARD_POLICY: "mutex"}, gpu=1, gpumem=5)),
        ["card policy without mutex", "pod ml/r ending"],
        id="no-mutex",
    ),
    pytest.param(
        (
            ONE,
            used("big", "GPU-0", 9000),
            used("small", "GPU-0", 8000),
            pod_object("p", gpu=1, gpumem=9000, gpucores=1),
        ),
        ["nvidia.com/gpumem 7576 MiB instead of 9000 MiB", "pod ml/small ending"],
        id="the-smallest-pod",
    ),
    pytest.param(
        (ONE, pod_object("p", containers=[container_object(name, gpu=1, gpumem=13000) for name in ("a", "b")])),
        [
            "container a: nvidia.com/gpumem 11576 MiB instead of 13000 MiB",
            "container b: nvidia.com/gpumem 11576 MiB instead of 13000 MiB",
        ],
        id="one-of-two-containers",
    ),
]


@pytest.mark.parametrize(("objects", "changes"), SCENES)
def test_the_changes_told_are_these_and_each_works(objects: tuple[Object, ...], changes: list[str]) -> None:
    found = check_changes(objects)
    assert [each for each in found if "nouse-gputype" not in each] == changes


def test_a_whole_card_pod_is_told_that_a_share_would_fit() -> None:
    """Cores are 100 only because nothing else was asked: with less memory asked, they would not be."""
    found = check_changes((ONE, used("r", "GPU-0", 1000), pod_object("p", gpu=1)))
    assert any(change.startswith("nvidia.com/gpumem") for change in found)


AMOUNT = st.sampled_from([1, 5000, 12288, 20000, 24576])
CORES = st.sampled_from([0, 30, 70, 100])
WISHES = st.dictionaries(
    st.sampled_from(["nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "nvidia.com/use-gputype"]),
    st.sampled_from(["A-0", "A-0,A-1", "B-0", "A40", "A100"]),
    max_size=1,
)
RUNNING = st.lists(st.tuples(st.sampled_from(["A-0", "A-1", "B-0"]), AMOUNT, CORES), max_size=4)


def two_nodes(held: list[tuple[str, int, int]]) -> list[Object]:
    nodes = [
        node_object("a", card_records(2, "A", type=A40)),
        node_object("b", card_records(1, "B", type=A100, count=2)),
    ]
    return [*nodes, *(used(f"r{n}", *hold, node=hold[0][0].lower()) for n, hold in enumerate(held))]


@settings(max_examples=80)
@given(held=RUNNING, wishes=WISHES, gpu=st.integers(1, 3), gpumem=AMOUNT, gpucores=CORES)
def test_law_each_change_that_is_told_makes_the_pod_fit(
    held: list[tuple[str, int, int]], wishes: dict[str, str], gpu: int, gpumem: int, gpucores: int
) -> None:
    check_changes((*two_nodes(held), pod_object("p", wishes, gpu=gpu, gpumem=gpumem, gpucores=gpucores)))


@settings(max_examples=80)
@given(held=RUNNING, wishes=WISHES, gpu=st.integers(1, 2), gpumem=AMOUNT, gpucores=CORES)
def test_law_headroom_is_the_number_of_copies_that_are_placed(
    held: list[tuple[str, int, int]], wishes: dict[str, str], gpu: int, gpumem: int, gpucores: int
) -> None:
    nodes = two_nodes(held)
    copies = [pod_object(f"p{n}", wishes, gpu=gpu, gpumem=gpumem, gpucores=gpucores) for n in range(30)]
    found = explained(*nodes, copies[0])
    placed = where(simulated(*nodes, *copies))
    assert found.headroom == len(placed)
    assert found.fits == bool(placed)


@settings(max_examples=80)
@given(held=RUNNING, wishes=WISHES, gpu=st.integers(1, 3), gpumem=AMOUNT, gpucores=CORES)
def test_law_never_fits_is_what_no_pod_s_leaving_changes(
    held: list[tuple[str, int, int]], wishes: dict[str, str], gpu: int, gpumem: int, gpucores: int
) -> None:
    pod = pod_object("p", wishes, gpu=gpu, gpumem=gpumem, gpucores=gpucores)
    empty = where(simulated(*two_nodes([]), pod))
    assert explained(*two_nodes(held), pod).never_fits == (not empty)


def test_headroom_where_nodes_have_different_cards_of_a_list() -> None:
    nodes = [node_object(name, card_records(2, name.upper())) for name in ("a", "b")]
    wish = {"nvidia.com/use-gpuuuid": "A-0,B-0,B-1"}
    assert explained(*nodes, pod_object("p", wish, gpu=1, gpumem=20000)).headroom == 3
    two = [container_object(name, gpu=1, gpumem=20000) for name in ("a", "b")]
    assert where(simulated(*nodes, pod_object("p", wish, containers=two)))["p"][0] == "b"


# -- what is said ------------------------------------------------------------------------------------------------------


def scene(tmp_path: Path) -> str:
    tainted = node_object(
        "n2", card_records(2, "X"), spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    )
    pod = pod_object("p", {"nvidia.com/nouse-gpuuuid": "GPU-1"}, gpu=1, gpumem=20000)
    return write(tmp_path, TWO, tainted, used("r", "GPU-0", 12000), pod, pod_object("good", gpu=1, gpumem=500))


@pytest.mark.parametrize("pod", ["p", "good"])
def test_the_text_and_the_object_as_a_whole(pod: str, tmp_path: Path) -> None:
    path = scene(tmp_path)
    for form, ending in (("text", "txt"), ("json", "json")):
        printed = run("explain", f"ml/{pod}", "-f", path, "-o", form).stdout
        assert printed == golden(f"explain-{pod}.{ending}", printed)


def test_json_has_the_keys_of_the_interface(tmp_path: Path) -> None:
    found = as_json("explain", "ml/p", "-f", scene(tmp_path))
    assert found.keys() >= {"fits", "never_fits", "nodes", "changes", "headroom"}
    assert all(change.keys() == {"change", "node"} for change in found["changes"])
    assert (found["fits"], found["never_fits"], found["headroom"]) == (False, False, 0)
    assert found["nodes"]["n2"]["rules"] == ["node(s) had untolerated taint {k: v}"]
    assert found["nodes"]["n1"]["cards"]["GPU-0"]["reason"] == "asks 20000 MiB, 12576 MiB of 24576 MiB free"


def code_of(tmp_path: Path, pod: str, *objects: Any) -> int:
    return run("explain", pod, "-f", write(tmp_path, *objects)).exit_code


def test_exit_codes(tmp_path: Path) -> None:
    good, bad = pod_object("good", gpu=1), pod_object("bad", gpu=3)
    assert code_of(tmp_path, "ml/good", ONE, good) == 0
    assert code_of(tmp_path, "ml/bad", ONE, bad) == 1
    assert code_of(tmp_path, "ml/other", ONE, good) == 2
    assert code_of(tmp_path, "ml/good", ONE, good, pod_object("lost", gpu=True)) == 2
    assert run("explain", "ml/p").exit_code == 2


def test_a_pod_that_is_not_there_is_named_with_the_closest(tmp_path: Path) -> None:
    result = run("explain", "ml/trian-0", "-f", write(tmp_path, pod_object("train-0", gpu=1)))
    assert "no pod ml/trian-0 in the input (did you mean ml/train-0?)" in result.stderr


def test_a_name_alone_is_of_the_namespace_given(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, pod_object("p", gpu=1), pod_object("q", namespace=None, gpu=1))
    assert as_json("explain", "p", "-n", "ml", "-f", path)["pod"] == "ml/p"
    assert as_json("explain", "q", "-f", path)["pod"] == "default/q"


def test_a_pod_that_runs_is_told_where_and_what_another_would_do(tmp_path: Path) -> None:
    found = as_json("explain", "ml/r", "-f", write(tmp_path, TWO, used("r", "GPU-0", 20000)))
    assert (found["bound_to"], found["fits"], found["node"], found["headroom"]) == ("n1", True, "n1", 1)


def test_a_pod_that_has_ended_is_not_said_to_be_on_a_node(tmp_path: Path) -> None:
    ended = {**used("r", "GPU-0", 20000), "status": {"phase": "Succeeded"}}
    assert "is on node n1" not in run("explain", "ml/r", "-f", write(tmp_path, TWO, ended)).stdout


def test_a_pod_that_is_refused_says_the_field_and_exits_1(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, pod_object("p", gpu=1, percent=120))
    result = run("explain", "ml/p", "-f", path)
    assert result.exit_code == 1
    assert "nvidia.com/gpumem-percentage is 120, must be 0 to 100" in result.stdout
    assert as_json("explain", "ml/p", "-f", path)["never_fits"] is True


def test_a_pod_that_asks_for_no_card_is_kube_scheduler_s(tmp_path: Path) -> None:
    result = run("explain", "ml/p", "-f", write(tmp_path, ONE, pod_object("p", containers=[{"name": "c"}])))
    assert (result.exit_code, result.stdout) == (0, "pod ml/p asks for no card: kube-scheduler places it alone\n")


def test_a_model_that_exists_nowhere_is_named_with_the_closest(tmp_path: Path) -> None:
    path = write(tmp_path, MIXED, pod_object("p", {"nvidia.com/use-gputype": "A4O"}, gpu=1))
    result = run("explain", "ml/p", "-f", path)
    assert f"names A4O, which no card's model contains (did you mean {A40}?)" in result.stderr
    assert "ml/p never fits: no pod's leaving would help" in result.stdout


def test_a_pod_of_a_workload_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, ONE, workload_object("Job", "train", pod_object("x", gpu=1)))
    assert as_json("explain", "ml/train-0", "-f", path)["fits"] is True


def test_an_empty_cluster_is_never_enough_and_nothing_crashes(tmp_path: Path) -> None:
    found = as_json("explain", "ml/p", "-f", write(tmp_path, pod_object("p", gpu=1)))
    assert (found["never_fits"], found["nodes"], found["changes"], found["headroom"]) == (True, {}, [], 0)


def test_only_the_closest_nodes_are_shown_unless_all_are_wanted(tmp_path: Path) -> None:
    nodes = [node_object(f"n{number:02}", card_records(1, f"N{number:02}")) for number in range(30)]
    path = write(tmp_path, *nodes, pod_object("p", gpu=2, gpumem=1))
    assert "and 10 more nodes:" in run("explain", "ml/p", "-f", path).stdout
    assert "n29:" in run("explain", "ml/p", "-f", path, "--all-nodes").stdout


def test_as_a_process_from_standard_input() -> None:
    done = process("explain", "ml/p", "-f", "-", stdin=to_yaml(ONE, pod_object("p", gpu=1)).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"ml/p fits: node n1, main on 0: GPU-0\n")


def test_on_a_terminal(tmp_path: Path) -> None:
    code, shown = on_terminal("explain", "ml/p", "-f", scene(tmp_path), columns=60)
    assert code == 1
    assert "any one of these would make it fit:" in shown
