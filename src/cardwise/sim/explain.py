"""Explains one pod of a world: where it is, where it would go, or why it cannot, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from cardwise.core.changes import Change, changes
from cardwise.core.explain import NodeVerdict, nearest_miss, never, node_verdicts
from cardwise.core.headroom import headroom
from cardwise.core.model import Placement, PodRequest
from cardwise.scheduler.admission import Outcome
from cardwise.sim.question import question
from cardwise.sim.simulate import why
from cardwise.sim.snapshot import Snapshot
from cardwise.sim.world import World
from cardwise.wire import objects


class UnknownPodError(LookupError):
    """No such pod in the input; the text names the closest that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that `explain` knows of one pod.

    `reason` says why it is not placed now; it is empty where it fits. `state` is `waits`, `runs` or `ended`: one that no
    longer waits is judged as another pod of its shape would be, and `bound_to` is its node if it runs. `headroom` counts
    the pods of its shape that fit now, a waiting one itself included.
    """

    pod: str
    fits: bool
    never_fits: bool = False
    reason: str = ""
    state: str = "waits"
    bound_to: str = ""
    request: PodRequest | None = None
    placement: Placement | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    nearest: NodeVerdict | None = None
    changes: tuple[Change, ...] = ()
    headroom: int = 0
    warnings: tuple[str, ...] = ()


def find_pod(world: World, snapshot: Snapshot, full_name: str) -> objects.Pod:
    """The pod of that namespace and name, workloads' pods included. Raises UnknownPodError."""
    pods = {pod.full_name: pod for pod in (*world.waiting, *snapshot.pods)}
    if full_name in pods:
        return pods[full_name]
    like = get_close_matches(full_name, pods, n=1)
    msg = f"no pod {full_name} in the input" + (f" (did you mean {like[0]}?)" if like else "")
    raise UnknownPodError(msg)


def explain(world: World, pod: objects.Pod) -> Explanation:
    """What holds for this pod in this world, other waiting pods left out of account."""
    waiting = any(pod is each for each in world.waiting)
    state = "waits" if waiting else "ended" if pod.ended else "runs"
    bound_to = pod.spec.node_name if state == "runs" else ""
    asked = question(world, pod if waiting else _unbound(pod))
    if asked.scene is None:
        untouched = asked.outcome is Outcome.UNTOUCHED
        text = f"pod {pod.full_name} asks for no card: kube-scheduler places it alone" if untouched else asked.reason
        return Explanation(
            pod=pod.full_name,
            fits=untouched,
            never_fits=asked.outcome is Outcome.REFUSED,
            reason=text,
            state=state,
            bound_to=bound_to,
            warnings=asked.warnings,
        )
    scene = asked.scene
    placement = scene.place()
    nodes = node_verdicts(scene)
    return Explanation(
        pod=pod.full_name,
        fits=placement is not None and not asked.waits_for,
        never_fits=placement is None and never(scene),
        reason=asked.waits_for or ("" if placement else why(scene, detailed=False)[0]),
        state=state,
        bound_to=bound_to,
        request=scene.pod,
        placement=None if asked.waits_for else placement,
        nodes=nodes,
        nearest=nearest_miss(nodes) if placement is None else None,
        changes=changes(scene, world.bound) if placement is None else (),
        headroom=headroom(scene),
        warnings=asked.warnings,
    )


def _unbound(pod: objects.Pod) -> objects.Pod:
    """The same pod as it was before it was bound."""
    spec = objects.PodSpec(**{name: getattr(pod.spec, name) for name in pod.spec.__struct_fields__})
    spec.node_name = ""
    return objects.Pod(metadata=pod.metadata, spec=spec, status=pod.status)
