"""What a node registers, from the cards that were found and how they are to be shared. Pure.

The order of cards is that of their PCI bus ids, then of the library's numbers, then of UUIDs: CUDA's order when it is told
to go by PCI, and the same whatever order a library lists them in. A registered card keeps the library's number as its
index, by which people and `nvidia-smi` know it. The register's text goes by that index (`wire.register`).

One card that cannot be registered is left out with a sentence, and the others are registered as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cardwise.agent.linkscores import link_scores
from cardwise.agent.probe import Found, FoundCard, bus_order
from cardwise.agent.sharing import Sharing
from cardwise.core.family import Family
from cardwise.core.model import MOST, WHOLE_CARD_CORES_PERCENT, Card, Links
from cardwise.wire import names
from cardwise.wire.errors import WireError, shown
from cardwise.wire.families import NVIDIA
from cardwise.wire.links import encode_links
from cardwise.wire.register import encode_register

_SEPARATORS = frozenset(",:;")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCard:
    """A registered card, and the one that was found."""

    card: Card
    found: FoundCard


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A card that is not registered, and why: what follows "card 3 ..." in a sentence; empty where it was asked for."""

    found: FoundCard
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A node's cards in order, the scores of their links in the same order, and sentences about what is odd.

    They can be written in the register's form that `form` names.
    """

    form: Literal["json", "text"] = "json"
    cards: tuple[NodeCard, ...] = ()
    links: Links = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()

    def card(self, uuid: str) -> NodeCard | None:
        """The card with this UUID, where the node registers it."""
        return next((each for each in self.cards if each.card.uuid == uuid), None)


def inventory(found: Found, sharing: Sharing, family: Family = NVIDIA) -> Inventory:
    """The cards to register; whatever was found, it is a register that can be written and read."""
    kept: dict[str, NodeCard] = {}
    left_out: list[LeftOut] = []
    for each in in_order(found.cards):
        judged = _judged(each, kept, sharing, family)
        if isinstance(judged, LeftOut):
            left_out.append(judged)
        else:
            kept[each.uuid] = judged
    cards = tuple(kept.values())
    links, odd = link_scores([each.found for each in cards], found.links)
    without = [f"card {_name(each.found)} {each.why}: it is left out" for each in left_out if each.why]
    warnings = (*found.warnings, *without, *_remarks(cards), *odd)
    return Inventory(form=_form(sharing), cards=cards, links=links, left_out=tuple(left_out), warnings=warnings)


def in_order(cards: Iterable[FoundCard]) -> list[FoundCard]:
    """The cards in the one order; what stands under the same bus id, number and UUID is ordered by all else."""
    return sorted(cards, key=lambda card: (bus_order(card.pci), card.index, card.uuid, repr(card)))


def model_name(raw: str) -> str:
    """A model as HAMi registers it. Characters that end a field or an item in lists of models become blanks."""
    name = raw
    if any(letter in _SEPARATORS or not letter.isprintable() for letter in raw):
        name = " ".join("".join(letter if _fits(letter) else " " for letter in raw).split())
    return name if name.startswith("NVIDIA") else f"NVIDIA-{name}"


def _fits(letter: str) -> bool:
    return letter not in _SEPARATORS and letter.isprintable()


def _judged(found: FoundCard, kept: Mapping[str, NodeCard], sharing: Sharing, family: Family) -> NodeCard | LeftOut:
    if found.uuid in sharing.leave_out or found.index in sharing.leave_out:
        return LeftOut(found=found)
    memory_mib = _memory_mib(found, sharing)
    why = _fault_of_identity(found, kept) or _fault_of_memory(found, memory_mib)
    if why:
        return LeftOut(found=found, why=why)
    card = _card(found, memory_mib, sharing, family)
    try:
        encode_register((card,), _form(sharing))
    except WireError as error:
        return LeftOut(found=found, why=f"cannot be registered ({error})")
    return NodeCard(card=card, found=found)


def _fault_of_identity(found: FoundCard, kept: Mapping[str, NodeCard]) -> str:
    if (first := kept.get(found.uuid)) is not None:
        return f"has the UUID of card {first.found.index}"
    if found.mig:
        return "is in MIG mode, in which it cannot be shared by slots"
    if not 0 <= found.index <= MOST:
        return f"has the number {found.index}, must be 0 to {MOST}"
    if not any(_fits(letter) and not letter.isspace() for letter in found.model):
        return "tells no model"
    return ""


def _fault_of_memory(found: FoundCard, memory_mib: int) -> str:
    if found.memory_mib is not None and found.memory_mib < 0:
        return f"tells of {found.memory_mib} MiB of memory"
    if not found.memory_mib and not memory_mib:
        return "has no memory of its own, and unifiedMemoryMib does not say how much of the host's it may use"
    if not 0 < memory_mib <= MOST:
        return f"has {memory_mib} MiB of memory after scaling, must be 1 to {MOST}"
    return ""


def _memory_mib(found: FoundCard, sharing: Sharing) -> int:
    """Scaled as HAMi scales it, downwards to whole MiB, but exactly: no error of binary fractions."""
    return int((found.memory_mib or sharing.unified_memory_mib) * sharing.memory_scaling)


def _card(found: FoundCard, memory_mib: int, sharing: Sharing, family: Family) -> Card:
    return Card(
        uuid=found.uuid,
        index=found.index,
        family=family.name,
        model=model_name(found.model),
        slots=sharing.slots_per_card,
        memory_mib=memory_mib,
        cores_percent=int(WHOLE_CARD_CORES_PERCENT * sharing.cores_scaling),
        numa=found.numa if _has_numa(found) and found.numa else 0,
        healthy=not found.fault,
        mode=family.default_mode,
    )


def _form(sharing: Sharing) -> Literal["json", "text"]:
    return "text" if sharing.register_format == "text" else "json"


def _has_numa(found: FoundCard) -> bool:
    return found.numa is not None and 0 <= found.numa <= MOST


def _remarks(cards: Iterable[NodeCard]) -> list[str]:
    """A sentence for each thing that was registered otherwise than found."""
    cards = tuple(cards)
    remarks = [
        f"card {_name(each.found)} has the model {shown(each.found.model)}: registered as {each.card.model}"
        for each in cards
        if not all(map(_fits, each.found.model))
    ]
    nowhere = [str(each.found.index) for each in cards if not _has_numa(each.found)]
    if nowhere and len(cards) > 1:
        which = f"{len(nowhere)} of {len(cards)} cards ({', '.join(nowhere)})"
        remarks.append(f"no NUMA node is told of {which}: registered as on node 0")
    return remarks


def _name(found: FoundCard) -> str:
    return f"{found.index} ({shown(found.uuid)})"


def wanted(inventory: Inventory, *, version: str, family: Family = NVIDIA) -> dict[str, str]:
    """The annotations that the Node is to have: register, link scores, and the mark that our agent wrote them.

    Raises ValueError for an empty version: the mark would say nothing, and the node be taken for one of HAMi's.
    """
    if not version:
        raise ValueError("the version is empty, must be the agent's version")
    cards = [each.card for each in inventory.cards]
    return {
        family.register_key: encode_register(cards, inventory.form),
        family.links_key: encode_links([card.uuid for card in cards], inventory.links),
        names.NODE_AGENT: version,
    }


def change(
    annotations: Mapping[str, str] | None, wanted: Mapping[str, str]
) -> dict[str, dict[str, dict[str, str]]] | None:
    """The merge patch that gives a Node with these annotations the wanted ones; None where it has them.

    It never takes an annotation away.
    """
    has = annotations or {}
    differing = {key: text for key, text in wanted.items() if has.get(key) != text}
    return {"metadata": {"annotations": differing}} if differing else None
