"""What becomes of admitted pods: start, end, deletion, restarts of containers and of the kubelet, sick devices."""

from __future__ import annotations

from typing import Any

import pytest

from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.devices import PluginOptions
from kubelet.bench import GPU, NOW, PLAIN, PRE_STARTS, PREFERS, Bench, container, ids, pod, said


def running(*names: str, bench: Bench | None = None) -> Bench:
    """A node with four devices and running pods that have one each."""
    bench = bench or Bench()
    bench.plug()
    bench.open()
    bench.see(*(pod(name) for name in names))
    bench.run()
    assert bench.written() == [f"{name} Running" for name in names]
    return bench


def last_status(bench: Bench) -> dict[str, Any]:
    (write,) = (one for one in bench.writes if isinstance(one, facts.WriteStatus))
    return write.status


def test_a_pod_runs_after_the_delay_with_all_that_readers_of_a_status_need() -> None:
    bench = Bench()
    bench.plug()
    bench.open(pod("p", container("c", 1), init=[container("i", 1)]))
    bench.reply_all()
    assert [one.seconds for one in bench.waits] == [1]
    assert bench.writes == []
    bench.pass_time()
    status = last_status(bench)
    assert (status["phase"], status["startTime"], status["podIP"]) == ("Running", NOW, "10.0.0.1")
    types = [one["type"] for one in status["conditions"] if one["status"] == "True"]
    assert types == ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"]
    (one,) = status["containerStatuses"]
    assert (one["name"], one["ready"], one["state"]) == ("c", True, {"running": {"startedAt": NOW}})
    assert one["allocatedResources"] == {GPU: "1"}
    (init,) = status["initContainerStatuses"]
    assert init["state"]["terminated"]["exitCode"] == 0


def test_containers_are_announced_before_they_start_where_the_plugin_wishes() -> None:
    bench = Bench()
    bench.plug(PRE_STARTS)
    bench.open(pod("p", container("a", 1), container("b", 1)))
    bench.reply_all()
    bench.pass_time()
    assert bench.writes == []
    calls = said(bench.reply_all())
    assert calls == [("p", f"pre-start {one}", bench.held("p")[one]) for one in ("a", "b")]
    assert bench.written() == ["p Running"]


def test_a_failed_announcement_is_told_and_tried_again() -> None:
    bench = Bench()
    bench.plug(PRE_STARTS)
    bench.open(pod("p"))
    bench.reply_all()
    bench.pass_time()
    bench.fail("rpc error: code = Internal desc = no")
    assert bench.written() == ["warn p"]
    assert [one.seconds for one in bench.waits] == [10]
    bench.run()
    assert bench.written() == ["p Running"]


def test_a_deleted_pod_stops_within_its_grace_and_is_removed() -> None:
    bench = running("p")
    bench.see(pod("p", phase="Running", deleted=1))
    assert [one.seconds for one in bench.waits] == [1]
    assert bench.written() == []
    assert list(bench.listed()) == ["p"]
    bench.pass_time()
    assert bench.written() == ["p Failed", "remove p"]
    bench.see(pod("p", phase="Failed", deleted=1))
    assert bench.written() == []
    assert bench.listed() == {}


def test_a_terminating_pod_keeps_its_devices_and_a_successor_fails() -> None:
    bench = running("a", "b", "c", "d")
    bench.see(pod("a", phase="Running", deleted=30), pod("e"))
    assert bench.written() == ["warn e", "e Failed"]
    bench.pass_time()
    bench.see(pod("f"))
    assert [one.pod.uid for one in bench.reply_all()] == ["f"]


def test_a_pod_that_is_deleted_while_it_waits_for_its_turn_is_admitted_all_the_same() -> None:
    """The deletion waits behind the admission, as in a real kubelet: a plugin may be asked for a pod that is gone."""
    bench = Bench()
    bench.plug()
    bench.open()
    bench.see(pod("a"), pod("b"), pod("b", deleted=0))
    bench.tell(facts.PodGone(uid="b"))
    assert [one.pod.uid for one in bench.reply_all()] == ["a", "b"]
    assert list(bench.listed()) == ["a"]


