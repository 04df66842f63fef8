"""What NVML says of one card and of its links. All functions raise the library's NVMLError where they do not say otherwise.

`library` is the module `pynvml` (package nvidia-ml-py), or whatever behaves as it does.
Source: https://docs.nvidia.com/deploy/nvml-api.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from cardwise.agent.probe import FoundCard, Level, Link, bus_id

T = TypeVar("T")

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Handle:
    """A card that answered: what it said, and the library's handle of it."""

    card: FoundCard
    handle: Any


def read_card(library: Any, number: int, sysfs: Path) -> Handle:
    """The card of a number, without its links. Also raises UnicodeDecodeError, for a name that is no text."""
    handle = library.nvmlDeviceGetHandleByIndex(number)
    pci = bus_id(as_text(library.nvmlDeviceGetPciInfo(handle).busId))
    memory = supported(library, lambda: library.nvmlDeviceGetMemoryInfo(handle))
    mig = supported(library, lambda: library.nvmlDeviceGetMigMode(handle))
    card = FoundCard(
        uuid=as_text(library.nvmlDeviceGetUUID(handle)),
        index=number,
        model=as_text(library.nvmlDeviceGetName(handle)),
        memory_mib=None if memory is None else memory.total // _MIB,
        numa=read_numa(sysfs, pci),
        pci=pci,
        minor=supported(library, lambda: library.nvmlDeviceGetMinorNumber(handle)),
        mig=mig is not None and mig[0] == library.NVML_DEVICE_MIG_ENABLE,
    )
    return Handle(card, handle)


def as_text(raw: bytes | str) -> str:
    """A text of the library, which is bytes in its structures."""
    return raw.decode() if isinstance(raw, bytes) else raw


def supported(library: Any, ask: Callable[[], T]) -> T | None:
    """The answer, or None where card or driver do not know the question."""
    try:
        return ask()
    except library.NVMLError as error:
        if error.value in {library.NVML_ERROR_NOT_SUPPORTED, library.NVML_ERROR_FUNCTION_NOT_FOUND}:
            return None
        raise


def read_numa(sysfs: Path, pci: str) -> int | None:
    """The NUMA node of a PCI device; None where Linux knows none (it says -1 then) or does not tell. Raises nothing."""
    try:
        node = int((sysfs / "bus" / "pci" / "devices" / pci / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def links_of(library: Any, handles: Mapping[str, Handle]) -> tuple[dict[str, int], list[Link]]:
    """How many NVLinks each card has to an NVSwitch, and what each two cards see of each other. Raises nothing.

    What cannot be asked counts as no link: most cards have no NVLink, and in a virtual machine nobody knows a path.
    """
    remotes = {uuid: _remotes(library, each.handle) for uuid, each in handles.items()}
    links = []
    for one, other in combinations(handles.values(), 2):
        level = _level(library, one.handle, other.handle)
        for here, there in ((one.card, other.card), (other.card, one.card)):
            nvlinks = remotes[here.uuid][there.pci]
            links.append(Link(uuid=here.uuid, peer=there.uuid, level=level, nvlinks=nvlinks))
    return {uuid: found[_SWITCH] for uuid, found in remotes.items()}, links


_SWITCH = "switch"


def _remotes(library: Any, handle: Any) -> Counter[str]:
    """How many active NVLinks end where: at a PCI bus id, or at an NVSwitch."""
    ends = (_remote(library, handle, link) for link in range(library.NVML_NVLINK_MAX_LINKS))
    return Counter(end for end in ends if end)


def _remote(library: Any, handle: Any, link: int) -> str:
    """Where an NVLink ends; empty where it is not there or not active."""
    try:
        if not library.nvmlDeviceGetNvLinkState(handle, link):
            return ""
        kind = supported(library, lambda: library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
        if kind == library.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return _SWITCH
        return bus_id(as_text(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId))
    except library.NVMLError:
        return ""


def _level(library: Any, one: Any, other: Any) -> Level | None:
    try:
        return dict(_levels(library)).get(library.nvmlDeviceGetTopologyCommonAncestor(one, other))
    except library.NVMLError:
        return None


def _levels(library: Any) -> Iterator[tuple[int, Level]]:
    yield library.NVML_TOPOLOGY_INTERNAL, Level.SAME_BOARD
    yield library.NVML_TOPOLOGY_SINGLE, Level.SINGLE_SWITCH
    yield library.NVML_TOPOLOGY_MULTIPLE, Level.MULTI_SWITCH
    yield library.NVML_TOPOLOGY_HOSTBRIDGE, Level.HOST_BRIDGE
    yield library.NVML_TOPOLOGY_NODE, Level.SAME_CPU
    yield library.NVML_TOPOLOGY_SYSTEM, Level.CROSS_CPU
