"""What the goldens share: cards with what is in use of them, the nodes that they are on, and what comes out.

The goldens are facts out of the tests of Project-HAMi/HAMi: of 2.10, and of older or newer ones where that is said. The
numbers that go in, and the cards or the reasons that come out. A row whose outcome is another one here, on purpose, has
both, and in `differs` why: these rows are the list of the differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pytest

from cardwise.core.checks import CHECKS
from cardwise.core.cluster import Cluster, Hold
from cardwise.core.model import (
    Card,
    CardRequest,
    CardUse,
    ContainerRequest,
    Links,
    Node,
    PodRequest,
    Refusal,
    Selection,
    Weights,
)
from cardwise.wire.families import FAMILIES
from cardwise.wire.lists import comma_list
from cardwise.wire.policies import card_policy, node_policy, scoring_weights

# HAMi's fixtures write the vendor's word where its node agent registers a model, which hides mistakes: both are run.
MODELS = ("NVIDIA", "NVIDIA A100-SXM4-80GB")
each_model = pytest.mark.parametrize("model", MODELS, ids=("vendor-word", "model-name"))

TIES = "ties fall to the node's name, then to the card's index; HAMi takes the last card, and the highest NUMA id"
SCORED_AS_IS = "the score is of what is in use already, the request not included"
ANY = Selection()

T = TypeVar("T")
InUse = tuple[Card, CardUse]
Reasons = dict[str, int]
Outcome = tuple[str, ...] | Reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden(Generic[T]):
    """HAMi's outcome; and, where `differs` says why, ours."""

    name: str
    hami: T
    ours: T | None = None
    differs: str = ""

    def __post_init__(self) -> None:
        if bool(self.differs) is (self.ours is None) or self.ours == self.hami:
            msg = f"{self.name}: a difference has both outcomes and its reason"
            raise ValueError(msg)

    @property
    def expected(self) -> T:
        """What must come out here."""
        return self.hami if self.ours is None else self.ours


def each(goldens: Iterable[Golden[T]]) -> pytest.MarkDecorator:
    """Run a test for every row of a table."""
    return pytest.mark.parametrize("golden", list(goldens), ids=lambda golden: golden.name)


def gpu(
    uuid: str,
    used: tuple[int, int, int] = (0, 0, 0),
    *,
    slots: int = 10,
    memory_mib: int = 8192,
    cores: int = 100,
    numa: int = 0,
    index: int = 0,
    healthy: bool = True,
    mode: str = "",
    family: str = "nvidia",
    model: str = "",
) -> InUse:
    """A card, and how much of its slots, MiB and percent of compute is in use."""
    card = Card(
        uuid=uuid,
        index=index,
        family=family,
        model=model,
        slots=slots,
        memory_mib=memory_mib,
        cores_percent=cores,
        numa=numa,
        healthy=healthy,
        mode=mode,
    )
    return card, CardUse(slots=used[0], memory_mib=used[1], cores_percent=used[2])


def cluster_of(
    nodes: Mapping[str, Sequence[InUse]], model: str, *, links: Links = (), cordoned: Sequence[str] = ()
) -> Cluster:
    """These nodes, with one running pod on each that holds what is in use. `model` is for cards that name none."""
    cluster = Cluster(FAMILIES)
    for name, in_use in nodes.items():
        cards = tuple(replace(card, model=card.model or model) for card, _use in in_use)
        cluster.set_node(Node(name=name, cards=cards, links=links, cordoned=frozenset(cordoned)))
        use = {card.uuid: used for card, used in in_use if used != CardUse()}
        running = f"running-on-{name}"
        cluster.confirm(Hold(uid=running, namespace="ml", name=running, node=name, use=use, confirmed=True))
    return cluster


def want(count: int, memory_mib: int = 0, cores: int = 0, *, percent: int = 0, family: str = "nvidia") -> CardRequest:
    """A request; without MiB and percent, for the cards' whole memory."""
    return CardRequest(
        family=family,
        count=count,
        memory_mib=memory_mib,
        memory_percent=0 if memory_mib else percent or 100,
        cores_percent=cores,
    )


def select(
    *, use: str = "", avoid: str = "", use_uuids: str = "", avoid_uuids: str = "", modes: str = "", numa: bool = False
) -> Selection:
    """A selection out of the texts of a pod's annotations."""
    return Selection(
        use_models=comma_list(use),
        avoid_models=comma_list(avoid),
        use_uuids=comma_list(use_uuids),
        avoid_uuids=comma_list(avoid_uuids),
        modes=comma_list(modes),
        one_numa=numa,
    )


def pod_of(
    *requests: CardRequest | None,
    selection: Selection = ANY,
    cards: str = "spread",
    nodes: str = "binpack",
    weights: str = "",
) -> PodRequest:
    """A pod with one app container for each request; policies and weights as its annotations say them."""
    return PodRequest(
        namespace="ml",
        name="pod",
        uid="pod",
        containers=tuple(
            ContainerRequest(name=f"c{i}", cards=(request,) if request else ()) for i, request in enumerate(requests)
        ),
        selections={family.name: selection for family in FAMILIES},
        card_policy=card_policy(cards),
        node_policy=node_policy(nodes),
        weights=scoring_weights(weights) if weights else Weights(),
    )


def outcome(cluster: Cluster, pod: PodRequest) -> Outcome:
    """The cards that the pod's containers get, one after another; or why the only node refuses the pod."""
    placement = cluster.place(pod)
    if placement is not None:
        return tuple(card.uuid for container in placement.containers for card in container.cards)
    (refusal,) = cluster.refusals(pod).values()
    return reasons(refusal)


def reasons(refusal: Refusal) -> Reasons:
    """How many cards were refused with each of HAMi's codes, as its texts count them; 1 for a code about the node."""
    codes = {check.name: check.code for check in CHECKS}
    found: Counter[str] = Counter()
    for check, cards in refusal.histogram:
        found[codes[check]] += cards
    if refusal.code not in found:
        found[refusal.code] = 1
    return dict(found)
