"""Watches: where they begin, what they tell, when they end."""

from __future__ import annotations

import json
import time

from cardwise.sim.apiserver import MemoryServer

from .client import NODES, PODS, TABLE, Client, binding, node, pod


def test_without_a_version_all_there_is_comes_first(client: Client) -> None:
    client.post(PODS, pod("a"))
    with client.watch(PODS) as unset, client.watch(PODS, resourceVersion=0) as zero:
        assert (unset.brief(), zero.brief()) == (("ADDED", "a"), ("ADDED", "a"))


def test_a_watch_tells_what_happens_after_its_version(client: Client) -> None:
    """The two writes of a deletion are seen, as from a real server."""
    version = client.post(PODS, pod("a")).body["metadata"]["resourceVersion"]
    with client.watch(PODS, resourceVersion=version) as watch:
        client.post(PODS, pod("b"))
        client.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}})
        client.delete(f"{PODS}/a")
        assert watch.briefs(4) == [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_the_version_of_a_deletion_is_new(server: MemoryServer, client: Client) -> None:
    client.post(NODES, node())
    with client.watch(NODES, resourceVersion=server.revision) as watch:
        client.delete(f"{NODES}/one")
        kind, last = watch.event()
        assert (kind, last["metadata"]["resourceVersion"]) == ("DELETED", str(server.revision))


def test_a_selector_makes_comings_and_goings(client: Client) -> None:
    """What ceases to be selected is shown as it last was, with the version of the change."""
    version = client.post(PODS, pod("a")).body["metadata"]["resourceVersion"]
    free = {"fieldSelector": "spec.nodeName=", "resourceVersion": version}
    bound = {"fieldSelector": "spec.nodeName=one", "resourceVersion": version}
    with client.watch(PODS, **free) as waiting, client.watch(PODS, **bound) as running:
        client.post(f"{PODS}/a/binding", binding("a"))
        kind, left = waiting.event()
        assert (kind, "nodeName" in left["spec"]) == ("DELETED", False)
        told, joined = running.event()
        assert (told, joined["spec"]["nodeName"]) == ("ADDED", "one")
        assert left["metadata"]["resourceVersion"] == joined["metadata"]["resourceVersion"]


def test_a_label_selector_does_so_too(client: Client) -> None:
    version = client.post(PODS, pod("a")).body["metadata"]["resourceVersion"]
    with client.watch(PODS, labelSelector="app=z", resourceVersion=version) as watch:
        client.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "z"}}})
        client.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "y"}}})
        client.post(PODS, pod("b", labels={"app": "z"}))
        events = [watch.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["ADDED", "DELETED", "ADDED"]
    assert events[1][1]["metadata"]["labels"] == {"app": "z"}


def test_only_the_kind_and_namespace_that_are_asked_for(client: Client) -> None:
    with client.watch("/api/v1/namespaces/kube-system/pods", timeoutSeconds=1) as watch:
        client.post(PODS, pod("a"))
        client.post(NODES, node())
        client.post("/api/v1/namespaces/kube-system/pods", pod("s"))
        assert [value["metadata"]["name"] for _, value in watch.rest()] == ["s"]


def test_a_watch_ends_after_its_time(client: Client) -> None:
    began = time.monotonic()
    with client.watch(PODS, timeoutSeconds=1) as watch:
        assert watch.rest() == []
    assert 0.9 < time.monotonic() - began < 5


def test_a_forgotten_version_is_told_in_the_stream(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("a"))
    server.compact()
    with client.watch(PODS, resourceVersion=1) as watch:
        [(kind, told)] = watch.rest()
    assert (watch.response.status, kind, told["code"], told["reason"]) == (200, "ERROR", 410, "Expired")
    assert told["message"] == f"too old resource version: 1 ({server.revision})"


def test_a_watch_that_keeps_up_outlives_a_compaction(server: MemoryServer, client: Client) -> None:
    with client.watch(PODS, resourceVersion=server.revision) as watch:
        client.post(PODS, pod("a"))
        assert watch.brief() == ("ADDED", "a")
        server.compact()
        client.post(PODS, pod("b"))
        assert watch.brief() == ("ADDED", "b")


def test_a_version_that_is_no_number(client: Client) -> None:
    answer = client.get(PODS, watch=1, resourceVersion="abc")
    assert (answer.status, 'resourceVersion: Invalid value: "abc"' in answer.message) == (500, True)


def test_bookmarks_come_when_nothing_else_does(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("a"))
    with client.watch(PODS, allowWatchBookmarks="true", resourceVersion=server.revision) as watch:
        client.post(NODES, node())  # another kind's version passes too
        told: tuple[str, dict[str, object]] = ("", {})
        while told[1] != {"resourceVersion": str(server.revision)}:
            kind, value = watch.event()
            told = kind, value["metadata"]
        assert (kind, value["kind"]) == ("BOOKMARK", "Pod")


def test_without_asking_there_are_no_bookmarks(client: Client) -> None:
    with client.watch(PODS, timeoutSeconds=1) as watch:
        client.post(PODS, pod("a"))
        assert [kind for kind, _ in watch.rest()] == ["ADDED"]


def test_initial_events_end_with_a_bookmark(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("a"))
    newest = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with client.watch(PODS, allowWatchBookmarks="true", **newest) as watch:
        assert watch.brief() == ("ADDED", "a")
        kind, value = watch.event()
    ends = {"resourceVersion": str(server.revision), "annotations": {"k8s.io/initial-events-end": "true"}}
    assert (kind, value["metadata"]) == ("BOOKMARK", ends)
    assert client.get(PODS, watch=1, sendInitialEvents="true").status == 422


def test_a_table_shows_its_heads_once(client: Client) -> None:
    for name in ("a", "b"):
        client.post(PODS, pod(name))
    with client.watch(PODS, accept=TABLE) as watch:
        (_, first), (_, second) = watch.event(), watch.event()
    assert (first["kind"], bool(first["columnDefinitions"]), second["columnDefinitions"]) == ("Table", True, None)
    assert [first["rows"][0]["cells"][0], second["rows"][0]["cells"][0]] == ["a", "b"]


def test_a_long_line_is_one_line(server: MemoryServer, client: Client) -> None:
    with client.watch(NODES, resourceVersion=server.revision) as watch:
        client.post(NODES, node(annotations={"x": "z" * 250_000}))
        client.patch(f"{NODES}/one/status", {"status": {"images": [{"names": ["y" * 1_000_000]}]}})
        lines = [watch.line(), watch.line()]
    assert [len(line) > size for line, size in zip(lines, (250_000, 1_250_000), strict=True)] == [True, True]
    assert json.loads(lines[1])["type"] == "MODIFIED"


def test_events_come_from_every_thread(server: MemoryServer, client: Client) -> None:
    with client.watch(PODS, resourceVersion=server.revision) as watch:
        for number in range(300):
            server.create(pod(f"p{number}"))
        assert [name for _, name in watch.briefs(300)] == [f"p{number}" for number in range(300)]


def test_nothing_is_said_of_a_version_that_is_to_come(server: MemoryServer, client: Client) -> None:
    """A real server is silent too: a bookmark would tell a reader that it is up to date."""
    to_come = server.revision + 1000
    with client.watch(NODES, resourceVersion=to_come, allowWatchBookmarks=1, timeoutSeconds=1) as watch:
        assert watch.rest() == []
