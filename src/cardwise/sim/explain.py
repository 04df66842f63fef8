"""Explains one pod of a world: where it is, where it would go, or why it cannot, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from cardwise.core.changes import Change, changes
from cardwise.core.explain import NodeVerdict, nearest_miss, never, node_verdicts
from cardwise.core.headroom import headroom
from cardwise.core.model import Placement, PodRequest
from cardwise.scheduler.admission import Outcome
from cardwise.sim.simulate import admission_of, scene_of, why
from cardwise.sim.snapshot import Snapshot
from cardwise.sim.workloads import expand
from cardwise.sim.world import World
from cardwise.wire import objects
from cardwise.wire.errors import WireError


class UnknownPodError(LookupError):
    """No such pod in the input; the text names the closest that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that `explain` knows of one pod.

    `reason` is empty where the pod fits or runs. `bound_to` is the node of a pod that is bound already; its request is
    then judged as another pod of the same shape would be. `headroom` counts how many more of its shape fit now.
    """

    pod: str
    fits: bool
    never_fits: bool
    reason: str = ""
    bound_to: str = ""
    request: PodRequest | None = None
    placement: Placement | None = None
    nodes: tuple[NodeVerdict, ...] = ()
    nearest: NodeVerdict | None = None
    changes: tuple[Change, ...] = ()
    headroom: int = 0
    warnings: tuple[str, ...] = ()


def find_pod(snapshot: Snapshot, full_name: str) -> objects.Pod:
    """The pod of that namespace and name, workloads' pods included. Raises UnknownPodError."""
    pods = {pod.full_name: pod for pod in (*expand(snapshot.workloads, snapshot.pods, []), *snapshot.pods)}
    if full_name in pods:
        return pods[full_name]
    like = get_close_matches(full_name, pods, n=1)
    msg = f"no pod {full_name} in the input" + (f" (did you mean {like[0]}?)" if like else "")
    raise UnknownPodError(msg)


def explain(world: World, pod: objects.Pod) -> Explanation:
    """What holds for this pod in this world, other waiting pods left out of account."""
    waiting = pod in world.waiting
    bound_to = "" if waiting or pod.ended else pod.spec.node_name
    subject = pod if waiting else _unbound(pod)
    admission = admission_of(world, subject)
    if admission.outcome is Outcome.UNTOUCHED:
        text = f"pod {pod.full_name} asks for no card: kube-scheduler places it alone"
        return Explanation(pod=pod.full_name, fits=True, never_fits=False, reason=text, bound_to=bound_to)
    try:
        scene = None if admission.reason else scene_of(world, subject, admission)
    except WireError as error:
        return _refused(pod, bound_to, str(error), admission.warnings)
    if scene is None:
        return _refused(pod, bound_to, admission.reason, admission.warnings)
    placement = scene.place()
    nodes = node_verdicts(scene)
    fits = placement is not None
    return Explanation(
        pod=pod.full_name,
        fits=fits,
        never_fits=not fits and never(scene),
        reason="" if fits else why(scene, detailed=False)[0],
        bound_to=bound_to,
        request=scene.pod,
        placement=placement,
        nodes=nodes,
        nearest=None if fits else nearest_miss(nodes),
        changes=() if fits else changes(scene, world.bound),
        headroom=headroom(scene),
        warnings=admission.warnings,
    )


def _refused(pod: objects.Pod, bound_to: str, reason: str, warnings: tuple[str, ...]) -> Explanation:
    """A pod that no state of the cluster would let in."""
    return Explanation(
        pod=pod.full_name, fits=False, never_fits=True, reason=reason, bound_to=bound_to, warnings=warnings
    )


def _unbound(pod: objects.Pod) -> objects.Pod:
    """The same pod as it was before it was bound."""
    spec = objects.PodSpec(**{name: getattr(pod.spec, name) for name in pod.spec.__struct_fields__})
    spec.node_name = ""
    return objects.Pod(metadata=pod.metadata, spec=spec, status=pod.status)
