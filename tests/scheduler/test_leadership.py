"""Binds leave only while our own kube-scheduler leads, for long enough, and with a view as new as its leadership."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.kube.types import Lease, LeaseSpec, micro_time
from cardwise.scheduler.leadership import STOPPING, Fence, Freshness
from cardwise.wire.objects import Meta

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
US, THEM = "cardwise-1", "cardwise-10"
BIND_SECONDS = 5.0


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lease(
    holder: str = f"{US}_a1b2",
    renewed: float = 0,
    *,
    version: int | None = None,
    duration: int | None = 15,
    transitions: int = 1,
    acquired: float = 0,
) -> Lease:
    """A lease renewed at this second; the resource version counts with it where none is given."""
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time=micro_time(at(acquired)),
        renew_time=micro_time(at(renewed)),
        lease_transitions=transitions,
    )
    number = 1000 + round(renewed * 10) if version is None else version
    return Lease(metadata=Meta(name="kube-scheduler", resource_version=str(number) if number else ""), spec=spec)


def fence(*leases: Lease | None, identity: str = US, proven: bool = True) -> Fence:
    """A fence that saw these leases, its view proven in the term that they end in."""
    made = Fence(identity)
    for one in leases:
        made.lease_seen(one)
    if proven:
        made.proved(made.term)
    return made


# -- who leads, and for how long


@pytest.mark.parametrize(
    ("holder", "ours"),
    [
        pytest.param("cardwise-1_5f0c", True, id="with a uuid"),
        pytest.param("cardwise-1", True, id="alone"),
        pytest.param("cardwise-10_5f0c", False, id="a longer name"),
        pytest.param("cardwise_5f0c", False, id="a shorter name"),
        pytest.param("cardwise-1_2_5f0c", False, id="a name with an underscore"),
        pytest.param("", False, id="nobody"),
    ],
)
def test_holders_are_compared_by_whole_host_name(holder: str, *, ours: bool) -> None:
    assert fence(lease(holder)).holds(at(1)) is ours


@pytest.mark.parametrize(
    ("seen", "now", "why"),
    [
        pytest.param([], 0, "the lease of kube-scheduler was not seen yet", id="not seen"),
        pytest.param([lease(), None], 1, "the lease of kube-scheduler is gone", id="deleted"),
        pytest.param([lease()], 9.9, "", id="just enough left"),
        pytest.param([lease()], 10, "only 5.0 s of the lease are left, a bind may take 5 s", id="as much as a bind"),
        pytest.param([lease()], 11.8, "only 3.2 s of the lease are left, a bind may take 5 s", id="too little"),
        pytest.param([lease()], 15, "the lease ran out 0.0 s ago", id="just over"),
        pytest.param([lease()], 19.5, "the lease ran out 4.5 s ago", id="long over"),
        pytest.param([lease(f"{THEM}_x")], 1, "not the leader: cardwise-10_x is", id="another"),
        pytest.param([lease(), lease("", 1, duration=1)], 1, "not the leader: nobody is", id="released"),
        pytest.param([lease(renewed=1)], 0, "", id="renewed a moment ahead"),
        pytest.param(
            [lease(renewed=3600)],
            0,
            "the lease was renewed 3600 s in the future: the clock was set back",
            id="renewed ahead",
        ),
        pytest.param(
            [lease(duration=None)],
            1,
            "the lease's leaseDurationSeconds is missing, must be 1 or more",
            id="no duration",
        ),
        pytest.param(
            [lease(duration=-15)],
            1,
            "the lease's leaseDurationSeconds is -15, must be 1 or more",
            id="negative duration",
        ),
        pytest.param([Lease()], 1, "the lease's leaseDurationSeconds is missing, must be 1 or more", id="no spec"),
    ],
)
def test_why_no_bind_may_be_sent(seen: list[Lease | None], now: float, why: str) -> None:
    assert fence(*seen).may_bind(at(now), BIND_SECONDS) == why


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(None, "missing", id="missing"),
        pytest.param("", "(empty)", id="empty"),
        pytest.param("yesterday", "yesterday", id="no time"),
        pytest.param("2026-01-01T12:00:00", "2026-01-01T12:00:00", id="no zone"),
    ],
)
def test_a_lease_without_a_readable_renewal_is_not_held(text: str | None, shown: str) -> None:
    broken = lease()
    assert broken.spec is not None
    broken.spec.renew_time = text
    made = fence(broken)
    must = "must be a time as 2026-01-02T03:04:05.000000Z"
    assert made.may_bind(at(1), BIND_SECONDS) == f"the lease's renewTime is {shown}, {must}"
    assert not made.holds(at(1))
    assert made.seconds_left(at(1)) == 0


def test_what_is_left_is_counted_from_the_renewal() -> None:
    made = fence(lease(renewed=10))
    assert made.seconds_left(at(12)) == pytest.approx(13)
    assert made.seconds_left(at(30)) == pytest.approx(-5)
    assert made.seconds_left(at(9.5)) == pytest.approx(15), "a renewal in the future is worth no more than its duration"
    assert fence(lease(f"{THEM}_x")).seconds_left(at(1)) == 0


def test_after_stop_nothing_is_allowed_ever_again() -> None:
    made = fence(lease())
    made.stop()
    made.lease_seen(lease(renewed=2))
    made.proved(made.term)
    assert made.may_bind(at(3), BIND_SECONDS) == STOPPING
    assert not made.holds(at(3))
    assert not made.ready()
    assert made.needed("n") == ""


def test_without_leader_election_all_is_allowed_until_stop() -> None:
    made = Fence("", enabled=False)
    made.lease_seen(lease(f"{THEM}_x"))
    assert made.ready()
    assert made.holds(at(1e6))
    assert made.may_bind(at(1e6), BIND_SECONDS) == ""
    assert made.needed("n") == ""
    made.stop()
    assert made.may_bind(at(1e6), BIND_SECONDS) == STOPPING
    assert not made.ready()


def test_an_empty_identity_is_refused_since_a_released_lease_has_the_same() -> None:
    with pytest.raises(ValueError, match="the identity is empty, must be the host name"):
        Fence("")


# -- the order of events


def test_an_older_event_is_ignored() -> None:
    late = lease(renewed=2)
    made = fence(lease(), late, lease(f"{THEM}_x", 4, transitions=2))
    made.lease_seen(late)
    assert made.may_bind(at(5), BIND_SECONDS) == "not the leader: cardwise-10_x is"


def test_the_resource_version_counts_where_another_replicas_clock_is_behind() -> None:
    made = fence(lease(renewed=600, version=7), lease(f"{THEM}_x", 0, version=8))
    assert not made.holds(at(600))


def test_an_event_of_a_deleted_lease_is_ignored_when_it_is_told_again() -> None:
    made = fence(lease(), None, lease())
    assert made.may_bind(at(1), BIND_SECONDS) == "the lease of kube-scheduler is gone"
    made.lease_seen(lease(renewed=2))
    assert made.holds(at(3))


def test_a_list_counts_whatever_was_seen_before() -> None:
    """As after a restore of etcd, when versions begin lower."""
    made = fence(lease(renewed=10, version=5000))
    made.lease_seen(lease(f"{THEM}_x", 0, version=20), listed=True)
    assert not made.holds(at(11))
    made.lease_seen(lease(renewed=12, version=21))
    assert made.holds(at(13))


# -- terms, and proof of a fresh view


@pytest.mark.parametrize(
    ("leases", "terms"),
    [
        pytest.param([lease(), lease(renewed=2), lease(renewed=17)], 1, id="renewed in time"),
        pytest.param([lease(), lease(f"{US}_new", 2, transitions=2)], 2, id="our kube-scheduler began anew"),
        pytest.param([lease(), lease(renewed=2, transitions=2)], 2, id="transitions"),
        pytest.param([lease(), lease(renewed=2, acquired=1)], 2, id="acquired anew"),
        pytest.param([lease(), lease(renewed=15.5)], 2, id="lapsed between"),
        pytest.param([lease(), None, lease(renewed=2)], 2, id="deleted between"),
        pytest.param([lease(), lease(renewed=2, duration=0), lease(renewed=4)], 2, id="unreadable between"),
        pytest.param([lease(), lease(f"{THEM}_x", 1), lease(renewed=2)], 2, id="another between"),
        pytest.param([lease(), lease()], 1, id="told twice"),
        pytest.param([lease(f"{THEM}_x")], 0, id="never ours"),
    ],
)
def test_a_term_begins_when_leadership_is_gained_anew(leases: list[Lease | None], terms: int) -> None:
    assert fence(*leases).term == terms


def test_no_bind_before_the_view_is_proven_fresh() -> None:
    made = fence(lease(), proven=False)
    assert not made.ready()
    assert "as new as this term" in made.may_bind(at(1), BIND_SECONDS)
    made.proof_seen(made.needed("abc"))
    assert made.ready()
    assert made.may_bind(at(1), BIND_SECONDS) == ""
    assert made.needed("def") == "", "what is proven is not written again"


def test_case_91_a_late_proof_of_an_earlier_term_proves_nothing() -> None:
    made = fence(lease(), proven=False)
    first, first_term = made.needed("abc"), made.term
    made.lease_seen(lease(f"{THEM}_x", 2, transitions=2))
    assert made.needed("abc") == "", "who does not lead proves nothing"
    made.lease_seen(lease(f"{US}_new", 20, transitions=3))
    second = made.needed("abc")
    assert second != first
    made.proof_seen(first)
    made.proved(first_term)
    assert not made.ready()
    made.proof_seen(second)
    assert made.ready()


def test_a_failed_write_is_repeated_with_the_same_text() -> None:
    made = fence(lease(), proven=False)
    assert made.needed("abc") == made.needed("def") == "1-abc"


def test_what_an_earlier_process_wrote_proves_nothing() -> None:
    before, after = fence(lease(), proven=False), fence(lease(), proven=False)
    left_behind = before.needed("abc")
    after.proof_seen(left_behind)
    after.needed("def")
    after.proof_seen(left_behind)
    after.proof_seen("")
    assert not after.ready()


def test_freshness_needs_a_nonce() -> None:
    with pytest.raises(ValueError, match="nonce is empty, must be a random text"):
        Freshness().needed(1, "")


def test_a_proven_view_is_lost_with_the_lease_and_not_regained_by_it() -> None:
    made = fence(lease())
    assert made.ready()
    made.lease_seen(lease(f"{THEM}_x", 2))
    assert not made.ready()
    made.lease_seen(lease(renewed=20))
    assert not made.ready()


# -- laws


@dataclass(frozen=True)
class Step:
    """After some time one of the replicas tries to get or renew the lease; its kube-scheduler may be a new one, or stop."""

    seconds: int
    replica: str
    restarts: bool
    stops: bool = False


steps = st.lists(
    st.builds(
        Step,
        seconds=st.integers(1, 9),
        replica=st.sampled_from((US, THEM)),
        restarts=st.booleans(),
        stops=st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


def history(taken: list[Step], *, released: bool) -> list[tuple[float, Lease]]:
    """What the API server would hold: nobody takes a lease that another renewed less than its duration ago.

    `released`: who stops gives it up, so that the next one takes it at once.
    """
    written: list[tuple[float, Lease]] = []
    now, holder, run, renewed, transitions, acquired = 0, "", 0, -100, 0, 0
    for step in taken:
        now += step.seconds
        run += step.restarts
        who = f"{step.replica}_{run}"
        if who != holder and now < renewed + 15:
            continue
        if who != holder:
            holder, transitions, acquired = who, transitions + 1, now
        renewed = now
        one = lease(holder, now, version=len(written) + 1, transitions=transitions, acquired=acquired)
        written.append((now, one))
        if released and step.stops:
            holder, renewed = "", -100
            written.append((now, lease("", now, version=len(written) + 1, duration=1, transitions=transitions)))
    return written


def allowed(made: Fence, now: float, bind_seconds: float = 1.0) -> bool:
    made.proved(made.term)
    return made.may_bind(at(now), bind_seconds) == ""


@given(taken=steps, delays=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_two_replicas_are_never_allowed_at_once_however_late_each_learns_of_the_lease(
    taken: list[Step], delays: tuple[int, int]
) -> None:
    written = history(taken, released=False)
    fences = {US: Fence(US), THEM: Fence(THEM)}
    told = dict.fromkeys(fences, 0)
    for now in range(int(written[-1][0]) + 20 if written else 0):
        for (name, made), delay in zip(fences.items(), delays, strict=True):
            while told[name] < len(written) and written[told[name]][0] + delay <= now:
                made.lease_seen(written[told[name]][1])
                told[name] += 1
        assert sum(allowed(made, now) for made in fences.values()) <= 1


@given(taken=steps, data=st.data(), versions=st.booleans(), waits=st.integers(0, 20))
def test_whatever_the_order_of_events_the_newest_lease_decides(
    taken: list[Step], data: st.DataObject, *, versions: bool, waits: int
) -> None:
    written = history(taken, released=True)
    if not versions:
        written = [(when, without_version(one)) for when, one in written]
    order = data.draw(st.permutations(written + data.draw(st.lists(st.sampled_from(written), max_size=3))))
    newest = written[-1][1].spec
    now = written[-1][0] + waits
    for name in (US, THEM):
        made = Fence(name)
        for _when, one in order:
            made.lease_seen(one)
        leads = newest is not None and str(newest.holder_identity).startswith(f"{name}_")
        assert not allowed(made, now) or (leads and waits + 1.0 < 15), (
            "never by another's lease, nor by one that ran out"
        )
        if versions:
            assert allowed(made, now) is (leads and waits + 1.0 < 15)


def without_version(one: Lease) -> Lease:
    return Lease(spec=one.spec, metadata=None)


class Prover:
    """A shell whose patches may fail and whose watch is late: it delivers, at any time, anything it once wrote."""

    def __init__(self) -> None:
        self.fence = Fence(US)
        self.written: list[tuple[int, str]] = []
        self.version = 0

    def gain(self) -> None:
        self.version += 1
        self.fence.lease_seen(lease(f"{US}_{self.version}", self.version, version=self.version))

    def lose(self) -> None:
        self.version += 1
        self.fence.lease_seen(lease(f"{THEM}_{self.version}", self.version, version=self.version))

    def write(self) -> None:
        if token := self.fence.needed(f"random-{len(self.written)}"):
            self.written.append((self.fence.term, token))

    def deliver(self, which: int) -> int:
        """The term whose text is told, 0 for none."""
        if not self.written:
            return 0
        term, token = self.written[which % len(self.written)]
        self.fence.proof_seen(token)
        return term


actions = st.one_of(st.sampled_from(("gain", "lose", "write")), st.integers(0, 9))


@given(st.lists(actions, max_size=40))
def test_only_a_text_of_this_term_makes_the_view_fresh(taken: list[str | int]) -> None:
    shell = Prover()
    proven: set[int] = set()
    for action in taken:
        if isinstance(action, int):
            proven.add(shell.deliver(action))
        else:
            getattr(shell, action)()
        leads = shell.fence.holds(at(shell.version))
        assert shell.fence.ready() is (leads and shell.fence.term in proven)


def test_history_has_both_replicas_leading_in_turn() -> None:
    """The laws above would hold of an empty history too."""
    turn = Step(seconds=8, replica=US, restarts=False)
    other = replace(turn, replica=THEM)
    holders = [
        one.spec.holder_identity for _when, one in history([turn, other, other, turn], released=False) if one.spec
    ]
    assert holders == [f"{US}_0", f"{THEM}_0"]
    stops = replace(turn, stops=True)
    holders = [one.spec.holder_identity for _when, one in history([stops, other], released=True) if one.spec]
    assert holders == [f"{US}_0", "", f"{THEM}_0"]
