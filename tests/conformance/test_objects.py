"""What the product creates, changes and deletes: the same of both servers."""

from __future__ import annotations

import pytest

from cardwise.kube.errors import Fault
from cardwise.kube.requests import Scope

from .api import NAMESPACE, RAW_EVENTS, RAW_LEASES, RAW_NODES, RAW_PODS, Api, Json, pages, pod_body


def name_of(one: Json) -> str:
    name: str = one["metadata"]["name"]
    return name


def test_a_new_pod_gets_uid_version_time_and_phase(api: Api) -> None:
    pod = api.pod()
    assert {"uid", "resourceVersion", "creationTimestamp"} <= pod["metadata"].keys()
    assert pod["metadata"]["creationTimestamp"].endswith("Z")
    assert pod["status"]["phase"] == "Pending"


def test_extended_resources_are_requested_as_they_are_limited(api: Api) -> None:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod = api.pod(spec={"containers": [container]})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "2"}


def test_generate_name_is_completed(api: Api) -> None:
    body = pod_body("", metadata={"generateName": "made-"})
    del body["metadata"]["name"]
    made = name_of(api.run(lambda client: client.create(RAW_PODS, body, NAMESPACE)))
    assert made.startswith("made-")
    assert len(made) > len("made-")


def test_a_name_that_is_taken(api: Api) -> None:
    body = pod_body(name_of(api.pod()))
    error = api.refused(lambda client: client.create(RAW_PODS, body, NAMESPACE))
    assert (error.fault, error.code) == (Fault.ALREADY_EXISTS, 409)
    assert f'pods "{name_of(body)}" already exists' in str(error)


def test_a_name_that_nothing_has(api: Api) -> None:
    error = api.refused(lambda client: client.get(RAW_PODS, "nothing", NAMESPACE))
    assert (error.fault, error.code) == (Fault.NOT_FOUND, 404)
    assert 'pods "nothing" not found' in str(error)


def test_a_pod_without_containers_is_invalid(api: Api) -> None:
    body = pod_body(api.fresh("empty"), spec={"containers": []})
    assert api.refused(lambda client: client.create(RAW_PODS, body, NAMESPACE)).fault is Fault.INVALID


def test_pages_are_of_one_moment(api: Api) -> None:
    label = api.fresh("paged")
    made = sorted(name_of(api.pod(metadata={"labels": {"of": label}})) for _ in range(5))

    async def read(client: object) -> list[list[str]]:
        got = []
        async for page in pages(client, RAW_PODS, Scope(namespace=NAMESPACE, labels=f"of={label}"), 2):  # type: ignore[arg-type]
            got.append([name_of(pod) for pod in page])
            if len(got) == 1:
                await client.create(RAW_PODS, pod_body("a-later", metadata={"labels": {"of": label}}), NAMESPACE)  # type: ignore[attr-defined]
        return got

    assert api.run(read) == [made[:2], made[2:4], made[4:]]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({"labels": "tier=a"}, ["one"]),
        ({"labels": "tier in (a,b)"}, ["one", "two"]),
        ({"labels": "tier notin (a)"}, ["two", "three"]),
        ({"labels": "!tier"}, ["three"]),
        ({"fields": "spec.nodeName=n-selected"}, ["two"]),
        ({"fields": "spec.nodeName="}, ["one", "three"]),
        ({"fields": "status.phase=Pending,metadata.name=sel-one"}, ["one"]),
        ({"fields": "spec.schedulerName=other"}, ["three"]),
    ],
    ids=str,
)
def test_selectors(selected: Api, scope: dict[str, str], found: list[str]) -> None:
    labels = f"group=selected,{scope['labels']}" if "labels" in scope else "group=selected"
    wanted = Scope(namespace=NAMESPACE, labels=labels, fields=scope.get("fields", ""))

    async def read(client: object) -> list[str]:
        return [name_of(pod) async for page in pages(client, RAW_PODS, wanted, 0) for pod in page]  # type: ignore[arg-type]

    assert sorted(selected.run(read)) == sorted(f"sel-{name}" for name in found)


@pytest.fixture(scope="module")
def selected(api: Api) -> Api:
    """Three pods in a group: one and two with labels, two bound, three of another scheduler."""
    bodies = (
        pod_body("sel-one", metadata={"labels": {"group": "selected", "tier": "a"}}),
        pod_body("sel-two", metadata={"labels": {"group": "selected", "tier": "b"}}),
        pod_body("sel-three", metadata={"labels": {"group": "selected"}}, spec={"schedulerName": "other"}),
    )
    made = [api.make(body) for body in bodies]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-selected"}}
    api.run(lambda client: client.create(RAW_NODES, node))
    api.bind(made[1], "n-selected")
    return api


def test_an_update_of_an_old_version_is_a_conflict(api: Api) -> None:
    pod = api.pod()
    change = {"metadata": {"annotations": {"a": "1"}}}
    api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE))
    error = api.refused(lambda client: client.update(RAW_PODS, pod, name_of(pod), NAMESPACE))
    assert (error.fault, error.code) == (Fault.CONFLICT, 409)
    assert "the object has been modified" in str(error)


