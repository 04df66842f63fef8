"""What is particular to pods: defaults, amounts, binding, and an end with grace."""

from __future__ import annotations

import pytest

from cardwise.sim.apiserver import MemoryServer, running_server

from .client import JSON_PATCH, PODS, STRATEGIC, Client, Json, binding, pod

BIND = f"{PODS}/a/binding"
FIXED = "pod updates may not change fields other than `spec.containers[*].image`"


def test_a_new_pod_waits_with_defaults(client: Client) -> None:
    made = client.post(PODS, pod("a") | {"status": {"phase": "Running"}}).body
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    assert (spec["schedulerName"], spec["priority"], spec["restartPolicy"]) == ("default-scheduler", 0, "Always")
    assert [each["tolerationSeconds"] for each in spec["tolerations"]] == [300, 300]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("5000", "5k"),
        (5000, "5k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1536Mi", "1536Mi"),
        ("8G", "8G"),
        ("1e3", "1e3"),
        ("10e2", "1e3"),
        ("1.2e3", "1200"),
        ("1e-3", "1e-3"),
        ("1048576", "1048576"),
        ("1000k", "1M"),
        ("1u", "1m"),
        ("1500000n", "2m"),
        ("0.1Gi", "107374182400m"),
        ("12345678901234567890", "12345678901234567890"),
        ("1.0", "1"),
        ("0", "0"),
    ],
)
def test_amounts_come_back_in_their_shortest_text(client: Client, given: str, shown: str) -> None:
    """A real server was asked for each of these."""
    made = client.post(PODS, pod("a", limits={"memory": given})).body
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"memory": shown}


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        pytest.param(
            {"requests": {"x.y/card": "1"}},
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
            id="no-limit",
        ),
        pytest.param(
            {"requests": {"x.y/card": "1"}, "limits": {"x.y/card": "2"}},
            'resources.requests: Invalid value: "1": must be equal to x.y/card limit of 2',
            id="unequal",
        ),
        pytest.param({"limits": {"x.y/card": "1500m"}}, 'limits[x.y/card]: Invalid value: "1500m": must be an integer'),
        pytest.param({"limits": {"x.y/card": "-1"}}, "must be greater than or equal to 0", id="negative"),
        pytest.param({"limits": {"foo": "1"}}, "must be a standard resource type or fully qualified", id="unknown"),
        pytest.param(
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "must be less than or equal to cpu limit of 1", id="cpu"
        ),
        pytest.param({"limits": {"cpu": "abc"}}, "quantities must match the regular expression", id="no-amount"),
    ],
)
def test_resources_that_are_refused(client: Client, resources: Json, text: str) -> None:
    wrong = pod("a")
    wrong["spec"]["containers"][0]["resources"] = resources
    answer = client.post(PODS, wrong)
    assert answer.status in (400, 422)
    assert text in answer.message


def test_a_priority_class_gives_its_value(client: Client) -> None:
    wanted = pod("a")
    wanted["spec"]["priorityClassName"] = "system-node-critical"
    assert client.post(PODS, wanted).body["spec"]["priority"] == 2_000_001_000
    wanted["spec"]["priorityClassName"] = "nope"
    assert client.post(PODS, wanted).message == 'pods "a" is forbidden: no PriorityClass with name nope was found'


@pytest.mark.parametrize(
    "change",
    [{"nodeName": "one"}, {"schedulerName": "x"}, {"priority": 7}, {"containers": [{"name": "main", "env": []}]}],
    ids=["node", "scheduler", "priority", "container"],
)
def test_a_pods_spec_is_fixed(client: Client, change: Json) -> None:
    client.post(PODS, pod("a"))
    answer = client.patch(f"{PODS}/a", {"spec": change})
    assert (answer.status, FIXED in answer.message) == (422, True)


def test_an_image_may_change_and_counts_as_a_generation(client: Client) -> None:
    client.post(PODS, pod("a"))
    answer = client.patch(f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "other"}]}}, STRATEGIC)
    [container] = answer.body["spec"]["containers"]
    assert (answer.status, container["image"], answer.body["metadata"]["generation"]) == (200, "other", 2)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_the_status_path_takes_annotations_and_leaves_the_spec(client: Client) -> None:
    client.post(PODS, pod("a"))
    change = {"metadata": {"annotations": {"s": "1"}}, "spec": {"priority": 5}, "status": {"phase": "Running"}}
    told = client.patch(f"{PODS}/a/status", change).body
    assert (told["metadata"]["annotations"], told["status"]["phase"]) == ({"s": "1"}, "Running")
    assert told["spec"]["priority"] == 0
    assert client.patch(f"{PODS}/a", {"status": {"phase": "Failed"}}).body["status"]["phase"] == "Running"


def test_conditions_merge_by_their_type(client: Client) -> None:
    client.post(PODS, pod("a"))
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no card"}
    for each in (refused, {"type": "Ready", "status": "False"}):
        answer = client.patch(f"{PODS}/a/status", {"status": {"conditions": [each]}}, STRATEGIC)
    assert [each["type"] for each in answer.body["status"]["conditions"]] == ["PodScheduled", "Ready"]
    client.post(BIND, binding("a"))
    [ready, scheduled] = client.get(f"{PODS}/a").body["status"]["conditions"]
    assert ready["type"] == "Ready"
    assert (scheduled["status"], "reason" in scheduled) == ("True", False)


