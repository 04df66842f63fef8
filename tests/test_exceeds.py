"""Whether a pod could get what it is said to hold, and that every change of the cluster shows in its version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given

import strategies as some
from builders import asks, card, cluster, hold, node, pod
from cardwise.core.cluster import Cluster, hold_of
from cardwise.core.model import Node


@given(some.bindings())
def test_a_hold_exceeds_exactly_where_it_would_not_be_reserved_and_asking_changes_nothing(case: some.Binding) -> None:
    made = cluster(case.node)
    for running in case.holds:
        made.confirm(running)
    version, holds = made.version, dict(made.holds)
    asked = hold_of(case.placement, uid=case.pod.uid, namespace=case.pod.namespace, name=case.pod.name)
    found = made.exceeds(asked)
    assert (made.version, made.holds) == (version, holds)
    assert found == made.reserve(case.pod, case.placement)


@pytest.mark.parametrize("confirmed", [True, False])
def test_what_a_pod_holds_is_no_obstacle_to_itself(confirmed: bool) -> None:
    made = cluster(node("a", card(memory_mib=100)))
    made.confirm(hold("r", "a", "GPU-0", memory_mib=60, confirmed=confirmed))
    assert made.exceeds(hold("r", "a", "GPU-0", memory_mib=100)) is None
    assert made.exceeds(hold("new", "a", "GPU-0", memory_mib=60)) is not None


SHUT: dict[str, tuple[Node, str, str]] = {
    "unknown node": (node("b", card()), "NodeUnknown", "node a is unknown"),
    "out of service": (node("a", card(), out_of_service="it hurts"), "NodeOutOfService", "it hurts"),
    "unknown card": (node("a", card(1)), "CardUnknown", "node a has no card GPU-0"),
    "too small": (node("a", card(memory_mib=10)), "CardTaken", "card GPU-0 of node a has been taken meanwhile"),
    "unhealthy": (node("a", card(healthy=False)), "CardNotHealth", "card GPU-0 of node a is unhealthy"),
    "cordoned": (node("a", card(), cordoned=["GPU-0"]), "CardCordoned", "card GPU-0 of node a is cordoned"),
}


@pytest.mark.parametrize(("now", "code", "text"), SHUT.values(), ids=SHUT)
def test_a_hold_exceeds_where_its_node_or_card_takes_no_pods_now(now: Node, code: str, text: str) -> None:
    refusal = cluster(now).exceeds(hold("new", "a", "GPU-0", memory_mib=60))
    assert refusal is not None
    assert (refusal.code, refusal.text) == (code, text)


def test_another_card_s_state_is_no_obstacle() -> None:
    made = cluster(node("a", card(), card(1, healthy=False), card(2), cordoned=["GPU-2"]))
    assert made.exceeds(hold("new", "a", "GPU-0", memory_mib=60)) is None


def reserved(made: Cluster) -> None:
    placement = made.place(pod("new", asks(memory_mib=5)))
    assert placement is not None
    made.reserve(pod("new", asks(memory_mib=5)), placement)


CHANGES: dict[str, Callable[[Cluster], object]] = {
    "a node": lambda made: made.set_node(node("b", card())),
    "other cards": lambda made: made.set_node(node("a", card(healthy=False))),
    "a node less": lambda made: made.remove_node("a"),
    "a reservation": reserved,
    "a confirmed hold": lambda made: made.confirm(hold("new", "a", "GPU-0")),
    "the same hold, confirmed": lambda made: made.confirm(replace(made.holds["uid-r"], confirmed=True)),
    "a hold less": lambda made: made.release("uid-r"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_makes_another_version(change: Callable[[Cluster], object]) -> None:
    made = cluster(node("a", card(memory_mib=100)))
    made.confirm(hold("r", "a", "GPU-0", confirmed=False))
    before = made.version
    change(made)
    assert made.version > before


def test_what_changes_nothing_makes_no_version() -> None:
    made = cluster(node("a", card(memory_mib=100)))
    before = made.version
    made.release("uid-never")
    made.place(pod("new", asks()))
    made.refusal_groups(pod("new", asks(2)))
    assert made.version == before
