"""The stand-in alone: older versions' back-off, an API server that fails, and an end at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from cardwise.sim.apiserver import MemoryServer, running_server
from cardwise.sim.kubescheduler import Settings
from cardwise.sim.kubescheduler.objects import Json, read_pod
from cardwise.sim.kubescheduler.view import View

from .script import ScriptedExtender
from .stage import FULL, Stage, failed, slow, stand_in

QUICK = Settings(initial_backoff_seconds=0.1, most_backoff_seconds=0.4, alignment_seconds=0.0, http_seconds=1.0)


@contextmanager
def staged(settings: Settings = QUICK) -> Iterator[Stage]:
    with (
        running_server() as server,
        ScriptedExtender() as extender,
        stand_in(server, extender.url, settings),
    ):
        stage = Stage("stand-in", server, extender)
        stage.reset()
        yield stage


def test_older_versions_let_a_woken_pod_wait_for_its_back_off() -> None:
    settings = Settings(initial_backoff_seconds=0.6, alignment_seconds=0.0, old_backoff=True)
    with staged(settings) as stage:
        stage.node("a")
        stage.extender.answers["filter"] = failed(FULL)
        stage.pod("p")
        second = stage.asked("filter", "p", 2)
        assert second.began - stage.asked("filter", "p").began >= 0.55
        stage.annotate("p")
        assert stage.asked("filter", "p", 3).began - second.began >= 1.15


def test_bind_errors_back_off_by_the_settings() -> None:
    with staged() as stage:
        stage.node("a")
        stage.extender.answers["bind"] = lambda _request: {"Error": "stub: bind refused"}
        stage.pod("p")
        stage.asked("bind", "p", 5)
        began = [one.began for one in stage.extender.of("filter", "p")]
        assert all(gap >= least for gap, least in zip(_gaps(began), (0.1, 0.2, 0.4, 0.4), strict=False)), _gaps(began)
        assert stage.events("p", "FailedScheduling") == ["stub: bind refused"]


def _gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


FAULTS = {
    "condition refused": lambda server: server.faults.answer(500, verb="patch", resource="pods/status"),
    "condition lost": lambda server: server.faults.drop(verb="patch", resource="pods/status", after_write=True),
    "event refused": lambda server: server.faults.answer(500, verb="create", resource="events"),
    "pods cut": lambda server: server.faults.cut_watches(resource="pods", abort=True),
    "nodes cut": lambda server: server.faults.cut_watches(resource="nodes", abort=True),
    "forgotten": MemoryServer.compact,
    "late": lambda server: server.faults.delay_watches(0.2, resource="pods"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_api_server_that_fails_delays_but_loses_nothing(fault: object) -> None:
    with staged() as stage:
        stage.node("a")
        stage.extender.answers["filter"] = failed(FULL)
        fault(stage.server)  # type: ignore[operator]
        stage.pod("p")
        stage.asked("filter", "p")
        stage.extender.answers["filter"] = lambda request: {"NodeNames": request["NodeNames"]}
        stage.annotate("p")
        stage.pod("q")
        assert (stage.bound("p"), stage.bound("q")) == ("a", "a")


def test_a_bind_of_its_own_that_fails_is_tried_again() -> None:
    with staged() as stage:
        stage.node("a")
        stage.server.faults.answer(500, message="no binding now", verb="create", resource="pods/binding")
        stage.pod("plain", 0)
        assert stage.bound("plain") == "a"
        assert "no binding now" in stage.event("plain", "FailedScheduling")


def test_an_extender_that_is_down_is_an_error_that_passes() -> None:
    with running_server() as server, ScriptedExtender() as extender, stand_in(server, "http://127.0.0.1:9", QUICK):
        stage = Stage("stand-in", server, extender)
        stage.node("a")
        stage.pod("p")
        assert stage.refusal("p").startswith('Post "http://127.0.0.1:9/filter": ')
        assert stage.condition("p")["reason"] == "SchedulerError"


def test_it_ends_at_once_while_the_extender_is_busy() -> None:
    with running_server() as server, ScriptedExtender() as extender:
        with stand_in(server, extender.url, Settings()):
            stage = Stage("stand-in", server, extender)
            stage.reset()
            stage.extender.answers["filter"] = slow(1.5, failed(FULL))
            stage.node("a")
            stage.pod("p")
            stage.asked("filter", "p")
            began = time.monotonic()
        assert time.monotonic() - began < 1.0


def test_an_object_that_cannot_be_read_harms_no_other() -> None:
    with staged() as stage:
        stage.node("odd", unschedulable="perhaps")
        stage.node("a")
        stage.pod("p")
        assert stage.bound("p")


def test_an_assumed_pod_counts_until_it_is_seen_or_forgotten() -> None:
    view = View()
    body: Json = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": []}}
    view.set_pod(read_pod(body, ()))
    view.assume("u", "a")
    assert [one.uid for one in view.on_node("a")] == ["u"]
    view.forget("u")
    assert view.on_node("a") == []
    view.assume("u", "a")
    view.set_pod(read_pod({**body, "spec": {"containers": [], "nodeName": "b"}}, ()))
    assert (view.on_node("a"), view.node_of("u")) == ([], "b")
    view.remove_pod("u")
    assert view.on_node("b") == []
