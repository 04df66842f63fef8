"""One whole filter call inside the process: the bytes of kube-scheduler's request in, the bytes of the answer out.

Between two calls the pod is bound and older ones leave, as in a cluster that works: what is remembered about nodes goes
stale. No pod was seen before its call, so each call reads its pod too.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import fleet
import msgspec
from figures import Figures, figures

from cardwise.core.model import CardRequest
from cardwise.kube.client import Client
from cardwise.kube.connection import Connection
from cardwise.scheduler import config
from cardwise.scheduler.answers import Bind
from cardwise.scheduler.binding import bind_done, bind_step
from cardwise.scheduler.binds import Binds
from cardwise.scheduler.books import Books
from cardwise.scheduler.calls import Answered, Calls
from cardwise.scheduler.leadership import Fence
from cardwise.scheduler.metrics import Metrics
from cardwise.scheduler.world import WATCHED, World, settings_of
from cardwise.wire import objects

HUGE = CardRequest(family="nvidia", count=1, memory_mib=1_000_000)
LEAVE_AFTER = 20
"""Pods that stay until the oldest leaves."""
numbers = itertools.count(1_000_000)
"""Of pods that ask: none comes twice."""
_node, _pod = msgspec.json.Decoder(objects.Node), msgspec.json.Decoder(objects.Pod)


def world_of(nodes: int, running: int) -> World:
    """The service's state as it is in a cluster of this size, its view complete."""
    settings = config.made({"leaderElection.enabled": False})
    books = Books(settings_of(settings))
    made = World(
        config=settings,
        books=books,
        client=Client(Connection(where="the benchmark", url="http://127.0.0.1:1")),
        fence=Fence("", enabled=False),
        metrics=Metrics(),
    )
    now = datetime.now(UTC)
    for each in fleet.snapshot(nodes, running, 0):
        encoded = msgspec.json.encode(each)
        if each["kind"] == "Node":
            books.node_seen(_node.decode(encoded), now=now)
        else:
            books.pod_seen(_pod.decode(encoded), now=now)
    made.listed.update(WATCHED)
    made.settle()
    books.holdings.take_freed()
    gc.collect()
    gc.freeze()  # as the service does once all is listed
    return made


def call_of(number: int, request: CardRequest, names: Sequence[str]) -> bytes:
    """A filter call of a new pod, as the API server completes it."""
    return call_with(msgspec.json.encode(fleet.pod_object(f"asks-{number}", number, request)), names)


def call_with(pod: bytes, names: Sequence[str]) -> bytes:
    """A filter call as kube-scheduler writes it: Go's compact JSON."""
    return msgspec.json.encode({"Pod": msgspec.Raw(pod), "Nodes": None, "NodeNames": list(names)})


def offers(names: Sequence[str], count: int, seed: int = 7) -> Iterator[list[str]]:
    """The names that kube-scheduler offers: so many, from where its last search ended, in the order of its workers."""
    rng, at = random.Random(seed), 0
    while True:
        window = [names[(at + step) % len(names)] for step in range(count)]
        at = (at + count) % len(names) if count < len(names) else rng.randrange(len(names))
        for start in range(0, count, 16):  # sixteen workers, each its own node: neighbours come in any order
            window[start : start + 16] = rng.sample(window[start : start + 16], len(window[start : start + 16]))
        yield window


class Churn:
    """Binds what was filtered, and lets the oldest pods leave."""

    def __init__(self, world: World) -> None:
        self._books = world.books
        self._there: list[str] = []

    def __call__(self, uid: str) -> None:
        """The pod of this uid was filtered."""
        reservation = self._books.reservations.get(uid)
        if reservation is None:
            self._books.pod_gone(uid)
            return
        request, now = reservation.request, datetime.now(UTC)
        node = reservation.placement.node
        step = bind_step(self._books, uid=uid, namespace=request.namespace, name=request.name, node=node, now=now)
        assert isinstance(step, Bind), step
        bind_done(self._books, step)
        self._there.append(uid)
        if len(self._there) > LEAVE_AFTER:
            self._books.pod_gone(self._there.pop(0))
        self._books.holdings.take_freed()

    def end(self) -> None:
        """All leave."""
        for uid in self._there:
            self._books.pod_gone(uid)


async def filtered(world: World, names: int, times: int, request: CardRequest | None = None) -> list[float]:
    """Microseconds of each call; shapes are drawn with a long tail where none is given."""
    calls, churn = Calls(world, Binds(world)), Churn(world)
    known = world.books.nodes.names
    samples: list[float] = []
    offering = offers(known, names)
    for number, shape in zip(numbers, fleet.drawn_shapes(times, seed=names), strict=False):
        offered = next(offering)
        body = call_of(number, request or shape, offered)
        start = time.perf_counter_ns()
        answered = await calls.answer("filter", body)
        samples.append((time.perf_counter_ns() - start) / 1000)
        _check(answered, refused=request is not None, names=len(offered))
        churn(fleet.uid_of(number))
    churn.end()
    return samples


def _check(answered: Answered, *, refused: bool, names: int) -> None:
    answer: dict[str, Any] = msgspec.json.decode(answered.body)
    failed = (answer.get("FailedNodes") or {}) | (answer.get("FailedAndUnresolvableNodes") or {})
    assert (len(failed), len(answer.get("NodeNames") or ())) == ((names, 0) if refused else (0, 1)), answered.result


def calls(nodes: int, running: Sequence[int], names: Sequence[int], times: int) -> Iterator[Figures]:
    """Rows for one size of cluster."""
    for pods in running:
        world = world_of(nodes, pods)
        for count in sorted({min(count, nodes) for count in names}):
            samples = asyncio.run(filtered(world, count, times))
            yield figures(f"filter call, {count:,} names, {pods:,} running", nodes, samples)
        offered = min(5000, nodes)
        samples = asyncio.run(filtered(world, offered, times // 5, HUGE))
        yield figures(f"filter call, {offered:,} names all refuse, {pods:,} running", nodes, samples)
        gc.unfreeze()
