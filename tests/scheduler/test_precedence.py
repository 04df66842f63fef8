"""Long work waits for calls, but never for long."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cardwise.scheduler.following import SLICE, in_slices
from cardwise.scheduler.precedence import MOST_WAIT_SECONDS, QUIET_SECONDS, Precedence
from cardwise.scheduler.world import World


def world(precedence: Precedence) -> World:
    return cast(World, SimpleNamespace(precedence=precedence, settle=lambda: None))


async def waited(precedence: Precedence) -> float:
    started = time.perf_counter()
    await precedence.give_way()
    return time.perf_counter() - started


def test_nobody_waits_where_no_call_is_answered() -> None:
    assert asyncio.run(waited(Precedence())) < MOST_WAIT_SECONDS


def test_a_piece_waits_until_the_call_has_ended_and_nothing_followed() -> None:
    order: list[str] = []

    async def piece(precedence: Precedence) -> None:
        await precedence.give_way()
        order.append("piece")

    async def go() -> None:
        precedence = Precedence()
        with precedence.call():
            waiting = asyncio.create_task(piece(precedence))
            await asyncio.sleep(0)
            order.append("filter")
        with precedence.call():
            order.append("bind")
        await waiting

    asyncio.run(go())
    assert order == ["filter", "bind", "piece"]


def test_a_piece_waits_a_bounded_time_for_a_call_that_does_not_end() -> None:
    async def go() -> float:
        precedence = Precedence()
        with precedence.call():
            return await waited(precedence)

    assert MOST_WAIT_SECONDS * 0.9 <= asyncio.run(go()) < 1.0


def test_of_two_calls_the_last_to_end_counts() -> None:
    async def go() -> bool:
        precedence = Precedence()
        with precedence.call():
            with precedence.call():
                waiting = asyncio.create_task(precedence.give_way())
            await asyncio.sleep(QUIET_SECONDS * 1.5)
            return waiting.done()

    assert asyncio.run(go()) is False


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, SLICE * 2 + 3])
def test_everything_is_taken_in_in_its_order_and_let_go_of(count: int) -> None:
    there = list(range(count))
    taken: list[int] = []
    asyncio.run(in_slices(world(Precedence()), there, taken.append))
    assert (taken, there) == (list(range(count)), [])


def test_between_two_slices_others_get_their_turn() -> None:
    async def go() -> list[Any]:
        seen: list[Any] = []
        work = asyncio.create_task(in_slices(world(Precedence()), list(range(SLICE * 3)), seen.append))
        await asyncio.sleep(0)
        seen.append("a call")
        await work
        return seen

    assert asyncio.run(go()).index("a call") == SLICE
