"""The whole chain but the node: admission, kube-scheduler, filter, bind, on the real control plane."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cardwise.wire import names, yaml_text
from cardwise.wire.families import NVIDIA

from .cluster import create_node, node_of, refusal, wait_until_bound
from .gpus import PODS, cards_of, end
from .process import wait_for
from .product import Product, running
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "two-a40"
FIRST, SECOND = "GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"
QUIET_SECONDS = 0.5
"""After this nothing more is written about a pod."""


def example(name: str) -> Json:
    document: Json
    (document,) = yaml_text.parse((EXAMPLES / f"{name}.yaml").read_text())
    return document


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    node = example("node")["metadata"]
    annotations = node["annotations"] | {names.NODE_AGENT: "test"}
    create_node(plane.rest, node["name"], annotations=annotations, allocatable={NVIDIA.count_resource: "20"})
    with running(plane, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def rest(product: Product) -> Rest:
    return product.plane.rest


def written(product: Product, name: str) -> list[tuple[str, str]]:
    """What we wrote on a pod: verb and subresource, in order."""
    time.sleep(QUIET_SECONDS)
    about = [event["objectRef"] | {"verb": event["verb"]} for event in product.writes()]
    return [
        (each["verb"], each.get("subresource", ""))
        for each in about
        if each["resource"] == "pods" and each.get("name") == name
    ]


@pytest.mark.parametrize(
    ("name", "cards"), [("use-model", [FIRST, SECOND]), ("refuse-model", [FIRST, SECOND]), ("use-uuid", [FIRST])]
)
def test_a_pod_is_bound_by_one_write_of_ours(product: Product, rest: Rest, name: str, cards: list[str]) -> None:
    rest.post(PODS, example(name)).done()
    assert wait_until_bound(rest, name) == "gpu-1"
    assert cards_of(rest, name) == cards
    assert written(product, name) == [("create", "binding")]
    end(rest, name)


def test_the_fourth_waits_and_its_events_say_why(product: Product, rest: Rest) -> None:
    """kube-scheduler's in few words, the same for many nodes; ours with the numbers and what would help."""
    rest.post(PODS, example("refuse-uuid")).done()
    in_short = wait_for("refusal", lambda: refusal(rest, "refuse-uuid"))
    assert in_short.startswith(
        "0/1 nodes are available: 1 node(s) without 2 fitting cards: excluded by nvidia.com/nouse-gpuuuid."
    )
    event = wait_for("event", lambda: product.events("refuse-uuid"))[0]
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "NoCardFits", 1)
    assert event["message"] == (
        "0 of 1 nodes fit: gpu-1: needs 2 cards, 1 of 2 fit (1 excluded by nvidia.com/nouse-gpuuuid)."
        " It would fit with nvidia.com/gpu 1 instead of 2 (on gpu-1);"
        f" or without {FIRST} in nvidia.com/nouse-gpuuuid (on gpu-1)"
    )
    assert written(product, "refuse-uuid") == []
    assert node_of(rest, "refuse-uuid") == ""
    assert len(product.events("refuse-uuid")) == 1
