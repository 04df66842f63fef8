"""What is counted, and the page: every series of the table, bounded labels, and the documentation that lists them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from builders import card, cluster, node
from cardwise.kube.clock import Clock
from cardwise.kube.watch import Counts
from cardwise.scheduler.card_rows import ROWS_AT_ONCE, CardRows
from cardwise.scheduler.metrics import BUCKETS_SECONDS, Metrics, QuotaUse, Reading
from cardwise.scheduler.series import CODES, OTHER, SERIES, Series
from scheduler.pages import LEADER, families, labels, pieces_of, values

ROOT = Path(__file__).parent.parent.parent
STANDBY = Reading(leader=False, view_complete=True, nodes=3)
QUOTA = QuotaUse(namespace="ml", quota="team", resource="limits.nvidia.com/gpumem", used=48000, hard=32000)
NUMBERS = ("pods_waiting", "reservations", "nodes", "nodes_out_of_service", "gates_busy")


def full_page(reading: Reading = LEADER) -> list[bytes]:
    """A page on which every series has a sample."""
    metrics = Metrics()
    metrics.watching("pods", Counts())
    rows = CardRows(cluster(node("n", card())).cards)
    return pieces_of(metrics, reading, rows, [QUOTA])


def ours(page: list[bytes]) -> set[str]:
    return {name for name in families(page) if name.startswith("cardwise_")}


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
def test_every_series_is_on_the_page_as_the_table_says(series: Series) -> None:
    family = families(full_page())[series.name]
    assert (family.type, family.documentation) == (series.kind, series.meaning)
    names = {tuple(sorted(set(sample.labels) - {"le"})) for sample in family.samples}
    assert names == {tuple(sorted(series.labels))}


def test_the_page_has_no_series_of_ours_that_is_not_in_the_table() -> None:
    assert ours(full_page()) == {series.name for series in SERIES}


def test_what_describes_the_cluster_is_told_by_the_leader_alone() -> None:
    """With three replicas, a sum over all is what the leader says."""
    assert ours(full_page(STANDBY)) == {series.name for series in SERIES if not series.by_leader}


def test_the_page_tells_of_the_process_and_of_no_creation_times() -> None:
    names = set(families(full_page()))
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_gc_collections_total"} <= names
    assert not [name for name in names if name.endswith("_created")]


def test_a_page_ends_its_last_line_and_names_what_runs() -> None:
    page = full_page()
    assert b"".join(page).endswith(b"\n")
    (built,) = values(page, "cardwise_build_info")
    assert dict(built).keys() == {"version", "python"}


@pytest.mark.parametrize("field", NUMBERS)
def test_gauges_say_what_the_reading_says(field: str) -> None:
    said: dict[str, Any] = {field: 7}
    reading = replace(LEADER, **said)
    assert values(pieces_of(reading=reading), f"cardwise_{field}") == {labels(): 7}


@pytest.mark.parametrize(("leader", "complete"), [(True, False), (False, True)], ids=["leads", "follows"])
def test_leading_and_a_whole_view_are_1_or_0(leader: bool, complete: bool) -> None:
    page = pieces_of(reading=Reading(leader=leader, view_complete=complete))
    assert values(page, "cardwise_leader") == {labels(): int(leader)}
    assert values(page, "cardwise_view_complete") == {labels(): int(complete)}


def test_a_quota_shows_use_and_limit_also_where_more_is_used() -> None:
    where = labels(namespace="ml", quota="team", resource="limits.nvidia.com/gpumem")
    page = pieces_of(quotas=[QUOTA])
    assert values(page, "cardwise_quota_used") == {where: 48000}
    assert values(page, "cardwise_quota_hard") == {where: 32000}


def test_many_quotas_come_in_pieces() -> None:
    many = [replace(QUOTA, quota=f"team-{number}") for number in range(ROWS_AT_ONCE + 1)]
    page = pieces_of(quotas=many)
    assert len(values(page, "cardwise_quota_used")) == len(many)
    assert max(piece.count(b"\n") for piece in page) <= ROWS_AT_ONCE


# -- counting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [each for each in SERIES if each.values], ids=lambda series: series.name)
def test_every_listed_value_is_there_from_the_start_as_0(series: Series) -> None:
    """A rate over a series that appears with its first event would miss that event."""
    name = f"{series.name}_count" if series.kind == "histogram" else series.name
    samples = [sample for sample in families(pieces_of())[series.name].samples if sample.name == name]
    there = {tuple(sample.labels[label] for label in series.labels) for sample in samples}
    assert set(series.values) <= there
    assert all(sample.value == 0 for sample in samples)


def test_each_decision_counts_once_with_its_time() -> None:
    metrics = Metrics()
    metrics.decided("filter", "placed", 0.0003)
    metrics.decided("filter", "refused", 0.002)
    page = pieces_of(metrics)
    decisions = values(page, "cardwise_decisions_total")
    assert decisions[labels(verb="filter", result="placed")] == decisions[labels(verb="filter", result="refused")] == 1
    assert sum(decisions.values()) == 2
    of_filter = [each for each in families(page)["cardwise_request_seconds"].samples if each.labels["verb"] == "filter"]
    below = {each.labels["le"]: each.value for each in of_filter if "le" in each.labels}
    assert (below["0.0002"], below["0.0005"], below["0.002"], below["+Inf"]) == (0, 1, 2, 2)
    assert next(each.value for each in of_filter if each.name.endswith("_sum")) == pytest.approx(0.0023)


def test_buckets_reach_from_50_microseconds_to_10_seconds_upwards() -> None:
    assert (BUCKETS_SECONDS[0], BUCKETS_SECONDS[-1]) == (50e-6, 10)
    assert sorted(set(BUCKETS_SECONDS)) == list(BUCKETS_SECONDS)


def test_refusals_wakes_and_writes_count_by_what_they_were() -> None:
    metrics = Metrics()
    metrics.refused("CardInsufficientMemory")
    metrics.woke("sent")
    metrics.wrote("binding", "in_doubt")
    page = pieces_of(metrics)
    assert values(page, "cardwise_refusals_total")[labels(code="CardInsufficientMemory")] == 1
    assert values(page, "cardwise_wakes_total")[labels(result="sent")] == 1
    assert values(page, "cardwise_api_writes_total")[labels(kind="binding", result="in_doubt")] == 1


def test_when_the_webhook_was_last_called_can_be_told() -> None:
    """A webhook that is never called, because its port is shut, must be seen: 0 until the first review."""
    metrics = Metrics(Clock(now=lambda: datetime(2024, 5, 1, tzinfo=UTC)))
    assert values(pieces_of(metrics), "cardwise_last_review_timestamp_seconds") == {labels(): 0}
    metrics.reviewed("admitted", 0.001)
    page = pieces_of(metrics)
    assert values(page, "cardwise_last_review_timestamp_seconds") == {labels(): 1714521600}
    assert values(page, "cardwise_admission_reviews_total")[labels(outcome="admitted")] == 1
    assert families(page)["cardwise_admission_seconds"].samples[-1].value == pytest.approx(0.001)


def test_a_watch_is_told_as_its_reflector_counts_it() -> None:
    metrics, counts = Metrics(), Counts()
    metrics.watching("pods", counts)
    counts.relists, counts.reconnects, counts.troubles, counts.skipped = 1, 2, 3, 4
    page = pieces_of(metrics)
    of_pods = {what: values(page, f"cardwise_watch_{what}_total") for what in ("relists", "reconnects", "skipped")}
    assert of_pods == {what: {labels(resource="pods"): getattr(counts, what)} for what in of_pods}
    assert values(page, "cardwise_watch_troubles_total") == {labels(resource="pods"): 3}


def test_label_values_that_nobody_foresaw_make_no_new_series() -> None:
    metrics = Metrics()
    before = len(b"".join(pieces_of(metrics)).splitlines())
    for text in ("GPU-1 of node-7", "", 'x"}', "filter"):
        metrics.decided(text, text, 0.1)
        metrics.refused(text)
        metrics.reviewed(text, 0.1)
        metrics.woke(text)
        metrics.wrote(text, text)
    page = pieces_of(metrics)
    assert len(b"".join(page).splitlines()) == before
    decisions = values(page, "cardwise_decisions_total")
    assert decisions[labels(verb=OTHER, result=OTHER)] == 3
    assert decisions[labels(verb="filter", result=OTHER)] == 1
    assert values(page, "cardwise_refusals_total")[labels(code=OTHER)] == 4


def test_every_code_of_a_refusal_in_the_code_is_listed() -> None:
    source = ROOT / "src" / "cardwise"
    files = [*(source / "core").glob("*.py"), *(source / "scheduler").glob("*.py")]
    codes = {code for file in files for code in re.findall(r'\bcode="(\w+)"', file.read_text())}
    assert len(codes) > 10
    assert sorted(codes - set(CODES)) == []


def test_two_schedulers_in_one_process_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.woke("sent")
    assert values(pieces_of(other), "cardwise_wakes_total")[labels(result="sent")] == 0
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("cardwise")]


# -- the documentation -------------------------------------------------------------------------------------------------


def row(series: Series) -> str:
    """A series as docs/metrics.md lists it."""
    names = ", ".join(f"`{label}`" for label in series.labels)
    return f"| `{series.name}` | {series.kind} | {names} | {series.meaning} |".replace("|  |", "| |")


def value_rows(series: Series) -> list[str]:
    """The values of a series' labels as docs/metrics.md lists them."""
    by_label = zip(series.labels, zip(*series.values, strict=True), strict=True)
    return [
        f"| `{series.name}` | `{label}` | {', '.join(f'`{each}`' for each in dict.fromkeys((*found, OTHER)))} |"
        for label, found in by_label
    ]


def test_the_documentation_lists_each_series_and_each_label_value() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = [row(series) for series in sorted(SERIES, key=lambda series: series.by_leader)]
    rows += [text for series in SERIES if series.values for text in value_rows(series)]
    assert [line for line in page.splitlines() if line.startswith("| `cardwise_")] == rows


def test_queries_in_the_documentation_name_series_that_exist() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    names = {series.name for series in SERIES}
    asked = set(re.findall(r"cardwise_\w+", page))
    assert sorted(re.sub("_(bucket|sum|count)$", "", name) for name in asked - names) == ["cardwise_request_seconds"]
