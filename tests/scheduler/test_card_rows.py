"""The lines about cards: true, escaped, renewed where something changed, and never too many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import card, cards_of, cluster, hold, node
from cardwise.core.cluster import Cluster
from cardwise.core.model import Node
from cardwise.scheduler.card_rows import ROWS_AT_ONCE, CardRows
from cardwise.scheduler.series import CARD_COLUMNS
from scheduler.pages import pieces_of, values

CARDS = 2
NAMES = ("a", "b", "c")


def told(made: Cluster, name: str, uuid: str = "GPU-0") -> float:
    """What the page says of one card."""
    page = pieces_of(rows=CardRows(made.cards))
    return next(value for found, value in values(page, name).items() if ("card", uuid) in found)


def page_of(rows: CardRows) -> bytes:
    async def take() -> bytes:
        return b"".join([piece async for piece in rows.pieces()])

    return asyncio.run(take())


def test_a_card_shows_its_labels_totals_and_use() -> None:
    made = cluster(node("n", card(3, "GPU-x", memory_mib=40000, slots=4)))
    made.confirm(hold("p", "n", "GPU-x", memory_mib=1000, cores_percent=30))
    page = pieces_of(rows=CardRows(made.cards))
    ((found, total),) = values(page, "cardwise_card_memory_mib").items()
    expected = {"node": "n", "card": "GPU-x", "index": "3", "model": "NVIDIA A100-SXM4-80GB", "family": "nvidia"}
    assert dict(found) == expected
    shown = {series.name: values(page, series.name)[found] for series, _column in CARD_COLUMNS}
    assert list(shown.values()) == [4, 1, 40000, 1000, 100, 30, 1]
    assert total - shown["cardwise_card_memory_used_mib"] == 39000


def test_a_card_held_alone_shows_all_of_it_in_use() -> None:
    made = cluster(node("n", card(memory_mib=24576)))
    made.confirm(hold("p", "n", "GPU-0", memory_mib=24576, cores_percent=100, holders=1))
    assert told(made, "cardwise_card_memory_used_mib") == told(made, "cardwise_card_memory_mib") == 24576
    assert told(made, "cardwise_card_cores_used_percent") == told(made, "cardwise_card_cores_percent") == 100


def test_more_in_use_than_there_is_shows_as_it_is() -> None:
    made = cluster(node("n", card(memory_mib=10000)))
    made.confirm(hold("p", "n", "GPU-0", memory_mib=15000))
    assert told(made, "cardwise_card_memory_used_mib") == 15000
    assert told(made, "cardwise_card_memory_mib") == 10000


def test_an_unhealthy_card_shows_0() -> None:
    made = cluster(node("n", card(0, healthy=False), card(1)))
    assert told(made, "cardwise_card_healthy", "GPU-0") == 0
    assert told(made, "cardwise_card_healthy", "GPU-1") == 1


def test_nodes_without_cards_and_no_nodes_at_all_show_nothing() -> None:
    for made in (cluster(), cluster(node("empty"))):
        assert values(pieces_of(rows=CardRows(made.cards)), "cardwise_card_slots") == {}


@given(st.lists(st.text(max_size=8), min_size=4, max_size=4))
def test_any_text_of_a_node_comes_back_as_it_was(texts: list[str]) -> None:
    name, uuid, model, family = texts
    made = cluster(node(name, card(0, uuid or "GPU-0", model=model, family=family)))
    (found,) = values(pieces_of(rows=CardRows(made.cards)), "cardwise_card_slots")
    assert dict(found) == {"node": name, "card": uuid or "GPU-0", "index": "0", "model": model, "family": family}


@pytest.mark.parametrize("text", ["\ud800", 'a"b', "a\nb", "a\\", "}", "ü\U0001f600"], ids=ascii)
def test_the_page_is_valid_utf8_with_one_line_for_each_value(text: str) -> None:
    rows = CardRows(cluster(node("n", card(model=text))).cards)
    assert len(page_of(rows).decode().split("\n")) == len(CARD_COLUMNS) * 3 + 1


# -- kept lines --------------------------------------------------------------------------------------------------------

Change = Callable[[Cluster], object]


def hold_change(uid: str, on: str, memory_mib: int) -> Change:
    held = hold(uid, on, f"{on}-0", memory_mib=memory_mib)
    return lambda made: made.confirm(held)


def sized(name: str, memory_mib: int, count: int) -> Node:
    return node(name, *cards_of(count, prefix=name, memory_mib=memory_mib))


NAMED = st.sampled_from(NAMES)
CHANGES = st.one_of(
    st.builds(hold_change, st.sampled_from(("p", "q")), NAMED, st.integers(0, 3)),
    st.builds(lambda uid: lambda made: made.release(f"uid-{uid}"), st.sampled_from(("p", "q"))),
    st.builds(
        lambda one: lambda made: made.set_node(one), st.builds(sized, NAMED, st.integers(1, 2), st.integers(0, 3))
    ),
    st.builds(lambda name: lambda made: made.remove_node(name), NAMED),
)


@given(st.lists(st.lists(CHANGES, max_size=3), max_size=5))
def test_kept_lines_are_those_that_would_be_written_anew(rounds: list[list[Change]]) -> None:
    made = cluster(*(node(name, *cards_of(CARDS, prefix=name)) for name in NAMES))
    kept = CardRows(made.cards)
    for changes in rounds:
        for change in changes:
            change(made)
        assert page_of(kept) == page_of(CardRows(made.cards))


def test_a_node_that_joins_a_large_cluster_is_shown() -> None:
    made = cluster(*(node(f"n{number}", card()) for number in range(64)))
    rows = CardRows(made.cards)
    page_of(rows)
    for number in range(64, 66):
        made.set_node(node(f"n{number}", card()))
        assert page_of(rows) == page_of(CardRows(made.cards))


def test_only_what_changed_is_written_anew() -> None:
    made = cluster(*(node(name, *cards_of(CARDS, prefix=name)) for name in NAMES))
    rows = CardRows(made.cards)
    page_of(rows)
    before = list(rows._lines)
    made.confirm(hold("p", "b", "b-1", memory_mib=5))
    page_of(rows)
    assert [now is was for now, was in zip(rows._lines, before, strict=True)] == [True, False, True]


# -- giving way --------------------------------------------------------------------------------------------------------


def test_the_loop_gets_its_turn_after_at_most_so_many_lines() -> None:
    """Counted in turns of a task beside it, since times on a busy machine say nothing."""
    count = 700
    made = cluster(*(node(f"n{number}", *cards_of(8, prefix=f"n{number}")) for number in range(count)))
    lines = count * 8 * len(CARD_COLUMNS)
    rows = CardRows(made.cards)
    first, again = asyncio.run(turns(rows)), asyncio.run(turns(rows))
    assert first > lines / ROWS_AT_ONCE
    assert again == 0
    assert max(piece.count(b"\n") for piece in pieces_of(rows=rows)) <= ROWS_AT_ONCE


async def turns(rows: CardRows) -> int:
    """How often the loop came round while lines were written; the pieces themselves are taken at once."""
    turn = 0

    async def count() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    beside = asyncio.create_task(count())
    async for _piece in rows.pieces():
        pass
    beside.cancel()
    return turn


def test_two_pages_at_once_are_both_whole() -> None:
    made = cluster(*(node(f"n{number}", *cards_of(8, prefix=f"n{number}")) for number in range(200)))
    rows = CardRows(made.cards)

    async def take() -> bytes:
        return b"".join([piece async for piece in rows.pieces()])

    async def both() -> tuple[bytes, bytes]:
        one = asyncio.create_task(take())
        await asyncio.sleep(0)
        made.confirm(hold("p", "n7", "n7-0", memory_mib=5))
        return await take(), await one

    after, before = asyncio.run(both())
    assert after == page_of(CardRows(made.cards))
    assert before.count(b"\n") == after.count(b"\n")


def test_a_page_that_is_left_early_does_no_harm() -> None:
    made = cluster(*(node(f"n{number}", *cards_of(8, prefix=f"n{number}")) for number in range(200)))
    rows = CardRows(made.cards)

    async def leave() -> None:
        task = asyncio.create_task(turns(rows))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    assert page_of(rows) == page_of(CardRows(made.cards))
