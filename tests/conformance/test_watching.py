"""What a watch tells, through the product's reflector: the same of both servers."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from cardwise.kube.client import Client
from cardwise.kube.facts import Fact, Listed
from cardwise.kube.requests import Scope
from cardwise.kube.watch import Reflector

from .api import NAMESPACE, RAW_PODS, Api, Json, facts_until, happened, pod_body


def test_a_list_then_everything_after_it(api: Api) -> None:
    label = api.fresh("watched")
    scope = Scope(namespace=NAMESPACE, labels=f"of={label}")
    before = api.pod("before", metadata={"labels": {"of": label}})["metadata"]["name"]
    after = api.fresh("after")

    async def act(client: Client) -> None:
        await client.create(RAW_PODS, pod_body(after, metadata={"labels": {"of": label}}), NAMESPACE)
        await client.patch(RAW_PODS, {"metadata": {"annotations": {"a": "1"}}}, before, NAMESPACE)
        await client.delete(RAW_PODS, after, NAMESPACE)

    def gone(told: list[Fact[Json]]) -> bool:
        return ("Removed", after) in happened(told)

    told = api.run(lambda client: facts_until(client, scope, lambda: act(client), gone))
    assert isinstance(told[0], Listed)
    assert [pod["metadata"]["name"] for pod in told[0].objects] == [before]
    # (The server marks a pod as ending before it takes it away.)
    assert happened(told) == [("Changed", after), ("Changed", before), ("Changed", after), ("Removed", after)]


def test_a_pod_comes_into_a_nodes_scope_when_it_is_bound(api: Api) -> None:
    node, pod = api.node(), api.pod()
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    scope = Scope(fields=f"spec.nodeName={node}")

    async def act(client: Client) -> None:
        await client.bind(NAMESPACE, name, uid=uid, node=node, annotations={"a": "1"})

    told = api.run(lambda client: facts_until(client, scope, lambda: act(client), lambda told: bool(happened(told))))
    assert happened(told) == [("Changed", name)]


def test_a_pod_leaves_a_scope_when_it_no_longer_matches(api: Api) -> None:
    label = api.fresh("leaving")
    name = api.pod(metadata={"labels": {"of": label}})["metadata"]["name"]
    scope = Scope(namespace=NAMESPACE, labels=f"of={label}")

    async def act(client: Client) -> None:
        await client.patch(RAW_PODS, {"metadata": {"labels": {"of": "other"}}}, name, NAMESPACE)

    told = api.run(lambda client: facts_until(client, scope, lambda: act(client), lambda told: bool(happened(told))))
    assert happened(told) == [("Removed", name)]


def test_a_line_of_megabytes_arrives_whole(api: Api) -> None:
    label, name = api.fresh("large"), api.fresh("large")
    scope = Scope(namespace=NAMESPACE, labels=f"of={label}")
    containers = [{"name": "main", "image": "none", "env": [{"name": "E", "value": "x" * 900_000}]}]

    async def act(client: Client) -> None:
        body = pod_body(name, metadata={"labels": {"of": label}}, spec={"containers": containers})
        await client.create(RAW_PODS, body, NAMESPACE)

    told = api.run(lambda client: facts_until(client, scope, lambda: act(client), lambda told: bool(happened(told))))
    assert happened(told) == [("Changed", name)]


def test_the_writes_of_a_refused_pods_wake_up_are_told(api: Api) -> None:
    """What kube-scheduler's wake-up stands on: an annotation of the waiting pod is an event of that pod."""
    pod = api.pod()
    name = pod["metadata"]["name"]
    scope = Scope(namespace=NAMESPACE, fields=f"metadata.name={name}")

    async def act(client: Client) -> None:
        await client.patch(RAW_PODS, {"metadata": {"annotations": {"cardwise.io/wake": "1"}}}, name, NAMESPACE)

    told = api.run(lambda client: facts_until(client, scope, lambda: act(client), lambda told: bool(happened(told))))
    assert happened(told) == [("Changed", name)]


def test_a_version_that_is_forgotten_is_gone_and_listed_anew(api: Api) -> None:
    """410: the reflector starts over with a list."""
    if api.forget is None:
        pytest.skip(
            "tests/controlplane/test_forgetting.py has this for the real server, which needs a start of its own"
        )
    pod = api.pod()
    api.forget()

    async def follow(client: Client) -> list[str]:
        reflector = Reflector(client, RAW_PODS, Scope(namespace=NAMESPACE))
        reflector.version = "1"
        told: list[str] = []
        async with aclosing(reflector.facts()) as facts:
            async for fact in facts:
                told.append(type(fact).__name__)
                if isinstance(fact, Listed):
                    assert pod["metadata"]["name"] in {each["metadata"]["name"] for each in fact.objects}
                    break
        return told

    told = api.run(follow)
    assert told[-2:] == ["Troubled", "Listed"]
