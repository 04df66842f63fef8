"""What a node is told, and the orders that it gives back. Only `node` decides between them; `shell` brings and carries.

A job is one run through a pod's containers, an admission or a start; its number comes back with each outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cardwise.sim.kubelet.allocation import Outcome, Rpc
from cardwise.sim.kubelet.devices import Device, PluginOptions
from cardwise.sim.kubelet.objects import Json, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """The kubelet starts. Plugins may register from now on; it knows no pods before `PodsListed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """The kubelet stops; containers go on running. Its checkpoint may be lost with it.

    `unwritten` are the uids of pods whose status was not written yet.
    """

    lose_checkpoint: bool = False
    unwritten: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsListed:
    """All pods that are bound to the node: the first word of the API server after a start, or after a lost watch."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod of the node is new or other than before."""

    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGone:
    """A pod object is gone."""

    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConnected:
    """A plugin registered, and said what it wants to be asked."""

    resource: str
    options: PluginOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesListed:
    """A plugin listed all its devices."""

    resource: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLost:
    """A plugin's list ended."""

    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """A plugin answered a call of a job."""

    job: int
    outcome: Outcome


class Timer(StrEnum):
    """What a pod waits for."""

    START = "start"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A pod waited long enough."""

    uid: str
    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A pod's containers end by themselves."""

    uid: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExited:
    """A running container ended, and is to be started again."""

    uid: str
    container: str


Fact = (
    Up
    | Down
    | PodsListed
    | PodSeen
    | PodGone
    | PluginConnected
    | DevicesListed
    | PluginLost
    | Replied
    | Due
    | Finished
    | ContainerExited
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call the plugin of a resource; the answer is a `Replied` with the same job."""

    job: int
    pod: Pod
    rpc: Rpc


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Come back with `Due` after some seconds."""

    uid: str
    timer: Timer
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Merge this into a pod's status."""

    pod: Pod
    status: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePod:
    """Take a pod's object away: nothing of it runs any more."""

    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """Tell users by an event about a pod."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNode:
    """Capacity and allocatable of the extended resources are other than before."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


Order = Call | Wait | WriteStatus | RemovePod | Warn | WriteNode
