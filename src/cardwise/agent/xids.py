"""Which of the driver's error codes (XIDs) say nothing about the card.

Source: https://docs.nvidia.com/deploy/xid-errors, and what NVIDIA's and HAMi's device plugins ignore.
"""

from __future__ import annotations

from collections.abc import Iterable

from cardwise.wire.errors import wrong
from cardwise.wire.lists import comma_list

ANY_WORDS = frozenset(("all", "xids"))
_MOST_XID = 1 << 16

FAULTS_OF_PROGRAMS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "the program stopped processing",
    45: "clean-up after an earlier error",
    68: "video processor exception",
    109: "context switch time-out",
}
"""Codes that a program brings about, not the card."""

IGNORED_XIDS = frozenset(FAULTS_OF_PROGRAMS)


def ignored_xids(disabled: str = "", enabled: str = "") -> frozenset[int] | None:
    """The codes to ignore, by the variables DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS; None: look at none.

    `disabled` adds codes to the usual ones (`all` or `xids`: every one), `enabled` takes codes out again, `all` wins
    over all else. Raises WireError.
    """
    also = _words("DP_DISABLE_HEALTHCHECKS", disabled)
    never = _words("DP_ENABLE_HEALTHCHECKS", enabled)
    if ANY_WORDS & never:
        return frozenset()
    if ANY_WORDS & also:
        return None
    return (IGNORED_XIDS | _codes(also)) - _codes(never)


def _words(variable: str, text: str) -> frozenset[str]:
    words = frozenset(comma_list(text.lower()))
    for word in sorted(words - ANY_WORDS):
        if not (word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= _MOST_XID):
            raise wrong(variable, word, f"codes of 0 to {_MOST_XID} with commas between, or all")
    return words


def _codes(words: Iterable[str]) -> frozenset[int]:
    return frozenset(int(word) for word in words if word not in ANY_WORDS)
