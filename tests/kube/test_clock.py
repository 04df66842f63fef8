"""The wait after failures: it doubles, is left half to chance, has a most, and is forgotten after a healthy minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.kube.clock import Backoff, Clock


class Dial:
    """A clock to be set."""

    seconds = 0.0
    luck = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, chance=lambda: self.luck)


@pytest.mark.parametrize(("luck", "first", "tenth"), [(0.0, 0.1, 15.0), (0.999999, 0.2, 30.0)], ids=["least", "most"])
def test_waits_double_up_to_the_most(luck: float, first: float, tenth: float) -> None:
    dial = Dial()
    dial.luck = luck
    backoff = Backoff(clock=dial.clock())
    waits = [backoff.down() for _ in range(10)]
    assert waits[0] == pytest.approx(first, rel=1e-3)
    assert waits[1] == pytest.approx(2 * first, rel=1e-3)
    assert waits[-1] == pytest.approx(tenth, rel=1e-3)


@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=2000), st.floats(-1e9, 1e9))
def test_every_wait_is_between_a_tenth_and_thirty_seconds(lucks: list[float], asked: float) -> None:
    dial = Dial()
    backoff = Backoff(clock=dial.clock())
    for luck in lucks:
        dial.luck = luck
        assert 0.1 <= backoff.down(asked) <= 30


@pytest.mark.parametrize(("healthy_seconds", "wait"), [(59, 0.8), (60, 0.1)], ids=["not long enough", "a minute"])
def test_a_healthy_minute_makes_it_forget(healthy_seconds: float, wait: float) -> None:
    dial = Dial()
    backoff = Backoff(clock=dial.clock())
    for _ in range(3):
        backoff.down()
    backoff.up()
    dial.seconds += healthy_seconds / 2
    backoff.up()
    dial.seconds += healthy_seconds / 2
    assert backoff.down() == pytest.approx(wait)


def test_a_minute_of_failing_is_not_healthy() -> None:
    dial = Dial()
    backoff = Backoff(clock=dial.clock())
    backoff.down()
    dial.seconds += 3600
    assert backoff.down() == pytest.approx(0.2)


def test_what_the_server_asks_for_comes_on_top() -> None:
    assert Backoff(clock=Dial().clock()).down(5) == pytest.approx(5.1)
