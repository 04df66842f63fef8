"""The one mutable thing: nodes with their cards, and which pod holds what of them.

    reserve (decided here) → confirm (seen on the API server) → release (ended, gone, or replaced)

A pod's hold is kept by pod uid, node name and card UUID, so it outlives the node's or the card's absence: the columns of
use are what the holds on known cards add up to, always. What the API server shows wins over what was reserved: a
confirmed hold is counted even where it exceeds a card (a card that shrank, say), but nothing is reserved beyond a total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cardwise.core.cards import Bools, Cards, Ints
from cardwise.core.family import Family
from cardwise.core.model import MOST, Card, CardUse, ContainerAllocation, Node, Placement, PodRequest, Refusal
from cardwise.core.peak import peak_use
from cardwise.core.place import Offered, place, refusal_groups, refusals
from cardwise.core.refusing import Groups
from cardwise.core.shapes import Shapes

_MOST_HELD = MOST << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What one pod holds on one node, by card UUID; `containers` as they were assigned.

    Raises ValueError for a pod without uid, and for amounts that no card can have.
    """

    uid: str
    namespace: str
    name: str
    node: str
    use: Mapping[str, CardUse]
    containers: tuple[ContainerAllocation, ...] = ()
    confirmed: bool = False

    def __post_init__(self) -> None:
        if not self.uid:
            raise ValueError(f"pod {self.full_name} has no uid")
        for use in self.use.values():
            if not all(0 <= number <= _MOST_HELD for number in (use.slots, use.memory_mib, use.cores_percent)):
                raise ValueError(f"pod {self.full_name}: holds {use}, must be 0 to {_MOST_HELD} of each")

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def hold_of(placement: Placement, *, uid: str, namespace: str, name: str, confirmed: bool = False) -> Hold:
    """What a pod with this placement holds: its peak on each card."""
    return Hold(
        uid=uid,
        namespace=namespace,
        name=name,
        node=placement.node,
        use=peak_use(placement.containers, placement.exclusive),
        containers=placement.containers,
        confirmed=confirmed,
    )


