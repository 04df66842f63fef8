"""Why the nodes that cannot take one container cannot: the verdicts on their cards, counted, and put into words.

Nodes whose cards count alike share one refusal, so that thousands of nodes cost little more than their verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cardwise.core.cards import Bools, Cards, Ints
from cardwise.core.checks import CHECKS, FITS, LASTING, NOT_ASKED, Need, Verdicts, verdicts
from cardwise.core.family import Family
from cardwise.core.model import Refusal
from cardwise.core.shapes import countable

Groups = list[tuple[Refusal, Ints]]
"""Refusals, each with the columns of the nodes that it is about, in their order."""

TOGETHER = Refusal(
    code="AllocatedCardsInsufficientRequest",
    text="each container fits alone, but not all of them together",
    kind="node(s) on which its containers do not fit together",
)

_FEW = 8
"""Up to this part of all nodes, their columns are cut out: more take longer to cut out than to judge."""
_MOST_KEY = 1 << 62


def alone(cards: Cards, family: Family, there: Bools, need: Need, container: str) -> Iterator[tuple[Refusal, Ints]]:
    """The nodes out of `there` on which one container alone does not find its cards."""
    columns = np.flatnonzero(there)
    if len(columns) * _FEW > cards.width:
        columns = np.arange(cards.width)
    view = cards.view() if len(columns) == cards.width else cards.view(columns)
    found = verdicts(view, need)
    counts = countable(view, found == FITS, need)
    places = np.flatnonzero((counts < need.count) & there[columns])
    ever = countable(view, found >= LASTING, need)
    rows: Ints = np.vstack((counts, ever < need.count, _histograms(found)))[:, places].astype(np.int64)
    for group in grouped(rows):
        usable, lasting, *by_check = rows[:, group[0]].tolist()
        refusal = _refusal(family, need, by_check, usable=usable, lasting=bool(lasting), container=container)
        yield refusal, columns[places[group]]


def grouped(rows: Ints) -> list[Ints]:
    """The places of equal columns together, each group in order. Numbers are 0 or more."""
    keys, size = np.zeros(rows.shape[1], np.int64), 1
    for row in rows:
        most = int(row.max(initial=0)) + 1
        if size * most > _MOST_KEY:
            keys = np.unique(keys, return_inverse=True)[1]
            size = len(keys)
        if most > 1:
            keys, size = keys * most + row, size * most
    order = (keys.astype(np.int16) if size < 1 << 15 else keys).argsort(kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(order, ends) if len(order) else []


def _histograms(found: Verdicts) -> Ints:
    """For each node, how many of its cards have each verdict: a row a verdict, FITS last."""
    rows = np.zeros((FITS + 1, found.shape[1]), np.int64)
    seen = np.bincount((found - NOT_ASKED).ravel(), minlength=FITS + 2)[1:]
    for verdict in np.flatnonzero(seen).tolist():
        rows[verdict] = (found == verdict).sum(axis=0, dtype=np.int16)
    return rows


def _refusal(
    family: Family, need: Need, by_check: Sequence[int], *, usable: int, lasting: bool, container: str
) -> Refusal:
    have, fitting = sum(by_check), by_check[FITS]
    failed = [(check, count) for check, count in zip(CHECKS, by_check, strict=False) if count]
    histogram = tuple((check.name, count) for check, count in failed)

    def refusal(code: str, text: str, kind: str, *, lasting: bool) -> Refusal:
        return Refusal(code=code, text=text, kind=kind, lasting=lasting, container=container, histogram=histogram)

    if have < need.count:
        kind = f"node(s) with fewer than {need.count} {family.title} cards"
        text = f"needs {need.count} distinct {family.title} cards, node has {have}"
        if not have:
            kind, text = f"node(s) without {family.title} cards", f"has no {family.title} cards"
        return refusal("NodeInsufficientDevice", text, kind, lasting=True)
    without = f"node(s) without {'a' if need.count == 1 else need.count} fitting card{'s' * (need.count > 1)}"
    if fitting >= need.count:
        text = f"needs {need.count} cards on one NUMA node, at most {usable} fit on any"
        return refusal("NumaNotFit", text, f"{without} on one NUMA node", lasting=lasting)
    shorts = [(check.short(need, family), count) for check, count in failed]
    parts = ", ".join(f"{count} {short}" for short, count in shorts)
    text = f"needs {need.count} {'card' if need.count == 1 else 'cards'}, {fitting} of {have} fit ({parts})"
    kind = f"{without}: {'; '.join(short for short, _count in shorts)}"
    worst, _count = max(failed, key=lambda one: one[1])
    return refusal(worst.code, text, kind, lasting=lasting)
