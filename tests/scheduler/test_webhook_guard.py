"""The webhook as a guard of our annotations, and its answer to what it cannot read: allowed, and told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cardwise.scheduler.webhook import Outcome, Policy
from manifests import Object, container_object, pod_object
from scheduler.reviews import KUBELET, POLICY, RECORD, SCHEDULER, UID, Answered, answered, asked

# -- changes of a pod, and bindings ------------------------------------------------------------------------------------


def change(
    new: Object, old: Object, *, user: str = "alice", subresource: str = "", policy: Policy = POLICY
) -> Answered:
    new_pod, old_pod = (pod_object("p", annotations, gpu=1) for annotations in (new, old))
    return answered(asked(new_pod, operation="UPDATE", old=old_pod, user=user, subresource=subresource), policy)


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("key", RECORD)
@pytest.mark.parametrize(
    ("new", "old"), [("1", None), ("2", "1"), (None, "1"), ("", None)], ids=["set", "changed", "removed", "empty"]
)
def test_case_12_nobody_else_changes_annotations_of_ours(
    key: str, new: str | None, old: str | None, subresource: str
) -> None:
    values = [{} if value is None else {key: value} for value in (new, old)]
    answer = change(values[0], values[1], subresource=subresource)
    assert (answer.outcome, answer.allowed, answer.code, answer.reason) == (Outcome.FORGED, False, 403, "Forbidden")
    assert (
        answer.message
        == answer.says
        == (
            f"pod ml/p: annotations {key} are written by the scheduler and its agents only;"
            " alice must not set, change or remove them"
        )
    )


def test_the_writers_change_annotations_of_ours() -> None:
    answer = change(RECORD, {}, user=SCHEDULER)
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.UPDATED, True, [])


@pytest.mark.parametrize("user", ["", KUBELET, SCHEDULER + "x", "system:admin"])
def test_only_the_writers_do(user: str) -> None:
    assert not change(RECORD, {}, user=user).allowed


@pytest.mark.parametrize("user", ["alice", KUBELET])
@pytest.mark.parametrize("subresource", ["", "status"])
def test_other_changes_of_a_pod_with_a_record_pass(user: str, subresource: str) -> None:
    answer = change(
        RECORD | {"mine": "2"}, RECORD | {"mine": "1", "nvidia.com/x": ""}, user=user, subresource=subresource
    )
    assert (answer.outcome, answer.allowed, answer.patch, answer.says) == (Outcome.UPDATED, True, [], "")


def test_a_thousand_changed_keys_are_told_in_a_line() -> None:
    answer = change({f"cardwise.io/{number}": "" for number in range(1000)}, {})
    assert "and 995 more are written" in answer.message


def binding(annotations: Object | None, resource: str, subresource: str, user: str = "alice") -> Answered:
    meta = {"name": "p", "namespace": "ml"} | ({} if annotations is None else {"annotations": annotations})
    value = {"kind": "Binding", "apiVersion": "v1", "metadata": meta, "target": {"kind": "Node", "name": "n1"}}
    return answered(asked(value, plural=resource, subresource=subresource, user=user))


@pytest.mark.parametrize(("resource", "subresource"), [("pods", "binding"), ("bindings", "")])
def test_a_binding_is_a_way_to_write_annotations_too(resource: str, subresource: str) -> None:
    refused = binding(RECORD, resource, subresource)
    assert (refused.outcome, refused.code) == (Outcome.FORGED, 403)
    assert all(key in refused.message for key in RECORD)
    assert binding(RECORD, resource, subresource, SCHEDULER).allowed
    assert binding({"mine": "1"}, resource, subresource).outcome is Outcome.UPDATED
    assert binding(None, resource, subresource).allowed


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"operation": "create"},
        {"subResource": "ephemeralcontainers", "operation": "UPDATE"},
        {"subResource": "eviction"},
        {"resource": {"group": "", "version": "v1", "resource": "nodes"}},
        {"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}},
    ],
    ids=["delete", "connect", "small-letters", "ephemeral", "eviction", "nodes", "another-group"],
)
def test_all_else_is_allowed(request_: Object) -> None:
    answer = answered(asked(pod_object("p", RECORD, gpu=-1), **request_))
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.UNTOUCHED, True, [])


# -- what cannot be read -----------------------------------------------------------------------------------------------

GOOD = asked(pod_object("p", gpu=1))


def without(*keys: str) -> Object:
    return GOOD | {"request": {key: value for key, value in GOOD["request"].items() if key not in keys}}


@pytest.mark.parametrize(
    ("body", "uid", "says"),
    [
        pytest.param(b"", "", "the body cannot be read: Input data was truncated", id="empty"),
        pytest.param(b"<html>", "", "the body cannot be read: JSON is malformed", id="html"),
        pytest.param(b"\xff\xfe", "", "the body cannot be read", id="no-utf8"),
        pytest.param(b"[" * 100_000, "", "the body cannot be read", id="deep"),
        pytest.param(b"[]", "", "the body cannot be read: Expected `object`, got `array`", id="array"),
        pytest.param(b'"x"', "", "the body cannot be read: Expected `object`, got `str`", id="text"),
        pytest.param(msgspec.json.encode(GOOD)[:-1], "", "the body cannot be read", id="cut"),
        pytest.param({"kind": "AdmissionReview"}, "", "missing required field `apiVersion`", id="no-version"),
        pytest.param(GOOD | {"request": None}, "", "got `null` - at `$.request`", id="no-request"),
        pytest.param(GOOD | {"request": []}, "", "got `array` - at `$.request`", id="request-a-list"),
        pytest.param(without("uid"), "", "missing required field `uid`", id="no-uid"),
        pytest.param(without("uid") | {"request": {"uid": ""}}, "", "request.uid is (empty), must be", id="empty-uid"),
        pytest.param(without("uid") | {"request": {"uid": 5}}, "", "at `$.request.uid`", id="uid-a-number"),
        pytest.param(asked({}, operation=5), UID, "at `$.request.operation`", id="operation-a-number"),  # type: ignore[arg-type]
        pytest.param(asked({}, namespace=None), UID, "at `$.request.namespace`", id="namespace-null"),
        pytest.param(asked({}, version="v3"), UID, "it is AdmissionReview of v3, must be", id="another-version"),
        pytest.param(GOOD | {"kind": "Pod"}, UID, "it is Pod of admission.k8s.io/v1, must be", id="another-kind"),
    ],
)
def test_a_review_that_cannot_be_read_is_allowed_and_told(body: Any, uid: str, says: str) -> None:
    answer = answered(body)
    assert (answer.outcome, answer.allowed, answer.patch, answer.uid) == (Outcome.UNREADABLE, True, [], uid)
    assert answer.says.startswith("AdmissionReview: ")
    assert says in answer.says


POD = pod_object("p", gpu=1)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param(None, "object cannot be read: Expected `object`, got `null`", id="null"),
        pytest.param("x", "object cannot be read", id="text"),
        pytest.param({}, "missing required field `metadata`", id="nothing"),
        pytest.param({"metadata": {}, "spec": []}, "at `$.spec`", id="spec-a-list"),
        pytest.param(
            pod_object("p", gpu=True), "at `$.spec.containers[0].resources.limits[...]`", id="amount-a-truth-value"
        ),
        pytest.param(pod_object("p", {"a": 1}, gpu=1), "at `$.metadata.annotations[...]`", id="annotation-a-number"),
        pytest.param(
            pod_object("p", containers=[container_object(gpu=1, more={"env": {}})]),
            "at `$.spec.containers[0].env`",
            id="env-a-mapping",
        ),
        pytest.param(pod_object("p", gpu=1, spec={"runtimeClassName": 1}), "runtimeClassName", id="class-a-number"),
    ],
)
def test_a_pod_that_cannot_be_read_is_allowed_as_it_is_with_a_warning(value: Any, says: str) -> None:
    answer = answered(asked(value, name="p"))
    assert (answer.outcome, answer.allowed, answer.patch, answer.uid) == (Outcome.UNREADABLE, True, [], UID)
    assert answer.says.startswith("pod ml/p: object cannot be read: ")
    assert says in answer.says
    assert answer.warnings == [answer.says]


def test_an_object_that_is_not_there() -> None:
    body = without("object")
    assert answered(body).outcome is Outcome.UNREADABLE


@pytest.mark.parametrize("old", [None, "x", {"metadata": {"annotations": []}}], ids=["null", "text", "list"])
def test_a_change_whose_past_cannot_be_read_is_allowed(old: Any) -> None:
    answer = answered(asked(POD, operation="UPDATE", old=old))
    assert (answer.outcome, answer.allowed) == (Outcome.UNREADABLE, True)
    assert "oldObject cannot be read" in answer.says


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
@pytest.mark.parametrize("pod", [POD, pod_object("p", gpu=-1), None], ids=["good", "refused", "unreadable"])
def test_the_answer_is_of_the_reviews_version(version: str, pod: Any) -> None:
    answer = answered(asked(pod, version=version))
    assert (answer.version, answer.uid) == (version, UID)


def test_an_unreadable_review_of_the_old_version_is_answered_in_it() -> None:
    assert answered(asked(POD, version="admission.k8s.io/v1beta1", name=5)).version == "admission.k8s.io/v1beta1"
