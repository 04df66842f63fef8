"""Bindings of which nobody knows what became, and pods that wait behind others: each case that is too rare to be met."""

from __future__ import annotations

from cardwise.scheduler.answers import Answer, Chosen, Refused
from cardwise.scheduler.binding import pod_read

from .books_stage import Flight, Stage
from .memory_api import Json, as_pod
from .shapes import SHAPES, node_with

WHOLE = SHAPES[0]


def stage_of(**nodes: int) -> Stage:
    """A stage with these nodes, of so many cards, all of which is known."""
    stage = Stage()
    for name, cards in nodes.items():
        stage.api.put_node(node_with(name, cards))
    stage.start()
    stage.deliver_all()
    return stage


def pod_on(stage: Stage, name: str, *, namespace: str = "ml", priority: int = 0) -> str:
    """A new pod of a whole card that the service knows of: its uid."""
    pod: Json = WHOLE(name)
    pod["metadata"] |= {
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": f"2026-01-01T00:00:0{len(stage.api.pods)}Z",
    }
    pod["spec"] |= {"schedulerName": "cardwise-scheduler", "priority": priority}
    stage.api.put_pod(pod)
    stage.deliver_all()
    return f"uid-{name}"


def tried(stage: Stage, uid: str, *nodes: str) -> str:
    """The node on which filter places the pod; empty where it is refused."""
    answer = stage.filter(stage.api.versions_of[uid][-1], nodes)
    assert isinstance(answer, Chosen | Refused)
    return answer.nodes[0] if isinstance(answer, Chosen) else ""


def sent(stage: Stage, uid: str, *nodes: str) -> Flight:
    """A Binding of the pod, placed by filter among these nodes."""
    node = tried(stage, uid, *nodes)
    about = stage.api.versions_of[uid][-1]
    flight = stage.bind(uid, about.namespace, about.metadata.name, node)
    assert isinstance(flight, Flight)
    return flight


def lost(stage: Stage, uid: str, *nodes: str) -> Flight:
    """The same, of which no answer came, and which may still be carried out."""
    flight = sent(stage, uid, *nodes)
    stage.give_up(flight)
    return flight


def woken(stage: Stage) -> list[str]:
    return [wake.name for wake in stage.wake()]


def test_an_answer_is_about_the_binding_that_was_sent_and_not_about_a_later_decision() -> None:
    stage = stage_of(a=1, b=1)
    flight = sent(stage, pod_on(stage, "p"), "a")
    assert tried(stage, "uid-p", "b") == "b"
    stage.carry_out(flight)
    stage.answer(flight)
    assert tried(stage, pod_on(stage, "q"), "a", "b") == "b"


def test_a_refusal_does_not_end_the_doubt_about_an_earlier_binding() -> None:
    stage = stage_of(a=1)
    lost(stage, pod_on(stage, "p"), "a")
    stage.answer(sent(stage, "uid-p", "a"))
    assert tried(stage, pod_on(stage, "q"), "a") == ""


def test_every_binding_that_may_be_carried_out_is_held_also_two_of_one_pod_on_one_node() -> None:
    stage = stage_of(a=2, b=1)
    lost(stage, pod_on(stage, "p"), "a")
    lost(stage, "uid-p", "b")
    lost(stage, "uid-p", "a")
    tried(stage, "uid-p", "b")
    assert tried(stage, pod_on(stage, "q"), "a", "b") == ""


def test_a_pod_whose_binding_is_in_doubt_is_bound_elsewhere_with_the_record_of_there() -> None:
    stage = stage_of(a=1, b=1)
    lost(stage, pod_on(stage, "p"), "a")
    flight = stage.bind("uid-p", "ml", "p", "b")
    assert isinstance(flight, Flight)
    assert flight.bind.record["hami.io/vgpu-node"] == "b"


def test_a_read_does_not_end_the_doubt_about_what_was_sent_after_it_began() -> None:
    stage = stage_of(a=1)
    lost(stage, pod_on(stage, "p"), "a")
    stage.pass_time(66)
    stage.ask_in_doubt()
    flight = sent(stage, "uid-p", "a")
    stage.hear_in_doubt()
    assert tried(stage, pod_on(stage, "q"), "a") == ""
    stage.carry_out(flight)
    stage.answer(flight)


