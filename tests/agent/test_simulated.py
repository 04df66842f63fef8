"""Make-believe cards: found as the script says, broken and mended at its moments or by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.cards import found_card
from agent.clocks import HandClock
from cardwise.agent.probe import HealthEvent, Probe, ProbeError
from cardwise.agent.simulated import SimulatedProbe
from cardwise.agent.simulated_file import Failure, Script, read_script

EXAMPLES = Path(__file__).parents[2] / "examples" / "agent"
CARDS = (found_card(0), found_card(1), found_card(2))
SCRIPT = Script(
    cards=CARDS,
    failures=(
        Failure(start_seconds=10, end_seconds=20, cards=(1,), why="XID 79", xid=79),
        Failure(start_seconds=30, end_seconds=40, why="Driver Not Loaded"),
        Failure(start_seconds=50, cards=(0, 1, 2), why="too hot"),
    ),
)
BROKEN = HealthEvent(uuid="GPU-1", healthy=False, why="XID 79", xid=79)
MENDED = HealthEvent(uuid="GPU-1", healthy=True)


def play(story: Callable[[SimulatedProbe, HandClock], Awaitable[None]], script: Script = SCRIPT) -> None:
    async def whole() -> None:
        time = HandClock()
        probe = SimulatedProbe(script, time.clock())
        typed: Probe = probe
        await story(probe, time)
        await typed.close()

    asyncio.run(whole())


async def faults(probe: SimulatedProbe) -> list[str]:
    return [card.fault for card in (await probe.find()).cards]


def test_cards_are_found_with_the_faults_of_the_moment() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        assert (await probe.find()).cards == CARDS
        await time.pass_seconds(10)
        assert await faults(probe) == ["", "XID 79", ""]
        await time.pass_seconds(10)
        assert await faults(probe) == ["", "", ""]
        await time.pass_seconds(30)
        assert await faults(probe) == ["too hot"] * 3

    play(story)


def test_changes_are_told_at_their_moments() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(9)
        assert not waiting.done()
        await time.pass_seconds(1)
        assert waiting.result() == (BROKEN,)
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(10)
        assert waiting.result() == (MENDED,)

    play(story)


def test_what_came_and_went_between_two_calls_is_not_told() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        await time.pass_seconds(25)
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(1)
        assert not waiting.done()
        waiting.cancel()

    play(story)


def test_a_caller_that_stops_waiting_loses_nothing() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(1)
        waiting.cancel()
        await time.pass_seconds(10)
        assert await probe.changes() == (BROKEN,)

    play(story)


def test_the_library_fails_and_comes_back() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(30)
        assert isinstance(waiting.exception(), ProbeError)
        with pytest.raises(ProbeError, match="the simulated card library fails: Driver Not Loaded"):
            await probe.find()
        await time.pass_seconds(10)
        assert (await probe.find()).cards == CARDS

    play(story)


def test_all_cards_fail_and_none_comes_back() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        await time.pass_seconds(50)
        assert [(event.uuid, event.healthy) for event in await probe.changes()] == [
            (f"GPU-{n}", False) for n in range(3)
        ]
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(10**6)
        assert not waiting.done()
        waiting.cancel()

    play(story)


def test_cards_are_broken_and_mended_by_hand() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(1)
        probe.fail(2, "pulled out", xid=79)
        assert await waiting == (HealthEvent(uuid="GPU-2", healthy=False, why="pulled out", xid=79),)
        assert await faults(probe) == ["", "", "pulled out"]
        probe.mend(2)
        assert await probe.changes() == (HealthEvent(uuid="GPU-2", healthy=True),)
        assert await faults(probe) == ["", "", ""]

    play(story, Script(cards=CARDS))


def test_events_lead_to_the_faults_that_are_found() -> None:
    """At every moment of the script: the cards at the start, after all events so far, are the cards that are found."""

    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        seen = await probe.find()
        for _moment in range(6):
            await time.pass_seconds(5)
            try:
                async with asyncio.timeout(0.01):
                    seen = seen.after(await probe.changes())
            except (TimeoutError, ProbeError):
                continue
            assert seen == await probe.find()

    play(story)


def test_the_example_of_eight_cards_plays() -> None:
    async def story(probe: SimulatedProbe, time: HandClock) -> None:
        assert len((await probe.find()).cards) == 8
        waiting = asyncio.ensure_future(probe.changes())
        await time.pass_seconds(30)
        (event,) = waiting.result()
        assert (event.healthy, event.xid, event.why) == (False, 79, "the driver reported XID 79")
        await time.pass_seconds(150)
        with pytest.raises(ProbeError, match="Driver Not Loaded"):
            await probe.find()

    play(story, read_script(EXAMPLES / "eight-a100.yaml", "gpu-0"))
