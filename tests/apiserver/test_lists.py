"""Lists: pages of one moment, versions, selectors, tables."""

from __future__ import annotations

import itertools

import pytest

from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.apiserver.tables import duration

from .client import NODES, PODS, TABLE, Client, binding, node, pod


@pytest.fixture
def pods(client: Client) -> Client:
    """a and b of app x and y without a node, c of app y on node one."""
    for name, app in (("a", "x"), ("b", "y"), ("c", "y")):
        client.post(PODS, pod(name, labels={"app": app, "rank": "3" if name == "a" else "ten"}))
    client.post(f"{PODS}/c/binding", binding("c"))
    return client


def test_pages_show_one_moment(pods: Client) -> None:
    first = pods.get(PODS, limit=2)
    assert (first.names, first.body["metadata"]["remainingItemCount"]) == (["a", "b"], 1)
    for name in ("aa", "bb", "d"):
        pods.post(PODS, pod(name))
    pods.delete(f"{PODS}/c", gracePeriodSeconds=0)
    second = pods.get(PODS, limit=2, continue_=first.body["metadata"]["continue"])
    assert (second.names, "continue" in second.body["metadata"]) == (["c"], False)
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]


def test_pages_over_namespaces_hold_every_object_once(server: MemoryServer, client: Client) -> None:
    for namespace in ("a", "a-b", "a.b", "b"):
        client.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("p", "q", "r"):
            server.create(pod(name, namespace=namespace))
    seen: list[tuple[str, str]] = []
    token = ""
    while token or not seen:
        page = client.get("/api/v1/pods", limit=5, **({"continue_": token} if token else {}))
        seen += [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in page.body["items"]]
        token = page.body["metadata"].get("continue", "")
    assert sorted(seen) == sorted(itertools.product(("a", "a-b", "a.b", "b"), "pqr"))
    assert client.get("/api/v1/namespaces/a/pods").names == ["p", "q", "r"]


def test_with_a_selector_nobody_counts_the_rest(pods: Client) -> None:
    page = pods.get(PODS, limit=1, labelSelector="app=y").body["metadata"]
    assert ("continue" in page, "remainingItemCount" in page) == (True, False)


def test_a_forgotten_page_is_gone_but_offers_to_go_on(server: MemoryServer, pods: Client) -> None:
    token = pods.get(PODS, limit=1).body["metadata"]["continue"]
    pods.post(PODS, pod("d"))
    server.compact()
    gone = pods.get(PODS, limit=1, continue_=token)
    assert (gone.status, gone.body["reason"], gone.body["code"]) == (410, "Expired", 410)
    assert gone.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = pods.get(PODS, continue_=gone.body["metadata"]["continue"])
    assert rest.names == ["b", "c", "d"]


def test_an_exact_version_can_be_read_until_it_is_forgotten(server: MemoryServer, pods: Client) -> None:
    version = pods.get(PODS).body["metadata"]["resourceVersion"]
    pods.delete(f"{PODS}/a")
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert pods.get(PODS, **exact).names == ["a", "b", "c"]
    server.compact()
    assert pods.get(PODS, **exact).message == "The resourceVersion for the provided list is too old."


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"continue_": "garbage"}, 400, "invalid continue token: continue key is not valid"),
        ({"continue_": "W10"}, 400, "invalid continue token: continue key is not valid"),
        ({"limit": "abc"}, 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"resourceVersion": "abc"}, 400, 'invalid resource version: resourceVersion: Invalid value: "abc"'),
        ({"resourceVersion": "99999"}, 504, "Timeout: Too large resource version: 99999, current: "),
        ({"resourceVersionMatch": "Exact"}, 422, "resourceVersionMatch is forbidden unless resourceVersion is"),
        ({"labelSelector": "a==="}, 400, "unable to parse requirement: found '=', expected: identifier"),
        ({"labelSelector": "a in ("}, 400, "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ({"labelSelector": "-a="}, 400, 'Invalid value: "-a"'),
        ({"labelSelector": "a b"}, 400, "unable to parse requirement: found 'b'"),
        ({"fieldSelector": "spec.foo=1"}, 400, "field label not supported: spec.foo"),
        ({"fieldSelector": "metadata.name"}, 400, "invalid selector: 'metadata.name'; can't understand"),
    ],
)
def test_questions_that_make_no_sense(client: Client, query: dict[str, object], code: int, text: str) -> None:
    answer = client.get(PODS, **query)
    assert (answer.status, text in answer.message) == (code, True), answer.message


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app", "abc"),
        ("!app", ""),
        ("app=x", "a"),
        ("app==x", "a"),
        ("app!=x", "bc"),
        ("app in (x,y)", "abc"),
        ("app notin (x)", "bc"),
        ("nope notin (x)", "abc"),
        ("app=y,rank", "bc"),
        ("app in (x,)", "a"),
        ("app=", ""),
        ("rank>2", "a"),
        ("rank<3", ""),
        (" app = x ", "a"),
    ],
)
def test_label_selectors(pods: Client, selector: str, names: str) -> None:
    assert pods.get(PODS, labelSelector=selector).names == list(names)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=one", "c"),
        ("spec.nodeName=", "ab"),
        ("spec.nodeName!=one", "ab"),
        ("metadata.name=a", "a"),
        ("metadata.namespace=default,metadata.name!=a", "bc"),
        ("status.phase==Pending", "abc"),
        ("spec.schedulerName=other", ""),
        (r"metadata.name=a\,b", ""),
    ],
)
def test_field_selectors_of_pods(pods: Client, selector: str, names: str) -> None:
    assert pods.get("/api/v1/pods", fieldSelector=selector).names == list(names)


