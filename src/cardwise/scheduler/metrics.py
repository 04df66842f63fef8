"""What the scheduler counts of itself, and the page that Prometheus reads.

Counters and histograms are prometheus_client's, in a registry of our own. Gauges are read at the moment of the page; those
about cards are too many for a library and are made in `card_rows`.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.watch import Counts
from cardwise.scheduler import series
from cardwise.scheduler.card_rows import ROWS_AT_ONCE, CardRows
from cardwise.scheduler.page_text import encoded, heading, labelled
from cardwise.scheduler.series import OTHER, Series, Values

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_SECONDS = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0),
)

Instrument = TypeVar("Instrument", Counter, Histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the gauges say of this moment."""

    leader: bool
    view_complete: bool
    pods_waiting: int = 0
    reservations: int = 0
    nodes: int = 0
    nodes_out_of_service: int = 0
    gates_busy: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """One resource of one ResourceQuota: what pods hold of it, and its limit."""

    namespace: str
    quota: str
    resource: str
    used: int
    hard: int


class Metrics:
    """What has happened since the start. A label value that nobody foresaw is counted as `other`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._decisions = self._counter(series.DECISIONS)
        self._refusals = self._counter(series.REFUSALS)
        self._wakes = self._counter(series.WAKES)
        self._writes = self._counter(series.API_WRITES)
        self._reviews = self._counter(series.REVIEWS)
        self._request_seconds = self._histogram(series.REQUEST_SECONDS)
        self._admission_seconds = self._histogram(series.ADMISSION_SECONDS)
        self._last_review = self._gauge(series.LAST_REVIEW)
        self._watches: dict[str, Counts] = {}
        self._gauge(series.BUILD_INFO).labels(version("cardwise"), platform.python_version()).set(1)
        self.registry.register(_Watches(self._watches))
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    # -- what happened ---------------------------------------------------------------------------------------------

    def decided(self, verb: str, result: str, seconds: float) -> None:
        """A call of kube-scheduler was answered; verbs and results: `series.RESULTS`."""
        self._decisions.of(verb, result).inc()
        self._request_seconds.of(verb).observe(seconds)

    def refused(self, code: str) -> None:
        """No node passed a filter call; `code` is what refused most of them, out of `series.CODES`."""
        self._refusals.of(code).inc()

    def reviewed(self, outcome: str, seconds: float) -> None:
        """An admission review was answered; outcomes: `series.OUTCOMES`."""
        self._reviews.of(outcome).inc()
        self._admission_seconds.of().observe(seconds)
        self._last_review.set(self._clock.now().timestamp())

    def woke(self, result: str) -> None:
        """A refused pod that fits again was touched; results: `series.WOKEN`."""
        self._wakes.of(result).inc()

    def wrote(self, kind: str, result: str) -> None:
        """A write to the API server ended; kinds and results: `series.WRITES`, `series.WRITTEN`."""
        self._writes.of(kind, result).inc()

    def watching(self, resource: str, counts: Counts) -> None:
        """From now on these counts are what is told of the watch on a resource."""
        self._watches[resource] = counts

    # -- inside ----------------------------------------------------------------------------------------------------

    def _counter(self, of: Series) -> _Children[Counter]:
        return _Children(Counter(of.name, of.meaning, of.labels, registry=self.registry), of)

    def _histogram(self, of: Series) -> _Children[Histogram]:
        return _Children(Histogram(of.name, of.meaning, of.labels, registry=self.registry, buckets=BUCKETS_SECONDS), of)

    def _gauge(self, of: Series) -> Gauge:
        return Gauge(of.name, of.meaning, of.labels, registry=self.registry)


async def exposition(
    metrics: Metrics, reading: Reading, cards: CardRows, quotas: Iterable[QuotaUse] = ()
) -> AsyncIterator[bytes]:
    """The page, in pieces of at most ROWS_AT_ONCE lines; between two of them the event loop gets its turn.

    What describes the cluster is told by the leader alone, so that a sum over replicas counts nothing twice.
    """
    for piece in _small(metrics, reading, tuple(quotas) if reading.leader else ()):
        yield piece
        await asyncio.sleep(0)
    if reading.leader:
        async for piece in cards.pieces():
            yield piece
            await asyncio.sleep(0)


class _Children(Generic[Instrument]):
    """An instrument's children by label values: all that can be, made beforehand, so that each is on the page as 0."""

    def __init__(self, instrument: Instrument, of: Series) -> None:
        values = (*of.values, (OTHER,) * len(of.labels))
        self._known: dict[Values, Instrument] = {
            each: instrument.labels(*each) if each else instrument for each in values
        }

    def of(self, *values: str) -> Instrument:
        """The child for these values. From the right, values become OTHER until such a child is there."""
        found = self._known.get(values)
        kept = len(values)
        while found is None:
            kept -= 1
            found = self._known.get(values[:kept] + (OTHER,) * (len(values) - kept))
        return found


class _Watches(Collector):
    """The reflectors' own counts."""

    def __init__(self, counts: dict[str, Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        for each, field in series.WATCHED:
            family = CounterMetricFamily(each.name, each.meaning, labels=each.labels)
            for resource, counts in self._counts.items():
                family.add_metric([resource], getattr(counts, field))
            yield family


@dataclass(frozen=True, slots=True)
class _One(Collector):
    """One family as a registry, for a library that writes whole registries at once."""

    family: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.family


def _small(metrics: Metrics, reading: Reading, quotas: tuple[QuotaUse, ...]) -> Iterator[bytes]:
    """The page up to the cards."""
    for family in tuple(metrics.registry.collect()):
        # The times at which counters were made double the page, and nobody reads them.
        family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
        yield generate_latest(_One(family))
    yield encoded(_gauges(reading))
    if reading.leader:
        yield from _quotas(quotas)


def _gauges(reading: Reading) -> str:
    values = (
        (series.LEADER, reading.leader),
        (series.VIEW_COMPLETE, reading.view_complete),
        (series.PODS_WAITING, reading.pods_waiting),
        (series.RESERVATIONS, reading.reservations),
        (series.NODES, reading.nodes),
        (series.NODES_OUT_OF_SERVICE, reading.nodes_out_of_service),
        (series.GATES_BUSY, reading.gates_busy),
    )
    told = [(gauge, value) for gauge, value in values if reading.leader or not gauge.by_leader]
    return "".join([f"{heading(gauge)}{gauge.name} {value:d}\n" for gauge, value in told])


def _quotas(quotas: tuple[QuotaUse, ...]) -> Iterator[bytes]:
    for gauge, field in ((series.QUOTA_USED, "used"), (series.QUOTA_HARD, "hard")):
        yield encoded(heading(gauge))
        for start in range(0, len(quotas), ROWS_AT_ONCE):
            lines = [
                f"{gauge.name}{labelled(gauge.labels, (quota.namespace, quota.quota, quota.resource))}"
                f" {getattr(quota, field)}\n"
                for quota in quotas[start : start + ROWS_AT_ONCE]
            ]
            yield encoded("".join(lines))