def test_a_read_that_took_very_long_says_nothing_of_what_was_sent_since() -> None:
    stage = stage_of(a=1)
    lost(stage, pod_on(stage, "p"), "a")
    stage.pass_time(66)
    stage.ask_in_doubt()
    stage.carry_out(flight := sent(stage, "uid-p", "a"))
    stage.give_up(flight, reads=False)
    stage.pass_time(66)
    stage.hear_in_doubt()
    assert tried(stage, pod_on(stage, "q"), "a") == ""


def test_a_read_that_comes_late_does_not_free_what_was_bound_meanwhile() -> None:
    stage = stage_of(a=1)
    lost(stage, pod_on(stage, "p"), "a")
    before = as_pod(stage.api.pods["ml", "p"])
    stage.carry_out(stage.flights[0])
    stage.deliver_all()
    stage.pass_time(66)
    pod_read(stage.books, "uid-p", before, asked_at=stage.now, now=stage.now)
    assert tried(stage, pod_on(stage, "q"), "a") == ""


def test_what_was_never_carried_out_is_free_once_a_read_has_told_so_and_wakes_who_waits() -> None:
    stage = stage_of(a=1)
    lost(stage, pod_on(stage, "p"), "a")
    assert tried(stage, pod_on(stage, "q"), "a") == ""
    stage.pass_time(66)
    stage.ask_in_doubt()
    stage.hear_in_doubt()
    stage.api.remove_pod("uid-p")
    stage.deliver_all()
    assert woken(stage) == ["q"]


def test_a_bind_to_a_node_where_the_pod_is_bound_already_succeeds_and_to_another_one_fails() -> None:
    stage = stage_of(a=1, b=1)
    flight = sent(stage, pod_on(stage, "p"), "a")
    stage.carry_out(flight)
    stage.answer(flight)
    assert stage.bind("uid-p", "ml", "p", "a") == Answer()
    there = stage.bind("uid-p", "ml", "p", "b")
    assert there == Answer("pod ml/p is bound to node a already")


def test_a_pod_that_only_kube_scheduler_knows_holds_nothing_for_long() -> None:
    stage = stage_of(a=1)
    pod_on(stage, "p")
    stage.api.remove_pod("uid-p")
    stage.start()
    stage.deliver_all()
    assert tried(stage, "uid-p", "a") == "a"
    stage.pass_time(11)
    stage.ask_in_doubt()
    stage.hear_in_doubt()
    assert tried(stage, pod_on(stage, "q"), "a") == "a"


def test_a_filter_call_for_a_pod_that_is_bound_answers_its_node() -> None:
    stage = stage_of(a=1, b=1)
    unbound = stage.api.versions_of[pod_on(stage, "p")][-1]
    flight = sent(stage, "uid-p", "a")
    stage.carry_out(flight)
    stage.answer(flight)
    stage.deliver_all()
    assert stage.filter(unbound, ["b", "a"]) == Chosen(("a",))
    assert isinstance(stage.filter(unbound, ["b"]), Refused)


def test_a_pod_whose_binding_is_in_doubt_is_tried_again_where_it_may_be() -> None:
    stage = stage_of(a=2, b=1)
    lost(stage, pod_on(stage, "p"), "b")
    assert tried(stage, "uid-p", "a", "b") == "b"


def test_nothing_is_decided_before_all_is_listed() -> None:
    stage = stage_of(a=1)
    uid = pod_on(stage, "p")
    stage.start()
    while stage.api.watches["nodes"].coming:
        stage.deliver("nodes")
    assert tried(stage, uid, "a") == ""
    stage.deliver_all()
    assert woken(stage) == ["p"]


def test_a_pod_that_is_refused_for_want_of_a_whole_view_keeps_nothing_and_is_woken() -> None:
    stage = stage_of(a=1)
    assert tried(stage, pod_on(stage, "p"), "a") == "a"
    stage.fenced = True
    stage.fence()
    assert tried(stage, "uid-p", "a") == ""
    stage.fenced = False
    stage.fence()
    assert woken(stage) == ["p"]


# -- pods that wait ----------------------------------------------------------------------------------------------------


def waiting_behind(stage: Stage) -> None:
    """Two pods, `first` and `second`, wait for the card that a third one has; when it goes, only `first` is touched."""
    flight = sent(stage, pod_on(stage, "holder"), "a")
    stage.carry_out(flight)
    stage.answer(flight)
    for name in ("first", "second"):
        assert tried(stage, pod_on(stage, name), "a") == ""
    stage.deliver_all()
    stage.api.remove_pod("uid-holder")
    stage.deliver_all()
    assert woken(stage) == ["first"]


