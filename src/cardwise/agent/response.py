"""What a container is given for its cards: environment, mounts and device files as HAMi's library in it needs them. Pure.

The names and values are those of HAMi's device plugin (2.4 to 2.10), but for these:

- Limits stand in the order in which CUDA numbers the cards. HAMi writes them in the record's order, and says nothing to
  CUDA: then a limit may be another card's. Here they stand in the order of the PCI bus, and CUDA is told to number so.
- The file that the library shares with the monitor is named after the pod, not at random.
- The library has one limit of compute for all cards of a container: the lowest that the record has, 0 being none.

A whole card is no exception: it comes with the library, with limits that are the card's own size, as HAMi gives it. So
whole cards are seen by the monitor like all others, and 100 % of compute is no limit to the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cardwise.agent.grants import Answer, DeviceFile, Given, Mount
from cardwise.agent.inventory import Inventory, NodeCard
from cardwise.wire import names
from cardwise.wire.errors import WireError
from cardwise.wire.lists import switch

ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
STRATEGIES = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
"""How the container runtime is told of cards; the words are those of NVIDIA's device plugin."""
CORE_POLICIES = ("default", "force", "disable")
CONTROL_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
DISABLE_CONTROL = "CUDA_DISABLE_CONTROL"
"""What a container sets to true itself, to be left without the library."""
_VISIBLE_MOUNTS = "/var/run/nvidia-container-devices"
_PRELOAD = "/etc/ld.so.preload"
_LOCKS = "/tmp/vgpulock"  # noqa: S108  # the library looks for it there


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How containers are given their cards on this node. Raises ValueError for a word that is none of those known.

    `hook_path` is where HAMi's library lies, on the host and in containers: `<hook_path>/vgpu`. `library` is its file on
    the host, where that bears another name. `device_files` passes device files as well, `control_files` being those which
    this host has beside the cards' own. `oversubscribe`: more memory is registered than the cards have.
    `by_index` names cards by number instead of UUID. `core_policy` and `log_level` are the library's; empty: not said.
    """

    hook_path: str = "/usr/local"
    library: str = ""
    strategies: tuple[str, ...] = (ENVVAR,)
    device_files: bool = False
    control_files: tuple[str, ...] = CONTROL_FILES
    by_index: bool = False
    cdi_kind: str = "k8s.device-plugin.nvidia.com/gpu"
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    oversubscribe: bool = False
    core_policy: str = ""
    log_level: str = ""
    more_variables: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        unknown = [one for one in self.strategies if one not in STRATEGIES]
        if unknown or not self.strategies:
            got = unknown[0] if unknown else "(none)"
            raise ValueError(f"device list strategy is {got}, must be one of {', '.join(STRATEGIES)}")
        if self.core_policy and self.core_policy not in CORE_POLICIES:
            raise ValueError(f"core policy is {self.core_policy}, must be one of {', '.join(CORE_POLICIES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Who is given cards: the pod's uid, the container, what it sets in its environment itself, and its task priority."""

    uid: str
    container: str
    variables: Mapping[str, str]
    priority: int | None = None


def container_directory(settings: AnswerSettings, uid: str, container: str) -> str:
    """The directory on the host that a container has for itself, and where the monitor finds what its library writes."""
    return f"{settings.hook_path}/vgpu/containers/{uid}_{container}"


def in_cuda_order(cards: Iterable[Given], inventory: Inventory) -> list[tuple[Given, NodeCard]]:
    """The cards that the node has, with what is known of them, in the order of the PCI bus."""
    given = {card.uuid: card for card in cards}
    return [(given[one.card.uuid], one) for one in inventory.cards if one.card.uuid in given]