def test_a_pod_that_is_deleted_before_it_starts_never_runs() -> None:
    bench = Bench()
    bench.plug()
    bench.open(pod("p"))
    bench.reply_all()
    bench.see(pod("p", deleted=30))
    bench.pass_time()
    assert bench.written() == ["p Failed", "remove p"]


def test_a_pod_that_is_deleted_while_its_start_is_announced_never_runs() -> None:
    bench = Bench()
    bench.plug(PRE_STARTS)
    bench.open(pod("p"))
    bench.reply_all()
    bench.pass_time()
    bench.see(pod("p", deleted=30))
    bench.reply_all()
    assert bench.written() == []
    bench.pass_time()
    assert bench.written() == ["p Failed", "remove p"]


def test_a_pod_that_was_forced_away_frees_its_devices() -> None:
    bench = running("a", "b", "c", "d")
    bench.tell(facts.PodGone(uid="a"))
    bench.see(pod("e"))
    assert [one.pod.uid for one in bench.reply_all()] == ["e"]


def test_a_pod_ends_when_it_is_told_and_frees_its_devices() -> None:
    bench = running("a", "b", "c", "d")
    bench.tell(facts.Finished(uid="a"))
    bench.tell(facts.Finished(uid="b", failed=True))
    assert [one.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] for one in statuses(bench)] == [0, 1]
    assert bench.written() == ["a Succeeded", "b Failed"]
    bench.see(pod("e", container("c", 2)))
    assert len(bench.reply_all()) == 1


def statuses(bench: Bench) -> list[facts.WriteStatus]:
    return [one for one in bench.writes if isinstance(one, facts.WriteStatus)]


def test_a_container_that_ends_is_started_again_without_a_word_to_the_plugin() -> None:
    bench = running("p")
    bench.tell(facts.ContainerExited(uid="p", container="c"))
    assert bench.calls == []
    assert last_status(bench)["containerStatuses"][0]["restartCount"] == 1


def restart(bench: Bench, *, lose_checkpoint: bool = False) -> None:
    bench.tell(facts.Down(lose_checkpoint=lose_checkpoint))
    bench.waits.clear()
    bench.tell(facts.Up())


def test_over_a_restart_running_pods_keep_their_devices_and_nothing_is_written_for_them() -> None:
    bench = running("a", "b")
    before = bench.held("a"), bench.held("b")
    restart(bench)
    bench.plug()
    bench.open(pod("new", container("c", 2), created=9), pod("a", phase="Running"), pod("b", phase="Running"))
    assert [one.pod.uid for one in bench.reply_all()] == ["new"]
    assert (bench.held("a"), bench.held("b")) == before
    assert set(bench.held("new")["c"]) == set(ids(4)) - {*before[0]["c"], *before[1]["c"]}
    assert bench.written() == []


def test_devices_of_pods_that_the_list_has_not_come_to_yet_are_not_given_away() -> None:
    bench = running(*"abcd")
    restart(bench)
    bench.plug()
    bench.open(pod("older", created=0), *(pod(name, created=9, phase="Running") for name in "abcd"))
    assert bench.written() == ["warn older", "older Failed"]


def test_a_running_pod_survives_a_restart_without_its_plugin_and_so_does_a_crash_of_it() -> None:
    bench = running("p")
    restart(bench)
    bench.open(pod("p", phase="Running"))
    bench.tell(facts.ContainerExited(uid="p", container="c"))
    assert bench.calls == []
    assert bench.written() == ["p Running"]


def test_a_pod_whose_admission_broke_off_is_admitted_anew_and_keeps_what_it_had() -> None:
    bench = Bench()
    bench.plug()
    bench.open(pod("p", container("a", 1), container("b", 1)))
    bench.reply()
    had = bench.held("p")["a"]
    restart(bench)
    bench.calls.clear()
    bench.plug()
    bench.open(pod("p", container("a", 1), container("b", 1)))
    assert [one[1] for one in said(bench.reply_all())] == ["allocate b"]
    assert bench.held("p")["a"] == had


def test_an_answer_from_before_a_restart_is_nothing() -> None:
    bench = Bench()
    bench.plug()
    bench.open(pod("p"))
    restart(bench)
    bench.reply()
    assert bench.listed() == {}
    assert bench.held("p") == {}


