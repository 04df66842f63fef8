"""Preemption on the real control plane: who is evicted for a pod that needs cards, and who is not.

kube-scheduler counts cards, so it asks for victims where a node is full by count. There is no kubelet here: a pod that it
evicts stays, terminating, until `reap` has it go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cardwise.wire.families import NVIDIA

from .cluster import create_pod, get_pod, node_of, refusal, wait_until_bound
from .gpus import PODS, WHOLE, cards_of, create_gpu_node, end_all, share, use
from .process import wait_for
from .product import Product, running
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

PRIORITIES = {"least": 10, "low": 20, "high": 1000}
QUIET_SECONDS = 1.0
"""After this nobody is evicted or bound any more."""


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    for name, value in PRIORITIES.items():
        made = {"metadata": {"name": name}, "value": value}
        plane.rest.post("/apis/scheduling.k8s.io/v1/priorityclasses", made).done()
    with running(plane, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def rest(product: Product) -> Iterator[Rest]:
    yield product.plane.rest
    end_all(product.plane.rest)


def make(
    rest: Rest, name: str, priority: str, node: str, limits: dict[str, str] = WHOLE, *, card: str = "", model: str = ""
) -> None:
    """A pod for this node, and for one card of it or a model, if they are named."""
    wanted = {NVIDIA.use_uuids_key: card, NVIDIA.use_models_key: model}
    spec = {"priorityClassName": priority, "nodeSelector": {"kubernetes.io/hostname": node}}
    create_pod(rest, name, limits=limits, annotations={key: text for key, text in wanted.items() if text}, spec=spec)


def fill(rest: Rest, name: str, priority: str, node: str, limits: dict[str, str] = WHOLE, *, card: str) -> None:
    """Such a pod, on its card."""
    make(rest, name, priority, node, limits, card=card)
    wait_until_bound(rest, name)
    assert cards_of(rest, name) == [card]


def pods(rest: Rest) -> list[Json]:
    found: list[Json] = rest.get(PODS).done()["items"]
    return found


def evicted(rest: Rest) -> set[str]:
    """Pods that are told to go."""
    return {pod["metadata"]["name"] for pod in pods(rest) if "deletionTimestamp" in pod["metadata"]}


def reap(rest: Rest, *names: str) -> None:
    """What a kubelet does once the containers have ended."""
    for name in names:
        assert name in evicted(rest)
        rest.delete(f"{PODS}/{name}?gracePeriodSeconds=0").done()


def nominated(rest: Rest, name: str) -> str:
    node: str = get_pod(rest, name)["status"].get("nominatedNodeName", "")
    return node


def wait_in_line(rest: Rest, priority: str, node: str, limits: dict[str, str] = WHOLE, count: int = 3) -> list[str]:
    """So many pods that wait, and know it."""
    names = [f"waits-{number}" for number in range(count)]
    for name in names:
        make(rest, name, priority, node, limits)
    for name in names:
        wait_for(f"refusal of {name}", lambda name=name: refusal(rest, name))  # type: ignore[misc]
    return names


def test_a_pod_that_fits_nowhere_evicts_nobody(product: Product, rest: Rest) -> None:
    create_gpu_node(rest, "full", cards=2, slots=1)
    for number in range(2):
        fill(rest, f"low-{number}", "low", "full", card=f"full-{number}")
    make(rest, "other-model", "high", "full", model="H100")
    make(rest, "too-large", "high", "full", share(24577))
    make(rest, "no-such-card", "high", "full", card="elsewhere-0")
    for name in ("other-model", "too-large", "no-such-card"):
        said = wait_for(f"refusal of {name}", lambda name=name: refusal(rest, name))  # type: ignore[misc]
        assert "no candidate node for preemption" in said
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == set()
    assert len(use(rest).pods_by_node) == 1
    assert use(rest).pods_by_node["full"] == 2
    assert "model" in wait_for("event", lambda: product.events("other-model"))[0]["message"]


def test_only_the_pod_goes_whose_card_is_needed_and_nobody_slips_in(product: Product, rest: Rest) -> None:
    """kube-scheduler would have the least important pod go, which has another card."""
    create_gpu_node(rest, "cards", cards=3, slots=1)
    fill(rest, "holder-0", "low", "cards", card="cards-0")
    fill(rest, "holder-1", "least", "cards", card="cards-1")
    fill(rest, "holder-2", "least", "cards", card="cards-2")
    waiting = wait_in_line(rest, "least", "cards")
    make(rest, "urgent", "high", "cards", card="cards-0")
    assert wait_for("nomination", lambda: nominated(rest, "urgent")) == "cards"
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == {"holder-0"}
    reap(rest, "holder-0")
    assert wait_until_bound(rest, "urgent") == "cards"
    assert cards_of(rest, "urgent") == ["cards-0"]
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == set()
    assert not any(node_of(rest, name) for name in waiting)
    assert use(rest).pods_by_node["cards"] == 3


def test_two_go_where_one_is_too_little_and_nobody_slips_in_between(product: Product, rest: Rest) -> None:
    """Each holds two slots of the card. Once the first has gone there is room by count and memory for one that waits."""
    create_gpu_node(rest, "memory", slots=4)
    for number in range(2):
        make_double(rest, f"holder-{number}", "low", "memory", share(4000))
        wait_until_bound(rest, f"holder-{number}")
    waiting = wait_in_line(rest, "low", "memory", share(8000))
    make(rest, "urgent", "high", "memory", share(20000))
    assert wait_for("nomination", lambda: nominated(rest, "urgent")) == "memory"
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == {"holder-0", "holder-1"}
    reap(rest, "holder-0")
    time.sleep(QUIET_SECONDS)
    assert not any(node_of(rest, name) for name in ("urgent", *waiting))
    reap(rest, "holder-1")
    assert wait_until_bound(rest, "urgent") == "memory"
    time.sleep(QUIET_SECONDS)
    assert not any(node_of(rest, name) for name in waiting)
    assert use(rest).excess == []


def make_double(rest: Rest, name: str, priority: str, node: str, limits: dict[str, str]) -> None:
    """A pod of two containers, each with these limits."""
    containers = [{"name": each, "image": "none", "resources": {"limits": limits}} for each in ("one", "two")]
    placed = {"priorityClassName": priority, "nodeSelector": {"kubernetes.io/hostname": node}}
    create_pod(rest, name, spec=placed | {"containers": containers})


def test_the_pod_with_the_memory_goes_though_a_less_important_one_has_a_slot(product: Product, rest: Rest) -> None:
    """The least important pod holds next to nothing; of the others one must go, and one alone."""
    create_gpu_node(rest, "mixed", cards=2, slots=2)
    fill(rest, "small-0", "low", "mixed", share(4000), card="mixed-0")
    fill(rest, "small-1", "low", "mixed", share(4000), card="mixed-0")
    fill(rest, "large", "low", "mixed", share(20000), card="mixed-1")
    fill(rest, "tiny", "least", "mixed", share(500), card="mixed-1")
    make(rest, "urgent", "high", "mixed", share(16000))
    wait_for("nomination", lambda: nominated(rest, "urgent"))
    time.sleep(QUIET_SECONDS)
    (victim,) = evicted(rest)
    assert victim in ("small-0", "small-1", "large")
    reap(rest, victim)
    wait_until_bound(rest, "urgent")
    assert use(rest).excess == []
    assert use(rest).pods_by_node["mixed"] == 4


def test_of_two_nodes_the_one_is_taken_where_victims_help(product: Product, rest: Rest) -> None:
    """On the other, kube-scheduler's favourite as its pod is of least importance, no victim makes the card large enough."""
    create_gpu_node(rest, "helps", slots=1, labels={"pair": "yes"})
    create_gpu_node(rest, "idle", cards=2, slots=1, labels={"pair": "yes"})
    fill(rest, "holder", "low", "helps", card="helps-0")
    fill(rest, "least-0", "least", "idle", card="idle-0")
    fill(rest, "least-1", "least", "idle", card="idle-1")
    spec = {"priorityClassName": "high", "nodeSelector": {"pair": "yes"}}
    create_pod(rest, "urgent", limits=WHOLE, annotations={NVIDIA.use_uuids_key: "helps-0"}, spec=spec)
    assert wait_for("nomination", lambda: nominated(rest, "urgent")) == "helps"
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == {"holder"}
    reap(rest, "holder")
    assert wait_until_bound(rest, "urgent") == "helps"


