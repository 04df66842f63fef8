"""The sums of quotas: what is used is a recount after any order of facts, and what is left and refused follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import oracle
from builders import asks, card, cluster, container, node, pod
from cardwise.core.cluster import hold_of
from cardwise.core.model import (
    CardAllocation,
    CardRequest,
    ContainerAllocation,
    ContainerKind,
    ContainerRequest,
    Left,
    PodTraits,
)
from cardwise.scheduler.quotas import Quotas
from cardwise.wire.families import FAMILIES, HYGON, NVIDIA
from cardwise.wire.quotas import Hard, QuotaReading, ScopeRule

GPU, GPUMEM, GPUCORES = "limits.nvidia.com/gpu", "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def quota(name: str = "team", *rules: ScopeRule, namespace: str = "ml", **hard: int) -> QuotaReading:
    """A quota on NVIDIA cards; without any limit it is one of 8 cards."""
    return QuotaReading(namespace=namespace, name=name, rules=rules, hard={"nvidia": Hard(**(hard or {"cards": 8}))})


def quotas(*readings: QuotaReading) -> Quotas:
    made = Quotas(FAMILIES)
    for reading in readings:
        assert made.set_quota(reading) == set()
    return made


def took(*amounts: tuple[int, int], kind: ContainerKind = APP, family: str = "nvidia") -> ContainerAllocation:
    """A container with cards of so many MiB and percent of compute."""
    cards = tuple(
        CardAllocation(family=family, uuid=f"GPU-{k}", index=k, memory_mib=memory_mib, cores_percent=cores_percent)
        for k, (memory_mib, cores_percent) in enumerate(amounts)
    )
    return ContainerAllocation(name="c", kind=kind, cards=cards)


# -- sums ------------------------------------------------------------------------------------------------------------

NAMESPACES, NAMES, UIDS = st.sampled_from(("ml", "ops")), st.sampled_from(("q", "r")), st.sampled_from("abcd")
TRAITS = st.sampled_from((None, PodTraits(), PodTraits(priority_class="high"), PodTraits(best_effort=True)))
LIMITS = st.none() | st.integers(0, 60)
READINGS = st.builds(
    QuotaReading,
    namespace=NAMESPACES,
    name=NAMES,
    hard=st.dictionaries(
        st.sampled_from(("nvidia", "hygon")),
        st.builds(Hard, cards=LIMITS, memory_mib=LIMITS, cores_percent=LIMITS),
        max_size=2,
    ),
    rules=st.sampled_from(((), (), (ScopeRule(scope="PriorityClass"),), (ScopeRule(scope="NotBestEffort"),))),
    unreadable=st.sampled_from(({}, {}, {}, {"hygon": "it is x"})),
)
CONTAINERS = st.lists(
    st.builds(
        took,
        st.tuples(st.integers(1, 9), st.integers(0, 9)),
        kind=st.sampled_from((INIT, SIDECAR, APP, APP)),
        family=st.sampled_from(("nvidia", "hygon")),
    ),
    max_size=4,
).map(tuple)


class Sums(RuleBasedStateMachine):
    """Quotas under facts in any order, beside plain books: which quotas there are, and who has which cards."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas = Quotas(FAMILIES)
        self.readings: dict[tuple[str, str], QuotaReading] = {}
        self.pods: dict[str, tuple[str, tuple[ContainerAllocation, ...], PodTraits | None]] = {}

    @rule(reading=READINGS)
    def set_quota(self, reading: QuotaReading) -> None:
        with self.frees(self.quotas.set_quota(reading)):
            self.readings.pop((reading.namespace, reading.name), None)
            if reading.hard or reading.unreadable:
                self.readings[reading.namespace, reading.name] = reading

    @rule(namespace=NAMESPACES, name=NAMES)
    def remove_quota(self, namespace: str, name: str) -> None:
        with self.frees(self.quotas.remove_quota(namespace, name)):
            self.readings.pop((namespace, name), None)

    @rule(uid=UIDS, namespace=NAMESPACES, containers=CONTAINERS, traits=TRAITS)
    def charge(
        self, uid: str, namespace: str, containers: tuple[ContainerAllocation, ...], traits: PodTraits | None
    ) -> None:
        with self.frees(self.quotas.charge(uid, namespace, containers, traits)):
            self.pods[uid] = (namespace, containers, traits)
        assert self.quotas.charge(uid, namespace, containers, traits) == set()

    @rule(uid=UIDS)
    def release(self, uid: str) -> None:
        with self.frees(self.quotas.release(uid)):
            self.pods.pop(uid, None)

    @contextmanager
    def frees(self, freed: set[str]) -> Iterator[None]:
        """Where more is left after a change than before, its answer says so."""
        before = {namespace: self.room(namespace) for namespace in ("ml", "ops")}
        yield
        for namespace, left in before.items():
            now = self.room(namespace)
            if any(_more(now.get(family), left.get(family)) for family in ("nvidia", "hygon")):
                assert namespace in freed

    def room(self, namespace: str) -> dict[str, tuple[int | None, ...]]:
        """What is left; where that is no card, of nothing is anything left."""
        return {family: left if left[0] != 0 else (0, 0, 0) for family, left in self.expected(namespace).items()}

    def expected(self, namespace: str, without: str = "") -> dict[str, tuple[int | None, ...]]:
        """What is left, counted anew."""
        found: dict[str, tuple[int | None, ...]] = {}
        own = [reading for reading in self.readings.values() if reading.namespace == namespace]
        for family in ("nvidia", "hygon"):
            limits: list[list[int]] = [[], [], []]
            for reading in own:
                hard = reading.hard.get(family, Hard())
                used = self.used(reading, family, without)
                for at, most in enumerate((hard.cards, hard.memory_mib, hard.cores_percent)):
                    if most is not None:
                        limits[at].append(max(0, most - used[at]))
            if any(family in reading.unreadable for reading in own):
                found[family] = (0, None, None)
            elif any(family in reading.hard for reading in own):
                found[family] = tuple(min(each, default=None) for each in limits)
        return found

    def used(self, reading: QuotaReading, family: str, without: str = "") -> tuple[int, int, int]:
        total = [0, 0, 0]
        for uid, (namespace, containers, traits) in self.pods.items():
            if uid == without or namespace != reading.namespace or not reading.counts(traits):
                continue
            together = [
                [c for one in phase for c in one.cards if c.family == family] for phase in oracle.phases(containers)
            ]
            total[0] += max(len(cards) for cards in together)
            total[1] += max(sum(card.memory_mib for card in cards) for cards in together)
            total[2] += max(sum(card.cores_percent for card in cards) for cards in together)
        return total[0], total[1], total[2]

    @invariant()
    def what_is_left_is_what_a_recount_says(self) -> None:
        for namespace in ("ml", "ops", "never"):
            for without in ("", "a"):
                assert _numbers(self.quotas.left(namespace, without)) == self.expected(namespace, without)

    @invariant()
    def usage_is_what_a_recount_says(self) -> None:
        expected = set()
        for (namespace, name), reading in self.readings.items():
            for family in FAMILIES:
                hard, used = reading.hard.get(family.name, Hard()), self.used(reading, family.name)
                keys = (family.count_resource, family.memory_resource, family.cores_resource)
                for key, most, taken in zip(keys, (hard.cards, hard.memory_mib, hard.cores_percent), used, strict=True):
                    if most is not None:
                        expected.add((namespace, name, f"limits.{key}", taken, most))
        rows = list(self.quotas.usage())
        assert len(rows) == len(set(rows))
        assert set(rows) == expected

    @invariant()
    def the_quotas_known_are_those_that_are_there(self) -> None:
        assert sorted(self.quotas.known) == sorted(self.readings)


