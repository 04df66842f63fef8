"""What is done beside answering calls: touching pods that fit again, telling why others wait, proving a fresh view."""

from __future__ import annotations

import asyncio
import logging

from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import EVENTS, PODS
from cardwise.kube.types import Reference, event
from cardwise.scheduler.answers import Wake
from cardwise.scheduler.binds import Binds
from cardwise.scheduler.pods import SeenPod
from cardwise.scheduler.telling import REASON, Telling, tell
from cardwise.scheduler.world import World
from cardwise.wire import names

MOST_PATCHES = 20
TICK_SECONDS = 1.0
TELL_AFTER_SECONDS = 0.3
"""After a refusal, what is free may still change: a pod that is woken at once needs no explanation."""
TOLD_SHARE = 0.2
"""Of the time, at most so much goes into explanations: decisions come first."""
COMPONENT = "cardwise"

_log = logging.getLogger("cardwise.scheduler")


async def wake_pods(world: World) -> None:
    """Touches those that fit by what became free, as long as the service runs."""
    limit = asyncio.Semaphore(MOST_PATCHES)
    async with asyncio.TaskGroup() as patches:
        while True:
            await world.freed.wait()
            world.freed.clear()
            while (found := world.books.waiting.wakes(world.books, now=world.now)) is not None:
                for wake in found:
                    patches.create_task(_wake(world, wake, limit))
                await asyncio.sleep(0)


async def _wake(world: World, wake: Wake, limit: asyncio.Semaphore) -> None:
    """One small patch of this very pod, whatever it says: kube-scheduler then looks at the pod."""
    change = {"metadata": {"uid": wake.uid, "annotations": {names.WAKE: world.now.isoformat(timespec="milliseconds")}}}
    try:
        async with limit:
            await world.client.patch(PODS, change, wake.name, wake.namespace)
    except KubeError as error:
        world.metrics.woke("failed")
        world.metrics.wrote("wake", "in_doubt" if error.in_doubt else "failed")
        if error.fault not in (Fault.NOT_FOUND, Fault.CONFLICT):  # (gone, or replaced)
            _log.warning("pod %s/%s fits again and could not be touched: %s", wake.namespace, wake.name, error)
            world.books.waiting.wake_failed(wake.uid)
        elif error.fault is Fault.NOT_FOUND:
            world.books.pod_gone(wake.uid)
        return
    world.metrics.woke("sent")
    world.metrics.wrote("wake", "ok")


async def tell_users(world: World) -> None:
    """One warning per waiting pod and cause."""
    told: dict[str, set[str]] = {}
    while True:
        await world.untold.wait()
        world.untold.clear()
        await world.clock.sleep(TELL_AFTER_SECONDS)
        for uid in list(world.books.untold):
            world.books.untold.pop(uid, None)
            seen = world.books.pods.get(uid)
            if seen is None or not seen.waits or seen.refused is None:
                continue
            telling = await _worked_out(world, seen)
            if telling is None:
                world.books.silent.add(uid)
            if telling is not None and telling.cause not in told.setdefault(uid, set()):
                told[uid].add(telling.cause)
                await _tell(world, telling)
        told = {uid: causes for uid, causes in told.items() if uid in world.books.pods}


async def _worked_out(world: World, seen: SeenPod) -> Telling | None:
    """The explanation, worked out between other things; and as much idle time after it as keeps to the share."""
    started, worked = world.clock.monotonic(), 0.0
    found: Telling | None = None
    for step in tell(world.books, seen):
        worked += world.clock.monotonic() - started
        found = step or found
        await asyncio.sleep(0)
        started = world.clock.monotonic()
    await world.clock.sleep(worked * (1 - TOLD_SHARE) / TOLD_SHARE)
    return found


async def _tell(world: World, telling: Telling) -> None:
    about = Reference(api_version="v1", kind="Pod", namespace=telling.namespace, name=telling.name, uid=telling.uid)
    one = event(about, reason=REASON, message=telling.text, component=COMPONENT, at=world.now, warning=True)
    if one.metadata is not None:
        one.metadata.name, one.metadata.generate_name = telling.event_name, ""
    try:
        await world.client.create(EVENTS, one, telling.namespace)
    except KubeError as error:
        if error.fault is Fault.ALREADY_EXISTS:
            return  # told before, by us before a restart
        world.metrics.wrote("event", "in_doubt" if error.in_doubt else "failed")
        _log.warning("pod %s/%s: %s (not told: %s)", telling.namespace, telling.name, telling.text, error)
        return
    world.metrics.wrote("event", "ok")


async def keep_time(world: World, binds: Binds) -> None:
    """What is due because time has passed."""
    while True:
        world.books.tick(now=world.now)
        world.settle()
        await binds.settle_doubts()
        await world.clock.sleep(TICK_SECONDS)


async def prove_fresh(world: World) -> None:
    """After each change of leader, writes on our own pod what the watch of pods must show."""
    own = world.config.pod
    while True:
        token = world.fence.needed(world.nonce) if own.name else ""
        if token and not await _proved(world, token):
            await world.clock.sleep(TICK_SECONDS)
        await world.changed.next(TICK_SECONDS if token else 60.0)


async def _proved(world: World, token: str) -> bool:
    """Whether the proof was written."""
    own = world.config.pod
    try:
        await world.client.patch(PODS, {"metadata": {"annotations": {names.TAKEOVER: token}}}, own.name, own.namespace)
    except KubeError as error:
        world.metrics.wrote("takeover", "in_doubt" if error.in_doubt else "failed")
        _log.warning("our own pod %s/%s could not be touched: %s", own.namespace, own.name, error)
        return False
    world.metrics.wrote("takeover", "ok")
    return True