def test_a_pod_of_equal_priority_never_goes(product: Product, rest: Rest) -> None:
    """A lower one could make room by count. It stays too, since it has not the card."""
    create_gpu_node(rest, "equal", cards=2, slots=1)
    fill(rest, "peer", "high", "equal", card="equal-0")
    fill(rest, "other", "least", "equal", card="equal-1")
    make(rest, "rival", "high", "equal", card="equal-0")
    said = wait_for("refusal", lambda: refusal(rest, "rival"))
    assert "no candidate node for preemption" in said
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == set()
    assert nominated(rest, "rival") == ""
    assert "pod default/peer" in wait_for("event", lambda: product.events("rival"))[0]["message"]


def test_where_only_cards_are_full_the_pod_waits_and_is_told_whose_ending_would_help(
    product: Product, rest: Rest
) -> None:
    """kube-scheduler counts no memory: it sees no victim, and does not ask."""
    create_gpu_node(rest, "ours", slots=10)
    fill(rest, "holder", "low", "ours", share(20000), card="ours-0")
    make(rest, "patient", "high", "ours", share(16000))
    (event,) = wait_for("event", lambda: product.events("patient"))
    assert "pod default/holder" in event["message"]
    time.sleep(QUIET_SECONDS)
    assert evicted(rest) == set()
    assert node_of(rest, "patient") == ""
    rest.delete(f"{PODS}/holder?gracePeriodSeconds=0").done()
    assert wait_until_bound(rest, "patient") == "ours"