def _numbers(left: Mapping[str, Left]) -> dict[str, tuple[int | None, ...]]:
    return {family: (one.cards, one.memory_mib, one.cores_percent) for family, one in left.items()}


def _more(now: tuple[int | None, ...] | None, before: tuple[int | None, ...] | None) -> bool:
    """Whether more is left of anything; None is no limit."""
    if before is None:
        return False
    if now is None:
        return any(one is not None for one in before)
    return any(b is not None and (a is None or a > b) for a, b in zip(now, before, strict=True))


def test_sums_are_a_recount_after_any_order_of_facts() -> None:
    run_state_machine_as_test(
        Sums, settings=settings(max_examples=settings().max_examples // 2, stateful_step_count=20)
    )


# -- what is left ----------------------------------------------------------------------------------------------------


def test_of_several_quotas_the_tightest_holds_for_each_amount() -> None:
    made = quotas(quota("many", cards=8, memory_mib=1000), quota("much", cards=2, memory_mib=90_000))
    made.charge("a", "ml", (took((100, 0)),))
    assert made.left("ml") == {
        "nvidia": Left(
            cards=1,
            memory_mib=900,
            says=(f"quota much, {GPU}: 1 of 2 used", f"quota many, {GPUMEM}: 100 of 1000 used", ""),
        )
    }


def test_equal_quotas_are_named_in_their_order_whichever_came_first() -> None:
    assert quotas(quota("b"), quota("a")).left("ml") == quotas(quota("a"), quota("b")).left("ml")


def test_a_namespace_without_quotas_has_no_limits() -> None:
    assert not quotas(quota(namespace="ops")).left("ml")


def test_pods_that_end_for_the_one_that_asks_take_nothing() -> None:
    made = quotas(quota(cards=8))
    for uid in "abc":
        made.charge(uid, "ml", (took((100, 0)),))
    made.charge("d", "ops", (took((100, 0)),))
    left = made.left("ml", "a", ended=("b", "a", "d", "never"))
    assert left["nvidia"].cards == 7


def test_only_the_quotas_of_its_scopes_bind_a_pod() -> None:
    high = ScopeRule(scope="PriorityClass", operator="In", values=("high",))
    made = quotas(quota("high", high, cards=1), quota("all", cards=5))
    made.charge("a", "ml", (took((100, 0)),), PodTraits(priority_class="high"))
    assert made.left("ml", traits=PodTraits())["nvidia"].cards == 4
    assert made.left("ml", traits=PodTraits(priority_class="high"))["nvidia"].cards == 0
    assert made.left("ml")["nvidia"].cards == 0


def test_more_in_use_than_is_allowed_leaves_nothing_and_not_less() -> None:
    made = quotas(quota(cards=1))
    made.charge("a", "ml", (took((1, 0), (1, 0)),))
    assert made.left("ml")["nvidia"].cards == 0


def test_of_a_quota_that_cannot_be_read_nothing_is_left_and_a_pod_is_refused_with_the_reason() -> None:
    why = "limits.nvidia.com/gpumem is x, must be a Kubernetes quantity"
    made = quotas(QuotaReading(namespace="ml", name="team", unreadable={"nvidia": why}), quota("other"))
    asking = pod("p", asks(memory_mib=1))
    assert made.judge(asking) == (
        f"quota team, which cannot be read ({why}): no new pod gets NVIDIA cards until it can",
    )
    assert made.judge(pod("h", asks(family="hygon"))) == ()
    limited = cluster(node("a", card())).refusals(replace(asking, quota=made.left("ml")))
    assert limited["a"].code == "ResourceQuotaNotFit"
    assert f"beyond quota team, which cannot be read ({why}), 1 asked" in limited["a"].text


def test_what_a_pod_got_is_what_it_is_charged() -> None:
    """Half of a large card and half of a small one: what the cards come to, not what was asked."""
    made = quotas(quota(memory_mib=60_000, cards=8))
    there = cluster(node("a", card(0, memory_mib=80_000), card(1, memory_mib=20_000)))
    asking = replace(pod("p", asks(2, memory_percent=50)), quota=made.left("ml"))
    placement = there.place(asking)
    assert placement is not None
    hold = hold_of(placement, uid=asking.uid, namespace="ml", name="p")
    made.charge(hold.uid, "ml", hold.containers)
    assert set(made.usage()) == {("ml", "team", GPU, 2, 8), ("ml", "team", GPUMEM, 50_000, 60_000)}


# -- wake-ups --------------------------------------------------------------------------------------------------------


def test_the_namespace_is_named_where_a_change_leaves_more() -> None:
    made = quotas(quota(cards=8), quota(namespace="ops"))
    two, one = (took((100, 10), (100, 10)),), (took((100, 10)),)
    assert made.charge("a", "ml", one) == set()
    assert made.charge("a", "ml", two) == set()
    assert made.charge("a", "ml", one) == {"ml"}
    assert made.charge("a", "ops", one) == {"ml"}
    assert made.release("a") == {"ops"}
    assert made.release("a") == set()
    assert made.set_quota(quota(cards=8)) == set()
    assert made.set_quota(quota(cards=9)) == {"ml"}
    assert made.remove_quota("ml", "team") == {"ml"}
    assert made.remove_quota("ml", "team") == set()


def test_a_pod_frees_nothing_where_no_quota_counts_it() -> None:
    made = quotas(quota("high", ScopeRule(scope="PriorityClass")))
    made.charge("a", "ml", (took((100, 0)),), PodTraits())
    assert made.release("a") == set()


# -- admission -------------------------------------------------------------------------------------------------------


def of(kind: ContainerKind, *requests: CardRequest) -> ContainerRequest:
    return container(kind.value, *requests, kind=kind)


def mib(memory_mib: int, count: int = 1, cores_percent: int = 0) -> CardRequest:
    return asks(count, memory_mib=memory_mib, cores_percent=cores_percent)


USED = (took((1000, 200)),)
"""Of 2000 MiB and 400 % of compute: HAMi's example (pkg/device/quota_test.go, pkg/scheduler/webhook_test.go)."""
JUDGED: dict[str, tuple[tuple[CardRequest | ContainerRequest, ...], str]] = {
    "500 MiB more": ((mib(500),), ""),
    "1000 MiB more": ((mib(1000),), ""),
    "1500 MiB more": ((mib(1500),), "gpumem=1500 gpumem=1000 gpumem=2000"),
    "300 % more": ((mib(1, 3, 100),), "gpucores=300 gpucores=200 gpucores=400"),
    "both": (
        (mib(500, 3, 100),),
        "gpumem=1500,gpucores=300 gpumem=1000,gpucores=200 gpumem=2000,gpucores=400",
    ),
    "100 MiB": ((mib(100),), ""),
    "1024 MiB": ((mib(1024),), "gpumem=1024 gpumem=1000 gpumem=2000"),
    "2 × 1024 MiB": ((mib(1024, 2),), "gpumem=2048 gpumem=1000 gpumem=2000"),
    "2 × 400 MiB": ((mib(400, 2),), ""),
    "init containers of 800 and 800, an app of 500": (
        (of(INIT, mib(800)), of(INIT, mib(800)), of(APP, mib(500))),
        "",
    ),
    "an init container of 1500": ((of(INIT, mib(1500)), of(APP)), "gpumem=1500 gpumem=1000 gpumem=2000"),
    "percent of memory is for the card to say": ((asks(memory_percent=100, cores_percent=100),), ""),
    "percent, but too much compute": (
        (asks(3, memory_percent=100, cores_percent=100),),
        "gpucores=300 gpucores=200 gpucores=400",
    ),
    "another family": ((asks(5, memory_mib=9999, family="hygon"),), ""),
}


@pytest.mark.parametrize("row", JUDGED)
def test_admission_refuses_in_kubernetes_words_what_is_surely_too_much_and_names_what_binds(row: str) -> None:
    asking, numbers = JUDGED[row]
    made = quotas(quota(memory_mib=2000, cores_percent=400))
    made.charge("running", "ml", USED)
    says = [text.replace("gpu", "limits.nvidia.com/gpu") for text in numbers.split()]
    expected = [
        f"exceeded quota: team, requested: {requested}, used: {used}, limited: {limited}"
        for requested, used, limited in ([says] if says else [])
    ]
    assert list(made.judge(pod("p", *asking))) == expected


def test_a_card_in_an_init_container_only_is_judged() -> None:
    asking = pod("p", of(INIT, mib(100)), of(APP))
    assert len(quotas(quota(cards=0)).judge(asking)) == 1


@pytest.mark.parametrize("first", [of(INIT), of(APP)], ids=["an init container", "an app"])
def test_a_container_without_cards_before_others_changes_nothing(first: ContainerRequest) -> None:
    """2 × 16000 of 24000 MiB."""
    made = quotas(quota(memory_mib=24_000))
    assert len(made.judge(pod("p", first, of(APP, mib(16_000)), of(APP, mib(16_000))))) == 1
    assert made.judge(pod("p", first, of(APP, mib(16_000)))) == ()


def test_cards_times_memory_of_each_is_judged() -> None:
    (says,) = quotas(quota(memory_mib=5000)).judge(pod("p", mib(3000, 2)))
    assert says == f"exceeded quota: team, requested: {GPUMEM}=6000, used: {GPUMEM}=0, limited: {GPUMEM}=5000"


def test_every_quota_that_binds_has_its_sentence() -> None:
    made = quotas(quota("many", cards=1), quota("much", memory_mib=5000), quota("wide", cards=9))
    assert [says.split(",")[0] for says in made.judge(pod("p", mib(3000, 2)))] == [
        "exceeded quota: many",
        "exceeded quota: much",
    ]


def test_what_is_used_up_does_not_refuse_who_asks_for_none_of_it() -> None:
    made = quotas(quota(cores_percent=0))
    assert made.judge(pod("p", mib(100))) == ()
    assert made.judge(pod("p", mib(100, 1, 1))) != ()


def test_only_the_quotas_of_its_scopes_judge_a_pod() -> None:
    made = quotas(quota("high", ScopeRule(scope="PriorityClass"), cards=0))
    assert made.judge(replace(pod("p", mib(100)), traits=PodTraits())) == ()
    assert made.judge(replace(pod("p", mib(100)), traits=PodTraits(priority_class="high"))) != ()
    assert made.judge(pod("p", mib(100))) != ()


def test_families_are_limited_apart() -> None:
    made = quotas(QuotaReading(namespace="ml", name="q", hard={"nvidia": Hard(cards=1), "hygon": Hard(cards=1)}))
    made.charge("a", "ml", (took((1, 0)),))
    assert {family.name: made.left("ml")[family.name].cards for family in (NVIDIA, HYGON)} == {"nvidia": 0, "hygon": 1}
