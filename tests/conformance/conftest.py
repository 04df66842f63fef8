"""The fixture `api`: every test here is run against the real API server and against its in-memory twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cardwise.kube.kubeconfig import load
from cardwise.sim.apiserver import running_server
from controlplane.build import built, chosen, version

from .api import Api

TWIN_MINOR = 36


@pytest.fixture(scope="module", params=["twin", pytest.param("real", marks=pytest.mark.controlplane)])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("api")
    yield from _twin(folder) if request.param == "twin" else _real(folder)


def _twin(folder: Path) -> Iterator[Api]:
    with running_server(bookmark_seconds=0.2) as server:
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        yield Api("twin", TWIN_MINOR, load(str(kubeconfig)), kubeconfig, server.compact)


def _real(folder: Path) -> Iterator[Api]:
    from controlplane.plane import ControlPlane  # not above: it needs a package that may be lacking

    with ControlPlane(built(chosen()), folder) as plane:
        kubeconfig = plane.kubeconfig("conformance", ("system:masters",))
        yield Api("real", int(version(chosen()).split(".")[1]), load(str(kubeconfig)), kubeconfig)
