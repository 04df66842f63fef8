"""The demo's course: the workload is submitted step by step, what happens is told, and in the end all is counted."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cardwise.core.cluster import Cluster
from cardwise.kube.errors import KubeError
from cardwise.kube.facts import Changed, Listed
from cardwise.kube.requests import EVENTS, PODS, Resource
from cardwise.kube.watch import Reflector
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.demo.cluster import nodes
from cardwise.sim.demo.stage import SERVICE_USER, Stage, staged
from cardwise.sim.demo.story import Story
from cardwise.sim.demo.workload import Ask, Fate, Finish, Step, expected, steps
from cardwise.sim.usage import Usage, usage_of
from cardwise.wire import objects
from cardwise.wire.families import FAMILIES
from cardwise.wire.nodes import read_node
from cardwise.wire.pods import read_hold

Json = dict[str, Any]

PAUSE_SECONDS = 0.2
SETTLE_SECONDS = 8.0
"""How long the pods may take to get where they should be, after the last step."""
LOOK_SECONDS = 0.05

Say = Callable[[str], None]

_RAW_PODS: Resource[Json] = PODS.seen_as(Json)
_RAW_EVENTS: Resource[Json] = EVENTS.seen_as(Json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it. `astray` names the pods that are not where they should be, with what they are instead.

    `writes` are the scheduler service's, by verb and resource; `decision_seconds` are filter calls, as kube-scheduler
    sees them.
    """

    fates: Mapping[Fate, int]
    writes: Mapping[tuple[str, str], int]
    decision_seconds: tuple[float, ...]
    usage: Usage
    astray: Mapping[str, Fate]

    def lines(self) -> list[str]:
        """The summary."""
        counted = [f"{count} {fate}" for fate, count in self.fates.items() if count]
        writes = [_written(kind, count) for kind, count in sorted(self.writes.items())]
        times = sorted(1000 * seconds for seconds in self.decision_seconds) or [0.0]
        took = f"median {statistics.median(times):.1f} ms, longest {times[-1]:.1f} ms, over HTTP"
        return [
            f"pods: {', '.join(counted)}",
            f"writes by the scheduler: {sum(self.writes.values())} ({', '.join(writes)})",
            f"decisions: {len(self.decision_seconds)} filter calls, {took}",
        ]


_NAMES = {
    ("create", "pods/binding"): "binding",
    ("create", "events"): "explanation",
    ("patch", "pods"): "wake-up",
}


def _written(kind: tuple[str, str], count: int) -> str:
    return f"{count} {_NAMES.get(kind, ' '.join(kind))}{'s' * (count != 1)}"


def _reason(error: KubeError) -> str:
    """What the webhook said, without what the API server and the client put before it."""
    return str(error).rpartition("denied the request: ")[2].removesuffix(" (400 BadRequest)")


async def play(
    count: int, seed: int, folder: Path, say: Say, then: Callable[[Stage, Result], Any] = lambda _stage, _result: None
) -> Result:
    """Plays the demo with so many nodes, told line by line; `then` is called, and awaited, while all still runs."""
    chosen = nodes(count, seed)
    say(f"starting {count} nodes, a kube-scheduler, and the scheduler service")
    async with staged(chosen, folder) as stage:
        cards = sum(len(node.cards) for node in chosen)
        say(f"a cluster of {count} nodes with {cards} cards; kubectl --kubeconfig {stage.kubeconfig} get pods -A")
        course = _Course(stage, Story({card.uuid: card.index for node in chosen for card in node.cards}), say)
        async with asyncio.TaskGroup() as tasks:
            telling = [tasks.create_task(one) for one in (course.tell_pods(), course.tell_events())]
            result = await course.run(steps(chosen, seed))
            await then(stage, result)
            for task in telling:
                task.cancel()
        return result


class _Course:
    """One performance."""

    def __init__(self, stage: Stage, story: Story, say: Say) -> None:
        self._stage = stage
        self._story = story
        self._say = say
        self._began = time.monotonic()

    async def run(self, todo: Sequence[Step]) -> Result:
        for step in todo:
            await (self._ask(step) if isinstance(step, Ask) else self._finish(step))
            await asyncio.sleep(PAUSE_SECONDS)
        wanted = expected(todo)
        await self._until(lambda: self._story.fates == wanted)
        astray = {pod: fate for pod, fate in self._story.fates.items() if fate is not wanted[pod]}
        return _result(self._stage, self._story, astray)

    async def tell_pods(self) -> None:
        async with aclosing(Reflector(self._stage.client, _RAW_PODS).facts()) as said:
            async for fact in said:
                for body in fact.objects if isinstance(fact, Listed) else ():
                    self._tell(*self._story.see(body))
                if isinstance(fact, Changed):
                    self._tell(*self._story.see(fact.object))

    async def tell_events(self) -> None:
        async with aclosing(Reflector(self._stage.client, _RAW_EVENTS).facts()) as said:
            async for fact in said:
                for body in fact.objects if isinstance(fact, Listed) else ():
                    self._tell(*self._story.hear(body))
                if isinstance(fact, Changed):
                    self._tell(*self._story.hear(fact.object))

    async def _ask(self, ask: Ask) -> None:
        self._story.asked(ask.pod)
        self._tell((ask.pod, ask.says()))
        try:
            await self._stage.client.create(_RAW_PODS, ask.manifest(), ask.pod.partition("/")[0])
        except KubeError as error:
            self._story.refused(ask.pod)
            self._tell((ask.pod, f"is refused at admission: {_reason(error)}"))

    async def _finish(self, finish: Finish) -> None:
        await self._until(lambda: self._story.fates.get(finish.once_waits) is Fate.WAITING)
        self._stage.kubelet.finish(finish.pod)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Until it is so, or for as long as one may wait for it."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not holds() and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)

    def _tell(self, *lines: tuple[str, str]) -> None:
        for pod, text in lines:
            self._say(f"+{time.monotonic() - self._began:.2f}s  {pod}  {text}")


def _result(stage: Stage, story: Story, astray: Mapping[str, Fate]) -> Result:
    writes = Counter((one.verb, one.resource) for one in stage.server.log.of(user=SERVICE_USER) if one.done)
    calls = stage.scheduler.extender.calls
    return Result(
        fates=story.counted(),
        writes=writes,
        decision_seconds=tuple(one.lasted_seconds for one in calls if one.verb == "filter"),
        usage=usage_now(stage.server),
        astray=astray,
    )


def usage_now(server: MemoryServer) -> Usage:
    """What the pods hold by the records that the API server has of them."""
    cluster = Cluster(FAMILIES)
    for body in server.list("nodes"):
        cluster.set_node(read_node(msgspec.convert(body, objects.Node), FAMILIES).node)
    for body in server.list("pods"):
        pod = msgspec.convert(body, objects.Pod)
        hold = None if pod.ended else read_hold(pod, FAMILIES)
        if hold is not None:
            cluster.confirm(hold)
    return usage_of(cluster)
