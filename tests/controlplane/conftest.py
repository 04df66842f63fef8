"""The fixture `plane`: one real control plane for a module of tests. Who uses it carries the marker `controlplane`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .build import UnavailableError, built, chosen

if TYPE_CHECKING:
    from .plane import ControlPlane


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "controlplane: needs a real etcd, kube-apiserver and kube-scheduler")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here. Not where CARDWISE_CONTROLPLANE_REQUIRED is set: there it fails, as in CI it should."""
    reason = "" if os.environ.get("CARDWISE_CONTROLPLANE_REQUIRED") else lacking()
    if reason:
        for item in items:
            if item.get_closest_marker("controlplane"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of the binaries of the pair that CARDWISE_CONTROLPLANE names."""
    return built(chosen())


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A started control plane with an empty cluster."""
    from .plane import ControlPlane  # not above: it needs a package that may be lacking

    with ControlPlane(binaries, tmp_path_factory.mktemp("plane")) as started:
        yield started


def lacking() -> str:
    """Why there is no control plane here, in one line; "" where there is one."""
    if importlib.util.find_spec("cryptography") is None:
        return "the control plane's certificates need the Python package cryptography"
    try:
        built(chosen())
    except UnavailableError as error:
        return str(error)
    return ""
