"""The webhook's answer to each sort of review: what it writes into a pod, what it refuses, and what it lets pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from builders import cards_of, node
from cardwise.core.model import PodRequest
from cardwise.scheduler import admission
from cardwise.scheduler.admission import Rules, admit
from cardwise.scheduler.inventory import Inventory
from cardwise.scheduler.webhook import MOST_WARNING_CHARACTERS, MOST_WARNINGS, Outcome, Policy, View
from cardwise.wire.families import FAMILIES
from cardwise.wire.objects import Pod
from manifests import Object, container_object, pod_object
from scheduler.reviews import POLICY, RECORD, Answered, answered, asked, patched

PRIORITY = "nvidia.com/priority"
ENV = "CUDA_TASK_PRIORITY"
PRIVILEGED = {"securityContext": {"privileged": True}}


def prioritized(amount: Any) -> dict[str, Any]:
    return {PRIORITY: amount}


def created(pod: Object, policy: Policy = POLICY, view: View | None = None, **request: Any) -> Answered:
    return answered(asked(pod, **request), policy, view)


def container_after(pod: Object, field: str = "containers", at: int = 0, policy: Policy = POLICY) -> Any:
    return patched(pod, created(pod, policy))["spec"][field][at]


# -- what is written ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "default-scheduler", "hami-scheduler"])
def test_case_9_a_pod_that_asks_for_cards_gets_our_schedulers_name(name: str | None) -> None:
    pod = pod_object("p", gpu=1, gpumem=1, spec={"schedulerName": name} if name else {})
    assert created(pod).patch == [{"op": "add", "path": "/spec/schedulerName", "value": "cardwise-scheduler"}]


def test_case_9_another_schedulers_pod_is_left_alone() -> None:
    answer = created(pod_object("p", gpu=1, spec={"schedulerName": "custom"}))
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.PASSED_BY, True, [])
    assert "schedulerName is custom, which is left alone" in answer.says


def test_a_pod_that_lacks_nothing_is_not_patched() -> None:
    answer = created(pod_object("p", gpu=1, gpumem=1, spec={"schedulerName": "cardwise-scheduler"}))
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.ADMITTED, True, [])


@pytest.mark.parametrize("field", ["containers", "init"])
def test_defaults_go_into_limits_and_requests_of_the_container_that_asks(field: str) -> None:
    asking = container_object("asks", percent=100)
    containers = [{"name": "idle"}, asking] if field == "containers" else [{"name": "app"}]
    pod = pod_object("p", init=[{"name": "first"}, asking] if field == "init" else (), containers=containers)
    found = container_after(pod, "containers" if field == "containers" else "initContainers", 1)["resources"]
    assert found["limits"] == {"nvidia.com/gpumem-percentage": 100, "nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
    assert found["requests"] == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}


@pytest.mark.parametrize(
    ("resources", "limits", "requests"),
    [
        pytest.param(
            {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1", "cpu": "1"}},
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
            {"nvidia.com/gpu": "1", "cpu": "1", "nvidia.com/gpucores": "100"},
            id="both-there",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": "1"}, "requests": None},
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
            {"nvidia.com/gpucores": "100"},
            id="requests-null",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "1"}},
            {"nvidia.com/gpucores": "100"},
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
            id="no-limits",
        ),
    ],
)
def test_defaults_where_parents_are_there_or_not(resources: Object, limits: Object, requests: Object) -> None:
    found = container_after(pod_object("p", containers=[{"name": "main", "resources": resources}]))["resources"]
    assert (found["limits"], found["requests"]) == (limits, requests)


def test_nothing_of_the_users_is_changed() -> None:
    pod = pod_object("p", {"mine": "1"}, gpu=1, gpumem=1, meta={"labels": {"a": "b"}}, spec={"priority": 7})
    after = patched(pod, created(pod))
    after["spec"].pop("schedulerName")
    assert after == pod


@pytest.mark.parametrize(
    ("amount", "text"), [(1, "1"), ("0", "0"), ("1000m", "1"), (1.0, "1")], ids=["int", "text", "milli", "float"]
)
def test_the_task_priority_is_a_plain_number_in_the_environment(amount: Any, text: str) -> None:
    pod = pod_object("p", gpu=1, gpumem=1, **prioritized(amount))
    assert container_after(pod)["env"] == [{"name": ENV, "value": text}]


def test_the_task_priority_stands_beside_other_variables() -> None:
    there = {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
    pod = pod_object("p", containers=[container_object(gpu=1, gpumem=1, more=there, **prioritized(1))])
    assert container_after(pod)["env"] == [*there["env"], {"name": ENV, "value": "1"}]


def test_the_users_own_task_priority_stays() -> None:
    there = {"env": [{"name": ENV, "value": "0"}]}
    pod = pod_object("p", containers=[container_object(gpu=1, gpumem=1, more=there, **prioritized(1))])
    assert container_after(pod)["env"] == there["env"]


def test_the_task_priority_is_told_to_containers_with_cards_only() -> None:
    """Elsewhere it means nothing, and nobody has looked whether it is one."""
    containers = [container_object("asks", gpu=1, gpumem=1), container_object("idle", **prioritized(7))]
    pod = pod_object("p", containers=containers, init=[container_object("first", gpu=1, gpumem=1, **prioritized(0))])
    assert list(created(pod).written) == ["/spec/schedulerName", "/spec/initContainers/0/env"]


@pytest.mark.parametrize(
    ("configured", "named", "written"),
    [("nvidia", None, "nvidia"), ("nvidia", "mine", "mine"), ("", None, None), ("", "mine", "mine")],
)
def test_the_runtime_class_where_none_is_named(configured: str, named: str | None, written: str | None) -> None:
    pod = pod_object("p", gpu=1, spec={"runtimeClassName": named} if named else {})
    after = patched(pod, created(pod, Policy(runtime_class=configured)))
    assert after["spec"].get("runtimeClassName") == written


# -- annotations of ours on a new pod ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "outcome"),
    [
        pytest.param({"gpu": 1}, Outcome.ADMITTED, id="admitted"),
        pytest.param({"gpu": 0}, Outcome.UNTOUCHED, id="no-card-after-all"),
        pytest.param({"gpu": 1, "spec": {"schedulerName": "custom"}}, Outcome.PASSED_BY, id="another-scheduler"),
        pytest.param({"gpu": 1, "meta": {"labels": {"hami.io/webhook": "ignore"}}}, Outcome.PASSED_BY, id="ignored"),
    ],
)
def test_case_12_a_ready_made_record_is_dropped_from_every_new_pod(pod: Any, outcome: Outcome) -> None:
    """Whoever places it: once it is bound, such a record would count."""
    value = pod_object("p", {**RECORD, "mine": "1"}, **pod)
    answer = created(value)
    assert (answer.outcome, answer.allowed) == (outcome, True)
    assert patched(value, answer)["metadata"]["annotations"] == {"mine": "1"}
    assert all(any(key in text and "is dropped" in text for text in answer.warnings) for key in RECORD)


def test_keys_are_escaped_in_pointers() -> None:
    value = pod_object("p", {"cardwise.io/a~b/c": "1", "cardwise.io/a": "2"}, gpu=1)
    answer = created(value)
    assert answer.removed == ["/metadata/annotations/cardwise.io~1a", "/metadata/annotations/cardwise.io~1a~0b~1c"]
    assert patched(value, answer)["metadata"]["annotations"] == {}


# -- what is refused, and what passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(
            pod_object("train-0", percent=120),
            "pod ml/train-0, container main: nvidia.com/gpumem-percentage is 120, must be 0 to 100",
            id="amount",
        ),
        pytest.param(
            pod_object("p", gpu=1, spec={"nodeName": "n1"}),
            "pod ml/p: spec.nodeName is n1, must be left out where cards are asked for (use a node selector)",
            id="node-name",
        ),
        pytest.param(
            pod_object("p", containers=[container_object("a", gpu=1, more=PRIVILEGED)]),
            "pod ml/p, container a: is privileged and asks for cards, must not be privileged"
            " (it would see every card of its node, whatever it is given)",
            id="privileged",
        ),
        pytest.param(
            pod_object("p", gpu=1, **prioritized(7)),
            "pod ml/p, container main: nvidia.com/priority is 7, must be 0 to 1",
            id="priority",
        ),
    ],
)
def test_a_refusal_says_in_one_sentence_what_and_where(pod: Object, message: str) -> None:
    answer = created(pod)
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.REFUSED, False, [])
    assert (answer.code, answer.reason, answer.message) == (400, "BadRequest", message)
    assert answer.says == message


def test_case_6_privileged_pods_are_passed_by_with_a_warning_where_so_configured() -> None:
    pod = pod_object("p", containers=[container_object("a", gpu=1, more=PRIVILEGED)])
    answer = created(pod, Policy(rules=Rules(privileged="skip")))
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.PASSED_BY, True, [])
    assert answer.warnings == [answer.says] == ["pod ml/p, container a: is privileged and asks for cards; passed by"]


def test_case_7_answer_log_line_and_patch_are_of_one_mind() -> None:
    containers = [{"name": "a", **PRIVILEGED}, container_object("b", gpu=1, gpumem=1)]
    answer = created(pod_object("p", containers=containers))
    assert (answer.outcome, answer.allowed, answer.says) == (Outcome.ADMITTED, True, "")
    assert answer.written == {"/spec/schedulerName": "cardwise-scheduler"}


def test_case_10_a_pod_without_cards_is_untouched() -> None:
    answer = created(pod_object("p", containers=[{"name": "c"}], spec={"nodeName": "n"}))
    assert (answer.outcome, answer.allowed, answer.patch, answer.warnings) == (Outcome.UNTOUCHED, True, [], [])


def test_case_11_cards_in_an_init_container_alone_are_ours_and_the_quota_sees_them() -> None:
    pod = pod_object("p", containers=[{"name": "app"}], init=[container_object("i", gpu=1)])
    asked_about: list[PodRequest] = []

    def agree(request: PodRequest) -> tuple[str, ...]:
        asked_about.append(request)
        return ()

    answer = created(pod, view=View(judge_quota=agree))
    assert answer.written["/spec/schedulerName"] == "cardwise-scheduler"
    assert [len(each.cards) for each in asked_about[0].containers] == [1, 0]


def test_a_quota_refuses_with_its_sentences() -> None:
    said = ("quota ml/cards: limits.nvidia.com/gpu is 1 of 1", "quota ml/more: is full")
    answer = created(pod_object("p", gpu=1), view=View(judge_quota=lambda _request: said))
    assert (answer.outcome, answer.allowed, answer.patch) == (Outcome.REFUSED, False, [])
    assert (answer.code, answer.reason, answer.message) == (403, "Forbidden", "; ".join(said))


def test_a_quota_is_not_asked_about_what_is_refused_or_not_ours() -> None:
    view = View(judge_quota=lambda request: (f"asked about {request.full_name}",))
    assert created(pod_object("p", gpu=-1), view=view).code == 400
    assert created(pod_object("p", gpu=0), view=view).allowed
    assert created(pod_object("p", gpu=1, spec={"schedulerName": "custom"}), view=view).allowed


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "about"),
    [
        ({"name": "train-0", "namespace": "ml"}, "pod ml/train-0,"),
        ({"name": "train-0"}, "pod ml/train-0,"),
        ({"generateName": "train-", "namespace": "ml"}, "pod ml/train-*,"),
        ({"generateName": "train-"}, "pod ml/train-*,"),
        ({}, "pod ml/*,"),
    ],
    ids=["both", "no-namespace", "generated", "generated-no-namespace", "nothing"],
)
def test_texts_name_the_pod_by_what_is_known(meta: Object, about: str) -> None:
    pod = pod_object("p", gpu=-1) | {"metadata": meta}
    assert created(pod, namespace="ml").message.startswith(about)


def test_a_dry_run_is_answered_like_any_other() -> None:
    pod = pod_object("p", RECORD, gpu=1)
    assert created(pod, dryRun=True) == created(pod)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_warnings_about_what_cannot_work_now() -> None:
    have = Inventory.of([node("n1", *cards_of(2))], FAMILIES)
    answer = created(pod_object("p", gpu=3), view=View(inventory=have))
    assert answer.outcome is Outcome.ADMITTED
    assert answer.warnings == ["pod ml/p, container main: nvidia.com/gpu is 3, the largest node has 2 cards"]
    assert answer.says == answer.warnings[0]


def test_warnings_are_so_few_and_short_that_the_api_server_shows_them_all() -> None:
    forgeries = {f"cardwise.io/{'x' * 300}-{number}": "" for number in range(100)}
    warnings = created(pod_object("p" * 253, forgeries, gpu=1)).warnings
    assert len(warnings) == MOST_WARNINGS
    assert max(map(len, warnings)) <= MOST_WARNING_CHARACTERS
    assert sum(map(len, warnings)) <= 4096
    assert warnings[-1] == "and 85 more warnings"


def test_texts_are_one_printable_line() -> None:
    pod = pod_object("p", {"cardwise.io/\n\u202e": ""}, containers=[container_object("a\nb\x00", gpu=-1)])
    answer = created(pod)
    assert answer.message.isprintable()
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    assert all(text.isprintable() for text in created(pod).warnings)


def test_a_refusal_of_a_thousand_faults_is_cut() -> None:
    containers = [container_object(f"c{number}", gpu=-1) for number in range(1000)]
    assert len(created(pod_object("p", containers=containers)).message) <= 4096


# -- policy ------------------------------------------------------------------------------------------------------------


def test_the_schedulers_name_must_be_one_that_means_us() -> None:
    """Else the pod that was given to it would be passed by when it comes again."""
    with pytest.raises(ValueError, match="scheduler name is other, must be one of our own"):
        Policy(scheduler_name="other")


@pytest.mark.parametrize(
    "pod",
    [
        pod_object("p", RECORD, gpu=1),
        pod_object("p", percent=50, **prioritized(1)),
        pod_object("p", containers=[{"name": "a"}], init=[container_object("i", gpucores=5)]),
    ],
    ids=["record", "count", "init"],
)
def test_the_patched_pod_needs_nothing_more(pod: Object) -> None:
    policy = Policy(runtime_class="nvidia")
    after = patched(pod, created(pod, policy))
    again = created(after, policy)
    assert (again.outcome, again.patch, again.warnings) == (Outcome.ADMITTED, [], [])
    found = admit(msgspec.convert(after, Pod), Rules())
    assert (found.outcome, found.limits) == (admission.Outcome.ADMITTED, ())
