"""How much it costs to follow a large cluster: list, then watch, through `cardwise.kube`, against bench/api.py."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

from cardwise.kube.client import Client
from cardwise.kube.facts import Changed, Listed
from cardwise.kube.connection import Connection
from cardwise.kube.requests import NODES, PODS, Resource
from cardwise.kube.watch import Reflector

Figures = dict[str, Any]
HERE = Path(__file__).parent


@contextmanager
def served(nodes: int, pods: int, events: int) -> Iterator[str]:
    """The address of a canned API server in a process of its own."""
    command = [sys.executable, str(HERE / "api.py"), str(nodes), str(pods), str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def resident_mb() -> float:
    """Memory that this process has in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def follow(url: str, resource: Resource[Any], events: int) -> tuple[Figures, list[Any]]:
    """List everything, then take so many events."""
    kept: list[Any] = []
    gc.collect()
    before_mb, started = resident_mb(), time.process_time()
    listed_seconds, taken, watch_started = 0.0, 0, 0.0
    async with (
        Client(Connection(where="the benchmark", url=url)) as client,
        aclosing(Reflector(client, resource).facts()) as facts,
    ):
        async for fact in facts:
            if isinstance(fact, Listed):
                kept.extend(fact.objects)
                listed_seconds = time.process_time() - started
                watch_started = time.perf_counter()
            taken += isinstance(fact, Changed)
            if kept and taken >= events:
                break
    watched = time.perf_counter() - watch_started
    gc.collect()
    row = {"cpu_seconds": round(listed_seconds, 2), "kept_mb": round(resident_mb() - before_mb)}
    if events:
        row["events_per_second"] = round(events / watched)
    return row, kept


def following(nodes: int, pods: int, events: int) -> Iterator[Figures]:
    """One row for pods, one for nodes."""
    with served(nodes, pods, events) as url:
        for resource, count, taken in ((PODS, pods, events), (NODES, nodes, 0)):
            row, kept = asyncio.run(follow(url, resource, taken))
            assert len(kept) == count, len(kept)
            yield {"what": f"list of {count} {resource.kind.lower()}s through kube", "nodes": nodes, **row}
