"""One node's kubelet as a state machine: facts in, orders out. Pure: it reads no clock and reaches nothing.

What a real kubelet does, and in which order:

- Its main loop takes one word about a pod after another. Admitting a pod is part of that loop: while a device plugin is
  asked, later words wait, those of a deletion too. So admission is serial, in the order of the watch; pods that come
  together, after a start or a lost watch, are taken by their creation time.
- Everything after admission (start, stop, restart of a container) runs beside that loop, a worker for each pod.
- A pod that is refused is Failed for good. Devices of pods that ended are taken back with the next allocation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cardwise.sim.kubelet import facts, statuses
from cardwise.sim.kubelet.allocation import Outcome, Steps, admit, start
from cardwise.sim.kubelet.devices import Devices
from cardwise.sim.kubelet.facts import Fact, Order, Timer
from cardwise.sim.kubelet.objects import Json, NodeShape, Pace, Pod, requested
from cardwise.sim.kubelet.statuses import Run


class Stage(StrEnum):
    """How far a pod is."""

    ADMITTING = "admitting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(slots=True, kw_only=True)
class Record:
    """A pod as the kubelet knows it. `to_start` names containers that wait for a start, `job` is the one under way."""

    pod: Pod
    stage: Stage = Stage.ADMITTING
    run: Run | None = None
    to_start: list[str] = field(default_factory=list)
    job: int = 0
    removed: bool = False
    written: Json = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Job:
    uid: str
    steps: Steps
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _AllTaken:
    """All pods of a list were taken: from now on what no pod has can be given away."""


_Word = facts.PodsListed | facts.PodSeen | facts.PodGone | _AllTaken


class Node:
    """The kubelet of one node. `number` is its own among others, for addresses."""

    def __init__(self, shape: NodeShape, *, number: int, pace: Pace, chance: Callable[[], float]) -> None:
        self.shape = shape
        self.pods: dict[str, Record] = {}
        self.devices = Devices(self._living, chance)
        self._number = number
        self._pace = pace
        self._up = self._all_known = False
        self._inbox: deque[_Word] = deque()
        self._jobs: dict[int, _Job] = {}
        self._last_job = self._admitting = self._last_ip = 0
        self._left_running: dict[str, Record] = {}
        self._advertised: set[str] = set()
        self._told: tuple[dict[str, int], dict[str, int]] | None = None
        self._now = ""
        self._orders: list[Order] = []

    def handle(self, fact: Fact, now: str) -> list[Order]:
        """What is to be done after a fact, in this order. `now` is the time as statuses hold it."""
        self._now, self._orders = now, []
        _HANDLERS[type(fact)](self, fact)
        while self._inbox and not self._admitting:
            self._take(self._inbox.popleft())
        self._tell_amounts()
        return self._orders

    def active(self) -> list[Pod]:
        """The pods that pod-resources lists, in no order: the one that is being admitted too, those that ended not."""
        self.devices.collect()
        order = self.devices.shuffled(uid for uid, one in self.pods.items() if one.stage is not Stage.ENDED)
        return [self.pods[uid].pod for uid in order]

    # What it is told.

    def _go_up(self, _fact: facts.Up) -> None:
        self._up, self._told = True, None

    def _go_down(self, fact: facts.Down) -> None:
        running = (one for one in self.pods.values() if one.run is not None and one.stage is not Stage.ENDED)
        self._left_running |= {one.pod.uid: one for one in running}
        for uid in fact.unwritten & self._left_running.keys():
            self._left_running[uid].written = {}
        self._up = self._all_known = False
        self._admitting = 0
        self.pods, self._jobs = {}, {}
        self._inbox.clear()
        self.devices.restart(with_checkpoint=not fact.lose_checkpoint)

    def _queue(self, word: facts.PodsListed | facts.PodSeen | facts.PodGone) -> None:
        if self._up:
            self._inbox.append(word)

    def _plugin_connected(self, fact: facts.PluginConnected) -> None:
        self.devices.connect(fact.resource, fact.options)

    def _devices_listed(self, fact: facts.DevicesListed) -> None:
        for uid in self.devices.list_devices(fact.resource, fact.devices):
            record = self.pods.get(uid)
            if record is not None and record.stage is Stage.RUNNING:
                self._write_running(record)

    def _plugin_lost(self, fact: facts.PluginLost) -> None:
        self.devices.disconnect(fact.resource)

    def _replied(self, fact: facts.Replied) -> None:
        self._drive(fact.job, fact.outcome)

    def _due(self, fact: facts.Due) -> None:
        record = self.pods.get(fact.uid)
        if record is None:
            return
        if fact.timer is Timer.STOP and record.stage is Stage.STOPPING:
            self._end(record, "Killed")
        if fact.timer is Timer.START and record.stage in (Stage.STARTING, Stage.RUNNING):
            self._start(record)

    def _finished(self, fact: facts.Finished) -> None:
        record = self.pods.get(fact.uid)
        if record is not None and record.stage in (Stage.STARTING, Stage.RUNNING):
            self._end(record, "Error" if fact.failed else "Completed")

    def _exited(self, fact: facts.ContainerExited) -> None:
        record = self.pods.get(fact.uid)
        if record is not None and record.stage is Stage.RUNNING:
            record.to_start.append(fact.container)
            self._start(record)

    # The main loop: one word about pods after another.

    def _take(self, word: _Word) -> None:
        if isinstance(word, facts.PodsListed):
            self._inbox.extendleft(reversed(list(self._unfold(word.pods))))
        elif isinstance(word, facts.PodGone):
            self._forget(word.uid)
        elif isinstance(word, _AllTaken):
            self._all_known = True
            self._left_running.clear()
        elif word.pod.uid in self.pods:
            self._update(self.pods[word.pod.uid], word.pod)
        else:
            self._add(word.pod)

    def _unfold(self, pods: Iterable[Pod]) -> Iterator[_Word]:
        by_uid = {pod.uid: pod for pod in pods}
        yield from (facts.PodGone(uid=uid) for uid in self.pods if uid not in by_uid)
        new = [pod for uid, pod in by_uid.items() if uid not in self.pods]
        for pod in sorted(new, key=lambda one: (one.metadata.creation_timestamp or "", one.full_name)):
            yield facts.PodSeen(pod=pod)
        yield from (facts.PodSeen(pod=pod) for uid, pod in by_uid.items() if uid in self.pods)
        yield _AllTaken()

    def _add(self, pod: Pod) -> None:
        record = self.pods[pod.uid] = self._left_running.pop(pod.uid, Record(pod=pod))
        record.pod, record.job = pod, 0
        if pod.ended:
            record.stage = Stage.ENDED
        elif record.run is not None:
            record.stage = Stage.RUNNING
            self._write_running(record)
            if record.to_start:
                self._start(record)
        else:
            self._last_job += 1
            self._admitting = self._last_job
            self._begin(record, admit(self._last_job, pod, self.devices))
        self._obey_deletion(record)

    def _update(self, record: Record, pod: Pod) -> None:
        record.pod = pod
        if pod.ended and record.stage in (Stage.STARTING, Stage.RUNNING):
            self._drop_job(record)
            record.stage = Stage.ENDED
        self._obey_deletion(record)

    def _obey_deletion(self, record: Record) -> None:
        if not record.pod.deleted:
            return
        if record.stage is Stage.ENDED:
            if not record.removed:
                record.removed = True
                self._orders.append(facts.RemovePod(pod=record.pod))
        elif record.stage in (Stage.STARTING, Stage.RUNNING):
            self._drop_job(record)
            record.stage = Stage.STOPPING
            grace = record.pod.metadata.deletion_grace_period_seconds
            most = self._pace.stop_seconds if record.run is not None else 0.0
            seconds = most if grace is None else min(most, grace)
            self._orders.append(facts.Wait(uid=record.pod.uid, timer=Timer.STOP, seconds=seconds))

    def _forget(self, uid: str) -> None:
        record = self.pods.pop(uid, None)
        if record is not None:
            self._drop_job(record)

    # Jobs: a run through containers, between whose steps a plugin is asked.

    def _begin(self, record: Record, steps: Steps, starts: tuple[str, ...] = ()) -> None:
        record.job = self._last_job
        self._jobs[record.job] = _Job(uid=record.pod.uid, steps=steps, starts=starts)
        self._drive(record.job, None)

    def _drive(self, number: int, outcome: Outcome | None) -> None:
        job = self._jobs.get(number)
        if job is None:
            return
        record = self.pods[job.uid]
        try:
            rpc = next(job.steps) if outcome is None else job.steps.send(outcome)
        except StopIteration as end:
            del self._jobs[number]
            record.job = 0
            error: str = end.value
            if number == self._admitting:
                self._admitting = 0
                self._admitted(record, error)
            else:
                self._started(record, job.starts, error)
        else:
            self._orders.append(facts.Call(job=number, pod=record.pod, rpc=rpc))

    def _drop_job(self, record: Record) -> None:
        job = self._jobs.pop(record.job, None)
        record.job = 0
        if job is not None:
            job.steps.close()

    def _admitted(self, record: Record, error: str) -> None:
        if error:
            message = f"Allocate failed due to {error}, which is unexpected"
            self._reject(record, "UnexpectedAdmissionError", message)
            return
        short = self._short_of(record.pod)
        if short is not None:
            self._reject(record, *short)
            return
        record.stage = Stage.STARTING
        record.to_start = [one.name for one in record.pod.containers()]
        self._orders.append(facts.Wait(uid=record.pod.uid, timer=Timer.START, seconds=self._pace.start_seconds))
        self._obey_deletion(record)

    def _reject(self, record: Record, reason: str, message: str) -> None:
        record.stage = Stage.ENDED
        self._orders.append(facts.Warn(pod=record.pod, reason=reason, message=message))
        self._write(record, statuses.rejected(reason, message, self._now))
        self._obey_deletion(record)

    def _start(self, record: Record) -> None:
        if record.job or not record.to_start:
            return
        names, record.to_start = tuple(record.to_start), []
        containers = [one for one in record.pod.containers() if one.name in names]
        self._last_job += 1
        self._begin(record, start(self._last_job, record.pod, containers, self.devices), names)

    def _started(self, record: Record, names: tuple[str, ...], error: str) -> None:
        if error:
            record.to_start = [*names, *record.to_start]
            self._orders.append(facts.Warn(pod=record.pod, reason="Failed", message=f"Error: {error}"))
            retry = facts.Wait(uid=record.pod.uid, timer=Timer.START, seconds=self._pace.retry_seconds)
            self._orders.append(retry)
            return
        if record.run is None:
            record.stage = Stage.RUNNING
            record.run = Run(since=self._now, ip=self._next_ip())
        else:
            again = {name: record.run.restarts.get(name, 0) + 1 for name in names}
            record.run = replace(record.run, restarts={**record.run.restarts, **again})
        self._write_running(record)
        self._start(record)

    def _end(self, record: Record, reason: str) -> None:
        self._drop_job(record)
        record.stage = Stage.ENDED
        self._write(record, statuses.ended(record.pod, record.run, reason=reason, now=self._now, devices=self.devices))
        self._obey_deletion(record)

    # What it says.

    def _write_running(self, record: Record) -> None:
        if record.run is not None:
            self._write(record, statuses.running(record.pod, record.run, self.devices))

    def _write(self, record: Record, status: Json) -> None:
        if status != record.written:
            record.written = status
            self._orders.append(facts.WriteStatus(pod=record.pod, status=status))

    def _tell_amounts(self) -> None:
        if not self._up:
            return
        amounts = self.devices.amounts()
        self._advertised |= set(amounts)
        # A resource that was a plugin's once stays, so that it cannot be taken for one that no node counts.
        base = dict.fromkeys(sorted(self._advertised), 0) | dict(self.shape.extra)
        told = (
            base | {name: capacity for name, (capacity, _) in amounts.items()},
            base | {name: allocatable for name, (_, allocatable) in amounts.items()},
        )
        if told != self._told:
            self._told = told
            self._orders.append(facts.WriteNode(capacity=told[0], allocatable=told[1]))

    def _short_of(self, pod: Pod) -> tuple[str, str] | None:
        """Reason and message where the pod asks more than is left of a resource that no plugin serves."""
        counted = dict.fromkeys(self._advertised, 0) | dict(self.shape.extra)
        for resource, capacity in counted.items():
            amount = requested(pod, resource)
            if amount == 0 or self.devices.serves(resource):
                continue
            others = (one for one in self.pods.values() if one.stage is not Stage.ENDED and one.pod.uid != pod.uid)
            used = sum(requested(one.pod, resource) for one in others)
            if amount + used > capacity:
                amounts = f"requested: {amount}, used: {used}, capacity: {capacity}"
                return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"
        return None

    def _living(self) -> set[str] | None:
        if not self._all_known:
            return None
        return {uid for uid, one in self.pods.items() if one.stage is not Stage.ENDED}

    def _next_ip(self) -> str:
        used = {one.run.ip for one in self.pods.values() if one.run is not None and one.stage is not Stage.ENDED}
        while True:
            self._last_ip = self._last_ip % 254 + 1
            ip = f"10.{self._number // 256 % 256}.{self._number % 256}.{self._last_ip}"
            if ip not in used or len(used) >= 254:
                return ip


_HANDLERS: dict[type[Any], Callable[[Node, Any], None]] = {
    facts.Up: Node._go_up,
    facts.Down: Node._go_down,
    facts.PodsListed: Node._queue,
    facts.PodSeen: Node._queue,
    facts.PodGone: Node._queue,
    facts.PluginConnected: Node._plugin_connected,
    facts.DevicesListed: Node._devices_listed,
    facts.PluginLost: Node._plugin_lost,
    facts.Replied: Node._replied,
    facts.Due: Node._due,
    facts.Finished: Node._finished,
    facts.ContainerExited: Node._exited,
}
