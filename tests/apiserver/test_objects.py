"""Create, read, update, patch and delete, and what is refused, in a real server's words."""

from __future__ import annotations

from typing import Any

import pytest

from cardwise.sim.apiserver import MemoryServer

from .client import JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, Client, Json, node, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def status(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    body |= {"reason": reason} if reason else {}
    return body | ({"details": details} if details is not None else {}) | {"code": code}


def test_a_new_object_gets_what_the_server_gives(client: Client) -> None:
    """uid, version and creation time are the server's, whatever the request says of them."""
    made = client.post(PODS, pod("a", uid="mine", creationTimestamp="2020-01-01T00:00:00Z", generation=7))
    metadata = made.body["metadata"]
    assert made.status == 201
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] > "2026"
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 0
    assert client.get(f"{PODS}/a").body == made.body


def test_every_write_has_its_own_version(client: Client) -> None:
    versions = [int(client.post(PODS, pod(name)).body["metadata"]["resourceVersion"]) for name in "abc"]
    assert versions == list(range(versions[0], versions[0] + 3))


def test_generate_name_makes_names(client: Client) -> None:
    names = {client.post(PODS, pod("", generateName="gen-")).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


MISSING = status(404, "NotFound", 'pods "zz" not found', {"name": "zz", "kind": "pods"})
TAKEN = status(409, "AlreadyExists", 'pods "a" already exists', {"name": "a", "kind": "pods"})
NO_NAMESPACE = status(404, "NotFound", 'namespaces "nons" not found', {"name": "nons", "kind": "namespaces"})
NOWHERE = status(404, "NotFound", "the server could not find the requested resource", {})
NOT_ALLOWED = status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
OTHER_NAMESPACE = status(
    400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
)
VERSIONED = status(500, "", "resourceVersion should not be set on objects to be created")
TOO_LARGE = status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        pytest.param("GET", f"{PODS}/zz", None, MISSING, id="get-missing"),
        pytest.param("DELETE", f"{PODS}/zz", None, MISSING, id="delete-missing"),
        pytest.param("PUT", f"{PODS}/zz", pod("zz"), MISSING, id="put-missing"),
        pytest.param("PATCH", f"{PODS}/zz", {}, MISSING, id="patch-missing"),
        pytest.param("POST", PODS, pod("a"), TAKEN, id="create-twice"),
        pytest.param("POST", "/api/v1/namespaces/nons/pods", pod("b"), NO_NAMESPACE, id="no-namespace"),
        pytest.param("POST", PODS, pod("b", namespace="other"), OTHER_NAMESPACE, id="other-namespace"),
        pytest.param("POST", PODS, pod("b", resourceVersion="5"), VERSIONED, id="create-with-version"),
        pytest.param("GET", "/api/v1/nosuch", None, NOWHERE, id="no-such-resource"),
        pytest.param("GET", f"{PODS}/a/nosuch", None, NOWHERE, id="no-such-subresource"),
        pytest.param("POST", f"{PODS}/a", pod("a"), NOT_ALLOWED, id="post-to-a-name"),
        pytest.param("PUT", PODS, pod("a"), NOT_ALLOWED, id="put-to-a-list"),
        pytest.param("POST", "/api/v1/pods", pod("a"), NOT_ALLOWED, id="create-in-all-namespaces"),
        pytest.param("GET", f"{PODS}/a/binding", None, NOT_ALLOWED, id="get-binding"),
        pytest.param("DELETE", "/api/v1/namespaces", None, NOT_ALLOWED, id="delete-all-namespaces"),
        pytest.param("POST", PODS, pod("b", annotations={"x": "z" * 3_200_000}), TOO_LARGE, id="too-large"),
    ],
)
def test_refusals_are_status_objects(client: Client, method: str, path: str, body: Any, expected: Json) -> None:
    client.post(PODS, pod("a"))
    answer = client.request(method, path, body, content_type=MERGE if method == "PATCH" else "application/json")
    assert (answer.status, answer.body) == (expected["code"], expected)


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        pytest.param(b"{nope", 400, "must be of type Pod): couldn't get version/kind; json parse error", id="no-json"),
        pytest.param(b"", 400, "json parse error", id="empty"),
        pytest.param(b"[1]", 400, "the object provided is unrecognized (must be of type Pod)", id="no-object"),
        pytest.param(node(), 400, 'Node in version "v1" cannot be handled as a Pod', id="other-kind"),
        pytest.param(
            {"metadata": {"name": 5}},
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            id="name-no-text",
        ),
        pytest.param(
            pod("w", annotations={"a": 1}),
            400,
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string",
            id="annotation-no-text",
        ),
        pytest.param({"metadata": {"name": "x"}, "spec": {"containers": "x"}}, 400, "unmarshal string", id="no-list"),
        pytest.param({"metadata": {"name": "x"}, "spec": {"containers": [{"name": 1}]}}, 400, "as a Pod", id="no-text"),
        pytest.param(pod("Bad_Name"), 422, "a lowercase RFC 1123 subdomain must consist of", id="bad-name"),
        pytest.param(pod(""), 422, "metadata.name: Required value: name or generateName is required", id="no-name"),
        pytest.param(pod("x", labels={"a": "b c"}), 422, 'metadata.labels: Invalid value: "b c"', id="bad-label"),
        pytest.param(pod("x", labels={"a b": "c"}), 422, "name part must consist of", id="bad-label-key"),
        pytest.param(pod("x", annotations={"B d": "c"}), 422, 'Invalid value: "B d": name part', id="bad-annotation"),
        pytest.param(
            pod("x", annotations={"a": "z" * 300_000}),
            422,
            'Pod "x" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
            id="long-annotations",
        ),
    ],
)
def test_bad_bodies_are_refused(client: Client, body: Any, code: int, text: str) -> None:
    answer = client.post(PODS, body)
    assert (answer.status, answer.body["kind"]) == (code, "Status")
    assert text in answer.message


