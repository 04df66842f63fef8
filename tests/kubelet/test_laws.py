"""Whatever happens in whatever order: no device has two owners, admission is serial, and its order is the rule's."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from cardwise.sim.kubelet import facts
from cardwise.sim.kubelet.allocation import Allocate, Broken
from cardwise.sim.kubelet.devices import PluginOptions
from cardwise.sim.kubelet.node import Stage
from cardwise.sim.kubelet.objects import Pod, limits_of
from kubelet.bench import GPU, Bench, container, pod

DEVICES = 6
SHAPES = (
    ((), (1,)),
    ((), (2, 1)),
    ((1, 2), (1, 2)),
    ((-1, 2), (1,)),  # a sidecar
    ((), (0,)),
    ((), (5,)),
)


class World:
    """An API server and a plugin around one node; each step is one thing that may happen next."""

    def __init__(self, seed: int) -> None:
        self.bench = Bench(seed=seed)
        self.pods: dict[str, Pod] = {}
        self.expected: list[str] = []
        self.admitted: list[str] = []
        self.open = self.up = True
        self.born = 0
        self.bench.plug(count=DEVICES)
        self.bench.open()

    def bind(self, number: int) -> None:
        init, app = SHAPES[number % len(SHAPES)]
        self.born += 1
        one = pod(
            f"p{self.born}",
            *(container(f"c{n}", size) for n, size in enumerate(app)),
            init=[container(f"i{n}", abs(size), sidecar=size < 0) for n, size in enumerate(init)],
            created=(number * 7919 + self.born) % 3000,
        )
        self.pods[one.uid] = one
        self._told([one])
        self._see(one)

    def delete(self, number: int) -> None:
        one = self._some(number)
        if one is not None:
            self.pods[one.uid] = self._changed(one, deleted=True)
            self._see(self.pods[one.uid])

    def force_away(self, number: int) -> None:
        one = self._some(number)
        if one is not None:
            self._gone(one.uid)

    def reply(self, number: int) -> None:
        if self.bench.calls:
            self.bench.calls.insert(0, self.bench.calls.pop(number % len(self.bench.calls)))
            self.bench.reply(Broken(text="rpc error: code = Internal desc = no") if number % 11 == 0 else None)

    def time(self, number: int) -> None:
        if self.bench.waits:
            wait = self.bench.waits.pop(number % len(self.bench.waits))
            self.bench.tell(facts.Due(uid=wait.uid, timer=wait.timer))

    def write(self, _number: int) -> None:
        """The API server takes the oldest write, and its watch tells of it."""
        if not self.bench.writes:
            return
        order = self.bench.writes.pop(0)
        if isinstance(order, facts.RemovePod):
            self._gone(order.pod.uid)
        elif isinstance(order, facts.WriteStatus) and order.pod.uid in self.pods:
            self.pods[order.pod.uid] = self._changed(self.pods[order.pod.uid], phase=order.status["phase"])
            self._see(self.pods[order.pod.uid])

    def finish(self, number: int) -> None:
        one = self._some(number)
        if one is not None:
            self.bench.tell(facts.Finished(uid=one.uid, failed=number % 2 == 0))

    def crash(self, number: int) -> None:
        one = self._some(number)
        if one is not None:
            self.bench.tell(facts.ContainerExited(uid=one.uid, container="c0"))

    def plugin(self, number: int) -> None:
        if number % 3 == 0:
            self.bench.tell(facts.PluginLost(resource=GPU))
        else:
            options = PluginOptions(preferred=number % 2 == 0, pre_start=number % 5 == 0)
            self.bench.plug(options, DEVICES, [f"G0-{number % DEVICES}"] if number % 7 == 0 else [])

    def kubelet(self, number: int) -> None:
        """It stops, starts, and is told of its pods, in three steps."""
        if self.open:
            unwritten = (one.pod.uid for one in self.bench.writes if isinstance(one, facts.WriteStatus))
            self.bench.tell(facts.Down(unwritten=frozenset(unwritten)))
            self.bench.calls.clear()
            self.bench.waits.clear()
            self.bench.writes.clear()
            self.open = self.up = False
            self.expected, self.admitted = [], []
        elif not self.up:
            self.bench.tell(facts.Up())
            self.up = True
        else:
            self.open = True
            self.relist(number)

    def relist(self, _number: int) -> None:
        if self.open:
            by_age = sorted(self.pods.values(), key=lambda one: (one.metadata.creation_timestamp or "", one.full_name))
            self._told(by_age)
            self.bench.open(*self.pods.values())

    def listing(self, _number: int) -> None:
        self.bench.node.active()

    def settle(self) -> None:
        """All goes well from now on."""
        while not self.open:
            self.kubelet(0)
        self.bench.plug(PluginOptions(preferred=True), DEVICES)
        for _ in range(3 * len(self.pods) + 3):
            self.bench.run()
            while self.bench.writes:
                self.write(0)

    def _some(self, number: int) -> Pod | None:
        return list(self.pods.values())[number % len(self.pods)] if self.pods else None

    def _told(self, pods: list[Pod]) -> None:
        if self.open:
            self.expected += [one.uid for one in pods if one.uid not in self.expected]

    def _see(self, one: Pod) -> None:
        if self.open:
            self.bench.tell(facts.PodSeen(pod=one))

    def _gone(self, uid: str) -> None:
        self.pods.pop(uid, None)
        if self.open:
            self.bench.tell(facts.PodGone(uid=uid))

    def _changed(self, one: Pod, *, deleted: bool = False, phase: str = "") -> Pod:
        return pod(
            one.metadata.name,
            *(one.spec.containers or ()),
            init=one.spec.init_containers or (),
            created=int((one.metadata.creation_timestamp or "")[14:16]) * 60
            + int((one.metadata.creation_timestamp or "")[17:19]),
            phase=phase or one.phase,
            deleted=30 if deleted or one.deleted else None,
        )


def no_device_has_two_owners(world: World) -> None:
    node = world.bench.node
    owners: dict[str, str] = {}
    for uid, record in node.pods.items():
        if record.stage is not Stage.ENDED:
            for by_resource in node.devices.held.get(uid, {}).values():
                for one in by_resource.get(GPU, ()):
                    assert owners.setdefault(one, uid) == uid, f"{one} is held by {owners[one]} and {uid}"


def admission_is_serial(world: World) -> None:
    node = world.bench.node
    admitting = [uid for uid, record in node.pods.items() if record.stage is Stage.ADMITTING]
    assert len(admitting) <= 1
    asked = [one.pod.uid for one in world.bench.calls if one.pod.uid in admitting]
    assert len(asked) == len(admitting), "the pod being admitted waits for exactly one answer"


def order_is_the_rules(world: World) -> None:
    world.admitted += [uid for uid in world.bench.node.pods if uid not in world.admitted]
    places = [world.expected.index(uid) for uid in world.admitted]
    assert places == sorted(places), f"admitted {world.admitted}, told {world.expected}"


def list_shows_who_is_admitted(world: World) -> None:
    for call in world.bench.calls:
        record = world.bench.node.pods[call.pod.uid]
        if record.stage is Stage.ADMITTING and isinstance(call.rpc, Allocate):
            listed = world.bench.listed()
            assert call.pod.metadata.name in listed
            assert not world.bench.held(call.pod.uid).get(call.rpc.container)


def containers_have_what_they_ask(world: World) -> None:
    node = world.bench.node
    for uid, record in node.pods.items():
        if record.stage in (Stage.STARTING, Stage.RUNNING):
            for one in record.pod.containers():
                assert len(world.bench.held(uid).get(one.name, [])) == dict(limits_of(one)).get(GPU, 0)


Step = Callable[[World, int], None]

LAWS = (
    no_device_has_two_owners,
    admission_is_serial,
    order_is_the_rules,
    list_shows_who_is_admitted,
    containers_have_what_they_ask,
)
STEPS = (
    *(World.bind, World.bind, World.bind, World.reply, World.reply, World.reply, World.time, World.time),
    *(World.write, World.write, World.delete, World.force_away, World.finish, World.crash),
    *(World.plugin, World.kubelet, World.kubelet, World.relist, World.listing),
)
STEP = st.tuples(st.sampled_from(STEPS), st.integers(min_value=0, max_value=1000))


@given(st.lists(STEP, min_size=20, max_size=80), st.integers(min_value=0, max_value=100))
def test_laws_hold_after_every_step(steps: list[tuple[Step, int]], seed: int) -> None:
    world = World(seed)
    for step, number in steps:
        step(world, number)
        for law in LAWS:
            law(world)


@given(st.lists(STEP, min_size=10, max_size=60), st.integers(min_value=0, max_value=100))
def test_when_all_goes_well_again_every_pod_runs_or_has_ended(steps: list[tuple[Step, int]], seed: int) -> None:
    world = World(seed)
    for step, number in steps:
        step(world, number)
    world.settle()
    assert {one.phase for one in world.pods.values()} <= {"Running", "Failed", "Succeeded"}
    assert not any(one.deleted for one in world.pods.values())
    assert world.bench.listed().keys() == {one.metadata.name for one in world.pods.values() if not one.ended}
