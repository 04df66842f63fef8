"""Quotas in the decision: what a pod takes of them, what they refuse, and which cards they leave (laws: test_laws.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import all_linked, asks, card, cards_of, cluster, container, hold, node, pod, uuids
from cardwise.core.explain import node_verdicts
from cardwise.core.model import (
    CardAllocation,
    CardPolicy,
    CardRequest,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    Left,
    Links,
    Node,
    PodRequest,
    Selection,
)
from cardwise.core.nodefit import NodeFacts, NodeTable
from cardwise.core.peak import Amounts, least_amounts, peak_amounts
from cardwise.core.place import never_fits
from cardwise.core.plan import steps_of
from cardwise.core.scene import Scene

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def of(kind: ContainerKind, *requests: CardRequest) -> ContainerRequest:
    return container(kind.value, *requests, kind=kind)


def got(kind: ContainerKind, *cards: tuple[str, int, int]) -> ContainerAllocation:
    """A container that got cards of these families, MiB and percent of compute."""
    given = tuple(
        CardAllocation(family=family, uuid=f"GPU-{k}", index=k, memory_mib=memory_mib, cores_percent=cores_percent)
        for k, (family, memory_mib, cores_percent) in enumerate(cards)
    )
    return ContainerAllocation(name=kind.value, kind=kind, cards=given)


# -- what a pod takes ------------------------------------------------------------------------------------------------

NVIDIA = "nvidia"
TAKEN: dict[str, tuple[list[ContainerAllocation], dict[str, Amounts]]] = {
    "two cards, 3000 MiB each": ([got(APP, (NVIDIA, 3000, 0), (NVIDIA, 3000, 0))], {NVIDIA: Amounts(2, 6000, 0)}),
    "three init containers, one after another, then as much": (
        [*[got(INIT, (NVIDIA, 10000, 0))] * 3, got(APP, (NVIDIA, 10000, 0))],
        {NVIDIA: Amounts(1, 10000, 0)},
    ),
    "a card in an init container only": (
        [got(INIT, (NVIDIA, 4000, 30)), got(APP)],
        {NVIDIA: Amounts(1, 4000, 30)},
    ),
    "an init container without cards before two apps": (
        [got(INIT), got(APP, (NVIDIA, 16000, 0)), got(APP, (NVIDIA, 16000, 0))],
        {NVIDIA: Amounts(2, 32000, 0)},
    ),
    "a sidecar beside what follows it, not beside what came before": (
        [got(INIT, (NVIDIA, 500, 0)), got(SIDECAR, (NVIDIA, 100, 10)), got(INIT, (NVIDIA, 300, 0)), got(APP)],
        {NVIDIA: Amounts(2, 500, 10)},
    ),
    "each amount has its own peak": (
        [got(INIT, (NVIDIA, 9000, 0)), got(APP, (NVIDIA, 100, 50), (NVIDIA, 100, 50))],
        {NVIDIA: Amounts(2, 9000, 100)},
    ),
    "families apart": (
        [got(APP, (NVIDIA, 100, 0), ("hygon", 200, 100))],
        {NVIDIA: Amounts(1, 100, 0), "hygon": Amounts(1, 200, 100)},
    ),
    "nothing": ([got(APP)], {}),
}


@pytest.mark.parametrize("row", TAKEN)
def test_a_pod_takes_its_peak_of_its_namespaces_quotas(row: str) -> None:
    containers, amounts = TAKEN[row]
    assert peak_amounts(containers) == amounts


def test_before_cards_are_chosen_percentages_of_memory_count_as_nothing() -> None:
    asking = [of(APP, asks(2, memory_percent=50, cores_percent=20)), of(APP, asks(3, memory_mib=1000))]
    assert least_amounts(asking) == {NVIDIA: Amounts(5, 3000, 40)}


# -- what quotas refuse, whatever the cards --------------------------------------------------------------------------

SAYS = ("quota team, gpu: 1 of 3 used", "quota team, gpumem: 9 of 20 used", "quota cores, gpucores: 10 of 100 used")
BEYOND: dict[str, tuple[Left, PodRequest, str]] = {
    "count": (Left(cards=2, says=SAYS), pod("p", asks(3, memory_mib=1)), "quota team, gpu: 1 of 3 used, 3 asked"),
    "count over containers": (
        Left(cards=2, says=SAYS),
        pod("p", asks(2, memory_mib=1), asks(1, memory_mib=1)),
        "quota team, gpu: 1 of 3 used, 3 asked",
    ),
    "memory": (Left(memory_mib=11, says=SAYS), pod("p", asks(2, memory_mib=6)), f"{SAYS[1]}, 12 asked"),
    "cores": (
        Left(cores_percent=90, says=SAYS),
        pod("p", asks(1, memory_mib=1, cores_percent=91)),
        f"{SAYS[2]}, 91 asked",
    ),
    "an init container": (
        Left(memory_mib=11, says=SAYS),
        pod("p", of(INIT, asks(1, memory_mib=12)), of(APP)),
        f"{SAYS[1]}, 12 asked",
    ),
    "all of them": (
        Left(cards=0, memory_mib=0, cores_percent=0, says=SAYS),
        pod("p", asks(1, memory_mib=1, cores_percent=1)),
        f"{SAYS[0]}, 1 asked and {SAYS[1]}, 1 asked and {SAYS[2]}, 1 asked",
    ),
    "percent where nothing is left": (
        Left(memory_mib=0, says=SAYS),
        pod("p", asks(1, memory_percent=1)),
        f"{SAYS[1]}, 1 % of one card asked",
    ),
    "percent beside what another container surely takes": (
        Left(memory_mib=11, says=SAYS),
        pod("p", asks(1, memory_mib=11), asks(2, memory_percent=1)),
        f"{SAYS[1]}, 1 % of 2 cards beside 11 MiB asked",
    ),
}


def limited(asking: PodRequest, left: Left) -> PodRequest:
    return replace(asking, quota={NVIDIA: left})


@pytest.mark.parametrize("row", BEYOND)
def test_a_pod_beyond_its_quota_is_refused_by_every_card_with_the_quota_and_the_numbers(row: str) -> None:
    left, asking, says = BEYOND[row]
    made = cluster(node("a", *cards_of(4)), node("b", *cards_of(4)))
    asking = limited(asking, left)
    assert made.place(asking) is None
    found = made.refusals(asking)
    assert {(name, refusal.code, refusal.lasting) for name, refusal in found.items()} == {
        (name, "ResourceQuotaNotFit", False) for name in ("a", "b")
    }
    assert f"(4 beyond {says})" in found["a"].text
    assert not never_fits(made.cards, asking)


WITHIN: dict[str, tuple[Left, PodRequest]] = {
    "exactly": (
        Left(cards=2, memory_mib=12, cores_percent=20),
        pod("p", asks(2, memory_mib=6, cores_percent=10)),
    ),
    "one after another": (
        Left(cards=1, memory_mib=6),
        pod("p", of(INIT, asks(1, memory_mib=6)), of(INIT, asks(1, memory_mib=6)), of(APP, asks(1, memory_mib=6))),
    ),
    "nothing asked of what is used up": (Left(cores_percent=0), pod("p", asks(1, memory_mib=6))),
    "used beyond the limit": (Left(cores_percent=-5), pod("p", asks(1, memory_mib=6))),
    "another family": (
        Left(cards=0, memory_mib=0),
        pod("p", asks(1, memory_mib=6, family="hygon")),
    ),
}


@pytest.mark.parametrize("row", WITHIN)
def test_a_pod_within_its_quota_is_placed(row: str) -> None:
    left, asking = WITHIN[row]
    made = cluster(node("a", *cards_of(4)), node("h", card(0, "H-0", family="hygon")))
    assert made.place(limited(asking, left)) is not None


# -- percentages: by the cards that are chosen -------------------------------------------------------------------------

LARGE, SMALL = 80_000, 20_000


MIXED = (card(0, memory_mib=LARGE), card(1, memory_mib=SMALL), card(2, memory_mib=LARGE), card(3, memory_mib=SMALL))
CHOSEN: dict[str, tuple[int, PodRequest, list[list[str]]]] = {
    "no limit that matters": (80_000, pod("p", asks(1, memory_percent=50)), [["GPU-0"]]),
    "only the small card is within": (10_000, pod("p", asks(1, memory_percent=50)), [["GPU-1"]]),
    "one of each is within": (50_000, pod("p", asks(2, memory_percent=50)), [["GPU-0", "GPU-1"]]),
    "two small ones are": (49_999, pod("p", asks(2, memory_percent=50)), [["GPU-1", "GPU-3"]]),
    "the last container must take the small one": (
        50_000,
        pod("p", asks(1, memory_percent=50), asks(1, memory_percent=50)),
        [["GPU-0"], ["GPU-1"]],
    ),
    "the first must, for the last": (
        45_000,
        pod("p", asks(1, memory_percent=50), asks(1, memory_mib=30_000)),
        [["GPU-1"], ["GPU-0"]],
    ),
    "init containers come one by one": (
        40_000,
        pod("p", of(INIT, asks(1, memory_percent=50)), of(APP, asks(1, memory_percent=50))),
        [["GPU-0"], ["GPU-0"]],
    ),
    "an init container must, for its own sake": (
        39_999,
        pod("p", of(INIT, asks(1, memory_percent=50)), of(APP, asks(1, memory_mib=30_000))),
        [["GPU-1"], ["GPU-0"]],
    ),
    "a sidecar counts beside the app": (
        49_999,
        pod("p", of(SIDECAR, asks(1, memory_percent=50)), of(APP, asks(1, memory_percent=50))),
        [["GPU-1"], ["GPU-1"]],
    ),
}


@pytest.mark.parametrize("row", CHOSEN)
def test_percentages_count_by_the_cards_chosen_and_smaller_cards_are_taken_where_only_they_are_within(row: str) -> None:
    most, asking, expected = CHOSEN[row]
    policy = CardPolicy(keys=("numa",))  # all on one: the first card stands first
    asking = limited(replace(asking, card_policy=policy), Left(memory_mib=most))
    made = cluster(node("a", *MIXED))
    assert uuids(made.place(asking)) == expected
    assert made.refusals(asking) == {}


@pytest.mark.parametrize("links", [(), all_linked(4)], ids=["by rank", "topology-aware"])
def test_no_set_of_cards_is_within_so_every_node_refuses_by_the_quota(links: Links) -> None:
    """Each small card alone would be within what is left, two of them are not."""
    made = cluster(node("a", *MIXED, links=links), node("b", *MIXED[:1]))
    asking = pod("p", asks(2, memory_percent=50), card_policy=CardPolicy(linked=True))
    asking = limited(asking, Left(memory_mib=19_999, says=("", "quota team, gpumem: 1 of 20000 used", "")))
    assert made.place(asking) is None
    found = made.refusals(asking)
    assert {name: refusal.code for name, refusal in found.items()} == {
        "a": "ResourceQuotaNotFit",
        "b": "NodeInsufficientDevice",
    }
    assert "4 beyond quota team, gpumem: 1 of 20000 used, 50 % of 2 cards asked" in found["a"].text


def test_with_numa_binding_the_smallest_cards_of_one_numa_node_decide() -> None:
    own = (card(0, memory_mib=LARGE), card(1, memory_mib=SMALL), card(2, memory_mib=SMALL, numa=1), card(3, numa=1))
    asking = pod("p", asks(2, memory_percent=50), selections={NVIDIA: Selection(one_numa=True)})
    made = cluster(node("a", *own))
    assert uuids(made.place(limited(asking, Left(memory_mib=10_000 + 12_288)))) == [["GPU-2", "GPU-3"]]
    assert made.place(limited(asking, Left(memory_mib=10_000 + 12_287))) is None
    assert made.refusals(limited(asking, Left(memory_mib=10_000 + 12_287)))["a"].code == "ResourceQuotaNotFit"


def sixteen(name: str, more_mib: int = 0) -> Node:
    """Cards of 16 sizes, 16,000 MiB down to 1,000."""
    return node(name, *(card(k, memory_mib=16_000 - 1000 * k + more_mib) for k in range(16)))


EIGHT = limited(
    pod("p", asks(8, memory_percent=100), card_policy=CardPolicy(keys=("numa",))),  # the first card stands first
    Left(memory_mib=43_000),
)
"""Each of the 15 smaller cards of `sixteen` is within this with the seven smallest; hardly any of their 6,435 sets is."""


def test_of_more_sets_than_can_be_tried_the_cheapest_is_found() -> None:
    assert uuids(cluster(sixteen("a")).place(EIGHT)) == [[f"GPU-{k}" for k in range(8, 16)]]


def test_where_quotas_leave_enough_for_some_cards_of_a_node_it_does_not_refuse() -> None:
    made = cluster(*(sixteen(f"n-{k}", more_mib=k) for k in range(12)))
    assert made.place(EIGHT) is not None
    assert made.refusals(EIGHT) == {}


def test_what_another_container_surely_takes_is_not_left() -> None:
    """The percentage alone would be within, and each container would fit: it is the quota that refuses."""
    asking = limited(pod("p", asks(memory_mib=15_000), asks(memory_percent=50)), Left(memory_mib=50_000))
    refusal = cluster(node("a", *cards_of(2, memory_mib=LARGE))).refusals(asking)["a"]
    assert (refusal.code, refusal.container) == ("ResourceQuotaNotFit", "c1")


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_a_quota_makes_new_needs_only_where_cards_differ_in_it() -> None:
    plain, percent = pod("p", asks(2, memory_mib=6)), pod("q", asks(1, memory_percent=50, cores_percent=1))
    roomy = Left(cards=100, memory_mib=1_000_000, cores_percent=1000)
    assert steps_of(limited(plain, roomy)) == steps_of(plain)
    assert steps_of(limited(percent, replace(roomy, memory_mib=None))) == steps_of(percent)
    assert steps_of(limited(percent, roomy)) != steps_of(percent)


def test_pods_beyond_their_quotas_share_one_need_whatever_is_left() -> None:
    asking = pod("p", asks(2, memory_mib=6))
    needs = {steps_of(limited(asking, Left(memory_mib=left, says=("", f"{left}", ""))))[0].need for left in range(12)}
    assert len(needs) == 1
    assert needs != {steps_of(asking)[0].need}


# -- explain -----------------------------------------------------------------------------------------------------------


def says(asking: PodRequest) -> list[str]:
    """What `explain` says of each card of one node."""
    made = cluster(node("a", *MIXED[:2]))
    made.confirm(hold("other", "a", "GPU-1", memory_mib=1))
    (verdict,) = node_verdicts(Scene(cluster=made, table=NodeTable([NodeFacts(name="a")]), pod=asking))
    return [one.says for one in verdict.cards]


def test_explain_says_of_each_card_what_it_would_take_and_what_is_left() -> None:
    quota = Left(memory_mib=30_000, says=("", "quota team, gpumem: 10 of 30010 used", ""))
    tail = "left for it by quota team, gpumem: 10 of 30010 used, 50 % of one card asked"
    assert says(limited(pod("p", asks(1, memory_percent=50)), quota)) == [f"asks 40000 MiB, 30000 MiB {tail}", ""]


def test_explain_says_what_no_card_can_help() -> None:
    quota = Left(cards=1, says=("quota team, gpu: 7 of 8 used", "", ""))
    beyond = "beyond quota team, gpu: 7 of 8 used, 2 asked"
    assert says(limited(pod("p", asks(2, memory_mib=1)), quota)) == [beyond, beyond]