def test_other_body_types_are_not_taken(client: Client) -> None:
    answer = client.request("POST", PODS, pod("a"), content_type="application/yaml")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
    assert "accepted media types include: application/json" in answer.message


def test_an_update_needs_the_version_that_was_read(client: Client) -> None:
    old = client.post(PODS, pod("a")).body
    new = client.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}}).body
    late = client.put(f"{PODS}/a", old)
    message = f'Operation cannot be fulfilled on pods "a": {MODIFIED}'
    assert late.body == status(409, "Conflict", message, {"name": "a", "kind": "pods"})
    assert client.put(f"{PODS}/a", new | {"metadata": new["metadata"] | {"labels": {"l": "1"}}}).status == 200


def test_a_patch_that_names_an_old_version_is_refused(client: Client) -> None:
    client.post(PODS, pod("a"))
    answer = client.patch(f"{PODS}/a", {"metadata": {"resourceVersion": "1", "annotations": {"x": "z"}}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_what_changes_nothing_is_no_write(server: MemoryServer, client: Client) -> None:
    made = client.post(PODS, pod("a", annotations={"x": "y"})).body
    before = server.revision
    assert client.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}}).body == made
    assert client.put(f"{PODS}/a", made).body == made
    assert server.revision == before


def test_leases_are_updated_only_by_who_has_read_them(client: Client) -> None:
    assert client.put(f"{LEASES}/l", LEASE).status == 201  # and may be created by an update
    unread = client.put(f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "y"}})
    assert unread.message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion:'
        " Invalid value: 0: must be specified for an update"
    )
    read = client.get(f"{LEASES}/l").body
    assert client.put(f"{LEASES}/l", read | {"spec": {"holderIdentity": "y"}}).body["spec"]["holderIdentity"] == "y"


