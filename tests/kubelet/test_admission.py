"""How a node admits pods: in which order, what a plugin is asked, and what becomes of a refusal.

The expected values are what a kubelet 1.36.2 was seen to do.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.allocation import Allocate, Preferred
from cardwise.sim.kubelet.devices import PluginOptions
from kubelet.bench import GPU, PLAIN, PREFERS, Bench, container, pod, said


def opened(options: PluginOptions = PREFERS, count: int = 20, extra: dict[str, int] | None = None) -> Bench:
    bench = Bench(extra)
    bench.plug(options, count)
    bench.open()
    return bench


def test_pods_are_admitted_one_after_another_in_the_order_in_which_they_were_bound() -> None:
    bench = opened(PLAIN)
    bench.see(pod("g4", created=4), pod("g2", created=2), pod("g6", created=6))
    first = said(bench.calls)
    assert [one[0] for one in first] == ["g4"]
    assert [one.pod.uid for one in bench.reply_all()] == ["g4", "g2", "g6"]


def test_pods_bound_while_it_was_down_are_admitted_by_creation_time() -> None:
    bench = Bench()
    bench.plug()
    bench.open(*(pod(f"h{n}", created=n) for n in (3, 1, 4, 2)))
    assert [one.pod.uid for one in bench.reply_all()] == ["h1", "h2", "h3", "h4"]


def test_pods_that_a_relist_brings_are_admitted_by_creation_time_and_those_that_it_lacks_are_gone() -> None:
    bench = opened(PLAIN)
    bench.see(pod("old"))
    bench.run()
    bench.open(pod("b", created=9), pod("a", created=8))
    assert [one.pod.uid for one in bench.reply_all()] == ["a", "b"]
    assert bench.listed() == {"a": {"c": bench.held("a")["c"]}, "b": {"c": bench.held("b")["c"]}}


def test_the_pod_being_admitted_is_listed_without_devices_and_later_ones_not_at_all() -> None:
    bench = opened()
    bench.see(pod("g4"), pod("g2"), pod("g6"), pod("g1"))
    for _ in range(4):
        bench.reply()
    assert bench.listed() == {"g4": {"c": ["G0-0"]}, "g2": {"c": ["G0-1"]}, "g6": {"c": []}}


def test_a_pod_without_devices_is_listed_too_and_asks_no_plugin() -> None:
    bench = opened()
    bench.see(pod("plain", container("c")))
    assert bench.listed() == {"plain": {"c": []}}
    assert bench.calls == []


def test_devices_of_init_containers_are_reused_but_allocated_again() -> None:
    bench = opened()
    init = [container("i1", 1), container("i2", 2)]
    bench.see(pod("p", container("c1", 1), container("c2", 2), init=init))
    calls = said(bench.reply_all())
    c1 = bench.held("p")["c1"]
    (left,) = {"G0-0", "G0-1"} - set(c1)
    assert calls == [
        ("p", 20, [], 1),
        ("p", "allocate i1", ["G0-0"]),
        ("p", 20, ["G0-0"], 2),
        ("p", "allocate i2", ["G0-0", "G0-1"]),
        ("p", "allocate c1", c1),  # the kubelet's own pick of what it can reuse: no preference is asked for
        ("p", 19, [left], 2),
        ("p", "allocate c2", sorted([left, "G0-2"])),
    ]


def test_a_sidecar_keeps_its_devices() -> None:
    bench = opened()
    init = [container("i1", 1, sidecar=True), container("i2", 2)]
    bench.see(pod("p", container("c1", 1), container("c2", 2), init=init))
    calls = said(bench.reply_all())
    held = bench.held("p")
    assert held["i1"] == ["G0-0"]
    assert held["i2"] == ["G0-1", "G0-2"]
    assert set(held["c1"]) < {"G0-1", "G0-2"}
    assert set(held["c2"]) == {"G0-1", "G0-2", "G0-3"} - set(held["c1"])
    assert [len(one) for one in calls] == [4, 3, 4, 3, 3, 4, 3]


def test_plain_init_containers_are_not_listed_and_sidecars_are() -> None:
    bench = opened()
    init = [container("i1", 1), container("s", 1, sidecar=True)]
    bench.see(pod("p", container("c1", 1), init=init))
    bench.reply_all()
    assert list(bench.listed()["p"]) == ["s", "c1"]


def test_what_a_container_got_shows_in_the_list_only_when_the_next_one_is_asked_for() -> None:
    bench = opened(PLAIN)
    bench.see(pod("p", container("c1", 1), container("c2", 1)))
    assert bench.listed() == {"p": {"c1": [], "c2": []}}
    bench.reply()
    assert [len(one) for one in bench.listed()["p"].values()] == [1, 0]


PREFERENCES: dict[str, tuple[set[str], Callable[[set[str]], bool]]] = {
    "right size": ({"G0-9", "G0-8", "G0-7"}, lambda got: got == {"G0-9", "G0-8", "G0-7"}),
    "unknown ids": ({"X", "Y", "Z"}, lambda got: len(got) == 3 and got <= {f"G0-{n}" for n in range(20)}),
    "too few": ({"G0-9"}, lambda got: len(got) == 3 and "G0-9" in got),
    "too many": ({f"G0-{n}" for n in range(5)}, lambda got: len(got) == 3 and got < {f"G0-{n}" for n in range(5)}),
    "none": (set(), lambda got: len(got) == 3),
}


@pytest.mark.parametrize(("preferred", "fits"), PREFERENCES.values(), ids=PREFERENCES)
def test_a_preference_is_a_wish(preferred: set[str], fits: Callable[[set[str]], bool]) -> None:
    bench = opened()
    bench.see(pod("p", container("c", 3)))
    bench.reply(Preferred(ids=frozenset(preferred)))
    rpc = bench.calls[0].rpc
    assert isinstance(rpc, Allocate)
    assert fits(set(rpc.ids))


def rejection(bench: Bench) -> tuple[str, str, str]:
    """Reason, message of the status, message of the event, of the one pod that was refused."""
    warning, status = bench.writes
    assert isinstance(warning, facts.Warn)
    assert isinstance(status, facts.WriteStatus)
    assert status.status["phase"] == "Failed"
    assert warning.reason == status.status["reason"]
    return warning.reason, status.status["message"], warning.message


def test_an_error_of_allocate_fails_the_pod_for_good_and_its_text_reaches_the_user() -> None:
    bench = opened(PLAIN)
    bench.see(pod("er"))
    bench.fail("rpc error: code = FailedPrecondition desc = pod ml/er is not reserved on this node")
    text = (
        "Allocate failed due to rpc error: code = FailedPrecondition desc = pod ml/er is not reserved on this node,"
        " which is unexpected"
    )
    assert rejection(bench) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}", text)
    bench.run()
    assert bench.listed() == {}
    assert bench.calls == []


def test_an_error_at_the_third_container_frees_all_devices() -> None:
    bench = opened(PLAIN, count=3)
    bench.see(pod("er", container("a", 1), container("b", 1), container("c", 1)))
    bench.reply()
    bench.reply()
    bench.fail("rpc error: code = Internal desc = no")
    assert bench.written() == ["warn er", "er Failed"]
    bench.see(pod("next", container("c", 3)))
    assert said(bench.reply_all()) == [("next", "allocate c", ["G0-0", "G0-1", "G0-2"])]


def test_a_failed_preference_fails_the_pod() -> None:
    bench = opened()
    bench.see(pod("er"))
    bench.fail("rpc error: code = Internal desc = stub: no preference")
    assert rejection(bench)[2] == (
        "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: "
        "rpc error: code = Internal desc = stub: no preference, which is unexpected"
    )


def too_many(bench: Bench) -> None:
    bench.plug(count=76)
    bench.open()
    bench.see(pod("p", container("c", 79)))


def no_plugin_after_a_restart(bench: Bench) -> None:
    bench.plug()
    bench.tell(facts.Down())
    bench.tell(facts.Up())
    bench.open(pod("p"))


def plugin_gone(bench: Bench) -> None:
    bench.plug()
    bench.open()
    bench.tell(facts.PluginLost(resource=GPU))
    bench.see(pod("p"))


NO_HEALTHY = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
SHORT = {
    "too many": (too_many, f"requested number of devices unavailable for {GPU}. Requested: 79, Available: 76"),
    "plugin not back": (no_plugin_after_a_restart, NO_HEALTHY),
    "plugin gone": (plugin_gone, NO_HEALTHY),
}


@pytest.mark.parametrize(("happens", "why"), SHORT.values(), ids=SHORT)
def test_where_devices_are_missing_the_pod_fails_with_the_kubelets_own_words(
    happens: Callable[[Bench], None], why: str
) -> None:
    bench = Bench()
    happens(bench)
    assert rejection(bench)[1] == f"Pod was rejected: Allocate failed due to {why}, which is unexpected"


def test_a_resource_that_no_plugin_serves_is_counted() -> None:
    bench = Bench({"example.com/seat": 3})
    bench.open()
    limits = {"example.com/seat": "2"}
    for name in ("a", "b"):
        one = container("c")
        assert one.resources is not None
        one.resources.limits = dict(limits)
        bench.see(pod(name, one))
    assert rejection(bench) == (
        "OutOfexample.com/seat",
        "Pod was rejected: Node didn't have enough resource: example.com/seat, requested: 2, used: 2, capacity: 3",
        "Node didn't have enough resource: example.com/seat, requested: 2, used: 2, capacity: 3",
    )


def test_a_resource_that_the_node_never_had_is_no_reason_to_refuse() -> None:
    bench = Bench()
    bench.open()
    bench.see(pod("p"))
    bench.run()
    assert bench.written() == ["p Running"]


def test_a_plugin_that_has_registered_but_listed_nothing_serves_nothing_yet() -> None:
    bench = Bench()
    bench.tell(facts.PluginConnected(resource=GPU, options=PLAIN))
    assert [one.capacity for one in bench.amounts] == [{}]
