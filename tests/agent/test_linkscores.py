"""Link scores: HAMi's values, the smaller of two directions, and 0 where only one side sees a link."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cards import found_card, links_between
from cardwise.agent.linkscores import link_scores
from cardwise.agent.probe import FoundCard, Level, Link

NONE = (None, 0)
SYS, NODE, PHB, PXB, PIX, PSB = (Level(word) for word in ("SYS", "NODE", "PHB", "PXB", "PIX", "PSB"))


def pair_score(
    there: tuple[Level | None, int], back: tuple[Level | None, int], switches: tuple[int, int] = (0, 0)
) -> int:
    cards = [found_card(n, switch_links=links) for n, links in enumerate(switches)]
    matrix, _warnings = link_scores(cards, links_between([[NONE, there], [back, NONE]]))
    assert matrix[0][0] == matrix[1][1] == 0
    assert matrix[0][1] == matrix[1][0]
    return matrix[0][1]


PATHS = [(SYS, 10), (NODE, 20), (PHB, 30), (PXB, 40), (PIX, 50), (PSB, 60), (None, 0)]


@pytest.mark.parametrize(("level", "score"), PATHS, ids=lambda value: str(getattr(value, "name", value)))
def test_a_path_has_the_score_that_hami_gives(level: Level | None, score: int) -> None:
    assert pair_score((level, 0), (level, 0)) == score


@pytest.mark.parametrize("nvlinks", range(1, 19))
def test_each_nvlink_counts_a_hundred(nvlinks: int) -> None:
    assert pair_score((None, nvlinks), (None, nvlinks)) == 100 * nvlinks
    assert pair_score((NODE, nvlinks), (NODE, nvlinks)) == 100 * nvlinks + 20


PAIRS = {
    "more NVLinks than HAMi knows": ((SYS, 19), (SYS, 19), (0, 0), 10),
    "only one side sees NVLinks": ((SYS, 2), (SYS, 0), (0, 0), 0),
    "only one side sees the path": ((SYS, 2), (None, 2), (0, 0), 0),
    "only one side sees anything": ((SYS, 2), (None, 0), (0, 0), 0),
    "fewer NVLinks from one side": ((SYS, 4), (SYS, 3), (0, 0), 310),
    "another path from one side": ((SYS, 0), (PIX, 0), (0, 0), 10),
    "through a switch": ((NODE, 0), (NODE, 0), (12, 12), 1220),
    "through a switch, some links down": ((NODE, 0), (NODE, 0), (18, 11), 1120),
    "only one side on a switch": ((NODE, 0), (NODE, 0), (12, 0), 20),
    "straight links come before the switch's": ((NODE, 2), (NODE, 2), (12, 12), 220),
    "a negative number": ((NODE, -3), (NODE, -3), (-1, -1), 20),
}


@pytest.mark.parametrize(("there", "back", "switches", "score"), PAIRS.values(), ids=PAIRS)
def test_links_of_a_pair(
    there: tuple[Level | None, int], back: tuple[Level | None, int], switches: tuple[int, int], score: int
) -> None:
    assert pair_score(there, back, switches) == score


def matrix_of(rows: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    cards = [found_card(n) for n in range(len(rows))]
    matrix, warnings = link_scores(cards, links_between([[(None, nvlinks) for nvlinks in row] for row in rows]))
    assert warnings == ()
    return matrix


def test_the_matrix_of_hamis_documentation() -> None:
    """Four cards, NV1 and NV2: gpu0 {100,100,200}, gpu1 {100,200,100}, gpu2 {100,200,200}, gpu3 {200,100,200}."""
    rows = [[0, 1, 1, 2], [1, 0, 2, 1], [1, 2, 0, 2], [2, 1, 2, 0]]
    assert matrix_of(rows) == ((0, 100, 100, 200), (100, 0, 200, 100), (100, 200, 0, 200), (200, 100, 200, 0))


WARNINGS = {
    "asymmetric": (
        [[NONE, (SYS, 2)], [(SYS, 0), NONE]],
        "links between cards GPU-0 and GPU-1: one side sees 10 + 200, the other 10, taken as 0",
    ),
    "other numbers": (
        [[NONE, (None, 2)], [(None, 1), NONE]],
        "links between cards GPU-0 and GPU-1: one side sees 200, the other 100, taken as 100",
    ),
    "nothing back": (
        [[NONE, (PIX, 0)], [NONE, NONE]],
        "links between cards GPU-0 and GPU-1: one side sees 50, the other none, taken as 0",
    ),
    "too many": (
        [[NONE, (SYS, 19)], [(SYS, 19), NONE]],
        "links between cards GPU-0 and GPU-1: more than 18 NVLinks, which count nothing",
    ),
}


@pytest.mark.parametrize(("rows", "sentence"), WARNINGS.values(), ids=WARNINGS)
def test_what_is_not_taken_as_told_is_said_in_one_sentence(
    rows: list[list[tuple[Level | None, int]]], sentence: str
) -> None:
    _matrix, warnings = link_scores([found_card(0), found_card(1)], links_between(rows))
    assert warnings == (sentence,)


def test_links_of_cards_that_are_not_here_do_not_count() -> None:
    links = links_between([[(PIX, 1)] * 3] * 3)
    assert link_scores([found_card(0), found_card(2)], links) == (((0, 150), (150, 0)), ())
    assert link_scores([], links) == ((), ())


any_links = st.lists(
    st.builds(
        Link,
        uuid=st.sampled_from(["GPU-0", "GPU-1", "GPU-2"]),
        peer=st.sampled_from(["GPU-0", "GPU-1", "GPU-2", "GPU-x"]),
        level=st.none() | st.sampled_from(Level),
        nvlinks=st.integers(-1, 20),
    ),
    unique_by=lambda link: (link.uuid, link.peer),
)
any_cards = st.permutations([found_card(0, switch_links=3), found_card(1, switch_links=12), found_card(2)])


@given(any_cards, any_links, st.randoms())
def test_scores_are_symmetric_and_do_not_depend_on_any_order(
    cards: list[FoundCard], links: list[Link], chance: Random
) -> None:
    matrix, _warnings = link_scores(cards, links)
    scores = {(a.uuid, b.uuid): matrix[i][j] for i, a in enumerate(cards) for j, b in enumerate(cards)}
    assert all(score == scores[b, a] >= 0 for (a, b), score in scores.items())
    chance.shuffle(links)
    chance.shuffle(cards)
    again, _warnings = link_scores(cards, links)
    assert all(again[i][j] == scores[a.uuid, b.uuid] for i, a in enumerate(cards) for j, b in enumerate(cards))
