"""What a container was given, and what was answered to the kubelet for it: the agent's own memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cardwise.core.model import CardAllocation, CardUse, ContainerAllocation, ContainerKind
from cardwise.core.peak import peak_use
from cardwise.kube.kubelet import deviceplugin_pb2 as dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A path of the host in a container."""

    container_path: str
    host_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFile:
    """A device file of the host in a container."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the kubelet is told to give to a container. `cdi_devices` are qualified names, `annotations` the runtime's."""

    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_files: tuple[DeviceFile, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One card of a container: MiB and percent of it, and whether the pod holds it alone."""

    uuid: str
    memory_mib: int
    cores_percent: int
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The cards of one container of one pod, and the answer that gave them.

    `place` is the container's among all of the pod's. `kubelet` names the process that was answered last (see
    `View.kubelet`), `first_kubelet` the one that was answered first.
    """

    namespace: str
    name: str
    uid: str
    container: str
    kind: ContainerKind
    place: int
    family: str
    cards: tuple[Given, ...]
    device_ids: tuple[str, ...]
    kubelet: str
    first_kubelet: str
    answer: Answer

    @property
    def full_name(self) -> str:
        """The pod's namespace and name."""
        return f"{self.namespace}/{self.name}"


Grants = Mapping[str, Mapping[str, Grant]]
"""All grants, by the pod's uid and the container's name."""


def use_of(grants: Iterable[Grant]) -> dict[str, CardUse]:
    """What a pod with these grants holds at its peak, by UUID."""
    in_order = sorted(grants, key=lambda grant: grant.place)
    alone = frozenset(card.uuid for grant in in_order for card in grant.cards if card.alone)
    return peak_use([_allocation(grant) for grant in in_order], alone)


def _allocation(grant: Grant) -> ContainerAllocation:
    cards = tuple(
        CardAllocation(
            family=grant.family,
            uuid=card.uuid,
            index=-1,
            memory_mib=card.memory_mib,
            cores_percent=card.cores_percent,
        )
        for card in grant.cards
    )
    return ContainerAllocation(name=grant.container, kind=grant.kind, cards=cards)


def message(answer: Answer) -> dp.ContainerAllocateResponse:
    """The answer as the kubelet reads it."""
    return dp.ContainerAllocateResponse(
        envs=dict(answer.variables),
        mounts=[
            dp.Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in answer.mounts
        ],
        devices=[
            dp.DeviceSpec(container_path=one.container_path, host_path=one.host_path, permissions=one.permissions)
            for one in answer.device_files
        ],
        annotations=dict(answer.annotations),
        cdi_devices=[dp.CDIDevice(name=name) for name in answer.cdi_devices],
    )
