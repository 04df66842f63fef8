"""On HAMi's nodes one pod is served at a time, the others wait in line, and a node that does not answer takes no more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cardwise.scheduler.gates import STUCK_SECONDS, Gates, Turn
from cardwise.scheduler.nodelock import LOCK_SECONDS, Owner, Taken, lock_decision, lock_text, owner_of, read_lock
from cardwise.wire import names, objects
from cardwise.wire.families import FAMILIES, NVIDIA

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXAMPLES = settings().max_examples  # of the profile: see conftest.py


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(name: str = "n1", lock: str | None = None, *, agent: bool = False) -> objects.Node:
    """A node of HAMi, or where our agent runs."""
    annotations = {NVIDIA.register_key: "[]"}
    annotations |= {names.NODE_LOCK: lock} if lock is not None else {}
    annotations |= {names.NODE_AGENT: "0.1.0"} if agent else {}
    return objects.Node(metadata=objects.Meta(name=name, annotations=annotations))


def pod(name: str, on: str = "n1", phase: str = "allocating", status: str = "Pending", uid: str = "") -> objects.Pod:
    """A pod as the watch shows it; without a node it has no phase either."""
    annotations = {names.BIND_PHASE: phase} if on and phase else {}
    return objects.Pod(
        metadata=objects.Meta(name=name, namespace="ml", uid=uid or f"uid-{name}", annotations=annotations),
        spec=objects.PodSpec(node_name=on),
        status=objects.PodStatus(phase=status),
    )


def gates(*nodes: objects.Node, pods: Iterable[objects.Pod] = ()) -> Gates:
    made = Gates(FAMILIES)
    for one in nodes or (node(),):
        made.node_seen(one, NOW)
    for seen in pods:
        made.pod_seen(seen, NOW)
    return made


def granted(made: Gates, name: str, on: str = "n1", now: float = 0) -> bool:
    return made.claim(on, f"uid-{name}", at(now)).state is Turn.GRANTED


def send(made: Gates, name: str, on: str = "n1", now: float = 0) -> tuple[str, ...]:
    return made.bind_sent(f"uid-{name}", "ml", name, on, at(now))


# -- turns


def test_the_first_is_granted_and_the_others_wait_in_line() -> None:
    made = gates()
    first, second, third = (made.claim("n1", uid, at(number)) for number, uid in enumerate("abc"))
    assert (first.state, first.position) == (Turn.GRANTED, 0)
    assert [(each.state, each.position) for each in (second, third)] == [(Turn.QUEUED, 1), (Turn.QUEUED, 2)]
    assert made.claim("n1", "c", at(9)) == third, "asking again changes nothing"
    assert made.claim("n1", "a", at(9)) == first
    assert made.release("n1", "a") == ("b",)
    assert made.claim("n1", "c", at(9)).position == 1
    assert made.release("n1", "c") == ()
    assert made.release("n1", "b") == ()
    assert made.busy(at(9)) == frozenset()


def test_a_binding_closes_the_gate_until_there_is_evidence() -> None:
    made = gates()
    assert granted(made, "a")
    assert not granted(made, "b")
    assert send(made, "a") == ()
    assert made.release("n1", "uid-a") == (), "the bind call ended, the pod is not served"
    assert made.pod_seen(pod("a", on=""), at(1)) == (), "an older event is no evidence"
    assert made.pod_seen(pod("a"), at(2)) == ()
    assert not granted(made, "b", now=3)
    assert made.pod_seen(pod("a", phase="success"), at(4)) == ("uid-b",)
    assert granted(made, "b", now=5)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(pod("a", phase="success"), id="has its cards"),
        pytest.param(pod("a", phase="failed"), id="case-70-refused"),
        pytest.param(pod("a", status="Failed"), id="case-65-failed"),
        pytest.param(pod("a", status="Succeeded"), id="case-65-succeeded"),
        pytest.param(pod("a", status="Running"), id="case-77-runs, though the phase was not written"),
        pytest.param(pod("a", on="n2"), id="on another node"),
        pytest.param(pod("a", on="", uid="uid-new"), id="another pod has its name"),
        pytest.param(None, id="gone"),
    ],
)
def test_what_opens_the_gate(evidence: objects.Pod | None) -> None:
    made = gates(pods=[pod("a")])
    assert made.busy(at(1)) == {"n1"}
    assert not granted(made, "b")
    turned = made.pod_seen(evidence, at(2)) if evidence else made.pod_gone("uid-a")
    assert turned == ("uid-b",)


def test_a_binding_that_did_not_happen_opens_the_gate() -> None:
    made = gates()
    granted(made, "a")
    granted(made, "b")
    send(made, "a")
    assert made.bind_failed("uid-a", "n2") == (), "another Binding of it"
    assert made.bind_failed("uid-a", "n1") == ("uid-b",)
    assert made.bind_failed("uid-a", "n1") == ()


def test_a_binding_in_doubt_keeps_its_gate_closed_when_the_pod_is_sent_elsewhere() -> None:
    made = gates(node("n1"), node("n2"))
    for on in ("n1", "n2"):
        granted(made, "a", on=on)
        send(made, "a", on=on)
    assert made.busy(at(1)) == {"n1", "n2"}
    granted(made, "b", on="n1")
    granted(made, "c", on="n2")
    assert made.bind_failed("uid-a") == ("uid-b", "uid-c"), "a read says that neither happened"


def test_evidence_of_one_node_opens_the_gates_of_others() -> None:
    made = gates(node("n1"), node("n2"))
    for on in ("n1", "n2"):
        granted(made, "a", on=on)
        send(made, "a", on=on)
    granted(made, "b", on="n2")
    assert made.pod_seen(pod("a", on="n1"), at(1)) == ("uid-b",)
    assert made.busy(at(1)) == {"n1", "n2"}
    assert not granted(made, "c", on="n1")


def test_a_pod_that_was_seen_bound_is_not_unbound_by_an_error() -> None:
    """As when a time-out is reported after the watch showed the pod with its node."""
    made = gates()
    granted(made, "a")
    send(made, "a")
    made.pod_seen(pod("a"), at(1))
    assert made.bind_failed("uid-a", "n1") == ()
    assert made.bind_failed("uid-a") == ()
    assert not granted(made, "b", now=3)


def test_a_bind_that_is_repeated_while_its_pod_is_served_has_its_turn() -> None:
    made = gates()
    granted(made, "a")
    send(made, "a")
    assert granted(made, "a", now=5)
    assert send(made, "a", now=5) == ()
    assert not granted(made, "b", now=5)


def test_a_bind_that_is_repeated_after_its_pod_runs_closes_no_gate() -> None:
    made = gates(pods=[pod("a", status="Running")])
    assert granted(made, "a")
    send(made, "a")
    assert made.busy(at(1)) == frozenset()


def test_pods_that_were_bound_before_their_node_was_seen_occupy_it() -> None:
    made = Gates(FAMILIES)
    made.pod_seen(pod("a"), NOW)
    made.node_seen(node(), NOW)
    assert not granted(made, "b")


def test_a_binding_by_another_scheduler_occupies_the_gate() -> None:
    made = gates()
    granted(made, "a")
    made.pod_seen(pod("theirs"), NOW)
    assert made.release("n1", "uid-a") == ()
    assert not granted(made, "a")


def test_a_node_that_is_not_hamis_has_no_gate() -> None:
    made = gates(node(agent=True), pods=[pod("a")])
    assert granted(made, "b")
    assert granted(made, "c")
    assert granted(made, "d", on="never seen")
    assert made.busy(at(99)) == frozenset()
    assert made.stuck(at(99)) == {}


@pytest.mark.parametrize("taken_over", [True, False], ids=["our agent came", "the node is gone"])
def test_who_waits_is_let_through_where_the_gate_goes_away(*, taken_over: bool) -> None:
    made = gates()
    for name in "abc":
        granted(made, name)
    turned = made.node_seen(node(agent=True), NOW) if taken_over else made.node_gone("n1")
    assert turned == ("uid-b", "uid-c")
    assert granted(made, "b")


def test_a_turn_outlives_its_node_so_that_nobody_else_gets_one_meanwhile() -> None:
    made = gates()
    granted(made, "a")
    made.node_gone("n1")
    made.node_seen(node(), NOW)
    assert not granted(made, "b")
    assert made.release("n1", "uid-a") == ("uid-b",)


def test_a_sentence_says_what_a_bind_waited_for() -> None:
    made = gates(pods=[pod("a")])
    claim = made.claim("n1", "uid-b", at(1))
    assert made.waited("n1", claim, at(11)) == (
        "node n1: HAMi's device plugin is still to serve pod ml/a; waited 10 s for a turn"
    )
    made.pod_gone("uid-a")
    claim = made.claim("n1", "uid-c", at(1))
    assert made.waited("n1", claim, at(11)).startswith("node n1: HAMi's device plugin is still to serve another pod;")


def test_case_67_nodes_do_not_wait_for_each_other() -> None:
    made = gates(*(node(f"n{number}") for number in range(100)))
    turns = [granted(made, f"{number}-{turn}", on=f"n{number}") for turn in range(10) for number in range(100)]
    assert turns == [True] * 100 + [False] * 900


def test_case_149_nothing_is_remembered_of_nodes_that_are_gone() -> None:
    made = Gates(FAMILIES)
    for number in range(1000):
        name, owner = f"n{number}", f"p{number}"
        made.node_seen(node(name, lock_text(NOW, namespace="ml", pod=owner)), NOW)
        granted(made, owner, on=name)
        granted(made, "waits", on=name)
        send(made, owner, on=name)
        made.node_gone(name)
        made.pod_gone(f"uid-{owner}")
    assert made.remembered == 0


@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "never seen"])
def test_nothing_is_remembered_of_a_pod_that_went_before_its_bind_failed(*, seen: bool) -> None:
    made = gates()
    before = made.remembered
    if seen:
        made.pod_seen(pod("a", on=""), NOW)
        made.pod_gone("uid-a")
    granted(made, "a")
    send(made, "a")
    made.bind_failed("uid-a", "n1")
    assert made.remembered == before


def test_who_must_be_in_a_new_list_is_known() -> None:
    made = gates(pods=[pod("a"), pod("b", on=""), pod("c", phase="success")])
    granted(made, "d")
    send(made, "d")
    assert made.watched == {"uid-a", "uid-b"}
    made.pod_gone("uid-a")
    assert made.watched == {"uid-b"}


# -- busy and stuck


def test_case_64_a_node_whose_plugin_does_not_answer_takes_no_pods_after_some_time() -> None:
    made = gates()
    granted(made, "a")
    send(made, "a")
    made.pod_seen(pod("a"), at(5))
    assert made.busy(at(5)) == {"n1"}
    assert made.stuck(at(STUCK_SECONDS)) == {}
    why = "HAMi's device plugin has not served pod ml/a, which waits for its cards since 2026-01-01T12:00:00Z"
    assert made.stuck(at(STUCK_SECONDS + 1)) == {"n1": why}
    assert made.stuck(at(9999)) == {"n1": why}, "the same words as long as the cause is the same"
    made.pod_seen(pod("a", phase="success"), at(9999))
    assert made.stuck(at(9999)) == {}


def test_a_pod_that_follows_another_has_its_own_time() -> None:
    made = gates(pods=[pod("a")])
    made.pod_gone("uid-a")
    made.pod_seen(pod("b"), at(25))
    assert made.stuck(at(STUCK_SECONDS + 5)) == {}


@pytest.mark.parametrize(
    ("lock", "sentence"),
    [
        pytest.param(
            lock_text(NOW, namespace="ml", pod="theirs"),
            "hami.io/mutex.lock is held by pod ml/theirs since 2026-01-01T12:00:00Z",
            id="of a pod that is not bound yet",
        ),
        pytest.param(
            "2026-01-01T12:00:00Z",
            "hami.io/mutex.lock is held by an older scheduler of HAMi since 2026-01-01T12:00:00Z",
            id="older form",
        ),
    ],
)
def test_a_lock_that_stands_too_long_makes_its_node_stuck_until_it_runs_out(lock: str, sentence: str) -> None:
    made = gates(node(lock=lock), pods=[pod("theirs", on="")])
    assert made.busy(at(1)) == {"n1"}
    assert made.stuck(at(STUCK_SECONDS)) == {}
    made.node_seen(node(lock=lock), at(20))
    assert made.stuck(at(STUCK_SECONDS + 1)) == {"n1": sentence}
    assert made.stuck(at(LOCK_SECONDS + 1)) == {}
    assert made.busy(at(LOCK_SECONDS + 1)) == frozenset()


def test_another_lock_begins_anew_and_no_lock_is_no_cause() -> None:
    made = gates(node(lock=lock_text(NOW, namespace="ml", pod="a")), pods=[pod("a", on=""), pod("b", on="")])
    made.node_seen(node(lock=lock_text(at(20), namespace="ml", pod="b")), at(20))
    assert made.stuck(at(STUCK_SECONDS + 5)) == {}
    assert made.stuck(at(STUCK_SECONDS + 21)) != {}
    made.node_seen(node(), at(60))
    assert made.stuck(at(60)) == {}
    assert made.busy(at(60)) == frozenset()


def test_it_is_known_since_when_a_lock_stands() -> None:
    made, text = gates(), lock_text(NOW, namespace="ml", pod="a")
    made.node_seen(node(lock=text), at(3))
    made.node_seen(node(lock=text), at(7))
    assert made.lock_first_seen("n1", text) == at(3)
    assert made.lock_first_seen("n1", "another") is None
    assert made.lock_first_seen("n2", text) is None


def test_case_65_the_lock_of_a_running_pod_is_respected_until_it_runs_out() -> None:
    made = gates(node(lock=lock_text(NOW, namespace="ml", pod="a")), pods=[pod("a", status="Running")])
    assert made.busy(at(1)) == {"n1"}
    assert made.busy(at(LOCK_SECONDS + 1)) == frozenset()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(pod("a", phase="success"), id="has its cards"),
        pytest.param(pod("a", status="Failed"), id="case-65-failed"),
        pytest.param(pod("a", on="n2"), id="on another node"),
        pytest.param(None, id="gone"),
    ],
)
def test_a_lock_that_its_pod_left_behind_holds_nobody_up(end: objects.Pod | None) -> None:
    made = gates(node(lock=lock_text(NOW, namespace="ml", pod="a")), pods=[pod("a")])
    assert made.busy(at(1)) == {"n1"}
    _ = made.pod_seen(end, at(2)) if end else made.pod_gone("uid-a")
    assert made.busy(at(3)) == frozenset()
    assert made.stuck(at(STUCK_SECONDS + 3)) == {}


@pytest.mark.parametrize(
    "handshake", ["Deleted_2026.01.01 11:00:00", "Requesting_2026-01-01 11:00:00", "Reported x", ""]
)
def test_cases_99_to_101_handshakes_decide_nothing(handshake: str) -> None:
    one = node()
    assert one.metadata.annotations is not None
    one.metadata.annotations["hami.io/node-handshake"] = handshake
    made = gates(one)
    assert made.is_hami("n1")
    assert made.busy(at(99)) == frozenset()
    assert made.stuck(at(99)) == {}


# -- laws

NODES = ("n1", "n2")
PODS = tuple("abcd")
STATES = ("waits", "allocating", "success", "failed", "Running", "Succeeded", "Failed")
of_gates = settings(max_examples=EXAMPLES // 2, stateful_step_count=40)
pods_ = st.sampled_from(PODS)
nodes_ = st.sampled_from(NODES)


class Turns(RuleBasedStateMachine):
    """Gates under facts in any order, beside plain lists of the same: who occupies a node, has its turn, or waits."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = Gates(FAMILIES)
        self.seconds = 0.0
        self.hami: set[str] = set()
        self.locks: dict[str, str] = {}
        self.pods: dict[str, objects.Pod] = {}
        self.sent: set[tuple[str, str]] = set()
        self.turn: dict[str, str] = {}
        self.line: dict[str, list[str]] = {name: [] for name in NODES}

    @property
    def now(self) -> datetime:
        return at(self.seconds)

    def occupants(self, on: str) -> set[str]:
        """Pods between their binding there and their last Allocate, by the plain rule."""
        bound = {name for name, seen in self.pods.items() if seen.spec.node_name == on and is_allocating(seen)}
        return bound | {name for name, where in self.sent if where == on}

    def end_bindings(self, name: str, on: str = "") -> None:
        """What was sent for this pod (to this node) has had its end."""
        self.sent = {(other, where) for other, where in self.sent if other != name or on not in ("", where)}

    def expect(self, turned: tuple[str, ...], *let_through: str) -> None:
        """Whose turn has come is told, exactly: nobody is forgotten, nobody is let in beside another."""
        expected = list(let_through)
        for on in NODES:
            if on in self.hami and self.line[on] and on not in self.turn and not self.occupants(on):
                self.turn[on] = self.line[on].pop(0)
                expected.append(self.turn[on])
        assert sorted(turned) == sorted(f"uid-{name}" for name in expected)

    @rule(seconds=st.sampled_from((0.5, 20.0, 200.0)))
    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    @rule(on=nodes_, lock=st.sampled_from((None, *PODS, "older")), agent=st.sampled_from((False, False, False, True)))
    def see_node(self, on: str, lock: str | None, *, agent: bool) -> None:
        text = lock_text(self.now, namespace="ml", pod=lock or "")
        text = text.split(",")[0] if lock == "older" else text
        self.locks.pop(on, None)
        if lock is not None and not agent:
            self.locks[on] = text
        through = self.line[on] if agent else []
        self.line[on] = [] if agent else self.line[on]
        self.hami = self.hami - {on} if agent else self.hami | {on}
        turned = self.gates.node_seen(node(on, text if lock else None, agent=agent), self.now)
        self.expect(turned, *through)

    @rule(on=nodes_)
    def remove_node(self, on: str) -> None:
        self.hami.discard(on)
        self.locks.pop(on, None)
        through, self.line[on] = self.line[on], []
        self.expect(self.gates.node_gone(on), *through)

    @rule(name=pods_, on=nodes_, state=st.sampled_from(STATES))
    def see_pod(self, name: str, on: str, state: str) -> None:
        """As the watch shows it: a pod keeps its node for good, and without one it is an older event, before its end."""
        known = self.pods.get(name)
        if known is not None and is_done(known):
            return
        bound = known.spec.node_name if known else ""
        seen = shown(name, bound or on, state)
        if seen.spec.node_name or seen.ended:
            self.end_bindings(name)
            self.pods[name] = seen
        elif not bound:
            self.pods[name] = seen
        self.expect(self.gates.pod_seen(seen, self.now))

    @rule(name=pods_)
    def remove_pod(self, name: str) -> None:
        self.pods.pop(name, None)
        self.end_bindings(name)
        self.expect(self.gates.pod_gone(f"uid-{name}"))

    @rule(name=pods_, on=nodes_)
    def ask(self, name: str, on: str) -> None:
        claim = self.gates.claim(on, f"uid-{name}", self.now)
        free = on not in self.hami or name in self.occupants(on)
        if not free and self.turn.get(on) != name and name not in self.line[on]:
            self.line[on].append(name)
        if not free and on not in self.turn and not self.occupants(on):
            self.turn[on] = self.line[on].pop(0)
        assert (claim.state is Turn.GRANTED) is (free or self.turn.get(on) == name)
        assert claim.position == (self.line[on].index(name) + 1 if claim.state is Turn.QUEUED else 0)

    @precondition(lambda self: self.turn)
    @rule(data=st.data())
    def send_binding(self, data: st.DataObject) -> None:
        on, name = data.draw(st.sampled_from(sorted(self.turn.items())))
        del self.turn[on]
        known = self.pods.get(name)
        if known is None or not known.spec.node_name:
            self.sent.add((name, on))
            self.expect(send(self.gates, name, on, self.seconds))
        else:
            self.expect(self.gates.release(on, f"uid-{name}"))

    @rule(name=pods_, on=st.sampled_from(("", *NODES)))
    def fail(self, name: str, on: str) -> None:
        self.end_bindings(name, on)
        self.expect(self.gates.bind_failed(f"uid-{name}", on))

    @rule(name=pods_, on=nodes_)
    def give_up(self, name: str, on: str) -> None:
        if self.turn.get(on) == name:
            del self.turn[on]
        self.line[on] = [other for other in self.line[on] if other != name]
        self.expect(self.gates.release(on, f"uid-{name}"))

    def respected(self, on: str) -> Taken | None:
        """The lock of a node, where HAMi's rule says that it holds others up."""
        text = self.locks.get(on)
        lock = read_lock(text) if text else None
        owner = Owner.ACTIVE
        if lock and lock.pod and lock.pod not in {name for name, _where in self.sent}:
            owner = owner_of(self.pods.get(lock.pod), on)
        found = lock_decision(text, owner=owner, now=self.now)
        return found if isinstance(found, Taken) else None

    @invariant()
    def nobody_is_served_beside_another(self) -> None:
        """Beside the pods that others bind there is one turn, or one Binding of ours."""
        for on in NODES:
            sent = [name for name, where in self.sent if where == on]
            assert len(sent) + (on in self.turn) <= 1

    @invariant()
    def a_node_is_busy_as_long_as_something_holds_others_up(self) -> None:
        closed = {on for on in NODES if self.occupants(on) or on in self.turn or self.line[on] or self.respected(on)}
        assert self.gates.busy(self.now) == closed & self.hami

    @invariant()
    def only_what_holds_others_up_makes_a_node_stuck(self) -> None:
        """A lost unlock never counts longer than the lock rule says; what stands longer than that is a pod."""
        for on in self.gates.stuck(self.now):
            assert on in self.hami
            assert self.occupants(on) or self.respected(on)

    def teardown(self) -> None:
        """When nodes and pods are gone and bind calls have ended, nothing is remembered."""
        for name in PODS:
            self.gates.pod_gone(f"uid-{name}")
            for on in NODES:
                self.gates.release(on, f"uid-{name}")
        for on in NODES:
            self.gates.node_gone(on)
        assert self.gates.remembered == 0


def is_done(seen: objects.Pod) -> bool:
    return seen.ended or seen.annotations.get(names.BIND_PHASE) in ("success", "failed")


def is_allocating(seen: objects.Pod) -> bool:
    waits = seen.status is not None and seen.status.phase == "Pending"
    return waits and seen.annotations.get(names.BIND_PHASE) == "allocating"


def shown(name: str, on: str, state: str) -> objects.Pod:
    if state == "waits":
        return pod(name, on="")
    if state in ("success", "failed", "allocating"):
        return pod(name, on=on, phase=state)
    return pod(name, on=on, status=state)


def test_one_at_a_time_first_come_first_served_under_any_order_of_facts() -> None:
    run_state_machine_as_test(Turns, settings=of_gates)
