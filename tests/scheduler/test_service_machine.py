"""The real service through crashes, lost and broken watches, failing and silent API servers: as for its books alone.

A card is never given away twice; when all is well again, what fits is placed within seconds, what is recorded is what is
counted, and nothing is in use when all has ended.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

import oracle
from cardwise.core.model import CardUse
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.faults import Faults
from cardwise.wire.families import FAMILIES, NVIDIA
from cardwise.wire.pods import Defaults, read_pod

from .memory_api import Spot, as_pod, core_of, has_ended, held_by, holders_of, is_bound, register_of, total
from .service_stage import ServiceStage, staged
from .shapes import CHANGES, SHAPES, change_first_card, node_with, one

NODE_CARDS = {"a": 2, "b": 1}
MOST_PODS = 8
FEW_SECONDS = 6.0
"""Within so long what fits is placed, however it was refused."""
DOUBT = timedelta(seconds=70.0)
EXAMPLES = max(20, settings().max_examples // 25)
NO_SHRINKING = (Phase.explicit, Phase.generate)  # (each try takes seconds)
Step = Callable[[int, int], Awaitable[None]]
BINDING = "pods/binding"
CERTAIN: tuple[Callable[[Faults, int], None], ...] = (
    lambda faults, times: faults.answer(409, reason="Conflict", resource=BINDING, times=times),
    lambda faults, times: faults.answer(429, reason="TooManyRequests", resource=BINDING, times=times),
)
BINDING_FAULTS: tuple[Callable[[Faults, int], None], ...] = (
    *CERTAIN,
    lambda faults, times: faults.answer(500, reason="InternalError", resource=BINDING, times=times),
    lambda faults, times: faults.time_out(resource=BINDING, times=times),
    lambda faults, times: faults.time_out(after_write=True, resource=BINDING, times=times),
    lambda faults, times: faults.drop(resource=BINDING, times=times),
    lambda faults, times: faults.drop(after_write=True, resource=BINDING, times=times),
    lambda faults, times: faults.delay(0.2, resource=BINDING, times=times),
    lambda faults, times: faults.delay(0.6, resource=BINDING, times=times),
)
WATCH_FAULTS: tuple[Callable[[Faults, str], None], ...] = (
    lambda faults, resource: faults.cut_watches(resource=resource),
    lambda faults, resource: faults.cut_watches(resource=resource),
    lambda faults, resource: faults.cut_watches(resource=resource, abort=True),
    lambda faults, resource: faults.halve_line(resource=resource),
    lambda faults, resource: faults.send_line(resource=resource),
    lambda faults, resource: faults.delay_watches(0.3, resource=resource),
    lambda faults, resource: faults.delay_watches(0.3, resource=resource),
    lambda faults, resource: faults.delay_watches(0.0, resource=resource),
)


class Machine:
    """The steps that can happen; each takes numbers that choose among what there is."""

    def __init__(self, stage: ServiceStage) -> None:
        self.stage = stage
        self.server = stage.server
        self.doubtful = False

    async def do(self, numbers: tuple[int, ...]) -> None:
        which, *picks = numbers
        able = [step for weight, step in self._steps() for _ in range(weight)]
        step = able[which % len(able)]
        note(f"{getattr(step, '__name__', step)} {picks}")
        await step(*picks)
        self.stage.look()

    def _steps(self) -> Iterator[tuple[int, Step]]:
        pods, nodes = self.server.list("pods"), self.server.list("nodes")
        can: tuple[tuple[object, int, Step], ...] = (
            (len(pods) < MOST_PODS, 8, self.create_pods),
            (pods, 4, self.delete_pod),
            (any(holders_of(pods)), 2, self.end_pod),
            (nodes, 2, self.change_cards),
            (True, 1, self.remove_or_add_node),
            (True, 1 if self.stage.running else 6, self.kill_or_start),
            (True, 5, self.bindings_fail),
            (True, 2, self.others_fail),
            (True, 3, self.watches_fail),
            (True, 2, self.service_hears_late),
            (True, 2, self.answers_are_lost),
            (pods, 2, self.lose_a_deletion),
            (True, 7, self.wait),
        )
        return ((weight, step) for able, weight, step in can if able)

    # -- what users and nodes do -----------------------------------------------------------------------------------

    async def create_pods(self, shape: int, name: int) -> None:
        """Two like pods, under names that may have been others'."""
        for number in (name, name + 1):
            pod = one(SHAPES, shape)(f"p{number % MOST_PODS}")
            pod["spec"] |= {"schedulerName": "cardwise-scheduler"}
            _unless_refused(partial(self.server.create, pod))

    async def delete_pod(self, pick: int, grace: int) -> None:
        """At once, or with a time to end in; a pod that is ending already is gone."""
        pod = one(self.server.list("pods"), pick)["metadata"]
        seconds = 30 if grace % 3 == 0 and "deletionTimestamp" not in pod else 0
        _unless_refused(lambda: self.server.delete("pods", pod["name"], namespace="ml", grace_seconds=seconds))

    async def end_pod(self, pick: int, how: int) -> None:
        bound = list(holders_of(self.server.list("pods")))
        phase = one(("Running", "Succeeded", "Failed"), how)
        name = one(bound, pick)["metadata"]["name"]
        _unless_refused(
            lambda: self.server.patch("pods", name, {"status": {"phase": phase}}, namespace="ml", subresource="status")
        )

    async def change_cards(self, pick: int, change: int) -> None:
        name = one(self.server.list("nodes"), pick)["metadata"]["name"]
        node = node_with(name, NODE_CARDS[name])
        cards = register_of(node)
        change_first_card(node, cards, one(CHANGES, change))
        annotations = {NVIDIA.register_key: json.dumps(cards)}
        self.server.patch("nodes", name, {"metadata": {"annotations": annotations}})
        self.server.patch("nodes", name, {"status": node["status"]}, subresource="status")

    async def remove_or_add_node(self, pick: int, _: int) -> None:
        name = one(sorted(NODE_CARDS), pick)
        if self.server.get("nodes", name) is not None:
            self.server.delete("nodes", name)
        else:
            self.stage.add_node(node_with(name, NODE_CARDS[name]))

    # -- what goes wrong -------------------------------------------------------------------------------------------

    async def kill_or_start(self, *_: int) -> None:
        """A service that starts may be killed again before it is ready."""
        await (self.stage.kill() if self.stage.running else self.stage.start())

    async def bindings_fail(self, pick: int, times: int) -> None:
        """The next Bindings are refused, or nobody says what became of them: carried out, or not."""
        self.doubtful |= one(BINDING_FAULTS, pick) not in CERTAIN
        one(BINDING_FAULTS, pick)(self.server.faults, 1 + times % 2)
        if times % 3 == 0:
            self.server.faults.answer(500, reason="InternalError", verb="get", resource="pods", times=2)

    async def answers_are_lost(self, name: int, lag: int) -> None:
        """Bindings are carried out, and neither an answer nor a read nor, for a while, the watch says so."""
        self.doubtful = True
        await self.service_hears_late(2 + lag % 2, 0)
        self.server.faults.drop(after_write=True, resource=BINDING, times=2)
        self.server.faults.answer(500, reason="InternalError", verb="get", resource="pods", times=4)
        await self.create_pods(name % 2, name)

    async def lose_a_deletion(self, pick: int, _: int) -> None:
        """A pod is gone, and no watch can tell of it any more."""
        self.server.faults.cut_watches(resource="pods", times=2)
        await self.delete_pod(pick, 1)
        self.server.compact()

    async def others_fail(self, pick: int, times: int) -> None:
        """The next reads of a pod, or touches, or lists fail."""
        verb, resource = one((("get", "pods"), ("patch", "pods"), ("list", "pods"), ("list", "nodes")), pick)
        self.server.faults.answer(500, reason="InternalError", verb=verb, resource=resource, times=1 + times % 3)

    async def watches_fail(self, pick: int, other: int) -> None:
        """Watches are cut or broken, what they could tell is forgotten, or they are late, each kind for itself."""
        if pick % len(WATCH_FAULTS) == 0:
            self.server.compact()
        one(WATCH_FAULTS, pick)(self.server.faults, one(("pods", "pods", "nodes"), other))

    async def service_hears_late(self, pick: int, _: int) -> None:
        """Later than kube-scheduler, which asks again before the service knows why."""
        self.stage.relay.lag_seconds = one((0.0, 0.1, 0.25, 0.5), pick)

    async def wait(self, pick: int, _: int) -> None:
        await self.stage.pass_time(one((0.02, 0.05, 0.1, 0.25, 0.5), pick))

    # -- what must hold --------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """All is well again: what fits is placed within seconds, and counted as it is recorded."""
        self.server.faults.clear()
        if not self.stage.running:
            await self.stage.start()
        for pod in self.server.list("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self.server.delete("pods", pod["metadata"]["name"], namespace="ml", grace_seconds=0)
        settled = await self._comes_true(self._settled)
        if not settled and self.doubtful:
            self.stage.ahead += DOUBT  # writes in doubt are waited for as long as they may come
            settled = await self._comes_true(self._settled)
        assert settled, f"{self._left()} wait, {await self.stage.counted()} is counted, {self._recorded()} recorded"

    async def end(self) -> None:
        """All ends, and nothing is in use."""
        for pod in self.server.list("pods"):
            self.server.delete("pods", pod["metadata"]["name"], namespace="ml", grace_seconds=0)

        async def free() -> bool:
            return await self.stage.counted() == {} and "\ncardwise_reservations 0\n" in await self.stage.page()

        assert await self._comes_true(free), f"{await self.stage.counted()} is counted, and all has ended"

    async def _settled(self) -> bool:
        return not self._left() and await self.stage.counted() == self._recorded()

    async def _comes_true(self, holds: Callable[[], Awaitable[bool]]) -> bool:
        deadline = time.monotonic() + FEW_SECONDS
        while time.monotonic() < deadline:
            self.stage.look()
            if await _soon(holds()):
                return True
            await self.stage.pass_time(0.05)
        return False

    def _left(self) -> list[str]:
        """Pods that wait, and would fit."""
        pods = self.server.list("pods")
        uses = {spot: total(each) for spot, each in held_by(pods).items()}
        nodes = [core_of(node) for node in self.server.list("nodes")]
        waiting = [as_pod(pod) for pod in pods if not is_bound(pod) and not has_ended(pod)]
        requests = [read_pod(pod, FAMILIES, Defaults()).request for pod in waiting]
        return [each.name for each in requests if each and oracle.decide(nodes, uses, each).placement is not None]

    def _recorded(self) -> dict[Spot, dict[str, int]]:
        """What is recorded on the cards that are there."""
        there = {
            (node["metadata"]["name"], card.uuid) for node in self.server.list("nodes") for card in core_of(node).cards
        }
        held = held_by(self.server.list("pods"))
        return {spot: _amounts(total(uses)) for spot, uses in held.items() if spot in there}


def _amounts(use: CardUse) -> dict[str, int]:
    amounts = {"slots": use.slots, "memory": use.memory_mib, "cores": use.cores_percent}
    return {name: amount for name, amount in amounts.items() if amount}


async def _soon(answer: Awaitable[bool]) -> bool:
    """False where the service does not answer: it is only starting."""
    try:
        return await answer
    except OSError:
        return False


def _unless_refused(act: Callable[[], object]) -> None:
    try:
        act()
    except RefusedError:
        return


async def _play(steps: list[tuple[int, ...]], folder: Path) -> None:
    async with staged([node_with(name, cards) for name, cards in NODE_CARDS.items()], folder) as stage:
        machine = Machine(stage)
        for step in steps:
            await machine.do(step)
        await machine.settle()
        await machine.end()


number = st.integers(0, 839)


@settings(max_examples=EXAMPLES, phases=NO_SHRINKING)
@given(steps=st.lists(st.tuples(number, number, number), min_size=10, max_size=25))
def test_the_service_survives_whatever_happens(steps: list[tuple[int, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(steps, Path(folder)))
