"""`cardwise simulate`, as its users meet it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml12

from commands import PROGRAM, as_json, golden, on_terminal, process, run
from manifests import (
    Object,
    card_records,
    container_object,
    list_object,
    node_object,
    pod_object,
    running_pod,
    to_json,
    to_yaml,
    using,
    workload_object,
    write,
)

FIRST, SECOND = "GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"
MISSING = "GPU-03f69c50-207a-2038-9b45-23cac89cb67e"

DCU: Object = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 20000}


def reference_pod(annotations: dict[str, str], gpu: int) -> Object:
    """A pod of the first reference document, as it stands there."""
    container = container_object(
        "ubuntu-container", more={"image": "ubuntu:18.04", "command": ["/bin/bash", "-c", "sleep 86400"]}, gpu=gpu
    )
    return pod_object("gpu-pod", annotations, namespace=None, containers=[container])


REFERENCE = {
    "use-type": (reference_pod({"nvidia.com/use-gputype": "A40"}, 2), [FIRST, SECOND]),
    "nouse-type": (reference_pod({"nvidia.com/nouse-gputype": "A100"}, 2), [FIRST, SECOND]),
    "use-uuid": (reference_pod({"nvidia.com/use-gpuuuid": f"{FIRST},{MISSING}"}, 1), [FIRST]),
    "nouse-uuid": (reference_pod({"nvidia.com/nouse-gpuuuid": FIRST}, 2), None),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_first_reference_document_s_pods_each_alone(name: str, tmp_path: Path) -> None:
    pod, cards = REFERENCE[name]
    path = write(tmp_path, node_object("j99cloudvm"), pod)
    result = run("simulate", path)
    assert result.exit_code == (0 if cards else 1)
    assert result.stdout == golden(f"simulate-{name}.txt", result.stdout)
    found = as_json("simulate", path)
    given = [[card["uuid"] for card in each["containers"][0]["cards"]] for each in found["placements"]]
    assert given == ([cards] if cards else [])
    printed = run("simulate", path, "-o", "json").stdout
    assert printed == golden(f"simulate-{name}.json", printed)


def test_json_has_exactly_the_keys_of_the_interface(tmp_path: Path) -> None:
    path = write(
        tmp_path, node_object("n1"), pod_object("good", gpu=1, gpumem=20000, gpucores=30), pod_object("bad", gpu=3)
    )
    found = as_json("simulate", path)
    assert list(found) == ["placements", "pending", "warnings"]
    assert found["placements"] == [
        {
            "pod": "ml/good",
            "node": "n1",
            "containers": [{"name": "main", "cards": [{"uuid": FIRST, "index": 0, "memory_mib": 20000, "cores": 30}]}],
        }
    ]
    [pending] = found["pending"]
    assert (list(pending), pending["pod"]) == (["pod", "reason", "nodes"], "ml/bad")
    assert list(pending["nodes"]["n1"]) == ["reason", "cards"]
    assert found["warnings"] == ["pod ml/bad, container main: nvidia.com/gpu is 3, the largest node has 2 cards"]


def test_json_names_the_check_that_refused_each_card(tmp_path: Path) -> None:
    path = write(tmp_path, node_object("n1"), pod_object("p", {"nvidia.com/nouse-gpuuuid": FIRST}, gpu=1, gpumem=99999))
    cards = as_json("simulate", path)["pending"][0]["nodes"]["n1"]["cards"]
    assert cards == {FIRST: "CardUuidMismatch", SECOND: "CardInsufficientMemory"}


def test_cards_of_another_vendor_do_not_get_the_codes(tmp_path: Path) -> None:
    node = node_object("n1", annotations={"hami.io/node-dcu-register": "DCU-0,4,16384,100,Z100,0,true:"})
    asking = container_object(**DCU)
    path = write(tmp_path, node, pod_object("p", containers=[asking]))
    assert as_json("simulate", path)["pending"][0]["nodes"]["n1"]["cards"] == {"DCU-0": "CardInsufficientMemory"}


GOOD = (node_object("n1"), pod_object("p", gpu=1))


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        pytest.param(GOOD, 0, id="all-placed"),
        pytest.param([*GOOD, pod_object("q", gpu=9)], 1, id="some-wait"),
        pytest.param([*GOOD, pod_object("q", gpu=-1)], 1, id="some-refused"),
        pytest.param([*GOOD, pod_object("q", gpu=True)], 2, id="a-pod-is-lost"),
        pytest.param([node_object("n1"), pod_object("q", containers=[{"name": "c"}])], 0, id="nothing-is-ours"),
        pytest.param([pod_object("p", gpu=1)], 1, id="no-nodes"),
    ],
)
def test_exit_codes(objects: Iterable[Any], code: int, tmp_path: Path) -> None:
    path = write(tmp_path, *objects)
    for form in ("table", "json", "yaml"):
        assert run("simulate", path, "-o", form).exit_code == code


@pytest.mark.parametrize("args", [[], ["--nonsense", "x"], ["x", "-o", "xml"]])
def test_a_wrong_call_is_refused(args: list[str]) -> None:
    result = run("simulate", *args)
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")


@pytest.mark.parametrize(
    ("flag", "known"),
    [
        ("--node-policy", "must be one of binpack, spread"),
        ("--gpu-policy", "must be one of binpack, spread, numa, topology-aware, mutex, or several"),
    ],
)
@pytest.mark.parametrize("name", ["spraed", "Spread", "", "binpack,spraed"])
def test_an_unknown_policy_in_a_flag_is_refused_with_the_known_ones(
    flag: str, known: str, name: str, tmp_path: Path
) -> None:
    result = run("simulate", write(tmp_path, *GOOD), flag, name)
    assert result.exit_code == 2
    assert known in result.stderr
    assert result.stdout == ""


def test_policies_by_flag_are_the_default_of_pods_that_name_none(tmp_path: Path) -> None:
    nodes = [node_object("a", card_records(2, "A")), node_object("b", card_records(2, "B"))]
    pods = [pod_object(name, gpu=1, gpumem=1000) for name in ("p", "q")]
    own = pod_object("own", {"hami.io/node-scheduler-policy": "binpack"}, gpu=1, gpumem=1000)
    path = write(tmp_path, *nodes, *pods, own)

    def given(*flags: str) -> dict[str, tuple[str, str]]:
        placed = as_json("simulate", path, *flags)["placements"]
        return {p["pod"]: (p["node"], p["containers"][0]["cards"][0]["uuid"]) for p in placed}

    assert given()["ml/q"] == ("a", "A-1")
    assert given("--gpu-policy", "binpack")["ml/q"] == ("a", "A-0")
    assert given("--node-policy", "spread")["ml/q"] == ("b", "B-0")
    assert given("--node-policy", "spread")["ml/own"] == ("a", "A-1")


def test_namespace_names_what_has_none_and_reports_that_alone(tmp_path: Path) -> None:
    pods = [pod_object("p", namespace=None, gpu=1), pod_object("q", namespace="other", gpu=1)]
    path = write(tmp_path, node_object("n1", card_records(2)), *pods)
    found = as_json("simulate", path, "-n", "team")
    assert [each["pod"] for each in found["placements"]] == ["team/p"]
    assert [each["pod"] for each in as_json("simulate", path)["placements"]] == ["default/p", "other/q"]


def test_pods_of_other_namespaces_are_placed_all_the_same(tmp_path: Path) -> None:
    pods = [pod_object("first", namespace="other", gpu=1), pod_object("p", namespace="team", gpu=1)]
    result = run("simulate", write(tmp_path, node_object("n1", card_records(1)), *pods), "-n", "team")
    assert result.exit_code == 1
    assert "0 of 1 pods placed; 1 pending" in result.stdout


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    odd = [pod_object(name, gpu=1, gpumem=1) for name in ("1", "true", "null", "0x1f", "a.b-c")]
    path = write(tmp_path, node_object("n1"), *odd, pod_object("q", gpu=3), pod_object("r", gpu=-1))
    assert yaml12.parse_yaml(run("simulate", path, "-o", "yaml").stdout) == as_json("simulate", path)


def test_pods_go_by_creation_time_and_then_by_place(tmp_path: Path) -> None:
    def pod(name: str, time: str | None) -> Object:
        return pod_object(name, gpu=1, gpumem=1, meta={"creationTimestamp": time})

    pods = [pod("d", None), pod("b", "2026-01-01T00:00:01Z"), pod("e", None), pod("a", "2026-01-01T00:00:00Z")]
    path = write(tmp_path, node_object("n1"), *pods, pod("c", "2026-01-01T00:00:01Z"))
    assert [each["pod"][-1] for each in as_json("simulate", path)["placements"]] == ["a", "b", "c", "d", "e"]


def test_several_files_and_a_list_are_one_snapshot(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(to_json(list_object([node_object("n1")])), encoding="utf-8")
    found = as_json("simulate", str(nodes), write(tmp_path, pod_object("p", gpu=2)))
    assert found["placements"][0]["node"] == "n1"


# -- workloads ---------------------------------------------------------------------------------------------------------

TINY = pod_object("x", gpu=1, gpumem=1)
OWNED = [{"kind": "Deployment", "name": "w", "controller": True}]
WORKLOADS = [
    pytest.param(workload_object("Deployment", "w", TINY, replicas=3), 3, id="deployment"),
    pytest.param(workload_object("Deployment", "w", TINY), 1, id="one-by-default"),
    pytest.param(workload_object("Deployment", "w", TINY, replicas=0), 0, id="scaled-to-zero"),
    pytest.param(workload_object("Deployment", "w", TINY, replicas=3, status={"replicas": 2}), 1, id="two-made"),
    pytest.param(workload_object("Deployment", "w", TINY, replicas=1, status={"replicas": 4}), 0, id="scaled-down"),
    pytest.param(workload_object("StatefulSet", "w", TINY, replicas=2), 2, id="stateful-set"),
    pytest.param(workload_object("ReplicaSet", "w", TINY, replicas=2), 2, id="replica-set"),
    pytest.param(workload_object("Job", "w", TINY, parallelism=3, completions=2), 2, id="job"),
    pytest.param(
        workload_object("Job", "w", TINY, parallelism=2, completions=9, status={"active": 2}), 0, id="job-runs"
    ),
    pytest.param(workload_object("Job", "w", TINY, completions=1, status={"succeeded": 1}), 0, id="job-is-done"),
    pytest.param(
        workload_object("Job", "w", TINY, parallelism=2, completions=9, status={"succeeded": 3}),
        2,
        id="job-goes-on",
    ),
    pytest.param(workload_object("Job", "w", TINY, suspend=True), 0, id="suspended-job"),
    pytest.param(workload_object("CronJob", "w", TINY, parallelism=2), 2, id="cron-job"),
    pytest.param(workload_object("CronJob", "w", TINY, suspend=True), 0, id="suspended-cron-job"),
    pytest.param(workload_object("DaemonSet", "w", TINY), 0, id="daemon-set"),
]


@pytest.mark.parametrize(("workload", "pods"), WORKLOADS)
def test_a_workload_becomes_the_pods_that_it_has_not_made(workload: Object, pods: int, tmp_path: Path) -> None:
    placed = as_json("simulate", write(tmp_path, node_object("n1"), workload))["placements"]
    assert [each["pod"] for each in placed] == [f"ml/w-{number}" for number in range(pods)]


def test_what_a_known_owner_makes_is_not_made_twice(tmp_path: Path) -> None:
    owner = workload_object("Deployment", "w", TINY, replicas=2)
    owned = workload_object("ReplicaSet", "w-5d8f", TINY, meta={"ownerReferences": OWNED}, replicas=2)
    assert len(as_json("simulate", write(tmp_path, owner, owned, node_object("n1")))["placements"]) == 2
    assert len(as_json("simulate", write(tmp_path, owned, node_object("n1"), name="b.yaml"))["placements"]) == 2


def test_wishes_of_the_template_count_and_those_on_the_workload_are_told(tmp_path: Path) -> None:
    template = pod_object("x", {"nvidia.com/use-gpuuuid": SECOND}, gpu=1)
    wish = {"nvidia.com/use-gputype": "H100"}
    found = as_json(
        "simulate", write(tmp_path, node_object("n1"), workload_object("Job", "w", template, annotations=wish))
    )
    assert found["placements"][0]["containers"][0]["cards"][0]["uuid"] == SECOND
    assert found["warnings"] == [
        "Job ml/w: annotation nvidia.com/use-gputype has no effect there, it must stand in the pod template"
    ]


def test_a_workload_of_a_million_pods_is_cut_and_this_is_told(tmp_path: Path) -> None:
    found = as_json("simulate", write(tmp_path, workload_object("Deployment", "w", TINY, replicas=10**6)))
    assert len(found["pending"]) == 10_000
    assert "asks for 1000000 pods, 10000 are simulated" in found["warnings"][0]


# -- as a process ------------------------------------------------------------------------------------------------------


def test_standard_input(tmp_path: Path) -> None:
    done = process("simulate", "-", "-o", "json", stdin=to_yaml(*GOOD).encode())
    assert done.returncode == 0
    assert json.loads(done.stdout)["placements"][0]["pod"] == "ml/p"
    assert done.stderr == b""


def test_a_fault_in_standard_input_is_told_by_its_line() -> None:
    done = process("simulate", "-", stdin=b"a: 1\nb: [\n")
    assert done.returncode == 2
    assert b"error: standard input, line " in done.stderr


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_reader_that_stops_reading_is_no_crash(form: str, tmp_path: Path) -> None:
    path = write(tmp_path, node_object("n1"), workload_object("Deployment", "w", TINY, replicas=5000))
    command = [*PROGRAM, "simulate", path, "-o", form]
    done = subprocess.run(
        ["/bin/bash", "-c", '"$@" | head -1', "bash", *command], capture_output=True, timeout=60, check=False
    )
    assert done.stdout.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_on_a_terminal_progress_is_shown_and_then_gone(tmp_path: Path) -> None:
    path = write(tmp_path, node_object("n1"), workload_object("Deployment", "w", TINY, replicas=3000))
    code, shown = on_terminal("simulate", path)
    assert code == 1
    assert "placing" in shown
    assert "20 of 3000 pods placed, on 1 node; 2980 pending" in shown


def test_no_colours_and_no_bars_in_a_pipe(tmp_path: Path) -> None:
    done = process("simulate", write(tmp_path, *GOOD))
    assert b"\x1b" not in done.stdout + done.stderr


def test_long_names_are_not_cut_in_a_pipe(tmp_path: Path) -> None:
    name = "a" * 200
    assert name in run("simulate", write(tmp_path, node_object("n1"), pod_object(name, gpu=1))).stdout


def test_running_pods_are_there_first(tmp_path: Path) -> None:
    running = running_pod("r", "n1", using((FIRST, 46068, 100)), gpu=1)
    found = as_json("simulate", write(tmp_path, pod_object("p", gpu=1), running, node_object("n1")))
    assert found["placements"][0]["containers"][0]["cards"][0]["uuid"] == SECOND
