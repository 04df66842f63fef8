"""Policy names and scoring weights, as users write them in annotations, flags and files."""

from __future__ import annotations

import re

from cardwise.core.model import CardPolicy, Weights
from cardwise.core.policy import CARD_KEYS, CARD_POLICIES, NODE_POLICIES
from cardwise.wire.errors import WireError
from cardwise.wire.lists import comma_list

_WHOLE = re.compile(r"[0-9]{1,9}")
_WEIGHTS = ("slot", "core", "memory")


def node_policy(text: str) -> str:
    """A node policy's name. Raises WireError, with the known ones, for any other text."""
    name = text.strip()
    if name not in NODE_POLICIES:
        msg = f"is {text[:80] or '(empty)'}, must be one of {', '.join(NODE_POLICIES)}"
        raise WireError(msg)
    return name


def card_policy(text: str) -> CardPolicy:
    """A card policy, or a comma chain of them. Raises WireError, with the known ones, where a name is unknown.

    In a chain, sort keys weigh in the order in which they stand; `topology-aware` and `mutex` apply as well.
    """
    names = comma_list(text)
    unknown = [name for name in names if name not in CARD_POLICIES]
    if unknown or not names:
        msg = f"is {text[:80] or '(empty)'}, must be one of {', '.join(CARD_POLICIES)}, or several with commas between"
        raise WireError(msg)
    keys = tuple(name for name in names if name in CARD_KEYS) or ("spread",)
    return CardPolicy(keys=keys, linked="topology-aware" in names, idle="mutex" in names)


def scoring_weights(text: str) -> Weights:
    """`slot=1,core=1,memory=3`: each of the three once, whole numbers, not all zero. Raises WireError otherwise."""
    given: dict[str, int] = {}
    for item in text.split(","):
        name, equals, number = (part.strip() for part in item.partition("="))
        if not equals or name not in _WEIGHTS or name in given or not _WHOLE.fullmatch(number):
            raise _bad_weights(text)
        given[name] = int(number)
    if len(given) != len(_WEIGHTS) or not any(given.values()):
        raise _bad_weights(text)
    return Weights(slots=given["slot"], cores=given["core"], memory=given["memory"])


def _bad_weights(text: str) -> WireError:
    must = "slot=N,core=N,memory=N with whole numbers of at most 9 digits, not all zero"
    return WireError(f"is {text[:80] or '(empty)'}, must be {must}")
