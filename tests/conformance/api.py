"""An API server under test, the real one or its in-memory twin, reached through the product's own client."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from cardwise.kube.client import Client
from cardwise.kube.connection import Connection
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.facts import Bookmark, Changed, Fact, Listed, Removed, Synced
from cardwise.kube.requests import EVENTS, LEASES, NODES, PODS, Resource, Scope
from cardwise.kube.watch import Reflector

T = TypeVar("T")
Json = dict[str, Any]

RAW_PODS: Resource[Json] = replace(PODS, decoded_as=dict)  # type: ignore[assignment,arg-type]
RAW_NODES: Resource[Json] = replace(NODES, decoded_as=dict)  # type: ignore[assignment,arg-type]
RAW_EVENTS: Resource[Json] = replace(EVENTS, decoded_as=dict)  # type: ignore[assignment,arg-type]
RAW_LEASES: Resource[Json] = replace(LEASES, decoded_as=dict)  # type: ignore[assignment,arg-type]
WEBHOOKS: Resource[Json] = Resource(
    group_version="admissionregistration.k8s.io/v1",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    decoded_as=dict,
    namespaced=False,
)
SECONDS = 10.0
NAMESPACE = "default"


@dataclass(slots=True)
class Api:
    """How to reach the server; `name` is `real` or `twin`, `minor` the Kubernetes minor version that it is.

    `forget` makes it forget its first versions, where that can be had.
    """

    name: str
    minor: int
    connection: Connection
    kubeconfig: Path
    forget: Callable[[], None] | None = None
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet: all tests of a module share the server."""
        return f"{stem}-{next(self.numbers)}"

    def run(self, what: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine gives that is handed an open client, within the time that a test may take."""

        async def bounded() -> T:
            async with asyncio.timeout(SECONDS), Client(self.connection) as client:
                return await what(client)

        return asyncio.run(bounded())

    def refused(self, what: Callable[[Client], Coroutine[Any, Any, object]]) -> KubeError:
        """The error of a call that must not succeed."""
        try:
            got = self.run(what)
        except KubeError as error:
            return error
        raise AssertionError(f"answered {got}, must be refused")

    # -- objects -------------------------------------------------------------------------------------------------

    def pod(self, stem: str = "pod", **changes: Any) -> Json:
        """A pod that the server made, with `metadata` and `spec` laid over it."""
        return self.make(pod_body(self.fresh(stem), **changes))

    def make(self, body: Json) -> Json:
        """The pod of this body, as the server completed it."""
        return self.run(lambda client: client.create(RAW_PODS, body, NAMESPACE))

    def node(self, stem: str = "node") -> str:
        """The name of a node that the server made."""
        name = self.fresh(stem)
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.run(lambda client: client.create(RAW_NODES, body))
        return name

    def seen(self, pod: Json) -> Json:
        """The pod as it is now."""
        return self.run(lambda client: client.get_quorum(RAW_PODS, pod["metadata"]["name"], NAMESPACE))

    def bind(self, pod: Json, node: str, **given: Any) -> None:
        """Bind the pod as the scheduler will."""
        meta = pod["metadata"]
        known = {"uid": meta["uid"], "node": node} | given
        self.run(lambda client: client.bind(NAMESPACE, meta["name"], **known))


def pod_body(name: str, *, metadata: Json | None = None, spec: Json | None = None) -> Json:
    """A pod of one container, as a user writes it."""
    whole = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 30}
    meta = {"name": name} | (metadata or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole | (spec or {})}


async def facts_until(
    client: Client, scope: Scope, act: Callable[[], Awaitable[object]], enough: Callable[[list[Fact[Json]]], bool]
) -> list[Fact[Json]]:
    """What a reflector tells from its list on, `act` being done once its watch is open, until it is enough."""
    told: list[Fact[Json]] = []
    async with aclosing(Reflector(client, RAW_PODS, scope).facts()) as facts:
        async for fact in facts:
            told.append(fact)
            if isinstance(fact, Synced):
                await act()
            if enough(told):
                break
    return told


def named(fact: Fact[Json]) -> tuple[str, str]:
    """The kind of a fact and the name of what it is about."""
    if isinstance(fact, Changed | Removed):
        return type(fact).__name__, fact.object["metadata"]["name"]
    return type(fact).__name__, ""


def happened(told: list[Fact[Json]]) -> list[tuple[str, str]]:
    """Changes and removals in their order."""
    return [named(fact) for fact in told if not isinstance(fact, Listed | Synced | Bookmark)]


async def pages(client: Client, resource: Resource[T], scope: Scope, limit: int) -> AsyncIterator[list[T]]:
    """The objects of each page of a list."""
    async for page in client.list_pages(resource, scope, limit=limit):
        yield list(page.objects)


__all__ = ["NAMESPACE", "RAW_EVENTS", "RAW_LEASES", "RAW_NODES", "RAW_PODS", "WEBHOOKS", "Api", "Fault", "Json"]
