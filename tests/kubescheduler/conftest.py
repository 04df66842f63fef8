"""The fixture `stage`: every test that uses it is run with the stand-in, and with a real kube-scheduler in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cardwise.sim.apiserver import running_server
from cardwise.sim.kubescheduler import Settings
from controlplane.build import UnavailableError, built, chosen, version

from .script import ScriptedExtender
from .stage import HTTP_SECONDS, Stage, real, stand_in

NO_BACKOFF_FELT_SINCE = 33
PRIORITIES = (
    ("high", 1000, "PreemptLowerPriority"),
    ("higher", 2000, "PreemptLowerPriority"),
    ("patient", 1000, "Never"),
)


@pytest.fixture(scope="module", params=["stand-in", pytest.param("real", marks=pytest.mark.controlplane)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_server() as server, ScriptedExtender() as extender:
        for name, value, policy in PRIORITIES:
            named = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            server.create(named | {"value": value, "preemptionPolicy": policy})
        stage = Stage(request.param, server, extender)
        if request.param == "stand-in":
            scheduler = stand_in(server, extender.url, Settings(http_seconds=HTTP_SECONDS))
        else:
            _need_binaries()
            scheduler = real(server, extender.url, tmp_path_factory.mktemp("real"))
        with scheduler:
            yield stage


def _need_binaries() -> None:
    """Skips where there are none, except where they are required, as in CI."""
    try:
        built(chosen())
    except UnavailableError as error:
        if os.environ.get("CARDWISE_CONTROLPLANE_REQUIRED"):
            raise
        pytest.skip(str(error))
    if int(version(chosen()).split(".")[1]) < NO_BACKOFF_FELT_SINCE:
        pytest.skip(
            f"{version(chosen())} lets woken pods wait for their back-off, which the stand-in does only on request"
        )


@pytest.fixture
def stage(world: Stage) -> Stage:
    world.reset()
    return world
