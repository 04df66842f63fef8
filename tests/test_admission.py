"""What admission does with a new pod: the webhook's rules in their pure form, as `simulate` applies them too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cardwise.core.model import Selection
from cardwise.scheduler.admission import Admission, Outcome, Rules, admit
from cardwise.scheduler.inventory import Inventory
from cardwise.sim.documents import Document
from cardwise.sim.snapshot import Snapshot
from cardwise.wire import objects
from cardwise.wire.families import FAMILIES
from cardwise.wire.nodes import read_node
from manifests import (
    A40_REGISTER,
    Object,
    card_record,
    card_records,
    container_object,
    node_object,
    pod_object,
    reasons,
    simulated,
    snapshot_of,
    to_json,
    where,
)

A40 = "NVIDIA-NVIDIA A40"


def admitted(
    pod: Object, *nodes: Object, labels: dict[str, str] | None = None, created: bool = True, **rules: Any
) -> Admission:
    snapshot = snapshot_of(pod, *nodes)
    have = Inventory.of([read_node(node, FAMILIES).node for node in snapshot.nodes], FAMILIES)
    return admit(
        snapshot.pods[0],
        Rules(**rules),
        namespace_labels=labels,
        inventory=have if nodes else None,
        created=created,
    )


# -- amounts that cannot be meant --------------------------------------------------------------------------------------

BIG = 2**64
AMOUNTS = [
    ("gpu", -1, "nvidia.com/gpu is -1, must be 0 to 1024"),
    ("gpu", 0.5, "nvidia.com/gpu is 0.5, must be a whole number, 0 to 1024"),
    ("gpu", "500m", "nvidia.com/gpu is 500m, must be a whole number, 0 to 1024"),
    ("gpu", BIG, f"nvidia.com/gpu is {BIG}, must be 0 to 1024"),
    ("gpu", "99999999999999999999999", "nvidia.com/gpu is 99999999999999999999999, must be 0 to 1024"),
    ("gpu", "", "nvidia.com/gpu is (empty), must be a Kubernetes quantity"),
    ("gpu", "abc", "nvidia.com/gpu is abc, must be a Kubernetes quantity"),
    ("gpu", " 1", "nvidia.com/gpu is  1, must be a Kubernetes quantity"),
    ("gpu", "1" * 65, "must be at most 64 characters"),
    ("gpu", "1e99", "must be a quantity with an exponent"),
    ("gpumem", -1, "nvidia.com/gpumem is -1, must be a whole number of MiB, 0 to 2147483647"),
    ("gpumem", "-16Gi", "nvidia.com/gpumem is -16Gi, must be a whole number of MiB"),
    ("gpumem", "1.5", "nvidia.com/gpumem is 1.5, must be a whole number of MiB"),
    ("gpumem", "1Ki", "nvidia.com/gpumem is 1Ki, must be a whole number of MiB"),
    ("gpumem", 2**31, "nvidia.com/gpumem is 2147483648, must be a whole number of MiB, 0 to 2147483647"),
    ("gpumem", BIG, f"nvidia.com/gpumem is {BIG}, must be a whole number of MiB"),
    ("gpumem", "16Ei", "nvidia.com/gpumem is 16Ei, must be a whole number of MiB"),
    ("gpumem", "8G", "nvidia.com/gpumem is 8G, must be MiB as a plain number, or bytes with a binary suffix"),
    ("gpumem", "8000M", "(did you mean 8000Mi?)"),
    ("gpumem", "", "nvidia.com/gpumem is (empty), must be a Kubernetes quantity"),
    ("gpumem", "abc", "nvidia.com/gpumem is abc, must be a Kubernetes quantity"),
    ("gpumem", "8GiB", "nvidia.com/gpumem is 8GiB, must be a Kubernetes quantity"),
    ("gpumem", float("inf"), "nvidia.com/gpumem is inf, must be a Kubernetes quantity"),
    ("gpumem", float("nan"), "nvidia.com/gpumem is nan, must be a Kubernetes quantity"),
    ("percent", 101, "nvidia.com/gpumem-percentage is 101, must be 0 to 100"),
    ("percent", 120, "nvidia.com/gpumem-percentage is 120, must be 0 to 100"),
    ("percent", -1, "nvidia.com/gpumem-percentage is -1, must be 0 to 100"),
    ("percent", "50.5", "nvidia.com/gpumem-percentage is 50.5, must be a whole number, 0 to 100"),
    ("percent", "50%", "nvidia.com/gpumem-percentage is 50%, must be a Kubernetes quantity"),
    ("gpucores", 101, "nvidia.com/gpucores is 101, must be 0 to 100"),
    ("gpucores", -5, "nvidia.com/gpucores is -5, must be 0 to 100"),
    ("gpucores", "16Gi", "nvidia.com/gpucores is 16Gi, must be 0 to 100"),
    ("gpucores", "abc", "nvidia.com/gpucores is abc, must be a Kubernetes quantity"),
]


@pytest.mark.parametrize(
    ("name", "amount", "says"), AMOUNTS, ids=[f"{name}-{str(amt)[:24]}" for name, amt, _ in AMOUNTS]
)
def test_an_amount_that_cannot_be_meant_is_refused_in_one_sentence(name: str, amount: Any, says: str) -> None:
    found = admitted(pod_object("train-0", **({"gpu": 1} | {name: amount})))
    assert found.outcome is Outcome.REFUSED
    assert says in found.reason
    assert found.reason.startswith("pod ml/train-0, container main: nvidia.com/")
    assert "\n" not in found.reason


@pytest.mark.parametrize("where_it_stands", ["limits", "requests"])
def test_requests_are_read_where_there_are_no_limits(where_it_stands: str) -> None:
    container = {"name": "main", "resources": {where_it_stands: {"nvidia.com/gpu": 1, "nvidia.com/gpumem": -1}}}
    assert admitted(pod_object("p", containers=[container])).outcome is Outcome.REFUSED


def test_limits_win_over_requests() -> None:
    resources = {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 7}, "requests": {"nvidia.com/gpu": 1}}
    request = admitted(pod_object("p", containers=[{"name": "main", "resources": resources}])).request
    assert request is not None
    assert request.containers[0].cards[0].count == 2


@pytest.mark.parametrize(
    ("amount", "mib"),
    [
        ("16Gi", 16384),
        ("5k", 5000),
        ("8000", 8000),
        (8000, 8000),
        ("8e3", 8000),
        (8000.0, 8000),
        ("1024Ki", 1),
        ("2000Mi", 2000),
        ("+5", 5),
        ("5000000m", 5000),
    ],
)
def test_memory_in_every_way_of_writing_it(amount: Any, mib: int) -> None:
    request = admitted(pod_object("p", gpu=1, gpumem=amount)).request
    assert request is not None
    assert request.containers[0].cards[0].memory_mib == mib


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"gpu": 0, "gpumem": 1000},
            "nvidia.com/gpu is 0, must be at least 1 (or left out) where nvidia.com/gpumem is 1000",
        ),
        ({"gpu": 0, "gpucores": 10}, "nvidia.com/gpu is 0, must be at least 1"),
    ],
)
def test_a_size_with_no_card_is_refused(asked: dict[str, Any], says: str) -> None:
    assert says in admitted(pod_object("p", **asked)).reason


def test_no_card_asked_is_not_ours() -> None:
    assert admitted(pod_object("p", gpu=0)).outcome is Outcome.UNTOUCHED


@pytest.mark.parametrize("asked", [{"gpumem": 0}, {"percent": 0}])
def test_a_size_of_zero_is_told_and_is_the_whole_card(asked: dict[str, Any]) -> None:
    found = admitted(pod_object("p", gpu=1, **asked))
    assert found.request is not None
    assert found.request.containers[0].cards[0].memory_percent == 100
    assert any("is 0: taken as not set" in text for text in found.warnings)


@pytest.mark.parametrize("amount", [True, None, [1], {"a": 1}])
def test_an_amount_of_another_type_loses_that_pod_with_an_error(amount: Any) -> None:
    snapshot = Snapshot()
    snapshot.add(Document("pods.yaml", pod_object("p", gpu=amount)))
    assert snapshot.pods == []
    assert "pods.yaml: Pod p: spec.containers[0].resources.limits.nvidia.com/gpu" in snapshot.errors[0]
    assert "must be an amount" in snapshot.errors[0]


def test_every_fault_of_a_pod_is_named_at_once() -> None:
    containers = [container_object("a", gpu=-1, gpumem="8G"), container_object("b", gpucores=101)]
    reason = admitted(pod_object("p", containers=containers)).reason
    assert all(text in reason for text in ("container a: nvidia.com/gpu is -1", "gpumem is 8G", "container b"))


# -- what is written where the user left it out ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        pytest.param({"gpu": 1}, [("nvidia.com/gpucores", 100)], id="whole-card-is-exclusive"),
        pytest.param({"gpu": 2, "percent": 100}, [("nvidia.com/gpucores", 100)], id="whole-by-percentage"),
        pytest.param({"gpu": 1, "gpucores": 30}, [], id="cores-as-asked"),
        pytest.param({"gpu": 1, "gpumem": 1000}, [], id="nothing-to-write"),
        pytest.param({"gpumem": 1000}, [("nvidia.com/gpu", 1)], id="count-for-memory"),
        pytest.param({"percent": 50}, [("nvidia.com/gpu", 1)], id="count-for-percentage"),
        pytest.param({"gpucores": 50}, [("nvidia.com/gpu", 1)], id="count-for-cores"),
        pytest.param({"percent": 100}, [("nvidia.com/gpu", 1), ("nvidia.com/gpucores", 100)], id="both"),
    ],
)
def test_defaults_that_are_written(asked: dict[str, Any], limits: list[tuple[str, int]]) -> None:
    found = admitted(pod_object("p", **asked))
    assert found.outcome is Outcome.ADMITTED
    assert list(found.limits) == [("main", name, amount) for name, amount in limits]


def test_memory_wins_over_percentage_and_this_is_told() -> None:
    found = admitted(pod_object("p", gpu=1, gpumem=1000, percent=50))
    assert found.request is not None
    assert (found.request.containers[0].cards[0].memory_mib, found.request.containers[0].cards[0].memory_percent) == (
        1000,
        0,
    )
    assert any("nvidia.com/gpumem wins" in text for text in found.warnings)


# -- whose pods these are ----------------------------------------------------------------------------------------------

PRIVILEGED = {"securityContext": {"privileged": True}}


def test_case_6_a_privileged_container_that_asks_is_refused_with_the_reason() -> None:
    found = admitted(pod_object("p", containers=[container_object("a", gpu=1, gpumem=1000, more=PRIVILEGED)]))
    assert found.outcome is Outcome.REFUSED
    assert "container a: is privileged and asks for cards" in found.reason


def test_case_6_or_passed_by_with_a_warning_where_so_configured() -> None:
    pod = pod_object("p", containers=[container_object("a", gpu=1, more=PRIVILEGED)])
    found = admitted(pod, privileged="skip")
    assert found.outcome is Outcome.PASSED_BY
    assert found.warnings == (found.reason,)


@pytest.mark.parametrize("privileged", ["refuse", "skip"])
def test_case_7_a_privileged_sidecar_without_cards_changes_nothing(privileged: str) -> None:
    pod = pod_object("p", containers=[{"name": "a", **PRIVILEGED}, container_object("b", gpu=1)])
    assert admitted(pod, privileged=privileged).outcome is Outcome.ADMITTED


def test_case_6_a_privileged_init_container_that_asks_is_refused_too() -> None:
    pod = pod_object("p", containers=[{"name": "a"}], init=[container_object("i", gpu=1, more=PRIVILEGED)])
    assert admitted(pod).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("scheduler", "outcome"),
    [
        (None, Outcome.ADMITTED),
        ("default-scheduler", Outcome.ADMITTED),
        ("hami-scheduler", Outcome.ADMITTED),
        ("cardwise-scheduler", Outcome.ADMITTED),
        ("custom", Outcome.PASSED_BY),
    ],
)
def test_case_9_scheduler_names(scheduler: str | None, outcome: Outcome) -> None:
    spec = {} if scheduler is None else {"schedulerName": scheduler}
    found = admitted(pod_object("p", spec=spec, gpu=1))
    assert found.outcome is outcome
    assert ("custom" in found.reason) is (outcome is Outcome.PASSED_BY)


def test_case_10_a_pod_without_cards_is_untouched() -> None:
    found = admitted(pod_object("p", {"hami.io/vgpu-node": "n"}, containers=[{"name": "c"}], spec={"nodeName": "n"}))
    assert found == Admission(outcome=Outcome.UNTOUCHED)


def test_case_11_cards_in_an_init_container_alone() -> None:
    found = admitted(pod_object("p", containers=[{"name": "app"}], init=[container_object("i", gpu=1)]))
    assert found.outcome is Outcome.ADMITTED
    assert found.limits == (("i", "nvidia.com/gpucores", 100),)


FORGED = {
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,24576,100:;",
    "hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,24576,100:;",
    "hami.io/dcu-devices-allocated": "DCU-0,DCU,1,1:;",
    "hami.io/bind-phase": "success",
    "cardwise.io/exclusive-cards": "GPU-0",
}


def test_case_12_a_ready_made_record_is_dropped_with_warnings_and_counts_nothing() -> None:
    found = admitted(pod_object("p", FORGED, gpu=1))
    assert all(any(key in text and "is dropped" in text for text in found.warnings) for key in FORGED)
    forger = pod_object("forger", FORGED, gpu=1, gpumem=1, spec={"nodeSelector": {"no": "where"}})
    placed = where(simulated(node_object("n1", card_records(1)), forger, pod_object("p", gpu=1)))
    assert list(placed) == ["p"]


def test_case_12_what_the_cluster_shows_is_no_forgery() -> None:
    assert admitted(pod_object("p", FORGED, gpu=1), created=False).warnings == ()


def test_a_preset_node_name_is_refused() -> None:
    result = simulated(node_object("n1"), pod_object("p", gpu=1, spec={"nodeName": "n1"}))
    assert "spec.nodeName is n1, must be left out" in reasons(result)["p"]


def test_a_label_on_the_pod_keeps_it_from_us() -> None:
    found = admitted(pod_object("p", gpu="abc", meta={"labels": {"hami.io/webhook": "ignore"}}))
    assert (found.outcome, found.warnings) == (Outcome.PASSED_BY, ())
    assert "label hami.io/webhook=ignore keeps it" in found.reason


def test_a_label_on_the_namespace_keeps_its_pods_from_us() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ml", "labels": {"hami.io/webhook": "ignore"}},
    }
    result = simulated(namespace, node_object("n1"), pod_object("p", gpu=1), pod_object("q", namespace="other", gpu=1))
    assert list(where(result)) == ["q"]
    assert "on its namespace" in reasons(result)["p"]


@pytest.mark.parametrize("labels", [{"hami.io/webhook": "Ignore"}, {"hami.io/webhook": ""}, {"webhook": "ignore"}])
def test_other_labels_keep_nothing_from_us(labels: dict[str, str]) -> None:
    assert admitted(pod_object("p", gpu=1, meta={"labels": labels}), labels=labels).outcome is Outcome.ADMITTED


# -- what is legal and cannot work now ---------------------------------------------------------------------------------

TERM = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"affinity": {"podAffinity": {SOFT: [TERM]}}}, "preferred pod affinity does not count"),
        ({"affinity": {"podAntiAffinity": {SOFT: [TERM]}}}, "preferred pod anti-affinity does not count"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
            "topology spread with ScheduleAnyway does not count",
        ),
    ],
)
def test_soft_rules_that_do_not_count_are_told(spec: Object, says: str) -> None:
    assert any(says in text for text in admitted(pod_object("p", gpu=1, spec=spec)).warnings)
    assert admitted(pod_object("p", gpu=1, spec=spec), one_node=False).warnings == ()


def test_soft_rules_about_nodes_do_count_and_nothing_is_told() -> None:
    spec = {"affinity": {"nodeAffinity": {SOFT: [{"weight": 1, "preference": {}}]}}}
    assert admitted(pod_object("p", gpu=1, spec=spec)).warnings == ()


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (
            pod_object("p", {"nvidia.com/use-gputype": "A4O"}, gpu=1),
            f"names A4O, which no card's model contains (did you mean {A40}?)",
        ),
        (pod_object("p", {"nvidia.com/use-gputype": "H800"}, gpu=1), f"(there are: {A40})"),
        (pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-x"}, gpu=1), "use-gpuuuid names GPU-x, which no node has"),
        (pod_object("p", {"nvidia.com/nouse-gpuuuid": "GPU-x"}, gpu=1), "nouse-gpuuuid names GPU-x, which no node has"),
        (
            pod_object("p", {"nvidia.com/use-gpuuuid": "GPU-03f69c50-207a-2038-9b45-23cac89cb67e"}, gpu=1),
            "(did you mean GPU-03f69c50-207a-2038-9b45-23cac89cb67d?)",
        ),
        (pod_object("p", gpu=3), "nvidia.com/gpu is 3, the largest node has 2 cards"),
        (pod_object("p", gpu=1, gpumem=50000), "nvidia.com/gpumem is 50000, the largest card has 46068 MiB"),
    ],
    ids=["like-a-model", "no-model", "no-uuid", "no-refused-uuid", "like-a-uuid", "count", "memory"],
)
def test_what_nobody_has_is_told(pod: Object, says: str) -> None:
    found = admitted(pod, node_object("n1", A40_REGISTER))
    assert found.outcome is Outcome.ADMITTED
    assert any(says in text for text in found.warnings)


def test_a_refused_model_that_nobody_has_is_as_the_user_wants_it() -> None:
    found = admitted(pod_object("p", {"nvidia.com/nouse-gputype": "A100"}, gpu=1), node_object("n1", A40_REGISTER))
    assert found.warnings == ()


def test_an_item_with_several_meanings_is_told() -> None:
    cards = [card_record("GPU-0", type="NVIDIA-NVIDIA A10"), card_record("GPU-1", 1, type="NVIDIA-NVIDIA A100")]
    found = admitted(pod_object("p", {"nvidia.com/use-gputype": "a10"}, gpu=1), node_object("n1", cards))
    assert any("a10 matches 2 models: NVIDIA-NVIDIA A10, NVIDIA-NVIDIA A100" in text for text in found.warnings)


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
@pytest.mark.parametrize("key", ["use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid"])
def test_an_empty_list_is_no_constraint(key: str, text: str) -> None:
    found = admitted(pod_object("p", {f"nvidia.com/{key}": text}, gpu=1), node_object("n1", A40_REGISTER))
    assert found.request is not None
    assert found.request.selections["nvidia"] == Selection()


@pytest.mark.parametrize("text", ["yes", "", "2"])
def test_a_numa_wish_that_is_no_truth_value_is_refused(text: str) -> None:
    assert "nvidia.com/numa-bind is" in admitted(pod_object("p", {"nvidia.com/numa-bind": text}, gpu=1)).reason


def test_a_list_of_thousands_of_names_gives_a_few_warnings() -> None:
    wish = ",".join(f"m{number}" for number in range(20_000))
    found = admitted(pod_object("p", {"nvidia.com/use-gputype": wish}, gpu=1), node_object("n1", A40_REGISTER))
    assert len(found.warnings) < 20


def test_the_pod_itself_is_never_changed() -> None:
    pod = msgspec.json.decode(to_json(pod_object("p", FORGED, gpu=1)), type=objects.Pod)
    before = msgspec.json.encode(pod)
    admit(pod, Rules())
    assert msgspec.json.encode(pod) == before
