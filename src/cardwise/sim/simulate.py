"""Places a world's waiting pods one after another, as the live scheduler would, and says why the others wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cardwise.core.checks import CHECKS, FITS, verdicts
from cardwise.core.model import Placement, Refusal
from cardwise.core.plan import steps_of
from cardwise.core.scene import Scene
from cardwise.core.why import MOST_SAMPLED, named, refusing, rule_refusals, told
from cardwise.scheduler.admission import Outcome
from cardwise.sim.question import question
from cardwise.sim.world import World
from cardwise.wire import objects

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why one node did not take a pod; `codes` by the position of the card, empty where the card would have done."""

    reason: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod with its node and cards."""

    pod: str
    namespace: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A pod that waits, in one sentence; `nodes` are in the world's order (None: no reason of its own)."""

    pod: str
    namespace: str
    reason: str
    nodes: tuple[NodeReason | None, ...] = ()


@dataclass(slots=True)
class Result:
    """What became of every waiting pod. `unmanaged` counts the waiting pods that ask for no card."""

    placed: list[Placed] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unmanaged: int = 0


def simulate(
    world: World, *, detailed: bool = False, namespace: str | None = None, progress: Progress = lambda _done, _all: None
) -> Result:
    """Place every waiting pod; the world is as after it. `detailed` gives each node's reason for each pending pod.

    With `namespace` only that namespace's pods are reported; all are placed. `progress` gets how many are done, and of
    how many.
    """
    result = Result()
    memory = _Memory()
    for done, pod in enumerate(world.waiting, 1):
        shown = namespace is None or pod.namespace == namespace
        _one(world, pod, result if shown else Result(), memory, detailed=detailed and shown)
        progress(done, len(world.waiting))
    return result


@dataclass(slots=True)
class _Memory:
    """The last reasons found: replicas that wait ask the same question of the same cluster."""

    key: object = None
    found: tuple[str, tuple[NodeReason | None, ...]] = ("", ())
    version: int = 0


def _one(world: World, pod: objects.Pod, result: Result, memory: _Memory, *, detailed: bool) -> None:
    asked = question(world, pod)
    result.warnings += asked.warnings
    if asked.outcome is Outcome.UNTOUCHED:
        result.unmanaged += 1
        return
    reason = asked.reason or asked.waits_for
    nodes: tuple[NodeReason | None, ...] = ()
    if asked.scene is not None and not reason:
        placement = asked.scene.place()
        if placement is not None:
            _commit(world, asked.scene, placement)
            memory.version += 1
            result.placed.append(Placed(pod=pod.full_name, namespace=pod.namespace, placement=placement))
            return
        reason, nodes = _remembered(asked.scene, memory, detailed=detailed)
    result.pending.append(Pending(pod=pod.full_name, namespace=pod.namespace, reason=reason, nodes=nodes))


def _commit(world: World, scene: Scene, placement: Placement) -> None:
    refusal = world.cluster.reserve(scene.pod, placement)
    if refusal is not None:
        msg = f"pod {scene.pod.full_name}: planned on node {placement.node}, but {refusal.text}"
        raise AssertionError(msg)
    world.table.add_use(world.cluster.cards.index_of[placement.node], scene.requests())
    world.bound[scene.pod.uid] = scene.requests()


def _remembered(scene: Scene, memory: _Memory, *, detailed: bool) -> tuple[str, tuple[NodeReason | None, ...]]:
    key = (replace(scene.pod, name="", uid=""), scene.rules, scene.amounts, memory.version, detailed)
    if memory.key != key:
        memory.key, memory.found = key, why(scene, detailed=detailed)
    return memory.found


def why(scene: Scene, *, detailed: bool) -> tuple[str, tuple[NodeReason | None, ...]]:
    """One sentence about why no node takes the pod, and (detailed) each node's own."""
    allowed = scene.allowed()
    columns = refusing(scene, allowed)
    by_rules = rule_refusals(scene, columns if detailed else columns[:MOST_SAMPLED])
    by_cards = scene.cluster.refusals(scene.pod, allowed, scene.preference())
    reason = told(scene, by_rules, by_cards)
    return reason, _details(scene, by_rules, by_cards) if detailed else ()


def _details(
    scene: Scene, by_rules: dict[int, tuple[Refusal, ...]], by_cards: dict[str, Refusal]
) -> tuple[NodeReason | None, ...]:
    """Each node's reason, in column order. Equal reasons are one object: thousands of nodes say the same."""
    cards = scene.cluster.cards
    steps = steps_of(scene.pod)
    tables = {step.container: verdicts(cards.view(), step.need).T.tolist() for step in reversed(steps)}
    first = {scene.pod.containers[step.container].name: step.container for step in reversed(steps)}
    shared: dict[NodeReason, NodeReason] = {}
    found: list[NodeReason | None] = []
    for n in range(cards.width):
        name = cards.node(n).name
        if n in by_rules:
            reason = NodeReason("; ".join(refusal.text for refusal in by_rules[n]))
        elif name in by_cards:
            refusal = by_cards[name]
            rows = tables[first.get(refusal.container, steps[0].container)][n]
            codes = tuple(CHECKS[row].code if 0 <= row < FITS else "" for row in rows[: len(cards.node(n).cards)])
            reason = NodeReason(named(scene, refusal), codes)
        else:
            found.append(None)
            continue
        found.append(shared.setdefault(reason, reason))
    return tuple(found)
