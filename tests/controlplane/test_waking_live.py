"""A pod that waits for a card gets it soon after the card is free, whatever comes between: on the real control plane.

kube-scheduler looks at a refused pod again when another pod ends, and we may know of that ending later than it does. What
is measured is the time from the deletion of the holder to the pod's node, while nothing else happens in the cluster.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .build import chosen, version
from .cluster import refusal, wait_until_bound
from .extender import Extender
from .gpus import PODS, WHOLE, cards_of, create_gpu_node, create_pinned, end, end_all, use
from .process import wait_for
from .product import GROUPS, USER, Product, overheard, running, serving
from .rest import Rest
from .slow import slow_watches

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

ROUNDS = 20
DELAY_SECONDS = 0.5
TRIES = 10


def backs_off() -> bool:
    """Whether a woken pod still waits for the rest of its back-off, of a second and what it is rounded to."""
    return int(version(chosen()).split(".")[1]) <= 32


def most_seconds() -> float:
    return 4.0 if backs_off() else 2.0


def rounds() -> int:
    """Fewer where each takes two seconds, of which we are no part; the first test has ROUNDS of them everywhere."""
    return 4 if backs_off() else ROUNDS


@pytest.fixture
def nodes(plane: ControlPlane) -> Iterator[list[str]]:
    """As many nodes with a card each as there are rounds; no pod is left on them."""
    names = [f"one-{n}" for n in range(rounds())]
    for name in names:
        if plane.rest.get(f"/api/v1/nodes/{name}").status == 404:
            create_gpu_node(plane.rest, name)
    yield names
    end_all(plane.rest)


@pytest.fixture
def product(plane: ControlPlane, nodes: list[str], tmp_path: Path) -> Iterator[Product]:
    with running(plane, tmp_path) as product:
        yield product


@pytest.fixture
def slow_product(plane: ControlPlane, nodes: list[str], tmp_path: Path) -> Iterator[Product]:
    """The service, which learns of everything later than kube-scheduler does."""
    user = plane.rest_as(USER, GROUPS)
    with (
        slow_watches(plane.url, user, DELAY_SECONDS, tmp_path) as kubeconfig,
        running(plane, tmp_path, {"--kubeconfig": str(kubeconfig)}) as product,
    ):
        yield product


@contextmanager
def timed(name: str, seconds: list[float]) -> Iterator[None]:
    """Prints what was measured, whether or not it is enough."""
    try:
        yield
    finally:
        if seconds:
            median, most = statistics.median(seconds), max(seconds)
            sys.stdout.write(f"{name}: {len(seconds)} woken, median {median:.2f} s, max {most:.2f} s\n")


def hold(rest: Rest, node: str) -> str:
    """The node's only card is taken; gives the pod's name."""
    name = f"holder-{node}"
    create_pinned(rest, name, node, WHOLE)
    wait_until_bound(rest, name)
    return name


def wait_in_line(rest: Rest, name: str, node: str) -> None:
    """A pod waits for the node's card, and kube-scheduler has said so."""
    create_pinned(rest, name, node, WHOLE)
    wait_for(f"refusal of pod {name}", lambda: refusal(rest, name))


def seconds_to_bind(rest: Rest, holder: str, name: str) -> float:
    """How long after the holder's deletion the pod has a node, and its card is recorded."""
    since = time.monotonic()
    end(rest, holder)
    node = wait_until_bound(rest, name, seconds=most_seconds() * 3)
    took = time.monotonic() - since
    assert cards_of(rest, name) == [f"{node}-0"]
    return took


def chain(rest: Rest, node: str, length: int, seconds: list[float]) -> None:
    """One pod after the other waits for the card and becomes its next holder."""
    holder = hold(rest, node)
    for number in range(length):
        name = f"next-{number}"
        wait_in_line(rest, name, node)
        time.sleep(number % 4 * 0.1)  # (kube-scheduler may be busy with the pod still, or not)
        seconds.append(seconds_to_bind(rest, holder, name))
        holder = name


def test_a_waiting_pod_gets_the_card_of_one_that_is_deleted(product: Product, nodes: list[str]) -> None:
    seconds: list[float] = []
    with timed("at once", seconds):
        chain(product.plane.rest, nodes[0], ROUNDS, seconds)
    assert len(seconds) == ROUNDS
    assert max(seconds) < most_seconds()


def test_it_does_so_where_our_watch_lags_behind(slow_product: Product, nodes: list[str]) -> None:
    """kube-scheduler's own retry comes too early then, and is refused: only our touch of the pod helps."""
    seconds: list[float] = []
    with timed("watch delayed by 0.5 s", seconds):
        chain(slow_product.plane.rest, nodes[0], rounds(), seconds)
    assert len(seconds) == rounds()
    assert min(seconds) >= DELAY_SECONDS
    assert max(seconds) < most_seconds()
    assert slow_product.metric("cardwise_wakes_total", result="sent") >= rounds()


def line_up(rest: Rest, nodes: list[str]) -> dict[str, str]:
    """On each node a holder, and a pod that waits: holder by waiting pod."""
    holders = {f"waits-{node}": hold(rest, node) for node in nodes}
    for name in holders:
        wait_in_line(rest, name, name.removeprefix("waits-"))
    return holders


def try_again(rest: Rest, extender: Extender, pods: list[str], attempt: int) -> None:
    """Each pod is touched once, and refused once more."""
    before = {name: extender.asked("filter", name) for name in pods}
    for name in pods:
        rest.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"try": str(attempt)}}}).done()
    for name in pods:
        wait_for(f"another try of pod {name}", lambda name=name: extender.asked("filter", name) > before[name])  # type: ignore[misc]


def test_it_does_so_after_ten_refusals(plane: ControlPlane, nodes: list[str], tmp_path: Path) -> None:
    rest, seconds = plane.rest, list[float]()
    with serving(plane, tmp_path) as product, overheard(product) as extender:
        holders = line_up(rest, nodes)
        for attempt in range(TRIES):
            try_again(rest, extender, list(holders), attempt)
        with timed("after ten refusals", seconds):
            seconds += [seconds_to_bind(rest, holder, name) for name, holder in holders.items()]
    assert len(seconds) == rounds()
    assert max(seconds) < most_seconds()
    assert use(rest).excess == []


def test_it_does_so_after_we_were_killed(product: Product, nodes: list[str]) -> None:
    rest, seconds = product.plane.rest, list[float]()
    holders = line_up(rest, nodes)
    product.kill()
    product.start()
    with timed("after a kill", seconds):
        seconds += [seconds_to_bind(rest, holder, name) for name, holder in holders.items()]
    assert len(seconds) == rounds()
    assert max(seconds) < most_seconds()


def test_it_does_so_where_we_were_away_meanwhile(product: Product, nodes: list[str]) -> None:
    """The holders are deleted while nobody watches. The time runs from when we are ready again; kube-scheduler may have
    asked just before, and not been answered: it then waits for two seconds itself."""
    rest, seconds = product.plane.rest, list[float]()
    holders = line_up(rest, nodes)
    product.kill()
    end(rest, *holders.values())
    product.start()
    since = time.monotonic()
    with timed("killed meanwhile", seconds):
        for name in holders:
            wait_until_bound(rest, name, seconds=most_seconds() * 3)
            seconds.append(time.monotonic() - since)
    assert len(seconds) == rounds()
    assert max(seconds) < most_seconds() + 1
    assert use(rest).excess == []
