"""When this replica may bind: its kube-scheduler leads, for long enough, and our view is as new as that leadership.

The lease is the one of the kube-scheduler in the same pod, which renews it by the clock that we read too. Pure: the time
is given in, the shell watches the lease, patches its own pod and tells what it sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from cardwise.kube.types import Lease, LeaseSpec, time_of
from cardwise.wire.errors import shown

STOPPING = "the scheduler is stopping"
MOST_AHEAD_SECONDS = 1.0
"""A renewal further in the future than this was made before our clock was set back, so it says nothing."""
_NOT_SEEN = "the lease of kube-scheduler was not seen yet"
_DELETED = "the lease of kube-scheduler is gone"
_UNPROVEN = "it is not known yet whether the view of the cluster is as new as this term of leadership"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    holder: str
    renewed: datetime
    duration_seconds: int
    transitions: int | None
    acquired: str | None

    def seconds_left(self, now: datetime) -> float:
        """Until it runs out, below 0 since then. A renewal in the future is worth its duration, not more."""
        return self.duration_seconds - max(0.0, (now - self.renewed).total_seconds())

    def continues(self, before: _Held) -> bool:
        """Whether it was renewed, in time, by the one who held it before, and nobody held it between."""
        in_time = (self.renewed - before.renewed).total_seconds() <= before.duration_seconds
        return in_time and self._leadership == before._leadership

    @property
    def _leadership(self) -> tuple[object, ...]:
        return self.holder, self.transitions, self.acquired


class Freshness:
    """Whether our view of the pods is as new as a term of leadership.

    A text that is new in this term is written on our own pod; the watch of pods tells it after all that was written
    before, by whoever led then. One text a term: a write that failed is repeated with the same, and one of an earlier
    term proves nothing.
    """

    def __init__(self) -> None:
        self.term = 0
        self.fresh = False
        self._token = ""

    def begin(self, term: int) -> None:
        """Nothing is proven in this term yet."""
        self.term, self.fresh, self._token = term, False, ""

    def needed(self, term: int, nonce: str) -> str:
        """What to write on our own pod, or nothing where this term is proven. Raises ValueError without a nonce.

        The nonce is a random text, so that what an earlier process wrote on the same pod proves nothing. The first one of a
        term counts.
        """
        if not nonce:
            raise ValueError("nonce is empty, must be a random text")
        if term != self.term:
            self.begin(term)
        if self.fresh:
            return ""
        self._token = self._token or f"{term}-{nonce}"
        return self._token

    def seen(self, value: str) -> None:
        """The watch of pods showed our own pod with this value."""
        if self._token and value == self._token:
            self.fresh = True

    def proved(self, term: int) -> None:
        """All pods were read from the API server anew, beginning after this term did."""
        if term == self.term:
            self.fresh = True


class Fence:
    """Whether binds may be sent. `enabled` False (one replica, no leader election): always, until `stop`.

    `identity` is the host name of the pod: kube-scheduler holds its lease as `<host name>_<uuid>`. Raises ValueError
    where it is empty. `term` counts how often leadership was gained, 0 before the first time.
    """

    def __init__(self, identity: str, *, enabled: bool = True) -> None:
        if enabled and not identity:
            raise ValueError("the identity is empty, must be the host name that kube-scheduler holds its lease by")
        self.term = 0
        self._identity = identity
        self._enabled = enabled
        self._stopped = False
        self._lease: _Held | str = _NOT_SEEN
        self._version = ""
        self._renewed: datetime | None = None
        self._freshness = Freshness()

    # -- facts

    def lease_seen(self, lease: Lease | None, *, listed: bool = False) -> None:
        """The lease is so now; None: it was deleted. What is older than what was seen before is ignored.

        `listed`: it comes from a read that sees every write before it (a list), so it counts whatever was seen before.
        """
        if lease is None:
            self._lease = _DELETED
            return
        seen = _read(lease.spec or LeaseSpec())
        version = lease.metadata.resource_version if lease.metadata else ""
        if not listed and self._is_old(version, seen):
            return
        self._version = version
        if isinstance(seen, _Held):
            self._renewed = max(seen.renewed, self._renewed or seen.renewed) if not listed else seen.renewed
        before, self._lease = self._lease, seen
        if self._is_ours(seen) and not (self._is_ours(before) and _continues(seen, before)):
            self.term += 1
            self._freshness.begin(self.term)

    def proof_seen(self, value: str) -> None:
        """The watch of pods showed our own pod with this value of the annotation `names.TAKEOVER`."""
        self._freshness.seen(value)

    def proved(self, term: int) -> None:
        """Instead, where we have no pod: all pods were listed anew, and the list began while `term` was this."""
        self._freshness.proved(term)

    def stop(self) -> None:
        """No bind any more, for good."""
        self._stopped = True

    # -- questions

    def holds(self, now: datetime) -> bool:
        """Whether our kube-scheduler leads."""
        return not self._why_not_held(now)

    def seconds_left(self, now: datetime) -> float:
        """How long it leads for if it does not renew; 0 or below where it does not lead, infinite without election."""
        if not self._enabled:
            return math.inf
        if not isinstance(self._lease, _Held) or not self._is_ours(self._lease):
            return 0.0
        return 0.0 if self._is_ahead(self._lease, now) else self._lease.seconds_left(now)

    def needed(self, nonce: str) -> str:
        """What to write on our own pod now, as `names.TAKEOVER`: see `Freshness`. Empty where nothing is to be proven."""
        if self._stopped or not self._enabled or not self._is_ours(self._lease):
            return ""
        return self._freshness.needed(self.term, nonce)

    def ready(self) -> bool:
        """Whether we decide: our kube-scheduler was the last that led, and the view is as new as that."""
        return not self._stopped and (not self._enabled or (self._is_ours(self._lease) and self._freshness.fresh))

    def may_bind(self, now: datetime, bind_timeout_seconds: float) -> str:
        """Nothing, or one sentence why no bind may be sent that may take so long."""
        why = self._why_not_held(now)
        if why or not self._enabled:
            return why
        left = self.seconds_left(now)
        if left <= bind_timeout_seconds:
            return f"only {left:.1f} s of the lease are left, a bind may take {bind_timeout_seconds:g} s"
        return "" if self._freshness.fresh else _UNPROVEN

    # -- inside

    def _is_old(self, version: str, seen: _Held | str) -> bool:
        """By resource version, which every API server gives and counts up.

        Where there is none, a renewal of ours must be the newest of all; another's word counts, as its clock may be behind.
        """
        if version.isdecimal() and self._version.isdecimal():
            return int(version) <= int(self._version)
        if not isinstance(seen, _Held) or not self._is_ours(seen):
            return False
        return self._renewed is not None and seen.renewed <= self._renewed

    def _is_ours(self, lease: _Held | str) -> bool:
        if isinstance(lease, str) or not self._enabled:
            return False
        return self._identity in (lease.holder, lease.holder.rpartition("_")[0])

    def _is_ahead(self, lease: _Held, now: datetime) -> bool:
        return lease.renewed - now > timedelta(seconds=MOST_AHEAD_SECONDS)

    def _why_not_held(self, now: datetime) -> str:
        lease = self._lease
        if self._stopped:
            return STOPPING
        if not self._enabled:
            return ""
        if isinstance(lease, str):
            return lease
        if not self._is_ours(lease):
            return f"not the leader: {shown(lease.holder) if lease.holder else 'nobody'} is"
        if self._is_ahead(lease, now):
            ahead = (lease.renewed - now).total_seconds()
            return f"the lease was renewed {ahead:.0f} s in the future: the clock was set back"
        left = lease.seconds_left(now)
        return "" if left > 0 else f"the lease ran out {abs(left):.1f} s ago"


def _continues(lease: _Held | str, before: _Held | str) -> bool:
    return isinstance(lease, _Held) and isinstance(before, _Held) and lease.continues(before)


def _read(spec: LeaseSpec) -> _Held | str:
    """Who holds the lease, or a sentence on what is wrong with it."""
    duration, renew_time = spec.lease_duration_seconds, spec.renew_time
    if duration is None or duration < 1:
        shown_duration = "missing" if duration is None else duration
        return f"the lease's leaseDurationSeconds is {shown_duration}, must be 1 or more"
    try:
        renewed = time_of(renew_time or "")
    except ValueError:
        there = "missing" if renew_time is None else shown(renew_time)
        return f"the lease's renewTime is {there}, must be a time as 2026-01-02T03:04:05.000000Z"
    return _Held(
        holder=spec.holder_identity or "",  # nobody, as kube-scheduler leaves it when it stops
        renewed=renewed,
        duration_seconds=duration,
        transitions=spec.lease_transitions,
        acquired=spec.acquire_time,
    )
