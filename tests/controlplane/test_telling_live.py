"""What users are told of pods that wait, on the real control plane: by us where cards are the matter, and once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cardwise.wire.families import NVIDIA

from .cluster import create_pod, refusal, wait_until_bound
from .gpus import PODS, WHOLE, create_gpu_node, create_pinned, end, end_all, share
from .process import wait_for
from .product import Product, overheard, serving
from .rest import Json, Rest

if TYPE_CHECKING:
    from .extender import Extender
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

TRIES = 2
TELL_SECONDS = 0.8
"""After a refusal, an event of ours is there by then."""


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    create_gpu_node(plane.rest, "one", labels={"zone": "a"})
    with serving(plane, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture(scope="module")
def asked(product: Product) -> Iterator[Extender]:
    """kube-scheduler's calls."""
    with overheard(product) as extender:
        yield extender


@pytest.fixture
def rest(product: Product, asked: Extender) -> Iterator[Rest]:
    yield product.plane.rest
    end_all(product.plane.rest)


def elsewhere(name: str, value: str) -> Json:
    return {"nodeSelector": {name: value}}


OUR_OWN = {
    "a label that no node has": (
        WHOLE,
        elsewhere("zone", "b"),
        "one: node(s) didn't match Pod's node affinity/selector",
    ),
    "more than the node counts": (
        {NVIDIA.count_resource: "11"},
        None,
        "one: needs 11 distinct NVIDIA cards, node has 1. It would fit with nvidia.com/gpu 1 instead of 11",
    ),
}


@pytest.mark.parametrize(("limits", "spec", "says"), OUR_OWN.values(), ids=OUR_OWN)
def test_of_a_pod_that_never_reaches_us_we_tell_too(
    product: Product, asked: Extender, rest: Rest, limits: dict[str, str], spec: Json | None, says: str
) -> None:
    name = f"unseen-{limits[NVIDIA.count_resource]}"
    create_pod(rest, name, limits=limits, spec=spec)
    wait_for("refusal", lambda: refusal(rest, name))
    (event,) = wait_for("event", lambda: product.events(name))
    assert says in event["message"]
    assert asked.asked("filter", name) == 0


def test_what_is_no_matter_of_cards_is_left_to_kube_scheduler(product: Product, asked: Extender, rest: Rest) -> None:
    create_pod(rest, "hungry", limits=WHOLE | {"cpu": "1000"})
    assert "Insufficient cpu" in wait_for("refusal", lambda: refusal(rest, "hungry"))
    time.sleep(TELL_SECONDS)
    assert product.events("hungry") == []
    assert asked.asked("filter", "hungry") == 0


def try_again(rest: Rest, asked: Extender, name: str) -> None:
    """The pod is touched, and refused once more."""
    before = asked.asked("filter", name)
    rest.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"try": str(before)}}}).done()
    wait_for("another try", lambda: asked.asked("filter", name) > before)


def test_a_cause_is_told_once_however_often_it_is_met(product: Product, asked: Extender, rest: Rest) -> None:
    """Several refusals, other numbers, a restart of ours: one event. Another cause: another event."""
    create_pinned(rest, "holder", "one", WHOLE)
    wait_until_bound(rest, "holder")
    create_pod(rest, "waits", limits=share(2048))
    (first,) = wait_for("event", lambda: product.events("waits"))
    for _ in range(TRIES):
        try_again(rest, asked, "waits")
    product.kill()
    product.start()
    for _ in range(TRIES):
        try_again(rest, asked, "waits")
    time.sleep(TELL_SECONDS)
    (event,) = product.events("waits")
    assert event == first
    assert event["count"] == 1
    rest.patch("/api/v1/nodes/one", {"metadata": {"annotations": {NVIDIA.cordon_key: "one-0"}}}).done()
    try_again(rest, asked, "waits")
    assert len(wait_for("another event", lambda: two(product.events("waits")))) == 2
    rest.patch("/api/v1/nodes/one", {"metadata": {"annotations": {NVIDIA.cordon_key: None}}}).done()
    end(rest, "holder")
    assert wait_until_bound(rest, "waits") == "one"


def two(events: list[Json]) -> list[Json]:
    return events if len(events) == 2 else []
