"""How well each two cards of a node are linked, as one number: the values that HAMi's device plugin gives.

A pair's score is the sum over its links: the PCI path is one, all NVLinks together are another. Cards without an NVLink of
their own between them, which both hang on an NVSwitch, are linked by as many as the one with fewer has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from cardwise.agent.probe import FoundCard, Level, Link
from cardwise.core.model import Links

LEVEL_SCORES: Mapping[Level, int] = MappingProxyType(
    {
        Level.CROSS_CPU: 10,
        Level.SAME_CPU: 20,
        Level.HOST_BRIDGE: 30,
        Level.MULTI_SWITCH: 40,
        Level.SINGLE_SWITCH: 50,
        Level.SAME_BOARD: 60,
    }
)
NVLINK_SCORE = 100
MOST_NVLINKS = 18
"""More than this is no number that HAMi knows: such NVLinks count nothing."""


def link_scores(cards: Sequence[FoundCard], links: Sequence[Link]) -> tuple[Links, tuple[str, ...]]:
    """The symmetric matrix of scores in the order of `cards`, and sentences about links that were not taken as told.

    Where the two directions of a pair tell of different links (a path or NVLinks that only one side sees) its score is 0;
    where they tell of different numbers of NVLinks it is the smaller one. Links of other cards do not count.
    """
    told = {(link.uuid, link.peer): link for link in links}
    matrix = [[0] * len(cards) for _ in cards]
    warnings: list[str] = []
    for (i, one), (j, other) in combinations(enumerate(cards), 2):
        there, back = _seen(told, one, other), _seen(told, other, one)
        matrix[i][j] = matrix[j][i] = 0 if len(there) != len(back) else min(sum(there), sum(back))
        if there != back or 0 in there:
            warnings.append(_warning(one, other, there, back, matrix[i][j]))
    return tuple(map(tuple, matrix)), tuple(warnings)


def _seen(told: Mapping[tuple[str, str], Link], one: FoundCard, other: FoundCard) -> list[int]:
    """The score of each link to the other card that the one sees."""
    link = told.get((one.uuid, other.uuid), Link(uuid=one.uuid, peer=other.uuid))
    nvlinks = link.nvlinks if link.nvlinks > 0 else min(one.switch_links, other.switch_links)
    scores = [] if link.level is None else [LEVEL_SCORES[link.level]]
    return [*scores, _nvlink_score(nvlinks)] if nvlinks > 0 else scores


def _nvlink_score(nvlinks: int) -> int:
    return NVLINK_SCORE * nvlinks if nvlinks <= MOST_NVLINKS else 0


def _warning(one: FoundCard, other: FoundCard, there: list[int], back: list[int], taken: int) -> str:
    pair = f"links between cards {one.uuid} and {other.uuid}"
    if there == back:
        return f"{pair}: more than {MOST_NVLINKS} NVLinks, which count nothing"
    return f"{pair}: one side sees {_sum(there)}, the other {_sum(back)}, taken as {taken}"


def _sum(scores: list[int]) -> str:
    return " + ".join(map(str, scores)) or "none"