@pytest.mark.parametrize(
    ("path", "selector", "code"),
    [
        (NODES, "spec.unschedulable=false", 200),
        (NODES, "spec.foo=1", 400),
        ("/apis/coordination.k8s.io/v1/leases", "metadata.name=x", 200),
        ("/apis/coordination.k8s.io/v1/leases", "spec.x=x", 400),
        ("/api/v1/events", "involvedObject.uid=x,reason=y,type=Normal,source=z", 200),
        ("/apis/events.k8s.io/v1/events", "involvedObject.name=x", 400),
        ("/api/v1/namespaces", "status.phase=Active", 200),
    ],
)
def test_field_selectors_by_kind(client: Client, path: str, selector: str, code: int) -> None:
    assert client.get(path, fieldSelector=selector).status == code


def test_items_do_not_say_their_kind(pods: Client) -> None:
    listed = pods.get(PODS).body
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert all("kind" not in each and "apiVersion" not in each for each in listed["items"])


def test_tables_of_pods(pods: Client) -> None:
    table = pods.request("GET", PODS, accept=TABLE).body
    heads = [each["name"] for each in table["columnDefinitions"] if each["priority"] == 0]
    assert (table["kind"], heads) == ("Table", ["Name", "Ready", "Status", "Restarts", "Age"])
    [_, _, row] = table["rows"]
    assert row["cells"][:4] == ["c", "0/1", "Pending", "0"]
    assert row["cells"][6] == "one"
    assert row["object"]["kind"] == "PartialObjectMetadata"


STATES = [
    ({"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]}, "Running"),
    ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
    (
        {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
        "ErrImagePull",
    ),
    (
        {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]},
        "ExitCode:3",
    ),
    (
        {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
        },
        "Completed",
    ),
    ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {}}}]}, "Init:0/0"),
]


@pytest.mark.parametrize(("state", "word"), STATES, ids=[word for _, word in STATES])
def test_one_word_for_a_pods_state(client: Client, state: dict[str, object], word: str) -> None:
    client.post(PODS, pod("a"))
    client.patch(f"{PODS}/a/status", {"status": state})
    [row] = client.request("GET", PODS, accept=TABLE).body["rows"]
    assert row["cells"][2] == word


def test_tables_of_nodes(client: Client) -> None:
    client.post(NODES, node(labels={"node-role.kubernetes.io/gpu": ""}))
    client.patch(f"{NODES}/one/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    client.patch(f"{NODES}/one", {"spec": {"unschedulable": True}})
    [row] = client.request("GET", f"{NODES}/one", accept=TABLE).body["rows"]
    assert row["cells"][:3] == ["one", "Ready,SchedulingDisabled", "gpu"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (7 * 86400 + 3600, "7d1h"),
        (333 * 86400, "333d"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_cannot_be_shown_is_not_acceptable(client: Client) -> None:
    answer = client.request("GET", PODS, accept="text/html")
    assert (answer.status, answer.body["reason"]) == (406, "NotAcceptable")


def test_metadata_alone(pods: Client) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    one = pods.request("GET", f"{PODS}/a", accept=accept).body
    assert (one["kind"], sorted(one)) == ("PartialObjectMetadata", ["apiVersion", "kind", "metadata"])


def test_discovery_names_what_is_served(client: Client) -> None:
    core = {each["name"] for each in client.get("/api/v1").body["resources"]}
    assert {"pods", "pods/binding", "pods/status", "bindings", "nodes", "events", "namespaces"} <= core
    groups = [each["name"] for each in client.get("/apis").body["groups"]]
    assert {"apps", "events.k8s.io", "coordination.k8s.io", "admissionregistration.k8s.io"} <= set(groups)
    for group in groups:
        assert client.get(f"/apis/{group}/v1").body["groupVersion"] == f"{group}/v1"
    assert client.get("/version").body["gitVersion"] == "v1.36.2"


def test_what_is_not_served_is_not_found(client: Client) -> None:
    for path in ("/nosuch", "/apis/nosuch/v1", "/apis/nosuch/v1/things"):
        answer = client.get(path)
        assert (answer.status, answer.body) == (404, "404 page not found\n")
    assert client.get("/readyz").body == "ok"
