"""How the stand-in behaves, with kube-scheduler's own defaults."""

from __future__ import annotations

from dataclasses import dataclass

VERBS = frozenset(("filter", "prioritize", "preempt", "bind"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times are in seconds.

    `verbs` are those of the extender that are configured; without `bind` the scheduler binds by itself. A pod leaves its
    back-off at the next multiple of `alignment`. With `old_backoff` a woken pod waits for the end of its back-off even
    when there is nothing else to do, as it does up to Kubernetes 1.32.
    """

    verbs: frozenset[str] = VERBS
    http_seconds: float = 5.0
    initial_backoff_seconds: float = 1.0
    most_backoff_seconds: float = 10.0
    alignment_seconds: float = 1.0
    flush_seconds: float = 300.0
    old_backoff: bool = False
