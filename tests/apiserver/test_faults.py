"""Failures on request happen once, to whom they are meant for, and can be told apart by what was written."""

from __future__ import annotations

import contextlib
import http.client
import json
import time

import pytest

from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.apiserver.faults import UNKNOWN_KIND

from .client import NODES, PODS, Client, binding, node, pod

BROKEN = (http.client.HTTPException, ConnectionError)
SHORT_SECONDS = 0.3


def test_an_answer_instead_of_the_write(server: MemoryServer, client: Client) -> None:
    server.faults.answer(503, message="sorry", reason="ServiceUnavailable", retry_after_seconds=2, resource="pods")
    answer = client.post(PODS, pod("a"))
    assert (answer.status, answer.message, answer.header("Retry-After")) == (503, "sorry", ["2"])
    assert client.get(f"{PODS}/a").status == 404
    assert client.post(PODS, pod("a")).status == 201
    assert [each.status for each in server.log.writes] == [503, 201]
    assert server.faults.pending == ()


def test_a_fault_meets_only_what_it_names(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("a"))
    server.faults.answer(500, verb="create", resource="pods/binding", name="a", times=2)
    assert client.get(f"{PODS}/a").status == 200
    assert client.post(PODS, pod("b")).status == 201
    assert [client.post(f"{PODS}/a/binding", binding("a")).status for _ in range(3)] == [500, 500, 201]


def test_any_body_can_be_answered(server: MemoryServer, client: Client) -> None:
    server.faults.answer(200, body=b"<html>login</html>", content_type="text/html", verb="list")
    answer = client.get(PODS)
    assert (answer.status, answer.body, answer.header("Content-Type")) == (200, "<html>login</html>", ["text/html"])


@pytest.mark.parametrize("after_write", [False, True], ids=["before", "after"])
def test_a_time_out(server: MemoryServer, client: Client, *, after_write: bool) -> None:
    server.faults.time_out(after_write=after_write, seconds=0.05, verb="create")
    answer = client.post(PODS, pod("a"))
    assert (answer.status, answer.body["reason"]) == (504, "Timeout")
    assert client.get(f"{PODS}/a").status == (200 if after_write else 404)
    assert [each.done for each in server.log.writes] == [after_write]


@pytest.mark.parametrize("after_write", [False, True], ids=["before", "after"])
def test_a_client_may_give_up_first(server: MemoryServer, client: Client, *, after_write: bool) -> None:
    server.faults.time_out(after_write=after_write, verb="create")
    impatient = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=SHORT_SECONDS)
    impatient.request("POST", PODS, json.dumps(pod("a")), {"Content-Type": "application/json"})
    with contextlib.closing(impatient), pytest.raises(TimeoutError):
        impatient.getresponse()
    assert client.get(f"{PODS}/a").status == (200 if after_write else 404)


@pytest.mark.parametrize("after_write", [False, True], ids=["before", "after"])
def test_a_dropped_connection(server: MemoryServer, client: Client, *, after_write: bool) -> None:
    server.faults.drop(after_write=after_write, verb="create")
    with pytest.raises(BROKEN):
        client.post(PODS, pod("a"))
    assert client.get(f"{PODS}/a").status == (200 if after_write else 404)


def test_a_slow_answer(server: MemoryServer, client: Client) -> None:
    server.faults.delay(SHORT_SECONDS, verb="get")
    client.post(PODS, pod("a"))
    began = time.monotonic()
    assert client.get(f"{PODS}/a").status == 200
    assert time.monotonic() - began >= SHORT_SECONDS


def test_kinds_arrive_out_of_order(server: MemoryServer, client: Client) -> None:
    """The pod's watch is late: the node that came after the pod is seen first."""
    server.faults.delay_watches(60, resource="pods")
    with client.watch(PODS) as pods, client.watch(NODES) as nodes:
        client.post(PODS, pod("a"))
        client.post(NODES, node())
        assert nodes.brief() == ("ADDED", "one")
        server.faults.delay_watches(0, resource="pods")
        assert pods.brief() == ("ADDED", "a")


