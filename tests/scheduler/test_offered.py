"""The names that are offered, asked in the bytes or looked up: the answer is the same."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import card, cluster, node
from cardwise.core.cards import Cards
from cardwise.scheduler import offered
from cardwise.scheduler.offered import Offered

KNOWN = [f"node-{number:04d}" for number in range(1200)]
CARDS: Cards = cluster(*(node(name, card()) for name in KNOWN)).cards
STRANGERS = ["node-00000", "node-", "ode-0001", "node-0001x", "other"]


def go(names: list[str]) -> bytes:
    """A list as Go's encoder writes it."""
    return json.dumps(names, separators=(",", ":")).encode()


def with_blanks(names: list[str]) -> bytes:
    return json.dumps(names).encode()


def escaped(names: list[str]) -> bytes:
    return go(names).replace(b"node", b"n\\u006fde")


FORMS: dict[str, Callable[[list[str]], bytes]] = {"go": go, "blanks": with_blanks, "escaped": escaped}
names_sent = st.tuples(
    st.sampled_from([0, 1, 100, 900, 1199]), st.integers(0, 1199), st.lists(st.sampled_from(STRANGERS), max_size=3)
).map(lambda made: (KNOWN + KNOWN)[made[1] : made[1] + made[0]] + made[2])


@given(names=names_sent, form=st.sampled_from(sorted(FORMS)), asked=st.lists(st.sampled_from(range(1200)), max_size=20))
def test_a_node_is_offered_exactly_where_its_name_stands(names: list[str], form: str, asked: list[int]) -> None:
    made = Offered(FORMS[form](names), CARDS)
    sent = set(names)
    assert [made(n) for n in asked] == [CARDS.names[n] in sent for n in asked]
    assert made.mask().tolist() == [name in sent for name in CARDS.names]
    assert made.unknown == [name for name in names if name not in CARDS.index_of]
    assert [made.has(name) for name in STRANGERS] == [name in sent for name in STRANGERS]


@pytest.mark.parametrize(
    ("count", "form", "at_once"),
    [(1200, "go", False), (1200, "blanks", True), (1200, "escaped", True), (50, "go", True)],
    ids=["many", "blanks", "escapes", "few"],
)
def test_names_are_searched_for_only_in_what_go_wrote(count: int, form: str, at_once: bool) -> None:
    assert Offered(FORMS[form](KNOWN[:count]), CARDS).at_once is at_once


def test_few_of_many_nodes_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered, "SMALL_BYTES", 0)
    assert [Offered(go(KNOWN[:count]), CARDS).at_once for count in (200, 400)] == [True, False]


def test_what_is_no_list_of_texts_is_told_when_it_is_checked() -> None:
    with pytest.raises(msgspec.ValidationError):
        Offered(b'{"a": 1}', CARDS).check()