def test_another_uid_is_another_object(client: Client) -> None:
    made = client.post(PODS, pod("a")).body
    metadata = {name: text for name, text in made["metadata"].items() if name != "resourceVersion"}
    put = client.put(f"{PODS}/a", made | {"metadata": metadata | {"uid": "other"}})
    assert put.status == 409
    assert f"UID in precondition: other, UID in object meta: {made['metadata']['uid']}" in put.message
    patched = client.patch(f"{PODS}/a", {"metadata": {"uid": "other"}})
    assert patched.message == 'Pod "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
        ({"namespace": "b"}, "the namespace of the provided object does not match the namespace sent on the request"),
    ],
    ids=["name", "namespace"],
)
def test_objects_do_not_move(client: Client, change: Json, text: str) -> None:
    client.post(PODS, pod("a"))
    answer = client.patch(f"{PODS}/a", {"metadata": change})
    assert (answer.status, answer.message) == (400, text)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (MERGE, {"metadata": {"annotations": {"b": None, "c": "3"}}}),
        (STRATEGIC, {"metadata": {"annotations": {"b": None, "c": "3"}}}),
        (
            JSON_PATCH,
            [
                {"op": "remove", "path": "/metadata/annotations/b"},
                {"op": "add", "path": "/metadata/annotations/c", "value": "3"},
            ],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
def test_three_kinds_of_patches(client: Client, content_type: str, body: Any) -> None:
    client.post(PODS, pod("a", annotations={"a": "1", "b": "2"}))
    answer = client.patch(f"{PODS}/a", body, content_type)
    assert (answer.status, answer.body["metadata"]["annotations"]) == (200, {"a": "1", "c": "3"})


UNFIT = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("content_type", "body", "code", "text"),
    [
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/metadata/nope"}], 422, UNFIT, id="remove-missing"),
        pytest.param(JSON_PATCH, [{"op": "test", "path": "/kind", "value": "x"}], 422, UNFIT, id="test-fails"),
        pytest.param(JSON_PATCH, [{"op": "bad", "path": "/kind"}], 422, UNFIT, id="no-such-op"),
        pytest.param(JSON_PATCH, [5], 422, UNFIT, id="no-operation"),
        pytest.param(JSON_PATCH, {"a": 1}, 400, "json: cannot unmarshal object into Go value", id="json-object"),
        pytest.param(MERGE, [], 400, "json: cannot unmarshal array into Go value of type map", id="merge-list"),
        pytest.param(MERGE, b"{no", 400, "invalid JSON patch", id="no-json"),
        pytest.param(MERGE, {"metadata": {"annotations": {"x": 5}}}, 422, "cannot unmarshal number", id="no-text"),
        pytest.param("application/json", {}, 415, "415: Unsupported Media Type", id="plain-json"),
        pytest.param("application/apply-patch+yaml", {}, 415, "415: Unsupported Media Type", id="server-side-apply"),
    ],
)
def test_patches_that_are_refused(client: Client, content_type: str, body: Any, code: int, text: str) -> None:
    made = client.post(PODS, pod("a")).body
    answer = client.patch(f"{PODS}/a", body, content_type)
    assert (answer.status, text in answer.message) == (code, True), answer.message
    assert client.get(f"{PODS}/a").body == made


def test_a_dry_run_changes_nothing(server: MemoryServer, client: Client) -> None:
    before = server.revision
    made = client.post(PODS, pod("a"), dryRun="All")
    assert (made.status, server.revision) == (201, before)
    assert "resourceVersion" not in made.body["metadata"]
    assert client.post(PODS, pod("a"), dryRun="x").status == 422


def test_deleting_answers_a_status_or_the_object_by_kind(client: Client) -> None:
    made = client.post(NODES, node()).body
    gone = client.delete(f"{NODES}/one").body
    details = {"name": "one", "kind": "nodes", "uid": made["metadata"]["uid"]}
    assert gone == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    client.post(PODS, pod("a"))
    assert client.delete(f"{PODS}/a").body["kind"] == "Pod"


def test_deletion_preconditions(client: Client) -> None:
    made = client.post(PODS, pod("a")).body
    wrong = client.delete(f"{PODS}/a", {"preconditions": {"uid": "x"}})
    assert wrong.status == 409
    assert "the UID in the precondition (x) does not match the UID in record" in wrong.message
    assert client.delete(f"{PODS}/a", {"preconditions": {"resourceVersion": "1"}}).status == 409
    assert client.delete(f"{PODS}/a", {"preconditions": {"uid": made["metadata"]["uid"]}}).status == 200


def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        client.post(PODS, pod(name, labels={"app": app}))
    assert client.delete(PODS, labelSelector="app=x").names == ["a", "c"]
    assert client.get(PODS).names == ["b"]


def test_a_finalizer_holds_an_object_until_it_is_taken_off(client: Client) -> None:
    client.post(NODES, node(finalizers=["example.com/x"]))
    client.delete(f"{NODES}/one")
    assert "deletionTimestamp" in client.get(f"{NODES}/one").body["metadata"]
    client.patch(f"{NODES}/one", {"metadata": {"finalizers": None}})
    assert client.get(f"{NODES}/one").status == 404