def test_what_a_touched_pod_does_not_come_for_is_offered_to_the_next_one() -> None:
    stage = stage_of(a=1)
    waiting_behind(stage)
    stage.pass_time(2.5)
    assert "second" in woken(stage)


def test_a_pod_whose_touch_was_lost_is_touched_again_also_for_another_node_than_before() -> None:
    stage = stage_of(a=1, b=1)
    for name in ("x", "y"):
        stage.carry_out(flight := sent(stage, pod_on(stage, name), "a", "b"))
        stage.answer(flight)
    assert tried(stage, pod_on(stage, "p"), "a", "b") == ""
    stage.deliver_all()
    stage.api.remove_pod("uid-x")
    stage.api.remove_pod("uid-y")
    stage.deliver_all()
    assert woken(stage) == ["p"]
    stage.books.waiting.wake_failed("uid-p")
    assert tried(stage, pod_on(stage, "other"), "a", "b") == "a"
    stage.pass_time(2.5)
    assert woken(stage) == ["p"]


def test_what_was_kept_for_a_touched_pod_is_offered_to_the_next_one_when_that_pod_is_deleted() -> None:
    stage = stage_of(a=1)
    waiting_behind(stage)
    stage.api.remove_pod("uid-first")
    stage.deliver_all()
    assert woken(stage) == ["second"]


def test_what_was_kept_for_a_touched_pod_is_offered_to_the_next_one_when_that_pod_goes_elsewhere() -> None:
    stage = stage_of(a=1, b=1)
    waiting_behind(stage)
    assert tried(stage, "uid-first", "b") == "b"
    assert woken(stage) == ["second"]


def test_what_was_kept_for_a_touched_pod_is_offered_to_the_next_one_when_that_pod_is_refused() -> None:
    stage = stage_of(a=1, full=1)
    stage.carry_out(flight := sent(stage, pod_on(stage, "other"), "full"))
    stage.answer(flight)
    waiting_behind(stage)
    assert tried(stage, "uid-first", "full") == ""
    assert woken(stage) == ["second"]


def test_nothing_is_offered_again_when_a_touched_pod_comes_and_takes_what_was_kept_for_it() -> None:
    stage = stage_of(a=1)
    waiting_behind(stage)
    assert tried(stage, "uid-first", "a") == "a"
    assert woken(stage) == []


def test_a_pod_that_was_refused_on_a_node_is_woken_when_a_node_of_that_name_comes_back_free() -> None:
    stage = stage_of(a=1)
    stage.carry_out(flight := sent(stage, pod_on(stage, "holder"), "a"))
    stage.answer(flight)
    assert tried(stage, pod_on(stage, "p"), "a") == ""
    stage.deliver_all()
    stage.api.remove_node("a")
    stage.api.remove_pod("uid-holder")
    stage.deliver_all()
    assert woken(stage) == []
    stage.api.put_node(node_with("a", 1))
    stage.deliver_all()
    assert woken(stage) == ["p"]


def test_a_pod_that_its_quota_refused_is_woken_when_another_one_of_its_namespace_ends_anywhere() -> None:
    stage = stage_of(a=2, b=1)
    for name in ("x", "y"):
        stage.carry_out(flight := sent(stage, pod_on(stage, name, namespace="few"), "ab"[name == "y"]))
        stage.answer(flight)
    assert tried(stage, pod_on(stage, "p", namespace="few"), "a") == ""
    stage.deliver_all()
    assert woken(stage) == []
    stage.api.remove_pod("uid-y")
    stage.deliver_all()
    assert woken(stage) == ["p"]


def test_what_a_victim_leaves_is_for_the_pod_that_it_had_to_go_for() -> None:
    stage = stage_of(a=1)
    stage.carry_out(flight := sent(stage, pod_on(stage, "victim"), "a"))
    stage.answer(flight)
    stage.deliver_all()
    assert stage.preempt(as_pod(stage.api.pods["ml", pod_on(stage, "high", priority=10)[4:]]), "a", ["uid-victim"])
    stage.api.change_pod("uid-high", status_nominatedNodeName="a")
    stage.api.remove_pod("uid-victim")
    stage.deliver_all()
    assert tried(stage, pod_on(stage, "low"), "a") == ""
    assert tried(stage, "uid-high", "a") == "a"
