"""A node's state machine on the bench: pods in short words, orders as they come, answers of a plugin on request."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.allocation import Allocate, Broken, Done, Outcome, Prefer, Preferred
from cardwise.sim.kubelet.devices import Device, PluginOptions
from cardwise.sim.kubelet.node import Node
from cardwise.sim.kubelet.objects import NodeShape, Pace, Pod, PodContainer, PodMeta, PodSpec, PodStatus
from cardwise.wire.objects import Amounts, Resources

GPU = "nvidia.com/gpu"
NOW = "2026-01-01T00:00:00Z"
PLAIN, PREFERS, PRE_STARTS = PluginOptions(), PluginOptions(preferred=True), PluginOptions(pre_start=True)
PACE = Pace(start_seconds=1, stop_seconds=2, retry_seconds=10)


def container(name: str, gpus: int = 0, *, sidecar: bool = False) -> PodContainer:
    limits: Amounts = {"cpu": "100m"}
    if gpus:
        limits[GPU] = str(gpus)
    policy = "Always" if sidecar else None
    return PodContainer(name=name, image="pause", resources=Resources(limits=limits), restart_policy=policy)


def pod(
    name: str,
    *containers: PodContainer,
    init: Iterable[PodContainer] = (),
    created: int = 0,
    phase: str = "Pending",
    deleted: int | None = None,
    uid: str = "",
) -> Pod:
    """A pod whose uid is its name, with one container of one GPU if none is given; `deleted` is its grace."""
    meta = PodMeta(
        name=name,
        namespace="ml",
        uid=uid or name,
        creation_timestamp=f"2026-01-01T00:{created // 60:02}:{created % 60:02}Z",
        deletion_timestamp=None if deleted is None else NOW,
        deletion_grace_period_seconds=deleted,
    )
    spec = PodSpec(
        containers=list(containers) or [container("c", 1)], init_containers=list(init) or None, node_name="n1"
    )
    conditions: list[dict[str, Any]] = [{"type": "PodScheduled", "status": "True"}]
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase=phase, conditions=conditions))


def ids(count: int, first: int = 0) -> tuple[str, ...]:
    return tuple(f"G0-{n}" for n in range(first, first + count))


class Bench:
    """One node. `calls`, `waits` and `writes` are orders that nobody carried out yet, oldest first."""

    def __init__(self, extra: Mapping[str, int] | None = None, *, seed: int = 0) -> None:
        shape = NodeShape(name="n1", extra=extra or {})
        self.node = Node(shape, number=0, pace=PACE, chance=random.Random(seed).random)
        self.calls: list[facts.Call] = []
        self.waits: list[facts.Wait] = []
        self.writes: list[facts.WriteStatus | facts.RemovePod | facts.Warn] = []
        self.amounts: list[facts.WriteNode] = []
        self.tell(facts.Up())

    def tell(self, fact: facts.Fact) -> None:
        for order in self.node.handle(fact, NOW):
            if isinstance(order, facts.Call):
                self.calls.append(order)
            elif isinstance(order, facts.Wait):
                self.waits.append(order)
            elif isinstance(order, facts.WriteNode):
                self.amounts.append(order)
            else:
                self.writes.append(order)

    def plug(self, options: PluginOptions = PLAIN, count: int = 4, sick: Iterable[str] = ()) -> None:
        """A plugin registers and lists its devices."""
        self.tell(facts.PluginConnected(resource=GPU, options=options))
        self.list_devices(count, sick)

    def list_devices(self, count: int = 4, sick: Iterable[str] = ()) -> None:
        devices = tuple(Device(id=one, healthy=one not in sick) for one in ids(count))
        self.tell(facts.DevicesListed(resource=GPU, devices=devices))

    def open(self, *pods: Pod) -> None:
        """The API server tells which pods there are."""
        self.tell(facts.PodsListed(pods=pods))

    def see(self, *pods: Pod) -> None:
        for one in pods:
            self.tell(facts.PodSeen(pod=one))

    def reply(self, outcome: Outcome | None = None) -> facts.Call:
        """The oldest call is answered: by what is wished, or as a plugin does that agrees and prefers the lowest."""
        call = self.calls.pop(0)
        if outcome is None:
            outcome = Done()
            if isinstance(call.rpc, Prefer):
                others = (one for one in sorted(call.rpc.available, key=_number) if one not in call.rpc.must_include)
                outcome = Preferred(ids=frozenset([*call.rpc.must_include, *others][: call.rpc.size]))
        self.tell(facts.Replied(job=call.job, outcome=outcome))
        return call

    def reply_all(self) -> list[facts.Call]:
        return list(iter(lambda: self.reply() if self.calls else None, None))

    def fail(self, text: str) -> None:
        self.reply(Broken(text=text))

    def pass_time(self) -> None:
        """All that waits is due."""
        waits, self.waits = self.waits, []
        for one in waits:
            self.tell(facts.Due(uid=one.uid, timer=one.timer))

    def run(self) -> None:
        """Answers and waits until nothing is left to do; what fails to start again and again ends it."""
        for _ in range(20):
            self.reply_all()
            self.pass_time()

    def written(self) -> list[Any]:
        """What was written since the last time, in short: name and phase, `remove name`, `warn name`."""
        writes, self.writes = self.writes, []
        return [_short(one) for one in writes]

    def held(self, name: str) -> dict[str, list[str]]:
        """What the containers of a pod have."""
        by_container = self.node.devices.held.get(name, {})
        return {one: sorted(by_resource.get(GPU, ())) for one, by_resource in by_container.items()}

    def listed(self) -> dict[str, dict[str, list[str]]]:
        """What pod-resources shows."""
        return {
            one.metadata.name: {each.name: self.held(one.uid).get(each.name, []) for each in one.listed()}
            for one in sorted(self.node.active(), key=lambda one: one.metadata.name)
        }


def _short(write: facts.WriteStatus | facts.RemovePod | facts.Warn) -> str:
    name = write.pod.metadata.name
    if isinstance(write, facts.WriteStatus):
        return f"{name} {write.status['phase']}"
    return f"remove {name}" if isinstance(write, facts.RemovePod) else f"warn {name}"


def said(calls: Iterable[facts.Call]) -> list[tuple[Any, ...]]:
    """Calls in short: pod, container and devices of an Allocate; pod, number free, what must be in it, size."""
    return [_said(one) for one in calls]


def _said(call: facts.Call) -> tuple[Any, ...]:
    name, rpc = call.pod.metadata.name, call.rpc
    if isinstance(rpc, Prefer):
        return name, len(rpc.available), sorted(rpc.must_include), rpc.size
    kind = "allocate" if isinstance(rpc, Allocate) else "pre-start"
    return name, f"{kind} {rpc.container}", sorted(rpc.ids)


def _number(device: str) -> int:
    return int(device.rpartition("-")[2])