def test_what_was_deleted_while_the_kubelet_was_down_is_stopped_or_forgotten() -> None:
    bench = running("a", "b")
    restart(bench)
    bench.plug(count=2)
    bench.open(pod("a", phase="Running", deleted=30))
    bench.pass_time()
    assert bench.written() == ["a Failed", "remove a"]
    bench.see(pod("c", container("c", 2)))
    assert [one.pod.uid for one in bench.reply_all()] == ["c"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [PLAIN, PREFERS], ids=["allocate", "preferred"])
def test_after_a_lost_checkpoint_containers_that_start_again_ask_at_once_and_share_nothing(
    options: PluginOptions, seed: int
) -> None:
    bench = running("a", "b", bench=Bench(seed=seed))
    restart(bench, lose_checkpoint=True)
    bench.plug(options, count=3)
    bench.open(pod("a", phase="Running"), pod("b", phase="Running"))
    assert bench.listed() == {"a": {"c": []}, "b": {"c": []}}
    for name in ("a", "b"):
        bench.tell(facts.ContainerExited(uid=name, container="c"))
    bench.see(pod("new"))
    assert [one.pod.uid for one in bench.calls] == ["a", "b", "new"], "beside each other, and beside an admission"
    bench.reply_all()
    given = [one for name in ("a", "b", "new") for one in bench.held(name)["c"]]
    assert sorted(given) == ["G0-0", "G0-1", "G0-2"]


def test_after_a_lost_checkpoint_a_plugin_that_wants_announcements_hears_none_for_unknown_devices() -> None:
    bench = running("p")
    restart(bench, lose_checkpoint=True)
    bench.plug(PRE_STARTS)
    bench.open(pod("p", phase="Running"))
    bench.tell(facts.ContainerExited(uid="p", container="c"))
    (warning,) = (one for one in bench.writes if isinstance(one, facts.Warn))
    assert warning.message == (
        f"Error: no devices found allocated in local cache for pod p, container c, resource {GPU}"
    )


def test_pods_that_ended_are_not_admitted_again_after_a_restart() -> None:
    bench = Bench()
    bench.plug()
    bench.open(pod("done", phase="Succeeded"), pod("failed", phase="Failed"))
    assert bench.calls == []
    assert bench.listed() == {}


def allocatable(bench: Bench) -> list[tuple[int, int]]:
    return [(one.capacity.get(GPU, -1), one.allocatable.get(GPU, -1)) for one in bench.amounts]


def test_the_node_tells_what_plugins_list_and_only_when_that_changes() -> None:
    bench = Bench()
    bench.plug()
    bench.list_devices()
    bench.list_devices(sick=["G0-1"])
    bench.tell(facts.PluginLost(resource=GPU))
    bench.plug()
    assert allocatable(bench) == [(-1, -1), (4, 4), (4, 3), (4, 0), (4, 4)]


def test_after_a_restart_the_node_has_none_until_the_plugin_is_back() -> None:
    bench = Bench()
    bench.plug()
    bench.tell(facts.Down())
    assert len(bench.amounts) == 2, "a kubelet that is down says nothing"
    bench.tell(facts.Up())
    bench.plug(PLAIN)
    assert allocatable(bench)[2:] == [(0, 0), (4, 4)]


def test_after_a_lost_checkpoint_the_node_still_says_that_the_resource_was_a_plugins() -> None:
    bench = Bench()
    bench.plug()
    restart(bench, lose_checkpoint=True)
    assert allocatable(bench)[-1] == (0, 0)
    bench.open(pod("p"))
    (warning, _) = bench.writes
    assert isinstance(warning, facts.Warn)
    assert warning.message == f"Node didn't have enough resource: {GPU}, requested: 1, used: 0, capacity: 0"


def test_a_sick_device_is_told_in_the_status_of_the_pod_that_has_it_and_not_given_to_others() -> None:
    bench = running("p")
    (mine,) = bench.held("p")["c"]
    bench.list_devices(sick=[mine])
    (shown,) = last_status(bench)["containerStatuses"][0]["allocatedResourcesStatus"]
    assert shown == {"name": GPU, "resources": [{"resourceID": mine, "health": "Unhealthy"}]}
    bench.tell(facts.Finished(uid="p"))
    bench.see(pod("all", container("c", 4)))
    assert bench.calls == []
    bench.see(pod("most", container("c", 3)))
    assert len(bench.reply_all()) == 1