def test_a_late_watch_keeps_its_order_and_outlives_a_compaction(server: MemoryServer, client: Client) -> None:
    server.faults.delay_watches(SHORT_SECONDS)
    with client.watch(PODS, resourceVersion=server.revision) as watch:
        began = time.monotonic()
        for name in ("a", "b"):
            client.post(PODS, pod(name))
        server.compact()
        assert watch.briefs(2) == [("ADDED", "a"), ("ADDED", "b")]
        assert time.monotonic() - began >= SHORT_SECONDS


def test_a_watch_is_cut_after_some_events(server: MemoryServer, client: Client) -> None:
    server.faults.cut_watches(after_events=1, resource="pods")
    with client.watch(PODS) as watch:
        client.post(PODS, pod("a"))
        client.post(PODS, pod("b"))
        assert [value["metadata"]["name"] for _, value in watch.rest()] == ["a"]


def test_an_open_watch_is_cut_at_once(server: MemoryServer, client: Client) -> None:
    with client.watch(PODS) as watch:
        client.post(PODS, pod("a"))
        assert watch.brief() == ("ADDED", "a")
        server.faults.cut_watches(resource="pods")
        assert watch.rest() == []


def test_a_watch_loses_its_connection(server: MemoryServer, client: Client) -> None:
    server.faults.cut_watches(after_events=1, abort=True)
    client.post(PODS, pod("a"))
    with client.watch(PODS) as watch:
        assert watch.brief() == ("ADDED", "a")
        with pytest.raises(BROKEN):
            watch.response.read()


@pytest.mark.parametrize("abort", [False, True], ids=["ended", "aborted"])
def test_a_line_is_cut_in_the_middle(server: MemoryServer, client: Client, *, abort: bool) -> None:
    client.post(PODS, pod("a"))
    client.post(PODS, pod("b"))
    server.faults.halve_line(after_events=1, abort=abort)
    with client.watch(PODS) as watch:
        assert watch.brief() == ("ADDED", "a")
        half = b""
        try:
            half = watch.line()
        except BROKEN:
            assert abort
    assert abort or (half.startswith(b'{"type":"ADDED"') and not half.endswith(b"\n"))


def test_garbage_between_events(server: MemoryServer, client: Client) -> None:
    client.post(PODS, pod("a"))
    client.post(PODS, pod("b"))
    server.faults.send_line(after_events=1)
    server.faults.send_line(UNKNOWN_KIND)
    with client.watch(PODS) as watch:
        assert watch.brief() == ("ADDED", "a")
        assert watch.line() == b"<html>502 Bad Gateway</html>\n"
        assert watch.event()[1]["kind"] == "Surprise"
        assert watch.brief() == ("ADDED", "b")


def test_faults_can_be_taken_back(server: MemoryServer, client: Client) -> None:
    server.faults.answer(500)
    server.faults.cut_watches()
    server.faults.delay_watches(60)
    server.faults.clear()
    with client.watch(PODS) as watch:
        assert client.post(PODS, pod("a")).status == 201
        assert watch.brief() == ("ADDED", "a")


def test_the_server_stops_at_once_while_faults_hold_requests(server: MemoryServer, client: Client) -> None:
    """What hangs is let go when the server ends: the fixture would take a minute otherwise."""
    server.faults.time_out(verb="create")
    connection = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=SHORT_SECONDS)
    connection.request("POST", PODS, json.dumps(pod("a")), {"Content-Type": "application/json"})
    time.sleep(SHORT_SECONDS / 3)
    connection.close()
    assert server.faults.pending == ()


def test_a_fault_that_no_request_can_meet_is_refused(server: MemoryServer) -> None:
    with pytest.raises(ValueError, match="would never be met"):
        server.faults.answer(500, verb="create", resource="pods", name="p")
