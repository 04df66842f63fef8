"""What an extender is asked, and in which order: the same from the stand-in and from a real kube-scheduler."""

from __future__ import annotations

import json
import time

import pytest

from cardwise.sim.kubescheduler.objects import read_pod

from .script import Json, Status, overlapping
from .stage import GPU, HIGH, MEMORY, Stage, failed, slow


def everything(request: Json) -> Json:
    return {"NodeNames": request["NodeNames"]}


def test_the_body_of_filter_is_what_kube_scheduler_sends_to_the_byte(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["filter"] = failed("no")
    stage.pod("p", tolerations=[{"key": "x", "operator": "Exists"}])
    call = stage.asked("filter", "p")
    created = call.request["Pod"]
    body = stage.seen("p") | {"status": created["status"]}
    body["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    expected = b'{"Pod":' + read_pod(body, (MEMORY,)).wire + b',"Nodes":null,"NodeNames":["a"]}'
    assert call.body == expected
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (call.headers["User-Agent"], call.headers["Content-Type"]) == ("Go-http-client/1.1", "application/json")
    assert call.headers["Accept-Encoding"] == "gzip"


def test_letters_that_html_could_misread_are_escaped(stage: Stage) -> None:
    stage.node("a")
    stage.pod("p", containers=[_saying("a < b && c > d")])
    call = stage.asked("filter", "p")
    assert rb"a \u003c b \u0026\u0026 c \u003e d" in call.body
    assert call.request["Pod"]["spec"]["containers"][0]["command"] == ["a < b && c > d"]


def _saying(words: str) -> Json:
    return {"name": "c", "image": "pause", "command": [words], "resources": {"limits": {GPU: "1"}}}


def test_the_extender_binds(stage: Stage) -> None:
    stage.node("a")
    made = stage.pod("p")
    assert stage.bound("p") == "a"
    uid = made["metadata"]["uid"]
    said = f'{{"PodName":"p","PodNamespace":"default","PodUID":"{uid}","Node":"a"}}'
    assert stage.asked("bind", "p").body.decode() == said
    assert stage.event("p", "Scheduled") == "Successfully assigned default/p to a"


def test_only_nodes_that_pass_the_schedulers_own_checks_are_sent(stage: Stage) -> None:
    stage.node("roomy", 4)
    stage.node("small", 1)
    stage.node("tainted", 4, taints=[{"key": "x", "effect": "NoSchedule"}])
    stage.node("cordoned", 4, unschedulable=True)
    stage.pod("p", 2)
    assert stage.asked("filter", "p").nodes == ["roomy"]
    assert stage.bound("p") == "roomy"


def test_the_order_of_nodes_changes_from_call_to_call(stage: Stage) -> None:
    for number in range(4):
        stage.node(f"n{number}")
    stage.extender.answers["filter"] = everything
    orders: set[tuple[str, ...]] = set()
    for number in range(60):  # (the real one's order is a matter of chance: it may be the same some times)
        stage.pod(f"p{number}")
        stage.bound(f"p{number}")
        orders = {tuple(one.nodes) for one in stage.extender.of("filter")}
        if len(orders) > 1:
            break
    assert len(orders) > 1
    assert {frozenset(order) for order in orders} == {frozenset(("n0", "n1", "n2", "n3"))}


def test_a_pod_without_managed_resources_is_bound_by_the_scheduler_itself(stage: Stage) -> None:
    stage.node("a")
    stage.pod("plain", 0)
    assert stage.bound("plain") == "a"
    assert stage.event("plain", "Scheduled") == "Successfully assigned default/plain to a"
    assert stage.extender.asked == []


def test_a_pod_that_no_node_passes_never_reaches_the_extender(stage: Stage) -> None:
    stage.node("a", 1)
    stage.pod("p", 2)
    assert "1 Insufficient nvidia.com/gpu" in stage.refusal("p")
    assert stage.extender.asked == []


def test_a_gated_pod_and_one_of_another_scheduler_are_left_alone(stage: Stage) -> None:
    stage.node("a")
    stage.pod("gated", schedulingGates=[{"name": "example.com/queue"}])
    stage.pod("theirs", scheduler="other")
    assert stage.quiet() == 0
    stage.server.patch("pods", "gated", {"spec": {"schedulingGates": None}})
    assert stage.bound("gated") == "a"
    assert stage.extender.of("filter", "theirs") == []


def test_filters_are_serial_and_binds_run_beside_them(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers |= {"filter": slow(0.1, everything), "bind": slow(0.6, stage.bind)}
    pods = [f"p{number}" for number in range(4)]
    for name in pods:
        stage.pod(name)
    for name in pods:
        stage.bound(name)
    filters, binds = stage.extender.of("filter"), stage.extender.of("bind")
    assert not overlapping(filters)
    assert overlapping(binds)
    assert filters[-1].began < binds[0].ended


def test_the_more_important_pod_is_first_and_then_the_older(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["filter"] = slow(0.3, everything)
    stage.pod("before")
    stage.asked("filter", "before")
    for name, given in (("low-1", {}), ("low-2", {}), ("high", HIGH)):
        stage.pod(name, **given)
    stage.bound("low-2")
    assert [one.pod for one in stage.extender.of("filter")] == ["before", "high", "low-1", "low-2"]


def test_a_pod_whose_bind_is_under_way_counts_on_its_node(stage: Stage) -> None:
    stage.node("a", 1)
    stage.extender.answers["bind"] = slow(0.5, stage.bind)
    stage.pod("p")
    stage.asked("bind", "p")
    stage.pod("q")
    assert "1 Insufficient nvidia.com/gpu" in stage.refusal("q")
    assert stage.extender.of("filter", "q") == []


def test_one_node_that_is_left_is_not_ranked_and_several_are(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    stage.pod("one")
    stage.bound("one")
    assert stage.extender.of("prioritize") == []
    stage.extender.answers["filter"] = everything
    stage.extender.answers["prioritize"] = lambda _request: [{"Host": "b", "Score": 10}, {"Host": "a", "Score": 1}]
    stage.pod("several")
    assert stage.bound("several") == "b"
    ranked, filtered = stage.asked("prioritize", "several"), stage.asked("filter", "several")
    assert ranked.request == filtered.request


@pytest.mark.parametrize("answer", [lambda _: Status(500), lambda _: {"no": "list"}], ids=["500", "no list"])
def test_a_ranking_that_fails_does_not_matter(stage: Stage, answer: object) -> None:
    stage.node("a")
    stage.node("b")
    stage.extender.answers |= {"filter": everything, "prioritize": answer}  # type: ignore[dict-item]
    stage.pod("p")
    assert stage.bound("p") in ("a", "b")


def test_a_pod_that_is_gone_is_not_tried(stage: Stage) -> None:
    stage.node("a")
    stage.extender.answers["filter"] = slow(0.3, everything)
    stage.pod("before")
    stage.asked("filter", "before")
    stage.pod("gone")
    time.sleep(0.1)
    stage.server.delete("pods", "gone", grace_seconds=0)
    stage.bound("before")
    stage.quiet()
    assert stage.extender.of("filter", "gone") == []


def test_what_is_sent_is_json_without_blanks(stage: Stage) -> None:
    stage.node("a")
    stage.pod("p")
    body = stage.asked("filter", "p").body.decode()
    assert json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False) == body
    assert list(json.loads(body)) == ["Pod", "Nodes", "NodeNames"]