def test_an_update_of_the_newest_version_is_made(api: Api) -> None:
    pod = api.pod()
    pod["metadata"]["annotations"] = {"a": "1"}
    after = api.run(lambda client: client.update(RAW_PODS, pod, name_of(pod), NAMESPACE))
    assert after["metadata"]["annotations"] == {"a": "1"}
    assert after["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]


def test_a_merge_patch_adds_and_takes_away(api: Api) -> None:
    pod = api.pod(metadata={"annotations": {"keep": "1", "drop": "1"}})
    change = {"metadata": {"annotations": {"drop": None, "add": "1"}}}
    after = api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE))
    assert after["metadata"]["annotations"] == {"keep": "1", "add": "1"}


def test_a_patch_that_changes_nothing_makes_no_version(api: Api) -> None:
    pod = api.pod(metadata={"annotations": {"same": "1"}})
    change = {"metadata": {"annotations": {"same": "1"}}}
    after = api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE))
    assert after["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_a_json_patch_tests_and_replaces(api: Api) -> None:
    pod = api.pod(metadata={"annotations": {"a": "1"}})
    steps = [
        {"op": "test", "path": "/metadata/annotations/a", "value": "1"},
        {"op": "replace", "path": "/metadata/annotations/a", "value": "2"},
    ]
    after = api.run(lambda client: client.patch(RAW_PODS, steps, name_of(pod), NAMESPACE))
    assert after["metadata"]["annotations"] == {"a": "2"}
    assert api.refused(lambda client: client.patch(RAW_PODS, steps, name_of(pod), NAMESPACE)).fault is Fault.INVALID


def test_status_is_written_through_its_subresource_alone(api: Api) -> None:
    pod = api.pod()
    change = {"metadata": {"annotations": {"a": "1"}}, "status": {"message": "hello"}}
    plain = api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE))
    assert "message" not in plain["status"]
    through = api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE, subresource="status"))
    assert through["status"]["message"] == "hello"


def test_annotations_go_through_the_status_subresource_too(api: Api) -> None:
    """The way round a policy that watches pods alone."""
    pod = api.pod()
    change = {"metadata": {"annotations": {"sneaked": "1"}}}
    after = api.run(lambda client: client.patch(RAW_PODS, change, name_of(pod), NAMESPACE, subresource="status"))
    assert after["metadata"]["annotations"] == {"sneaked": "1"}


def test_a_pod_that_is_not_bound_is_gone_at_once(api: Api) -> None:
    pod = api.pod()
    api.run(lambda client: client.delete(RAW_PODS, name_of(pod), NAMESPACE))
    assert api.refused(lambda client: client.get_quorum(RAW_PODS, name_of(pod), NAMESPACE)).fault is Fault.NOT_FOUND


def test_a_bound_pod_ends_with_grace_and_is_gone_by_force(api: Api) -> None:
    pod = api.pod()
    api.bind(pod, api.node())
    api.run(lambda client: client.delete(RAW_PODS, name_of(pod), NAMESPACE))
    ending = api.seen(pod)
    assert ending["metadata"]["deletionTimestamp"]
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    api.run(lambda client: client.delete(RAW_PODS, name_of(pod), NAMESPACE, grace_seconds=0))
    assert api.refused(lambda client: client.get_quorum(RAW_PODS, name_of(pod), NAMESPACE)).fault is Fault.NOT_FOUND


def test_a_deletion_of_another_uid_is_refused(api: Api) -> None:
    pod = api.pod()
    uid = "00000000-0000-0000-0000-000000000000"
    error = api.refused(lambda client: client.delete(RAW_PODS, name_of(pod), NAMESPACE, uid=uid))
    assert (error.fault, error.code) == (Fault.CONFLICT, 409)
    assert name_of(api.seen(pod)) == name_of(pod)


def test_an_event_is_kept(api: Api) -> None:
    name = api.fresh("event")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": "p"},
        "reason": "FilteringFailed",
        "message": "why",
        "type": "Warning",
    }
    assert api.run(lambda client: client.create(RAW_EVENTS, event, NAMESPACE))["reason"] == "FilteringFailed"


def test_a_lease_changes_hands_once(api: Api) -> None:
    name = api.fresh("lease")
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    }
    lease = api.run(lambda client: client.create(RAW_LEASES, body, NAMESPACE))
    theirs = {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}}
    ours = {**lease, "spec": {**lease["spec"], "holderIdentity": "c"}}
    taken = api.run(lambda client: client.update(RAW_LEASES, theirs, name, NAMESPACE))
    assert taken["spec"]["holderIdentity"] == "b"
    assert api.refused(lambda client: client.update(RAW_LEASES, ours, name, NAMESPACE)).fault is Fault.CONFLICT


def test_a_node_may_carry_a_register_of_a_hundred_kilobytes(api: Api) -> None:
    name = api.node()
    change = {"metadata": {"annotations": {"hami.io/node-nvidia-register": "x" * 100_000}}}
    after = api.run(lambda client: client.patch(RAW_NODES, change, name))
    assert len(after["metadata"]["annotations"]["hami.io/node-nvidia-register"]) == 100_000


def test_annotations_beyond_their_limit_are_invalid(api: Api) -> None:
    name = api.node()
    change = {"metadata": {"annotations": {"too": "x" * (256 * 1024 + 1)}}}
    assert api.refused(lambda client: client.patch(RAW_NODES, change, name)).fault is Fault.INVALID
