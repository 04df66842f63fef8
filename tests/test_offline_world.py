"""What an offline world makes of things that few clusters have, in every command alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cardwise.core.checks import CHECKS, LASTING
from cardwise.wire import names
from cardwise.wire.families import NVIDIA
from commands import as_json, run
from manifests import (
    Object,
    card_records,
    node_object,
    pod_object,
    reasons,
    running_pod,
    simulated,
    to_yaml,
    using,
    where,
    workload_object,
    world_of,
    write,
)

ALLOCATABLE = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "20"}


def asking(name: str, **limits: Any) -> Object:
    pod = pod_object(name, gpu=1, gpumem=3000)
    pod["spec"]["containers"][0]["resources"]["limits"] |= limits
    return pod


# -- priority: a resource that nobody counts ---------------------------------------------------------------------------


def test_a_task_priority_is_counted_by_nobody() -> None:
    node = node_object("n", status={"allocatable": ALLOCATABLE})
    pod = asking("p", **{NVIDIA.priority_resource: "1"})
    assert list(where(simulated(node, pod))) == ["p"]


def test_a_task_priority_is_0_or_1() -> None:
    result = simulated(node_object("n"), asking("p", **{NVIDIA.priority_resource: "7"}))
    assert f"{NVIDIA.priority_resource} is 7, must be 0 to 1" in reasons(result)["p"]


def test_a_task_priority_alone_asks_for_nothing() -> None:
    pod = pod_object("p")
    pod["spec"]["containers"][0]["resources"] = {"limits": {NVIDIA.priority_resource: "1"}}
    assert simulated(node_object("n"), pod).unmanaged == 1


# -- records that cannot be read ----------------------------------------------------------------------------------------


def bound(name: str, record: str) -> Object:
    pod = running_pod(name, "n", using(("GPU-0", 1000, 0)), gpu=1, gpumem=1000)
    pod["metadata"]["annotations"][NVIDIA.allocated_key] = record
    return pod


def test_a_node_that_a_record_keeps_shut_opens_when_that_pod_ends(tmp_path: Path) -> None:
    node, junk, waiting = node_object("n", card_records(1)), bound("junk", "?,?"), pod_object("p", gpu=1)
    found = as_json("explain", "ml/p", "-f", write(tmp_path, node, junk, waiting))
    assert (found["fits"], found["never_fits"]) == (False, False)
    assert found["changes"] == [{"change": "pod ml/junk ending", "node": "n"}]


def test_every_pod_whose_record_cannot_be_read_is_named() -> None:
    world = world_of(node_object("n", card_records(1)), bound("junk-1", "?,?"), bound("junk-2", "?,?"))
    for name in ("junk-1", "junk-2"):
        assert any(f"pod ml/{name} on node n: its record cannot be read" in warning for warning in world.warnings)


def test_a_record_without_cards_of_a_pod_that_asks_cannot_be_read() -> None:
    world = world_of(node_object("n", card_records(1)), bound("empty", ";"))
    assert world.cluster.cards.node(0).unreadable == ("ml/empty",)


def test_a_record_on_a_pod_that_asks_for_nothing_is_ignored_and_told() -> None:
    pod = bound("forged", "GPU-0,NVIDIA,24576,100:;")
    pod["spec"]["containers"][0]["resources"] = {}
    world = world_of(node_object("n", card_records(1)), pod)
    assert not world.cluster.holds
    assert any("asks for none: it counts for nothing" in warning for warning in world.warnings)


def test_a_record_on_a_waiting_pod_is_ignored_and_told() -> None:
    pod = pod_object("p", gpu=1, annotations={names.ASSIGNED_NODE: "n", NVIDIA.allocated_key: "GPU-0,NVIDIA,1,1:;"})
    pod["metadata"]["uid"] = "u"
    world = world_of(node_object("n", card_records(1)), pod)
    assert not world.cluster.holds
    assert any("carry a record of cards from before" in warning for warning in world.warnings)


# -- order, gates, endings ----------------------------------------------------------------------------------------------


def test_workloads_keep_their_place_in_the_order_of_the_files(tmp_path: Path) -> None:
    first = write(
        tmp_path,
        node_object("n", card_records(1)),
        workload_object("Deployment", "dep", pod_object("t", gpu=1)),
        name="1.yaml",
    )
    second = write(tmp_path, pod_object("pod", gpu=1), name="2.yaml")
    assert [placed["pod"] for placed in as_json("simulate", first, second)["placements"]] == ["ml/dep-0"]
    assert [placed["pod"] for placed in as_json("simulate", second, first)["placements"]] == ["ml/pod"]


def test_a_gate_keeps_a_pod_from_fitting_in_both_commands(tmp_path: Path) -> None:
    pod = pod_object("p", gpu=1)
    pod["spec"]["schedulingGates"] = [{"name": "example.com/queue"}]
    path = write(tmp_path, node_object("n"), pod)
    assert "example.com/queue" in as_json("simulate", path)["pending"][0]["reason"]
    found = as_json("explain", "ml/p", "-f", path)
    assert (found["fits"], found["never_fits"]) == (False, False)
    assert "example.com/queue" in found["reason"]


def test_a_pod_that_has_ended_is_said_to_have(tmp_path: Path) -> None:
    pod = running_pod("done", "n", using(("GPU-0", 1000, 0)), gpu=1, gpumem=1000)
    pod["status"] = {"phase": "Succeeded"}
    result = run("explain", "ml/done", "-f", write(tmp_path, node_object("n"), pod))
    assert "ml/done has ended" in result.stdout


def test_both_commands_say_what_they_do_not_check(tmp_path: Path) -> None:
    pod = pod_object("p", gpu=1)
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pod["spec"]["resourceClaims"] = [{"name": "r"}]
    path = write(tmp_path, node_object("n"), pod)
    for command in (("simulate", path), ("explain", "ml/p", "-f", path)):
        said = run(*command).stderr
        assert "where its volumes are is not checked offline" in said
        assert "resource claims is not checked offline" in said


def test_a_manifest_over_its_own_running_pods_is_told() -> None:
    pod = running_pod("dep-abc-1", "n", using(("GPU-0", 1000, 0)), gpu=1, gpumem=1000)
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "dep-abc", "uid": "u", "controller": True}]
    world = world_of(
        node_object("n", card_records(1)), pod, workload_object("Deployment", "dep", pod_object("t", gpu=1))
    )
    assert any("1 pods in the input seem to be its own" in warning for warning in world.warnings)


def test_a_bad_document_leaves_the_good_ones_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "half.yaml"
    path.write_text(to_yaml(node_object("n")) + "---\na: b: c\n" + to_yaml(pod_object("p", gpu=1)))
    result = run("simulate", str(path))
    assert result.exit_code == 2
    assert "1 of 1 pods placed" in result.stdout
    line = to_yaml(node_object("n")).count("\n") + 2
    assert f"{path}, line {line}" in result.stderr


def test_checks_that_no_pods_leaving_changes_stand_first() -> None:
    """Whether waiting could help is read off the first row that a card fails."""
    assert [check.lasting for check in CHECKS] == [True] * LASTING + [False] * (len(CHECKS) - LASTING)
