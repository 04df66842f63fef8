"""ResourceQuotas as the API server has them: what they limit of cards, which pods they count, and what cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.model import PodTraits
from cardwise.wire import objects
from cardwise.wire.families import FAMILIES, HYGON, NVIDIA
from cardwise.wire.quotas import MOST_HARD, Hard, QuotaReading, ResourceQuota, read_quota, read_traits, unreadable_quota

GPU, GPUMEM, GPUCORES = "limits.nvidia.com/gpu", "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


def quota(hard: Any = None, **spec: Any) -> ResourceQuota:
    """The object as it is decoded from what the API server sends."""
    value = {"metadata": {"namespace": "ml", "name": "team"}, "spec": {"hard": hard, **spec}}
    return msgspec.json.decode(msgspec.json.encode(value), type=ResourceQuota)


def read(hard: Any = None, **spec: Any) -> QuotaReading:
    return read_quota(quota(hard, **spec), FAMILIES)


# -- limits ----------------------------------------------------------------------------------------------------------

LIMITS: dict[str, tuple[dict[str, Any], dict[str, Hard]]] = {
    "all three": (
        {GPU: "8", GPUMEM: "24000", GPUCORES: "200"},
        {"nvidia": Hard(cards=8, memory_mib=24000, cores_percent=200)},
    ),
    "zero is a limit": ({GPU: "0"}, {"nvidia": Hard(cards=0)}),
    "numbers as YAML has them": ({GPU: 8}, {"nvidia": Hard(cards=8)}),
    "as the API server rewrites 24000": ({GPUMEM: "24k", GPU: "1k"}, {"nvidia": Hard(cards=1000, memory_mib=24000)}),
    "as the API server rewrites 2000000": ({GPUMEM: "2M"}, {"nvidia": Hard(memory_mib=2_000_000)}),
    "bytes": ({GPUMEM: "80Gi"}, {"nvidia": Hard(memory_mib=81920)}),
    "more than 32 bits": ({GPUMEM: "9999999999"}, {"nvidia": Hard(memory_mib=9_999_999_999)}),
    "two families": (
        {GPU: "1", "limits.hygon.com/dcumem": "5"},
        {"nvidia": Hard(cards=1), "hygon": Hard(memory_mib=5)},
    ),
    "nothing of cards": ({"limits.cpu": "4", "pods": "10"}, {}),
    "requests are Kubernetes' own": ({"requests.nvidia.com/gpu": "4"}, {}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("row", LIMITS)
def test_limits_of_a_family_are_read(row: str) -> None:
    hard, expected = LIMITS[row]
    reading = read(hard)
    assert reading == QuotaReading(namespace="ml", name="team", hard=expected)
    assert reading.is_of_cards is bool(expected)


def test_memory_in_plain_numbers_is_counted_in_the_familys_unit() -> None:
    family = replace(NVIDIA, memory_factor=256)
    assert read_quota(quota({GPUMEM: "10"}), (family,)).hard == {"nvidia": Hard(memory_mib=2560)}
    assert read_quota(quota({GPUMEM: "10Gi"}), (family,)).hard == {"nvidia": Hard(memory_mib=10240)}


def test_a_limit_on_percentages_is_warned_about() -> None:
    reading = read({"limits.nvidia.com/gpumem-percentage": "100"})
    assert reading.hard == {}
    assert reading.warnings == (
        f"quota ml/team: limits.nvidia.com/gpumem-percentage limits nothing; {GPUMEM} counts percentages too",
    )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no quantity": ({GPU: "many"}, f"{GPU} is many, must be a Kubernetes quantity, such as 2, 500m or 8Gi"),
    "a fraction": ({GPUCORES: "500m"}, f"{GPUCORES} is 500m, must be a whole number, 0 to {MOST_HARD}"),
    "below zero": ({GPU: "-1"}, f"{GPU} is -1, must be a whole number, 0 to {MOST_HARD}"),
    "too large": ({GPU: "5E30"}, f"{GPU} is 5E30, must be a whole number, 0 to {MOST_HARD}"),
    "bytes that may be meant": (
        {GPUMEM: "80G"},
        f"{GPUMEM} is 80G, must be a plain number of MiB below 1000000000, or bytes as in 80Gi",
    ),
    "no whole MiB": ({GPUMEM: "1Ki"}, f"{GPUMEM} is 1Ki, must be a whole number of MiB, 0 to {MOST_HARD}"),
    "one of three": ({GPU: "8", GPUMEM: "x"}, f"{GPUMEM} is x, must be a Kubernetes quantity, such as 2, 500m or 8Gi"),
}


@pytest.mark.parametrize("row", WRONG)
def test_what_cannot_be_meant_is_no_limit_that_holds_and_says_so(row: str) -> None:
    hard, why = WRONG[row]
    reading = read(hard | {"limits.hygon.com/dcunum": "2"})
    assert reading.unreadable == {"nvidia": why}
    assert reading.hard == {"hygon": Hard(cards=2)}
    assert reading.warnings == (f"quota ml/team: {why}; until then no new pod there gets NVIDIA cards",)
    assert reading.is_of_cards


@given(st.dictionaries(st.sampled_from((GPU, GPUMEM, GPUCORES)), st.text(max_size=8) | st.integers() | st.floats()))
def test_any_amount_is_a_limit_or_unreadable_and_never_no_limit(hard: dict[str, Any]) -> None:
    reading = read_quota(ResourceQuota(metadata=objects.Meta(name="q"), spec=quota().spec), FAMILIES)
    assert not reading.is_of_cards
    spec = quota().spec
    assert spec is not None
    spec.hard = hard
    reading = read_quota(ResourceQuota(metadata=objects.Meta(name="q"), spec=spec), FAMILIES)
    assert reading.is_of_cards is bool(hard)
    assert ("nvidia" in reading.unreadable) is (bool(hard) and "nvidia" not in reading.hard)


def test_an_object_that_cannot_be_decoded_limits_every_family() -> None:
    reading = unreadable_quota("ml", "team", "spec.hard is 5", FAMILIES)
    assert reading.unreadable == {"nvidia": "spec.hard is 5", "hygon": "spec.hard is 5"}
    assert reading.is_of_cards
    assert HYGON.name in reading.unreadable


def test_a_quota_without_spec_limits_nothing() -> None:
    assert not read_quota(ResourceQuota(metadata=objects.Meta(name="q")), FAMILIES).is_of_cards


# -- scopes ----------------------------------------------------------------------------------------------------------

PLAIN = PodTraits()
HIGH, LOW = PodTraits(priority_class="high"), PodTraits(priority_class="low")
BEST_EFFORT, TERMINATING = PodTraits(best_effort=True), PodTraits(terminating=True)
EVERY = (PLAIN, HIGH, LOW, BEST_EFFORT, TERMINATING)


def selector(operator: str, *values: str, scope: str = "PriorityClass") -> dict[str, Any]:
    expression = {"scopeName": scope, "operator": operator} | ({"values": list(values)} if values else {})
    return {"scopeSelector": {"matchExpressions": [expression]}}


SCOPES: dict[str, tuple[dict[str, Any], tuple[PodTraits, ...]]] = {
    "none": ({}, EVERY),
    "best effort": ({"scopes": ["BestEffort"]}, (BEST_EFFORT,)),
    "not best effort": ({"scopes": ["NotBestEffort"]}, (PLAIN, HIGH, LOW, TERMINATING)),
    "terminating": ({"scopes": ["Terminating"]}, (TERMINATING,)),
    "not terminating": ({"scopes": ["NotTerminating"]}, (PLAIN, HIGH, LOW, BEST_EFFORT)),
    "two at once": ({"scopes": ["Terminating", "BestEffort"]}, ()),
    "any priority class": ({"scopes": ["PriorityClass"]}, (HIGH, LOW)),
    "a selector for it": (selector("Exists"), (HIGH, LOW)),
    "no priority class": (selector("DoesNotExist"), (PLAIN, BEST_EFFORT, TERMINATING)),
    "one of these": (selector("In", "high", "higher"), (HIGH,)),
    "none of these, or none at all": (selector("NotIn", "high"), (PLAIN, LOW, BEST_EFFORT, TERMINATING)),
    "a selector for another scope": (selector("Exists", scope="Terminating"), (TERMINATING,)),
    "a scope and a selector": ({"scopes": ["NotTerminating"]} | selector("In", "low"), (LOW,)),
}


@pytest.mark.parametrize("row", SCOPES)
def test_a_quota_counts_the_pods_of_its_scopes(row: str) -> None:
    spec, expected = SCOPES[row]
    reading = read({GPU: "1"}, **spec)
    assert tuple(traits for traits in EVERY if reading.counts(traits)) == expected
    assert not reading.warnings


@pytest.mark.parametrize("row", SCOPES)
def test_a_pod_of_which_nothing_is_known_is_counted_by_every_quota(row: str) -> None:
    assert read({GPU: "1"}, **SCOPES[row][0]).counts(None)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"scopes": ["CrossNamespacePodAffinity"]}, "CrossNamespacePodAffinity Exists"),
        (selector("Near", "high"), "PriorityClass Near"),
        (selector("In", "x", scope="Terminating"), "Terminating In"),
        ({"scopes": [""]}, "(empty) Exists"),
    ],
    ids=["another scope", "another operator", "an operator that this scope has not", "empty"],
)
def test_a_scope_that_is_not_known_lets_the_quota_count_all_pods_and_is_warned_about(
    spec: dict[str, Any], named: str
) -> None:
    reading = read({GPU: "1"}, **spec)
    assert all(reading.counts(traits) for traits in EVERY)
    assert reading.warnings == (
        f"quota ml/team: scope {named} is not known for cards; the quota counts pods whatever it says",
    )


def test_scopes_of_a_quota_that_limits_no_cards_are_not_looked_at() -> None:
    assert read({"pods": "5"}, scopes=["CrossNamespacePodAffinity"]).warnings == ()


def pod_spec(**spec: Any) -> objects.PodSpec:
    return msgspec.json.decode(msgspec.json.encode(spec), type=objects.PodSpec)


ONE_CPU, NO_CPU = {"requests": {"cpu": "1"}}, {"limits": {"cpu": "0", "nvidia.com/gpu": "1"}}
TRAITS: dict[str, tuple[dict[str, Any], PodTraits]] = {
    "nothing asked": ({"containers": [{"name": "a"}]}, PodTraits(best_effort=True)),
    "only cards asked, and no CPU": ({"containers": [{"resources": NO_CPU}]}, PodTraits(best_effort=True)),
    "CPU asked": ({"containers": [{"resources": ONE_CPU}]}, PodTraits()),
    "memory limited": ({"containers": [{}, {"resources": {"limits": {"memory": "1Gi"}}}]}, PodTraits()),
    "CPU asked by an init container": ({"initContainers": [{"resources": ONE_CPU}]}, PodTraits()),
    "CPU asked by the pod as a whole": ({"resources": ONE_CPU, "containers": [{}]}, PodTraits()),
    "CPU that is no quantity": ({"containers": [{"resources": {"requests": {"cpu": "x"}}}]}, PodTraits()),
    "a deadline": (
        {"activeDeadlineSeconds": 5, "containers": [{"resources": ONE_CPU}]},
        PodTraits(terminating=True),
    ),
    "a priority class": (
        {"priorityClassName": "high", "containers": [{"resources": ONE_CPU}]},
        PodTraits(priority_class="high"),
    ),
}


@pytest.mark.parametrize("row", TRAITS)
def test_what_scopes_look_at_is_read_from_the_pod(row: str) -> None:
    spec, expected = TRAITS[row]
    assert read_traits(pod_spec(**spec)) == expected
