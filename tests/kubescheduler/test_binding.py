"""Binds that fail, are late, or meet a pod that is gone: the same with a real kube-scheduler."""

from __future__ import annotations

import time

from .script import Json, Status
from .stage import FULL, HTTP_SECONDS, Stage, failed, slow


def refuse_bind(_request: Json) -> Json:
    return {"Error": "stub: bind refused"}


def test_a_bind_error_is_told_and_the_whole_cycle_is_tried_again_after_a_growing_back_off(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = refuse_bind
    stage.pod("p")
    third = stage.asked("bind", "p", 3, seconds=8)
    assert stage.event("p", "FailedScheduling") == "stub: bind refused"
    assert stage.condition("p")["reason"] == "SchedulerError"
    assert len(stage.extender.of("filter", "p")) == 3
    first, second = stage.extender.of("bind", "p")[:2]
    assert 0.9 <= second.began - first.began <= 2.5
    assert 1.9 <= third.began - second.began <= 3.5


def test_an_http_failure_is_one_too(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = lambda _request: Status(500)
    stage.pod("p")
    said = f"failed bind with extender at URL {stage.extender.url}/bind, code 500"
    assert stage.event("p", "FailedScheduling") == said


def test_nothing_shortens_the_back_off_after_an_error(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = refuse_bind
    stage.pod("p")
    second = stage.asked("bind", "p", 2)
    while not second.ended:
        time.sleep(0.01)
    time.sleep(0.2)
    assert not stage.wakes("p", lambda: stage.annotate("p"))


def test_a_failed_bind_frees_its_room_and_wakes_who_was_refused(stage: Stage) -> None:
    stage.node("a", 1)
    stage.node("b", 1)
    stage.extender.answers["filter"] = lambda request: (
        {"NodeNames": ["a"]}
        if "a" in request["NodeNames"] and request["Pod"]["metadata"]["name"] != "x"
        else failed(FULL)(request)
    )
    stage.extender.answers["bind"] = slow(1.0, refuse_bind)
    stage.pod("p")
    stage.asked("bind", "p")
    stage.extender.answers["bind"] = stage.bind
    stage.pod("q")
    stage.pod("x")
    assert FULL in stage.refusal("q")
    assert stage.asked("filter", "q").nodes == ["b"]
    before = len(stage.extender.of("filter", "x"))
    assert stage.bound("q", seconds=2.0) == "a"
    assert len(stage.extender.of("filter", "x")) > before


def test_a_late_bind_is_tried_again_while_the_first_still_runs_and_its_binding_stands(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = slow(HTTP_SECONDS + 2.0, stage.bind)
    stage.pod("p")
    second = stage.asked("bind", "p", 2, seconds=6)
    first = stage.asked("bind", "p")
    assert first.ended == 0.0
    assert second.began - first.began >= HTTP_SECONDS + 0.9
    why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert stage.event("p", "FailedScheduling") == f'Post "{stage.extender.url}/bind": {why}'
    assert stage.bound("p") == "a"
    time.sleep(HTTP_SECONDS + 1.5)
    assert len(stage.extender.of("bind", "p")) == 2


def test_a_pod_that_is_gone_when_its_bind_fails_is_not_tried_again(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = slow(0.4, stage.bind)
    stage.pod("p")
    stage.asked("bind", "p")
    stage.server.delete("pods", "p", grace_seconds=0)
    assert 'pods "p" not found' in stage.event("p", "FailedScheduling")
    time.sleep(1.5)
    assert len(stage.extender.of("filter", "p")) == 1


def test_a_pod_made_again_under_its_name_is_another_while_the_first_binds(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["bind"] = slow(0.5, stage.bind)
    first = stage.pod("p")["metadata"]["uid"]
    stage.asked("bind", "p")
    stage.server.delete("pods", "p", grace_seconds=0)
    second = stage.pod("p")["metadata"]["uid"]
    assert stage.asked("bind", "p", 2, seconds=0.4).request["PodUID"] == second
    assert stage.asked("bind", "p").request["PodUID"] == first
