"""A waiting pod put to a world: what admission says, what it waits for beside cards, and the scene it is judged in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cardwise.core.scene import Scene
from cardwise.scheduler.admission import Outcome, admit
from cardwise.sim.world import World
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.rules import read_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`scene` is None where the pod is not to be placed, and `reason` then says why (or it asks for no card).

    `waits_for` names what keeps it from being placed now whatever is free.
    """

    outcome: Outcome
    scene: Scene | None = None
    reason: str = ""
    waits_for: str = ""
    warnings: tuple[str, ...] = ()


def question(world: World, pod: objects.Pod) -> Question:
    """The pod as the scheduler will see it."""
    admission = admit(
        pod,
        world.rules,
        namespace_labels=world.namespaces.get(pod.namespace),
        inventory=world.inventory,
        created=not pod.metadata.uid,
    )
    if admission.request is None:
        return Question(outcome=admission.outcome, reason=admission.reason, warnings=admission.warnings)
    warnings = (*admission.warnings, *_unchecked(pod))
    try:
        amounts = world.amounts(pod.spec)
    except WireError as error:
        return Question(outcome=Outcome.REFUSED, reason=f"pod {pod.full_name}: {error}", warnings=warnings)
    scene = Scene(
        cluster=world.cluster,
        table=world.table,
        pod=admission.request,
        rules=read_rules(pod.spec),
        amounts=amounts,
    )
    gates = pod.spec.scheduling_gates
    waits_for = f"waits for its scheduling gate {gates[0].name} to be removed" if gates else ""
    return Question(outcome=admission.outcome, scene=scene, waits_for=waits_for, warnings=warnings)


def _unchecked(pod: objects.Pod) -> Iterator[str]:
    """Rules of kube-scheduler that are not applied here: the live answer may be stricter."""
    spec, affinity = pod.spec, pod.spec.affinity or objects.Affinity()
    rules = (
        ("pod affinity", affinity.pod_affinity and affinity.pod_affinity.required),
        ("pod anti-affinity", affinity.pod_anti_affinity and affinity.pod_anti_affinity.required),
        (
            "topology spread",
            any(e.when_unsatisfiable == "DoNotSchedule" for e in spec.topology_spread_constraints or ()),
        ),
        ("host ports", any(port.host_port for each in spec.containers or () for port in each.ports or ())),
        ("where its volumes are", any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ())),
        ("resource claims", spec.resource_claims),
    )
    return (f"pod {pod.full_name}: {name} is not checked offline" for name, on in rules if on)
