"""What the agent needs of a card library: which cards this machine has, how they are linked, and whether they work.

`nvml` asks the driver, `simulated` reads a file. What they find is passed on as they say it, odd numbers included:
`inventory` judges it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

_BUS_ID = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")


class ProbeError(Exception):
    """The card library is absent or fails: one sentence. Nothing is known of the cards until it is asked again."""


class Level(Enum):
    """What the PCI path between two cards crosses, near to far; the words are those of `nvidia-smi topo -m`."""

    SAME_BOARD = "PSB"
    SINGLE_SWITCH = "PIX"
    MULTI_SWITCH = "PXB"
    HOST_BRIDGE = "PHB"
    SAME_CPU = "NODE"
    CROSS_CPU = "SYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCard:
    """One card as the library tells of it.

    `index` is the library's own number of it, `model` the bare name. `memory_mib` is None where the card has no memory of
    its own (it shares the host's), `numa` where no NUMA node is told, `minor` (of the device file, /dev/nvidia<minor>)
    where there is none. `pci` is the bus id, see `bus_id`. `mig`: the card is cut into instances by hardware.
    `switch_links` are NVLinks that end at an NVSwitch. `fault` is a sentence that says why the card is not to be used; it
    is empty for a healthy one.
    """

    uuid: str
    index: int
    model: str
    memory_mib: int | None
    numa: int | None = None
    pci: str = ""
    minor: int | None = None
    mig: bool = False
    switch_links: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What card `uuid` sees of card `peer`: the PCI path (None: not told), and how many NVLinks lead straight to it."""

    uuid: str
    peer: str
    level: Level | None = None
    nvlinks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEvent:
    """A card, or all of them (`uuid` is empty), turned unhealthy, or healthy again.

    `why` is the sentence that becomes the fault; `xid` is the driver's code where it gave one.
    """

    uuid: str
    healthy: bool
    why: str = ""
    xid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was found at one moment, and sentences about what could not be asked."""

    cards: tuple[FoundCard, ...] = ()
    links: tuple[Link, ...] = ()
    warnings: tuple[str, ...] = ()

    def after(self, events: Iterable[HealthEvent]) -> Found:
        """The same cards after these events, in order; events of cards that are not here change nothing."""
        faults = {card.uuid: card.fault for card in self.cards}
        for event in events:
            for uuid in [event.uuid] if event.uuid else list(faults):
                faults[uuid] = "" if event.healthy else event.why or "it is unhealthy"
        return replace(self, cards=tuple(replace(card, fault=faults[card.uuid]) for card in self.cards))


class Probe(Protocol):
    """A card library. Its calls never hold the event loop up."""

    async def find(self) -> Found:
        """The cards as they are now. Raises ProbeError; asking again later is the cure."""

    async def changes(self) -> tuple[HealthEvent, ...]:
        """Waits until the health of cards changes, and says how; at least one event. Raises ProbeError.

        A caller that stops waiting loses nothing: what happens meanwhile is told by the next call, unless `find` told it.
        """

    async def close(self) -> None:
        """Lets the library go. Nothing else may be called afterwards."""


def bus_id(text: str) -> str:
    """A PCI bus id as Linux writes it, `0000:3b:00.0`; a text that is none as it stands, in small letters.

    NVML writes eight digits of domain and capitals, Linux at least four and small letters.
    """
    parts = _parts(text)
    return text.strip().lower() if parts is None else "{:04x}:{:02x}:{:02x}.{}".format(*parts)


def bus_order(text: str) -> tuple[int, ...]:
    """Where a bus id comes in the order in which CUDA numbers cards when it is told to go by PCI; no bus id comes last."""
    parts = _parts(text)
    return (1,) if parts is None else (0, *parts)


def _parts(text: str) -> tuple[int, int, int, int] | None:
    """Domain, bus, device and function."""
    match = _BUS_ID.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, device = (int(match[n], 16) for n in (1, 2, 3))
    return domain, bus, device, int(match[4] or 0)
