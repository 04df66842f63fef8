"""Which of many nodes cannot take what a pod's containers ask together: sums over all nodes at once, before any search.

That sums are enough says little; that they are not is sure. So a node that is left out here is one that no search would
have found to fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cardwise.core.cards import Bools, Ints, View
from cardwise.core.checks import Need, fits

MOST_LIMITS = 24
"""Sizes that are counted up: of more, some between the smallest and the largest are left out."""


def enough(view: View, needs: Sequence[Need]) -> Bools:
    """For each node in view, False where its cards cannot hold all of these at once, beside what is in use."""
    could = np.ones(view.family.shape[1], np.bool_)
    for family in {need.family: None for need in needs}:
        could &= _enough(view, [need for need in needs if need.family == family])
    return could


def _enough(view: View, needs: Sequence[Need]) -> Bools:
    free = _free(view, needs[0])
    could: Bools = _volume(free, needs)
    limits = list(_limits(needs))
    for limit in limits[:: -(-len(limits) // MOST_LIMITS)]:
        counts = [need.count for need in needs if limit.is_below(need)]
        # No container takes a card twice, so a card serves at most as many times as there are containers.
        could &= np.minimum(limit.times(free), len(counts)).sum(axis=0) >= sum(counts)
    return could


@dataclass(frozen=True, slots=True)
class _Free:
    """What is free of each card that passes the checks for as little as can be asked; nothing of the others."""

    slots: Ints
    memory_mib: Ints
    memory_total_mib: Ints
    cores_percent: Ints
    idle: Bools


def _free(view: View, need: Need) -> _Free:
    passing = fits(view, replace(need, count=1, memory_mib=1, memory_percent=0, cores_percent=0, most_memory_mib=None))
    slots = np.minimum(view.slots_total - view.slots_used, 1 if need.idle else 1 << 30)
    return _Free(
        slots=slots * passing,
        memory_mib=(view.memory_total_mib - view.memory_used_mib) * passing,
        memory_total_mib=np.maximum(view.memory_total_mib, 1),
        cores_percent=np.maximum(view.cores_total_percent - view.cores_used_percent, 0) * passing,
        idle=view.slots_used == 0,
    )


def _volume(free: _Free, needs: Sequence[Need]) -> Bools:
    """Whether there is as much memory and compute, over all cards, as all ask together."""
    mib, percent, cores = (
        sum(need.count * asked for need, asked in zip(needs, column, strict=True))
        for column in zip(*((need.memory_mib, need.memory_percent, need.cores_percent) for need in needs), strict=True)
    )
    could: Bools = (free.memory_mib.sum(axis=0) >= mib) & (free.cores_percent.sum(axis=0) >= cores)
    if percent:
        # Each percentage of a card is rounded down, by less than 1 MiB for each container that is on it.
        rounded_mib = free.memory_mib + np.minimum(free.slots, len(needs))
        could &= (rounded_mib * 100 // free.memory_total_mib).sum(axis=0) >= percent
    return could


@dataclass(frozen=True, slots=True)
class _Limit:
    """So much of a card, and no less: of memory in one of its two ways, of compute, or of both."""

    memory_mib: int = 0
    memory_percent: int = 0
    cores_percent: int = 0

    def is_below(self, need: Need) -> bool:
        """Whether a need asks at least so much."""
        return (
            need.memory_mib >= self.memory_mib
            and need.memory_percent >= self.memory_percent
            and need.cores_percent >= self.cores_percent
        )

    def times(self, free: _Free) -> Ints:
        """How many times each card has so much free."""
        times = free.slots
        if self.memory_mib or self.memory_percent:
            memory_mib = self.memory_mib or np.maximum(free.memory_total_mib * self.memory_percent // 100, 1)
            times = np.minimum(times, free.memory_mib // memory_mib)
        if self.cores_percent:
            times = np.minimum(times, free.cores_percent // self.cores_percent)
        if self.cores_percent >= 100:
            times = np.minimum(times, free.idle)
        return times


def _limits(needs: Sequence[Need]) -> Iterator[_Limit]:
    """Every size that is asked for, the smallest first: whatever asks at least so much must find it."""
    yield _Limit()
    asked = {
        limit
        for need in needs
        for limit in (
            _Limit(need.memory_mib, need.memory_percent),
            _Limit(cores_percent=need.cores_percent),
            _Limit(need.memory_mib, need.memory_percent, need.cores_percent),
        )
    }
    yield from sorted(asked - {_Limit()}, key=lambda one: (one.memory_mib, one.memory_percent, one.cores_percent))
