"""A server of its own for each test: it starts in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cardwise.sim.apiserver import MemoryServer, running_server

from .client import Client


@pytest.fixture
def server() -> Iterator[MemoryServer]:
    with running_server(bookmark_seconds=0.05) as started:
        yield started


@pytest.fixture
def client(server: MemoryServer) -> Client:
    return Client(server.url, user="alice")
