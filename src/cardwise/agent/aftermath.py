"""What is written on a pod after its Allocates, as merge patches: for HAMi's tools, and for people. Pure.

A patch names the pod's uid, so the API server refuses it for another pod of its name. There is none where nothing would
change: so asking again is how a lost patch is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cardwise.agent.grants import Grant
from cardwise.agent.pods import NodePod, asking
from cardwise.core.family import Family
from cardwise.wire import names

SUCCESS, FAILED = "success", "failed"
Patch = dict[str, Any]


def is_served(pod: NodePod, granted: Mapping[str, Grant], resource: str) -> bool:
    """Whether every container that asks was given its cards."""
    return all(one.name in granted for one in asking(pod, resource))


def served_patch(
    pod: NodePod, granted: Mapping[str, Grant], family: Family, families: Iterable[Family]
) -> Patch | None:
    """Once all containers are served: nothing is left to allocate, and the bind is through, if no other family's is left.

    None before that, for a pod without a record, and where the pod says so already.
    """
    if not pod.annotations.get(family.allocated_key) or not is_served(pod, granted, family.count_resource):
        return None
    wanted = {family.to_allocate_key: ""}
    if not any(_left(pod, other) for other in families if other.name != family.name):
        wanted[names.BIND_PHASE] = SUCCESS
    return _patch(pod, wanted)


def failed_patch(pod: NodePod, family: Family) -> Patch | None:
    """After a refusal: the bind has failed. None for a pod without a record, and for one that was through already.

    A container of a pod that runs may be refused when it starts again; the kubelet tries it again, and nothing was undone.
    """
    if not pod.annotations.get(family.allocated_key) or pod.annotations.get(names.BIND_PHASE) == SUCCESS:
        return None
    return _patch(pod, {names.BIND_PHASE: FAILED})


def _left(pod: NodePod, family: Family) -> bool:
    """Whether cards of a family are still to be allocated: what stands between the separators."""
    return bool(pod.annotations.get(family.to_allocate_key, "").strip(":; \n"))


def _patch(pod: NodePod, wanted: Mapping[str, str]) -> Patch | None:
    differing = {key: value for key, value in wanted.items() if pod.annotations.get(key) != value}
    return {"metadata": {"uid": pod.uid, "annotations": differing}} if differing else None