def test_a_namespace_takes_its_objects_with_it(client: Client) -> None:
    client.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    client.post("/api/v1/namespaces/team/pods", pod("a"))
    assert client.delete("/api/v1/namespaces/team").status == 200
    assert client.get("/api/v1/pods").names == []


def test_users_are_told_by_their_token(server: MemoryServer) -> None:
    stranger = Client(server.url)
    stranger.post(PODS, pod("a"))
    Client(server.url, user="system:serviceaccount:kube-system:agent").post(PODS, pod("b"))
    users = [each.user for each in server.log.writes]
    assert users == ["system:anonymous", "system:serviceaccount:kube-system:agent"]
    broken = Client(server.url)
    broken._headers = {"Authorization": "Bearer expired"}
    assert broken.get(PODS).body == status(401, "Unauthorized", "Unauthorized")


def test_the_log_tells_each_write(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("", generateName="gen-"))
    client.get(PODS)
    client.delete(f"{PODS}/zz")
    created, deleted = server.log.writes
    assert (created.user, created.user_agent, created.verb, created.resource) == ("alice", "a-test", "create", "pods")
    assert created.name.startswith("gen-")
    assert (created.body_bytes > 100, created.status, created.done) == (True, 201, True)
    assert (deleted.verb, deleted.name, deleted.status, deleted.done) == ("delete", "zz", 404, False)
    assert server.log.reads["list", "pods"] == 1
    assert server.log.of(verb="delete", resource="pods") == (deleted,)


def test_an_event_is_one_object_in_two_versions(client: Client) -> None:
    about = {"kind": "Pod", "name": "a", "namespace": "default"}
    event = {"metadata": {"name": "e"}, "regarding": about, "reason": "R", "note": "n", "type": "Normal"}
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert client.post(events, event).message == 'Event "e" is invalid: eventTime: Required value'
    made = client.post(events, event | {"eventTime": "2026-01-01T00:00:00.000000Z"})
    assert (made.status, made.body["note"]) == (201, "n")
    core = client.get("/api/v1/namespaces/default/events/e").body
    assert (core["apiVersion"], core["involvedObject"], core["message"]) == ("v1", about, "n")
    assert client.get("/api/v1/events", fieldSelector="involvedObject.name=a").names == ["e"]
    assert client.get("/apis/events.k8s.io/v1/events", fieldSelector="regarding.name=a").names == ["e"]


def test_an_event_lies_where_its_object_does(client: Client) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "other"}}
    answer = client.post("/api/v1/namespaces/default/events", event)
    text = 'Event "e" is invalid: involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    assert answer.message == text


def test_status_of_a_node_is_written_apart(client: Client) -> None:
    """The object's own path leaves the status alone, the status path leaves the spec alone; both take annotations."""
    client.post(NODES, node())
    plain = client.patch(f"{NODES}/one", {"status": {"capacity": {"x.y/z": "1"}}, "metadata": {"labels": {"a": "b"}}})
    assert ("capacity" in plain.body["status"], plain.body["metadata"]["labels"]) == (False, {"a": "b"})
    change = {
        "status": {"capacity": {"x.y/z": "1"}},
        "spec": {"unschedulable": True},
        "metadata": {"annotations": {"c": "d"}},
    }
    told = client.patch(f"{NODES}/one/status", change)
    assert (told.body["status"]["capacity"], told.body["metadata"]["annotations"]) == ({"x.y/z": "1"}, {"c": "d"})
    assert "unschedulable" not in told.body["spec"]


def test_a_new_node_is_kept_free_until_somebody_says_that_it_is_ready(client: Client) -> None:
    taints = client.post(NODES, node()).body["spec"]["taints"]
    assert taints == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_objects_can_be_made_and_read_in_python(server: MemoryServer, client: Client) -> None:
    server.create(node())
    made = server.create(pod("a"))
    server.patch("pods", "a", {"status": {"phase": "Running"}}, subresource="status")
    bound = server.bind("a", "one", annotations={"x": "y"})
    assert (bound["spec"]["nodeName"], bound["status"]["phase"]) == ("one", "Running")
    assert client.get(f"{PODS}/a").body == server.get("pods", "a")
    made["metadata"]["name"] = "changed by the caller"
    assert [each["metadata"]["name"] for each in server.list("pods")] == ["a"]
    server.delete("pods", "a", grace_seconds=0)
    assert server.get("pods", "a") is None
