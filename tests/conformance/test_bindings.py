"""One write binds a pod and records its cards: the same of both servers."""

from __future__ import annotations

from cardwise.kube.errors import Fault

from .api import NAMESPACE, RAW_PODS, Api

LABELS_MERGED_SINCE = 35
CARDS = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,100,0:;"}


def test_it_sets_the_node_and_merges_annotations_in_one_write(api: Api) -> None:
    pod, node = api.pod(metadata={"annotations": {"had": "1", "both": "old"}}), api.node()
    api.bind(pod, node, annotations=CARDS | {"both": "new"}, labels={"hami.io/vgpu-node": node})
    seen = api.seen(pod)
    assert seen["spec"]["nodeName"] == node
    assert seen["metadata"]["annotations"] == {"had": "1", "both": "new"} | CARDS
    merged = {"hami.io/vgpu-node": node} if api.minor >= LABELS_MERGED_SINCE else {}
    assert seen["metadata"].get("labels", {}) == merged


def test_the_pod_is_scheduled_by_it(api: Api) -> None:
    pod = api.pod()
    api.bind(pod, api.node())
    conditions = {each["type"]: each["status"] for each in api.seen(pod)["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_second_one_is_a_conflict_also_to_the_same_node(api: Api) -> None:
    pod, node = api.pod(), api.node()
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    api.bind(pod, node)
    for again in (node, api.node()):
        error = api.refused(lambda client, to=again: client.bind(NAMESPACE, name, uid=uid, node=to))  # type: ignore[misc]
        assert (error.fault, error.code) == (Fault.CONFLICT, 409)
        assert f'pod {name} is already assigned to node "{node}"' in str(error)


def test_another_uid_is_a_conflict_and_changes_nothing(api: Api) -> None:
    pod, node = api.pod(), api.node()
    name, uid = pod["metadata"]["name"], "00000000-0000-0000-0000-000000000000"
    error = api.refused(lambda client: client.bind(NAMESPACE, name, uid=uid, node=node, annotations=CARDS))
    assert (error.fault, error.code) == (Fault.CONFLICT, 409)
    assert "Precondition failed: UID in precondition" in str(error)
    assert api.seen(pod)["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_a_pod_that_is_gone_is_not_found(api: Api) -> None:
    error = api.refused(lambda client: client.bind(NAMESPACE, "gone", uid="", node="n"))
    assert (error.fault, error.code) == (Fault.NOT_FOUND, 404)


def test_a_pod_that_ends_is_not_bound(api: Api) -> None:
    pod = api.pod(metadata={"finalizers": ["example.com/held"]})
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    api.run(lambda client: client.delete(RAW_PODS, name, NAMESPACE))
    error = api.refused(lambda client: client.bind(NAMESPACE, name, uid=uid, node="n"))
    assert error.code == 409
    assert "is being deleted" in str(error)
    api.run(lambda client: client.patch(RAW_PODS, {"metadata": {"finalizers": None}}, name, NAMESPACE))


def test_a_gated_pod_is_not_bound(api: Api) -> None:
    pod = api.pod(spec={"schedulingGates": [{"name": "example.com/queue"}]})
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    error = api.refused(lambda client: client.bind(NAMESPACE, name, uid=uid, node="n"))
    assert error.code == 409
    assert "non-empty .spec.schedulingGates" in str(error)