def answer(settings: AnswerSettings, to: Recipient, cards: Sequence[tuple[Given, NodeCard]]) -> Answer | str:
    """What to give for these cards, which stand in CUDA's order; or, why that cannot be said, in one sentence."""
    files: tuple[DeviceFile, ...] = ()
    if settings.device_files:
        hidden = [one.card.uuid for _given, one in cards if one.found.minor is None]
        if hidden:
            return f"card {hidden[0]} tells no device file, which passing device files needs"
        paths = [*settings.control_files, *(f"/dev/nvidia{one.found.minor}" for _given, one in cards)]
        files = tuple(DeviceFile(container_path=path, host_path=path) for path in paths)
    called = [str(one.card.index) if settings.by_index else one.card.uuid for _given, one in cards]
    qualified = tuple(f"{settings.cdi_kind}={name}" for name in called)
    key = f"{settings.cdi_annotation_prefix}cardwise_{to.uid}"
    return Answer(
        variables={**_visible(settings, called), **_variables(settings, to, [given for given, _one in cards])},
        mounts=(*_mounts(settings, to), *_visible_mounts(settings, called)),
        device_files=files,
        annotations={key: ",".join(qualified)} if CDI_ANNOTATIONS in settings.strategies else {},
        cdi_devices=qualified if CDI_CRI in settings.strategies else (),
    )


def overruled(given: Answer, to: Recipient) -> tuple[str, ...]:
    """The variables of an answer that the container sets otherwise itself, which wins: Kubernetes puts its own last."""
    return tuple(name for name, value in given.variables.items() if to.variables.get(name, value) != value)


def _variables(settings: AnswerSettings, to: Recipient, cards: Sequence[Given]) -> dict[str, str]:
    limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{card.memory_mib}m" for place, card in enumerate(cards)}
    said = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_SM_LIMIT": str(min((card.cores_percent for card in cards if card.cores_percent), default=0)),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{settings.hook_path}/vgpu/{to.uid}.cache",
    }
    if settings.oversubscribe:
        said["CUDA_OVERSUBSCRIBE"] = "true"
    if settings.log_level:
        said["LIBCUDA_LOG_LEVEL"] = settings.log_level
    if settings.core_policy:
        said["GPU_CORE_UTILIZATION_POLICY"] = settings.core_policy
    if to.priority is not None:
        said[names.TASK_PRIORITY_ENV] = str(to.priority)
    return limits | said | dict(settings.more_variables)


def _mounts(settings: AnswerSettings, to: Recipient) -> list[Mount]:
    hook = f"{settings.hook_path}/vgpu"
    library = settings.library or f"{hook}/libvgpu.so"
    mounts = [
        Mount(container_path=f"{hook}/libvgpu.so", host_path=library),
        Mount(container_path=hook, host_path=container_directory(settings, to.uid, to.container), read_only=False),
        Mount(container_path=_LOCKS, host_path=_LOCKS, read_only=False),
    ]
    if not _uncontrolled(to.variables):
        mounts.append(Mount(container_path=_PRELOAD, host_path=f"{hook}/ld.so.preload"))
    return mounts


def _uncontrolled(variables: Mapping[str, str]) -> bool:
    """Whether the container wants no library; as in HAMi, what is neither true nor false is no such wish."""
    try:
        return switch(variables.get(DISABLE_CONTROL, "false"))
    except WireError:
        return False


def _visible(settings: AnswerSettings, called: Sequence[str]) -> dict[str, str]:
    if VOLUME_MOUNTS in settings.strategies:
        return {VISIBLE_DEVICES: _VISIBLE_MOUNTS}
    return {VISIBLE_DEVICES: ",".join(called)} if ENVVAR in settings.strategies else {}


def _visible_mounts(settings: AnswerSettings, called: Sequence[str]) -> list[Mount]:
    """What tells the runtime of cards in a way that no container can write into its own environment."""
    if VOLUME_MOUNTS not in settings.strategies:
        return []
    return [
        Mount(container_path=f"{_VISIBLE_MOUNTS}/{name}", host_path="/dev/null", read_only=False) for name in called
    ]