def test_one_write_binds_and_annotates(server: MemoryServer, client: Client) -> None:
    made = client.post(PODS, pod("a", annotations={"a": "b", "kept": "1"}, labels={"l": "1"})).body
    given = {"uid": made["metadata"]["uid"], "annotations": {"a": "overwritten", "new": "2"}, "labels": {"m": "2"}}
    before = server.revision
    answer = client.post(BIND, binding("a", **given))
    bound = client.get(f"{PODS}/a").body
    assert answer.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert server.revision == before + 1
    assert bound["spec"]["nodeName"] == "one"
    assert bound["metadata"]["annotations"] == {"a": "overwritten", "kept": "1", "new": "2"}
    assert bound["metadata"]["labels"] == {"l": "1", "m": "2"}
    [condition] = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    [_, logged] = server.log.writes
    assert (logged.verb, logged.resource, logged.name) == ("create", "pods/binding", "a")


def test_labels_of_a_binding_are_merged_from_1_35_on() -> None:
    with running_server(version="v1.34.1") as server:
        client = Client(server.url)
        client.post(PODS, pod("a"))
        client.post(BIND, binding("a", labels={"m": "2"}, annotations={"n": "3"}))
        metadata = client.get(f"{PODS}/a").body["metadata"]
        assert ("labels" in metadata, metadata["annotations"]) == (False, {"n": "3"})


@pytest.mark.parametrize("path", [BIND, "/api/v1/namespaces/default/bindings"], ids=["subresource", "bindings"])
def test_a_second_binding_is_refused(client: Client, path: str) -> None:
    client.post(PODS, pod("a"))
    assert client.post(path, binding("a")).status == 201
    second = client.post(path, binding("a", "two"))
    assert (second.status, second.body["reason"]) == (409, "Conflict")
    assert second.body["details"] == {"name": "a", "kind": "pods/binding"}
    text = 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "one"'
    assert second.message == text


def test_a_binding_for_another_uid_is_refused(client: Client) -> None:
    uid = client.post(PODS, pod("a")).body["metadata"]["uid"]
    answer = client.post(BIND, binding("a", uid="old"))
    assert (answer.status, answer.body["details"]) == (409, {"name": "a", "kind": "pods"})
    assert answer.message == (
        'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, Key:'
        " /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
        f" UID in precondition: old, UID in object meta: {uid}"
    )
    assert "nodeName" not in client.get(f"{PODS}/a").body["spec"]


@pytest.mark.parametrize(
    ("path", "body", "code", "text"),
    [
        (f"{PODS}/zz/binding", binding("zz"), 404, 'pods "zz" not found'),
        (BIND, binding("b"), 400, "name in URL does not match name in Binding object"),
        (BIND, {"metadata": {"name": "a"}}, 500, "target.name: Required value"),
        (BIND, binding("a") | {"target": {"kind": "Pod", "name": "x"}}, 500, 'target.kind: Unsupported value: "Pod"'),
    ],
    ids=["missing", "other-name", "no-target", "target-kind"],
)
def test_bindings_that_are_refused(client: Client, path: str, body: Json, code: int, text: str) -> None:
    client.post(PODS, pod("a"))
    answer = client.post(path, body)
    assert (answer.status, text in answer.message) == (code, True)


def test_a_gated_or_ending_pod_cannot_be_bound(client: Client) -> None:
    gated = pod("a", finalizers=["example.com/x"])
    gated["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
    assert client.post(PODS, gated).body["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert "pod a has non-empty .spec.schedulingGates" in client.post(BIND, binding("a")).message
    client.patch(f"{PODS}/a", [{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH)
    client.delete(f"{PODS}/a")
    assert "pod a is being deleted, cannot be assigned to a host" in client.post(BIND, binding("a")).message


def test_an_unbound_pod_goes_at_once(client: Client) -> None:
    client.post(PODS, pod("a"))
    last = client.delete(f"{PODS}/a").body["metadata"]
    assert (last["deletionGracePeriodSeconds"], last["generation"]) == (0, 2)
    assert client.get(f"{PODS}/a").status == 404


def test_a_bound_pod_ends_with_grace(client: Client) -> None:
    client.post(PODS, pod("a"))
    client.post(BIND, binding("a"))
    ending = client.delete(f"{PODS}/a").body["metadata"]
    assert (ending["deletionGracePeriodSeconds"], "deletionTimestamp" in ending) == (30, True)
    assert client.delete(f"{PODS}/a").body["metadata"] == ending
    shorter = client.delete(f"{PODS}/a", gracePeriodSeconds=5).body["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert client.delete(f"{PODS}/a", gracePeriodSeconds=50).body["metadata"] == shorter
    client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert client.get(f"{PODS}/a").status == 404


def test_a_pod_that_has_ended_goes_at_once(client: Client) -> None:
    client.post(PODS, pod("a"))
    client.post(BIND, binding("a"))
    client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    client.delete(f"{PODS}/a")
    assert client.get(f"{PODS}/a").status == 404
