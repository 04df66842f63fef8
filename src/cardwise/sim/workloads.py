"""The pods that a workload would make and has not made yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

import msgspec

from cardwise.wire import names, objects

MOST_PODS = 10_000
_ASKING = (names.NODE_POLICY, names.CARD_POLICY, names.SCORING_WEIGHTS)


def expand(
    workloads: Iterable[tuple[str, objects.Workload | objects.CronJob]],
    pods: Iterable[objects.Pod],
    warnings: list[str],
) -> Iterator[tuple[str, objects.Meta, objects.Pod]]:
    """Kind and metadata of each workload with its missing pods, named after it and numbered.

    Names of `pods`, which are there already, are passed over.
    What its own controller owns is left to that one.
    """
    workloads, pods = list(workloads), list(pods)
    taken = {pod.full_name for pod in pods}
    known = {(kind, workload.metadata.namespace, workload.metadata.name) for kind, workload in workloads}
    for kind, workload in workloads:
        meta = workload.metadata
        if any((o.kind, meta.namespace, o.name) in known for o in meta.owner_references or () if o.controller):
            continue
        if kind == "DaemonSet":
            warnings.append(f"DaemonSet {meta.namespace}/{meta.name}: its pods go to nodes of their own, not simulated")
            continue
        spec = workload.spec.job_template.spec if isinstance(workload, objects.CronJob) else workload.spec
        if spec.template is None or spec.template.spec is None:
            warnings.append(f"{kind} {meta.namespace}/{meta.name}: has no pod template, skipped")
            continue
        warnings += _misplaced(kind, meta, spec.template)
        missing = _missing(kind, workload, spec)
        if (
            missing
            and (isinstance(workload, objects.CronJob) or workload.status is None)
            and (running := _seem_its_own(kind, meta, pods))
        ):
            warnings.append(
                f"{kind} {meta.namespace}/{meta.name}: {running} pods in the input seem to be its own; "
                f"{missing} more are placed beside them"
            )
        if missing > MOST_PODS:
            warnings.append(f"{kind} {meta.namespace}/{meta.name}: asks for {missing} pods, {MOST_PODS} are simulated")
        for name in islice(_free_names(meta, taken), min(missing, MOST_PODS)):
            yield kind, meta, _pod(meta, name, spec.template, spec.template.spec)


def _seem_its_own(kind: str, meta: objects.Meta, pods: Iterable[objects.Pod]) -> int:
    """Pods that a controller made and whose names begin with the workload's."""
    if kind == "CronJob":
        return 0
    prefix = f"{meta.name}-"
    return sum(
        pod.namespace == meta.namespace and pod.metadata.name.startswith(prefix) and bool(pod.metadata.owner_references)
        for pod in pods
    )


def _free_names(meta: objects.Meta, taken: set[str]) -> Iterator[str]:
    for number in count():
        name = f"{meta.name}-{number}"
        if f"{meta.namespace}/{name}" not in taken:
            taken.add(f"{meta.namespace}/{name}")
            yield name


def _misplaced(kind: str, meta: objects.Meta, template: objects.PodTemplate) -> Iterator[str]:
    """Wishes on the workload itself reach no pod: a common slip, and nothing else would tell."""
    on_pods = (template.metadata and template.metadata.annotations) or {}
    for key in sorted(meta.annotations or {}):
        ours = key in _ASKING or key.partition("/")[2].startswith(("use-gpu", "nouse-gpu", "use-dcu", "nouse-dcu"))
        if ours and key not in on_pods:
            where = f"{kind} {meta.namespace}/{meta.name}"
            yield f"{where}: annotation {key} has no effect there, it must stand in the pod template"


def _missing(kind: str, workload: objects.Workload | objects.CronJob, spec: objects.WorkloadSpec) -> int:
    if spec.suspend or (isinstance(workload, objects.CronJob) and workload.spec.suspend):
        return 0
    made = objects.WorkloadStatus() if isinstance(workload, objects.CronJob) else workload.status
    made = made or objects.WorkloadStatus()
    if kind not in ("Job", "CronJob"):
        return max(0, _given(spec.replicas) - max(0, made.replicas))
    wanted = _given(spec.parallelism)
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - max(0, made.succeeded))
    return max(0, wanted - max(0, made.active))


def _given(number: int | None) -> int:
    return 1 if number is None else number


def _pod(meta: objects.Meta, name: str, template: objects.PodTemplate, spec: objects.PodSpec) -> objects.Pod:
    of_template = template.metadata or objects.Meta()
    pod_meta = objects.Meta(
        name=name,
        namespace=meta.namespace,
        creation_timestamp=meta.creation_timestamp,
        labels=of_template.labels,
        annotations=of_template.annotations,
    )
    return objects.Pod(metadata=pod_meta, spec=msgspec.structs.replace(spec))
