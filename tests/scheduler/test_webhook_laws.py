"""Laws of the webhook: whatever comes is answered, and a pod that it patched needs nothing more."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cards_of, node
from cardwise.scheduler import admission
from cardwise.scheduler.admission import Rules, admit
from cardwise.scheduler.inventory import Inventory
from cardwise.scheduler.webhook import Outcome, Policy, View, review
from cardwise.wire.families import FAMILIES
from cardwise.wire.objects import Pod
from manifests import Object, container_object, pod_object
from mutations import mutated
from scheduler.reviews import POLICY, RECORD, answered, asked, patched

VIEW = View(inventory=Inventory.of([node("n1", *cards_of(2))], FAMILIES))
PRIORITIZED: dict[str, Any] = {"nvidia.com/priority": 1}
REVIEWS = [
    asked(pod_object("p", RECORD, gpu=1, **PRIORITIZED)),
    asked(pod_object("p", containers=[{"name": "a"}], init=[container_object("i", gpumem="8Gi")])),
    asked(pod_object("p", RECORD, gpu=1), operation="UPDATE", old=pod_object("p", {"a": "b"}, gpu=1)),
    asked({"metadata": {"name": "p", "annotations": RECORD}}, plural="pods", subresource="binding"),
]
TEXTS = [json.dumps(each) for each in REVIEWS]

amounts = st.sampled_from([0, 1, 2, "1", "50", 100, "5k", "8Gi", "100m", -1, "x", 1e300, 2**70])
resources = st.sampled_from(sorted({name for family in FAMILIES for name in family.resources} | {*PRIORITIZED, "cpu"}))
given_amounts = st.none() | st.dictionaries(resources, amounts, max_size=4)
variables = st.none() | st.lists(
    st.sampled_from([{"name": "A"}, {"name": "CUDA_TASK_PRIORITY", "value": "0"}]), max_size=2
)
scalars = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@st.composite
def containers(draw: st.DrawFn, prefix: str) -> list[Object]:
    found: list[Object] = []
    for number in range(draw(st.integers(0, 3))):
        one: Object = {"name": f"{prefix}{number}"}
        if draw(st.booleans()):
            one["resources"] = draw(
                st.none() | st.fixed_dictionaries({"limits": given_amounts, "requests": given_amounts})
            )
        if draw(st.booleans()):
            one["env"] = draw(variables)
        found.append(one)
    return found


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Pods as users write them, many of them wrong."""
    annotations = draw(
        st.none() | st.dictionaries(st.sampled_from([*RECORD, "mine", "cardwise.io/a~b/c"]), st.just("x"))
    )
    spec: Object = {"containers": draw(containers("c")), "initContainers": draw(st.none() | containers("i"))}
    for key, names in (
        ("schedulerName", ["default-scheduler", "hami-scheduler", "x"]),
        ("runtimeClassName", ["own", ""]),
    ):
        spec |= draw(st.just({}) | st.sampled_from([{key: name} for name in names]))
    return {"metadata": {"name": "p", "namespace": "ml", "annotations": annotations}, "spec": spec}


@settings(max_examples=400)
@given(pods(), st.sampled_from([POLICY, Policy(runtime_class="nvidia")]))
def test_a_patched_pod_needs_nothing_more(pod: Object, policy: Policy) -> None:
    answer = answered(asked(pod), policy, VIEW)
    assert answer.allowed is (answer.outcome is not Outcome.REFUSED)
    if not answer.allowed:
        assert answer.patch == []
        return
    after = patched(pod, answer)
    again = answered(asked(after), policy, VIEW)
    assert (again.outcome, again.patch) == (answer.outcome, [])
    found = admit(msgspec.convert(after, Pod), Rules())
    assert found.limits == ()
    assert (found.outcome is admission.Outcome.ADMITTED) is (answer.outcome is Outcome.ADMITTED)
    assert not admission.owned_keys(after["metadata"]["annotations"] or ())


@settings(max_examples=200)
@given(pods())
def test_the_patch_asks_what_the_user_asked(pod: Object) -> None:
    """Limits that are written say what was understood without them."""
    answer = answered(asked(pod), POLICY, VIEW)
    before = admit(msgspec.convert(pod, Pod), Rules())
    if before.request is not None:
        assert admit(msgspec.convert(patched(pod, answer), Pod), Rules()).request == before.request


def answers_well(body: bytes) -> bool:
    found = answered(body, POLICY, VIEW)
    refused = found.outcome in (Outcome.REFUSED, Outcome.FORGED)
    return found.allowed is not refused and found.says.isprintable() and (not refused or bool(found.message))


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,u 1', max_size=60).map(str.encode))
def test_any_bytes_are_answered(body: bytes) -> None:
    assert answers_well(body)
    assert review(body, POLICY, VIEW).outcome is Outcome.UNREADABLE


@settings(max_examples=600)
@given(mutated(TEXTS))
def test_any_broken_review_is_answered(text: str) -> None:
    assert answers_well(text.encode("utf-8", "surrogatepass"))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@settings(max_examples=600)
@given(st.data(), st.sampled_from(REVIEWS), values)
def test_any_part_of_a_review_may_be_anything(data: st.DataObject, good: Object, value: Any) -> None:
    broken = copy.deepcopy(good)
    *path, last = data.draw(st.sampled_from([place for place in places(broken) if place]))
    parent: Any = broken
    for key in path:
        parent = parent[key]
    parent[last] = value
    assert answers_well(json.dumps(broken).encode())
