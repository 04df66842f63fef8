"""Changes step by step: the same as all at once, whatever happens between two steps, within a bounded number of steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

import strategies as some
from builders import asks, card, cards_of, cluster, hold, node, pod
from cardwise.core import changes as changes_module
from cardwise.core.changes import Change, changes, each_change
from cardwise.core.cluster import Cluster
from cardwise.core.model import PodRequest
from cardwise.core.nodefit import NodeFacts, NodeTable
from cardwise.core.scene import Scene
from strategies import Case


def scene_of(made: Cluster, asking: PodRequest) -> Scene:
    return Scene(cluster=made, table=NodeTable([NodeFacts(name=name) for name in made.cards.names]), pod=asking)


def endings(found: tuple[Change, ...]) -> list[str]:
    return [change.change for change in found if change.change.endswith(" ending")]


def first_that_helps(scene: Scene) -> list[str]:
    """The hold that helps, found by trying one after the other."""
    cards, holds = scene.cluster.cards, scene.cluster.holds.values()
    for each in sorted(
        holds, key=lambda one: (sum(u.memory_mib for u in one.use.values()), len(one.use), one.full_name)
    ):
        n = cards.index_of.get(each.node)
        if n is not None and cards.in_service[n] and scene.place_without(n, each.uid, {}) is not None:
            return [f"pod {each.full_name} ending"]
    return []


@given(some.cases())
def test_the_smallest_hold_that_helps_is_the_first_that_would_be_found_by_trying_all(case: Case) -> None:
    case = replace(case, nodes=tuple(replace(one, unreadable=()) for one in case.nodes))
    scene = scene_of(case.cluster(), case.pod)
    if scene.place() is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(changes_module, "HOLDS_A_STEP", 1)
            assert endings(changes(scene, {})) == first_that_helps(scene)


@given(some.cases())
def test_each_change_is_one_of_all_changes_in_their_order(case: Case) -> None:
    scene = scene_of(case.cluster(), case.pod)
    assert tuple(filter(None, each_change(scene, {}))) == changes(scene, {})


def crowded(nodes: int) -> Cluster:
    """On each node two cards, each held by a pod; the higher the node's number, the less."""
    made = cluster(*(node(f"n-{k:03}", *cards_of(2, f"n-{k:03}", memory_mib=1000)) for k in range(nodes)))
    for k in range(nodes):
        for q in range(2):
            made.confirm(hold(f"r-{k:03}-{q}", f"n-{k:03}", f"n-{k:03}-{q}", memory_mib=990 - k))
    return made


def test_only_so_many_pods_are_tried_the_smallest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made, tried = crowded(50), []
    scene = scene_of(made, pod("new", asks(memory_mib=600), asks(memory_mib=600)))  # needs both cards of a node

    def vainly(_scene: Scene, n: int, uid: str, _amounts: object) -> None:
        tried.append((n, uid))

    monkeypatch.setattr(Scene, "place_without", vainly)
    assert endings(tuple(filter(None, each_change(scene, {}, most_ends=3)))) == []
    assert [uid for _n, uid in tried] == ["uid-r-049-0", "uid-r-049-1", "uid-r-048-0"]


def test_no_pod_is_tried_whose_cards_would_not_do() -> None:
    made = cluster(node("a", card(memory_mib=1000)), node("b", *cards_of(2, "B", memory_mib=3000)))
    made.confirm(hold("small", "a", "GPU-0", memory_mib=900))
    made.confirm(hold("large", "b", "B-0", memory_mib=2900))
    made.confirm(hold("larger", "b", "B-1", memory_mib=2950))
    scene = scene_of(made, pod("new", asks(memory_mib=2000)))
    assert endings(tuple(filter(None, each_change(scene, {}, most_ends=1)))) == ["pod ml/large ending"]


@pytest.mark.parametrize("stop", range(0, 30, 3))
def test_the_cluster_may_change_between_two_steps_and_who_has_ended_is_not_told_to_end(stop: int) -> None:
    made = crowded(3)
    steps = each_change(scene_of(made, pod("new", asks(memory_mib=600))), {})
    before = [next(steps, None) for _ in range(stop)]
    for uid in [*made.holds][:4]:
        made.release(uid)
    made.remove_node("n-002")
    after = tuple(change for change in steps if change is not None)
    assert endings(after) == []
    assert endings(tuple(filter(None, before))) in ([], ["pod ml/r-002-0 ending"])