class Cluster:
    """Nodes, cards and holds. Not safe for use by several threads: one task owns it.

    `version` grows with every change: as long as it is the same, so is every answer.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self.families: dict[str, Family] = {family.name: family for family in families}
        self.cards = Cards()
        self.shapes = Shapes(self.cards)
        self.holds: dict[str, Hold] = {}
        self.version = 0
        self._uid_by_name: dict[tuple[str, str], str] = {}
        self._uids_by_node: dict[str, dict[str, None]] = {}

    # -- facts -----------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """A node is there, with these cards. Holds on it that were kept while it was unknown apply again."""
        self.version += 1
        n = self.cards.set_node(node)
        for uid in self._uids_by_node.get(node.name, ()):
            self._count(n, self.holds[uid], 1)

    def remove_node(self, name: str) -> None:
        """A node is gone. What pods hold there is kept, and counts again if it returns."""
        self.version += 1
        self.cards.remove_node(name)

    def reserve(self, pod: PodRequest, placement: Placement) -> Refusal | None:
        """Hold a placement for a pod, in place of whatever it held; or, changing nothing, why that cannot be."""
        hold = hold_of(placement, uid=pod.uid, namespace=pod.namespace, name=pod.name)
        refusal = self._exceeds(hold, self._replaced(hold))
        if refusal is None:
            self.release(pod.uid)
            self._keep(hold)
        return refusal

    def confirm(self, hold: Hold) -> None:
        """The API server shows the pod with this assignment: it holds exactly that, whatever was believed before."""
        self.release(hold.uid)
        self._keep(hold)

    def release(self, uid: str) -> Hold | None:
        """The pod holds nothing any more. Gives what it held, if anything."""
        hold = self.holds.pop(uid, None)
        if hold is None:
            return None
        self.version += 1
        if self._uid_by_name.get((hold.namespace, hold.name)) == uid:
            del self._uid_by_name[hold.namespace, hold.name]
        on_node = self._uids_by_node[hold.node]
        del on_node[uid]
        if not on_node:
            del self._uids_by_node[hold.node]
        if (n := self.cards.index_of.get(hold.node)) is not None:
            self._count(n, hold, -1)
        return hold

    # -- questions -------------------------------------------------------------------------------------------------

    def place(
        self,
        pod: PodRequest,
        among: Bools | None = None,
        preference: Ints | None = None,
        *,
        offered: Offered | None = None,
    ) -> Placement | None:
        """Where the pod would go; see `place.place`. Changes nothing."""
        return place(self.cards, self.shapes, pod, among, preference, offered=offered)

    def refusals(
        self, pod: PodRequest, among: Bools | None = None, preference: Ints | None = None
    ) -> dict[str, Refusal]:
        """Why each node cannot take the pod; see `place.refusals`."""
        return refusals(self.cards, self.families, pod, among, preference)

    def refusal_groups(self, pod: PodRequest, among: Bools | None = None, preference: Ints | None = None) -> Groups:
        """The same by reason; see `place.refusal_groups`."""
        return refusal_groups(self.cards, self.families, pod, among, preference)

    def exceeds(self, hold: Hold) -> Refusal | None:
        """Why a pod could not get this hold now, in place of what it holds; None if it could.

        It exceeds a total, or its node or a card of it is missing, out of service, unhealthy or cordoned.
        """
        return self._exceeds(hold, self._replaced(hold)) or self._shut(hold)

    def holds_on(self, node: str) -> list[Hold]:
        """The holds on a node, in the order in which they came."""
        return [self.holds[uid] for uid in self._uids_by_node.get(node, ())]

    def unknown_cards(self, hold: Hold) -> list[str]:
        """UUIDs that a hold names and its node does not have now; all of them while the node is unknown."""
        n = self.cards.index_of.get(hold.node)
        return [uuid for uuid in hold.use if n is None or self.cards.position(n, uuid) is None]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _keep(self, hold: Hold) -> None:
        self.version += 1
        replaced = self._uid_by_name.get((hold.namespace, hold.name))
        if replaced is not None and replaced != hold.uid:
            self.release(replaced)
        self.holds[hold.uid] = hold
        self._uid_by_name[hold.namespace, hold.name] = hold.uid
        self._uids_by_node.setdefault(hold.node, {})[hold.uid] = None
        if (n := self.cards.index_of.get(hold.node)) is not None:
            self._count(n, hold, 1)

    def _count(self, n: int, hold: Hold, sign: int) -> None:
        for uuid, use in hold.use.items():
            if (k := self.cards.position(n, uuid)) is not None:
                self.cards.add_use(n, k, use, sign)

    def _replaced(self, hold: Hold) -> list[Hold]:
        """What is released when this hold is kept: what its pod holds, and what another pod of its name does."""
        uids = {hold.uid, self._uid_by_name.get((hold.namespace, hold.name), hold.uid)}
        return [self.holds[uid] for uid in uids if uid in self.holds]

    def _exceeds(self, hold: Hold, leaving: Sequence[Hold]) -> Refusal | None:
        """Why a hold cannot be added once these have left, or None."""
        n = self.cards.index_of.get(hold.node)
        if n is None:
            return Refusal(code="NodeUnknown", text=f"node {hold.node} is unknown", lasting=True)
        node = self.cards.node(n)
        if node.out_of_service:
            return Refusal(code="NodeOutOfService", text=node.out_of_service, lasting=True)
        for uuid, use in hold.use.items():
            k = self.cards.position(n, uuid)
            if k is None:
                return Refusal(code="CardUnknown", text=f"node {hold.node} has no card {uuid}", lasting=True)
            freed = [left.use[uuid] for left in leaving if left.node == hold.node and uuid in left.use]
            if not _room(node.cards[k], self.cards.use(n, k), freed, use):
                return Refusal(code="CardTaken", text=f"card {uuid} of node {hold.node} has been taken meanwhile")
        return None

    def _shut(self, hold: Hold) -> Refusal | None:
        """Which card of a hold takes no new pods, if any. The node and its cards must be there."""
        node = self.cards.node(self.cards.index_of[hold.node])
        for card in node.cards:
            if card.uuid in hold.use and not card.healthy:
                return Refusal(
                    code="CardNotHealth", text=f"card {card.uuid} of node {node.name} is unhealthy", lasting=True
                )
            if card.uuid in hold.use and card.uuid in node.cordoned:
                return Refusal(
                    code="CardCordoned", text=f"card {card.uuid} of node {node.name} is cordoned", lasting=True
                )
        return None


def _room(card: Card, used: CardUse, freed: Sequence[CardUse], use: CardUse) -> bool:
    """Whether a card has room for a use when what is freed has gone."""
    slots = used.slots - sum(left.slots for left in freed)
    memory_mib = used.memory_mib - sum(left.memory_mib for left in freed)
    cores_percent = used.cores_percent - sum(left.cores_percent for left in freed)
    holders = used.holders - sum(left.holders for left in freed)
    return (
        slots + use.slots <= card.slots
        and memory_mib + use.memory_mib <= card.memory_mib
        and cores_percent + use.cores_percent <= card.cores_percent
        and not holders
        and not (use.holders and slots)
    )
