"""What a kubelet's device manager knows: the devices that plugins list, and which container has which. Pure.

Its rules are those of https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/devicemanager/manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

Ids = frozenset[str]
NONE: Ids = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as a plugin lists it; `numa` are the memory nodes that it is near to, where the plugin says so."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """What a plugin wants to be asked."""

    pre_start: bool = False
    preferred: bool = False


class Devices:
    """The devices of one node.

    `held` says what each container has, by uid, container name and resource: this is the kubelet's checkpoint, together
    with the names of the resources. `chance` puts devices into an order, as a real kubelet's sets have none.
    """

    def __init__(self, living: Callable[[], Collection[str] | None], chance: Callable[[], float]) -> None:
        self.options: dict[str, PluginOptions] = {}
        self.listed: dict[str, dict[str, Device]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.held: dict[str, dict[str, dict[str, Ids]]] = {}
        self.promised: dict[int, tuple[str, Ids]] = {}
        """What allocations that are not finished have picked, by the number of the job."""
        self._living = living
        self._chance = chance
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})

    def connect(self, resource: str, options: PluginOptions) -> None:
        """A plugin registered; its devices count from its first list on."""
        self.options[resource] = options

    def list_devices(self, resource: str, devices: Iterable[Device]) -> set[str]:
        """A plugin listed all its devices. The uids of the pods that have one whose health changed."""
        before = self.listed.get(resource, {})
        now = {one.id: one for one in devices}
        self.listed[resource] = now
        self.healthy[resource] = {one.id for one in now.values() if one.healthy}
        self.unhealthy[resource] = set(now) - self.healthy[resource]
        changed = {one.id for one in now.values() if (old := before.get(one.id)) is None or old.healthy != one.healthy}
        return {uid for uid in self.held if changed & self._of_pod(uid, resource)}

    def disconnect(self, resource: str) -> None:
        """A plugin is gone: its devices are still there, but no pod gets one."""
        if resource in self.healthy:
            self.unhealthy[resource] |= self.healthy[resource]
            self.healthy[resource] = set()

    def restart(self, *, with_checkpoint: bool) -> None:
        """The kubelet starts again: what it knows is what the checkpoint holds, and plugins have to register."""
        resources = set(self.healthy) if with_checkpoint else set()
        if not with_checkpoint:
            self.held = {}
        self.options, self.listed, self.promised = {}, {}, {}
        self.healthy = {resource: set() for resource in resources}
        self.unhealthy = {resource: set() for resource in resources}
        self._reusable = ("", {})

    def serves(self, resource: str) -> bool:
        """Whether it is the device manager's: listed by a plugin, or held by somebody."""
        return resource in self.healthy or bool(self.in_use(resource))

    def amounts(self) -> dict[str, tuple[int, int]]:
        """Capacity and allocatable of each resource."""
        return {
            resource: (len(healthy) + len(self.unhealthy[resource]), len(healthy))
            for resource, healthy in self.healthy.items()
        }

    def held_by(self, uid: str, container: str, resource: str) -> Ids | None:
        """What a container has; None where nothing is known."""
        return self.held.get(uid, {}).get(container, {}).get(resource)

    def of_container(self, uid: str, container: str) -> Mapping[str, Ids]:
        """What a container has, by resource."""
        return self.held.get(uid, {}).get(container, {})

    def hold(self, uid: str, container: str, resource: str, ids: Ids) -> None:
        """A plugin gave these devices to a container."""
        self.held.setdefault(uid, {}).setdefault(container, {})[resource] = ids

    def in_use(self, resource: str) -> set[str]:
        """What is given away or about to be."""
        used = {one for name, ids in self.promised.values() if name == resource for one in ids}
        for uid in self.held:
            used |= self._of_pod(uid, resource)
        return used

    def free(self, resource: str) -> set[str]:
        """What can be given away."""
        return self.healthy.get(resource, set()) - self.in_use(resource)

    def collect(self) -> None:
        """Takes back what pods have that are not alive; not before all pods are known again after a restart."""
        living = self._living()
        if living is not None:
            self.held = {uid: containers for uid, containers in self.held.items() if uid in living}

    def reusable(self, uid: str) -> dict[str, set[str]]:
        """The devices of this pod's init containers that its next container may take. Only one pod's are remembered."""
        if self._reusable[0] != uid:
            self._reusable = (uid, {})
        return self._reusable[1]

    def note_reuse(self, uid: str, container: str, *, plain_init: bool) -> None:
        """A container got its devices: those of a plain init container can be reused, those of another one not."""
        reusable = self.reusable(uid)
        for resource, ids in self.of_container(uid, container).items():
            pool = reusable.setdefault(resource, set())
            if plain_init:
                pool |= ids
            else:
                pool -= ids

    def shuffled(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Devices in no order that anybody could rely on."""
        return tuple(sorted(sorted(ids), key=lambda _: self._chance()))

    def is_healthy(self, resource: str, device: str) -> bool:
        """What the plugin said last about a device; one that it does not list counts as healthy."""
        known = self.listed.get(resource, {}).get(device)
        return known is None or known.healthy

    def _of_pod(self, uid: str, resource: str) -> set[str]:
        return {one for by_resource in self.held[uid].values() for one in by_resource.get(resource, NONE)}
