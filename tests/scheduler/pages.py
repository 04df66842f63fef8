"""Reads the metrics page as Prometheus does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cardwise.core.cluster import Cluster
from cardwise.scheduler.card_rows import CardRows
from cardwise.scheduler.metrics import Metrics, QuotaUse, Reading, exposition

LEADER = Reading(leader=True, view_complete=True)
Labels = frozenset[tuple[str, str]]
T = TypeVar("T")


def pieces_of(
    metrics: Metrics | None = None,
    reading: Reading = LEADER,
    rows: CardRows | None = None,
    quotas: Iterable[QuotaUse] = (),
) -> list[bytes]:
    """The page in the pieces in which it comes."""
    metrics, rows = metrics or Metrics(), rows or CardRows(Cluster(()).cards)

    async def take() -> list[bytes]:
        return [piece async for piece in exposition(metrics, reading, rows, quotas)]

    return asyncio.run(take())


def families(pieces: Iterable[bytes]) -> dict[str, Metric]:
    """The series of a page by name; a name that begins twice on it fails."""
    found = list(text_string_to_metric_families(b"".join(pieces).decode()))
    by_name = {_as_scraped(family): family for family in found}
    assert len(by_name) == len(found)
    return by_name


def values(pieces: Iterable[bytes], name: str) -> dict[Labels, float]:
    """The values of one series by their labels; labels that stand twice fail."""
    samples: list[Sample] = families(pieces)[name].samples
    found = {labels(**sample.labels): sample.value for sample in samples if sample.name == name}
    assert len(found) == sum(sample.name == name for sample in samples)
    return found


def labels(**pairs: str) -> Labels:
    """Labels as keys."""
    return frozenset(pairs.items())


def _as_scraped(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)
