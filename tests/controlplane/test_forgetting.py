"""410 as the real server sends it: a reflector that asks for a version that is forgotten lists anew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cardwise.kube.client import Client
from cardwise.kube.errors import Fault
from cardwise.kube.facts import Listed, Troubled
from cardwise.kube.kubeconfig import load
from cardwise.kube.requests import PODS, Scope
from cardwise.kube.watch import Reflector

from .build import built, chosen
from .cluster import create_pod

if TYPE_CHECKING:
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that asks etcd itself for old versions: with a watch cache it remembers them for minutes."""
    from .plane import ControlPlane  # not above: it needs a package that may be lacking

    with ControlPlane(built(chosen()), tmp_path, {"watch-cache": "false"}) as plane:
        yield plane


def test_a_version_that_is_forgotten_is_gone_and_listed_anew(forgetful: ControlPlane) -> None:
    first = create_pod(forgetful.rest, "first")
    for number in range(3):  # (a watch from the version just before the oldest one that is kept is still answered)
        create_pod(forgetful.rest, f"more-{number}")
    last = create_pod(forgetful.rest, "last")
    forgetful.compact(int(last["metadata"]["resourceVersion"]))

    async def told() -> tuple[Fault, set[str]]:
        connection = load(str(forgetful.kubeconfig("reader", ("system:masters",))))
        gone = None
        async with asyncio.timeout(20), Client(connection) as client:
            reflector = Reflector(client, PODS, Scope(namespace="default"))
            reflector.version = first["metadata"]["resourceVersion"]
            async with aclosing(reflector.facts()) as facts:
                async for fact in facts:
                    if isinstance(fact, Troubled):
                        gone = fact.error.fault
                    if isinstance(fact, Listed) and gone is not None:
                        return gone, {pod.metadata.name for pod in fact.objects}
        raise AssertionError("the watch ended")

    assert asyncio.run(told()) == (Fault.GONE, {"first", "last", "more-0", "more-1", "more-2"})
