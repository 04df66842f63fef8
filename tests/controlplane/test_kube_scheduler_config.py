"""The shipped KubeSchedulerConfiguration runs, and holds its lease as the scheduler's configuration expects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from cardwise.core.family import Family
from cardwise.scheduler.config import Config
from cardwise.scheduler.config_file import load
from cardwise.wire.families import NVIDIA

from .cluster import create_node, create_pod, refusal, wait_until_bound
from .extender import Extender
from .process import wait_for
from .rest import Json, Rest

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

SHIPPED = Path(__file__).parents[2] / "deploy" / "kube-scheduler-config.yaml"
REASON = "a test says no"


@pytest.fixture(scope="module")
def shipped() -> Json:
    loaded: Json = yaml.safe_load(SHIPPED.read_text())
    return loaded


@pytest.fixture(scope="module")
def config() -> Config:
    return load(None, {"admission.address": ""}, {})


def refuse(request: Json) -> Json:
    return {"FailedNodes": dict.fromkeys(request["NodeNames"], REASON)}


def test_a_stock_kube_scheduler_takes_it_and_holds_the_lease(
    plane: ControlPlane, shipped: Json, config: Config
) -> None:
    scheduler = plane.start_scheduler(shipped)  # returns once it is healthy
    try:
        holder = wait_for("lease", lambda: lease_holder(plane.rest, config))
    finally:
        scheduler.stop()
    assert holder.rpartition("_")[0] == config.leader_election.identity


def lease_holder(rest: Rest, config: Config) -> str:
    election = config.leader_election
    path = f"/apis/coordination.k8s.io/v1/namespaces/{election.namespace}/leases/{election.lease_name}"
    holder: str = rest.get(path).body.get("spec", {}).get("holderIdentity", "")
    return holder


def uncounted(family: Family) -> dict[str, str]:
    return {family.memory_resource: "1000", family.cores_resource: "10"}


def test_it_counts_cards_itself_and_asks_about_the_rest(plane: ControlPlane, shipped: Json) -> None:
    """One card by count: two are refused without a call, and sizes, of which no node has any, are the extender's."""
    create_node(plane.rest, "one", allocatable={NVIDIA.count_resource: "1"})
    name = shipped["profiles"][0]["schedulerName"]
    with Extender({"filter": refuse}) as serving:
        [extender] = shipped["extenders"]
        election = {"leaderElection": {"leaderElect": False}}
        scheduler = plane.start_scheduler(shipped | election | {"extenders": [extender | {"urlPrefix": serving.url}]})
        try:
            for pod, count in (("two", "2"), ("sized", "1")):
                limits = {NVIDIA.count_resource: count, **uncounted(NVIDIA)}
                create_pod(plane.rest, pod, limits=limits, spec={"schedulerName": name})
            create_pod(plane.rest, "plain", spec={"schedulerName": name})
            assert wait_until_bound(plane.rest, "plain") == "one"
            assert REASON in wait_for("refusal", lambda: refusal(plane.rest, "sized"))
            assert f"Insufficient {NVIDIA.count_resource}" in wait_for("refusal", lambda: refusal(plane.rest, "two"))
        finally:
            scheduler.stop()
        asked = [serving.asked("filter", pod) for pod in ("two", "plain")]
        assert (asked, serving.asked("filter", "sized") > 0) == ([0, 0], True)
