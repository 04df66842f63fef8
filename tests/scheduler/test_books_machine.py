"""Whatever happens, in whatever order: no card is given twice, what is recorded is counted, nothing is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from cardwise.core.model import CardUse, Left
from cardwise.wire.families import FAMILIES
from cardwise.wire.pods import Defaults, read_pod

from .books_machine import BooksMachine, Step
from .books_stage import QUOTA, QUOTA_CARDS
from .memory_api import as_pod, cards_of, is_ending, total


class Machine(BooksMachine):
    """The steps, with what must hold after each, and when all comes to rest."""

    def do(self, numbers: tuple[int, ...]) -> None:
        super().do(numbers)
        self.all_that_is_recorded_is_counted()

    def steps(self) -> Iterator[tuple[int, Step]]:
        yield from super().steps()
        yield 2, self.settle

    def all_that_is_recorded_is_counted(self) -> None:
        """What a bound pod holds is never free, at any moment at which the service decides."""
        if not self.stage.books.complete:
            return
        counted = self._counted()
        for spot, uses in self.api.held().items():
            use = total(uses)
            have = counted.get(spot)
            assert have is None or covers(have, use), f"{spot} counts {have}, {use} is recorded"

    def end(self) -> None:
        """When all has ended, nothing is in use, and nothing is remembered."""
        self._come_to_rest()
        for pod in list(self.api.pods.values()):
            self.api.remove_pod(pod["metadata"]["uid"])
        self.api.relist("pods")
        self.stage.deliver_all()
        books = self.stage.books
        assert all(use == CardUse() for use in self._counted().values())
        assert (books.holdings.cluster.holds, books.reservations, books.doubts, len(books.nominations)) == (
            {},
            {},
            {},
            0,
        )
        assert {used for *_names, used, _hard in books.holdings.quotas.usage()} == {0}
        assert (books.pods, len(books.waiting)) == ({}, 0)
        for name in list(self.api.nodes):
            self.api.remove_node(name)
        self.stage.deliver_all()
        assert books.gates.remembered == 0

    def settle(self, early: int = 0, carried: int = 0, _: int = 0) -> None:
        """All that is under way ends: what is recorded is what is counted, and no pod that fits is left waiting."""
        self.stage.fenced = False
        self.stage.fence()
        if early % 2:
            self._try_all()  # kube-scheduler is quick: it asks before we know
        self._come_to_rest(carried=bool(carried % 2))
        for _second in range(12):
            for wake in self.stage.wake():
                self.stage.touch(wake)
            self.stage.deliver_all()
            self._try_all()
            self.stage.deliver_all()
            self._serve()
            self.stage.pass_time(1.0)
            self._forget_nominations()
        self._counted_as_recorded()
        self._nobody_left()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _try_all(self) -> None:
        """kube-scheduler tries all pods that it knows to be worth it, and binds those that are placed."""
        for pod in self.tried():
            uid, nodes = pod["metadata"]["uid"], sorted(self.api.nodes)
            if uid in self.stage.active and uid not in self.stage.chosen and nodes:
                self.stage.filter(self.api.versions_of[uid][-1], nodes)
            if uid in self.stage.chosen:
                self._place(uid)

    def _come_to_rest(self, *, carried: bool = True) -> None:
        """Everything is told, answered, and known. `carried`: what nobody waits for is carried out now, else never."""
        for flight in list(self.stage.flights):
            if not flight.became and (carried or not flight.abandoned):
                self.stage.carry_out(flight)
            if not flight.abandoned:
                self.stage.answer(flight)
        self.stage.flights.clear()
        for pod in [pod for pod in self.api.pods.values() if is_ending(pod)]:
            self.api.remove_pod(pod["metadata"]["uid"])
        self.stage.deliver_all()
        self._serve()
        self._resolve_doubts()
        for uid in [uid for uid in self.stage.chosen if self.api.pod(uid) is None]:
            self._place(uid)
            self.stage.chosen.pop(uid, None)

    def _resolve_doubts(self) -> None:
        """So much time passes that reads tell what became of every Binding."""
        books = self.stage.books
        while self.stage.reads:
            self.stage.hear_in_doubt()
        if books.doubts or any(one.sent for one in books.reservations.values()):
            self.stage.pass_time(70.0)
        if books.unshown:
            self.stage.pass_time(10.0)
        self.stage.ask_in_doubt()
        while self.stage.reads:
            self.stage.hear_in_doubt()

    def _place(self, uid: str) -> None:
        """kube-scheduler binds what it chose."""
        found = self.try_bind(uid, self.stage.chosen[uid])
        if found is not None:
            self.stage.carry_out(found)
            self.stage.answer(found)

    def _serve(self) -> None:
        """HAMi's plugin serves what is bound, so that its gate opens."""
        for pod in list(self.api.holders()):
            if pod.get("status", {}).get("phase") != "Running":
                self.set_phase(pod, "Running")
        self.stage.deliver_all()

    def _forget_nominations(self) -> None:
        for pod in self.api.waiting():
            if pod.get("status", {}).get("nominatedNodeName"):
                self.api.change_pod(pod["metadata"]["uid"], status_nominatedNodeName="")
        self.stage.deliver_all()

    def _counted(self) -> dict[tuple[str, str], CardUse]:
        """What the service counts on each card that it knows."""
        cards = self.stage.books.holdings.cluster.cards
        return {
            (name, card.uuid): cards.use(n, k)
            for name, n in cards.index_of.items()
            for k, card in enumerate(cards.node(n).cards)
        }

    def _counted_as_recorded(self) -> None:
        held = self.api.held()
        reserved = self.stage.books.reservations.keys()
        assert not self.stage.books.doubts
        if not reserved:
            for spot, use in self._counted().items():
                assert use == total(held.get(spot, ())), spot

    def _nobody_left(self) -> None:
        """No pod that kube-scheduler would bring to us, and that would fit, waits."""
        held = self.api.held()
        uses = {spot: total(each) for spot, each in held.items()}
        taken = sum(cards_of(pod) for pod in self.api.holders() if pod["metadata"]["namespace"] == "few")
        for pod in self.tried():
            request = read_pod(as_pod(pod), FAMILIES, Defaults()).request
            assert request is not None
            if request.namespace == QUOTA.namespace:
                request = replace(request, quota={"nvidia": Left(cards=max(0, QUOTA_CARDS - taken))})
            placement = oracle.decide(self.api.cores(), uses, request).placement
            assert placement is None, f"{request.name} waits, and fits: {placement}"


def covers(have: CardUse, use: CardUse) -> bool:
    """Whether as much is counted, of everything."""
    amounts = ((one.slots, one.memory_mib, one.cores_percent, one.holders) for one in (have, use))
    return all(counted >= recorded for counted, recorded in zip(*amounts, strict=True))


PROFILE = settings()
number = st.integers(0, 839)
"""Divisible by all that is chosen from."""


@settings(max_examples=6 * PROFILE.max_examples)
@given(steps=st.lists(st.tuples(number, number, number, number), min_size=20, max_size=60))
def test_nothing_is_given_away_twice_and_nothing_is_lost(steps: list[tuple[int, ...]]) -> None:
    machine = Machine()
    for step in steps:
        machine.do(step)
    machine.settle()
    machine.end()
