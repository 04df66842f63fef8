"""`make bench`: one decision at several sizes, `simulate` on a large snapshot, following a large cluster, and the service.

Prints a table; with BENCH_JSON=FILE also writes the figures there. BENCH_QUICK=1 runs a small version of everything, to
see that it works. Times are of this machine and noisy: compare what stands in one run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import calls
import fleet
import following
import msgspec
import oracle
import service
import worst
import yaml12
from figures import Figures, figures, show, timed

from cardwise.core.cluster import Cluster
from cardwise.core.model import CardRequest, Placement, PodRequest

QUICK = bool(os.environ.get("BENCH_QUICK"))
RUNNING = 1000 if QUICK else 20_000
SIZES = (100,) if QUICK else (1000, 5000, 10_000)
TIMES = 50 if QUICK else 1000
IDLE = 3 if QUICK else 20
HUGE = CardRequest(family="nvidia", count=1, memory_mib=1_000_000)


def decide(cluster: Cluster, pods: Iterator[PodRequest]) -> list[float]:
    """Time each decision; between two, the pod is taken in and an older one leaves, so that remembered counts go stale."""
    samples: list[float] = []
    held: list[str] = []
    for pod in pods:
        found: list[Placement | None] = []
        samples.append(timed(lambda pod=pod, found=found: found.append(cluster.place(pod))))  # type: ignore[misc]
        if found[0] is not None:
            assert cluster.reserve(pod, found[0]) is None
            held.append(pod.uid)
        if len(held) > 20:
            cluster.release(held.pop(0))
    for uid in held:
        cluster.release(uid)
    return samples


def refusals(cluster: Cluster, pod: PodRequest) -> list[float]:
    """Time the answer that no node takes the pod, with every node's reason."""
    return [timed(lambda: cluster.refusals(pod)) for _ in range(TIMES // 5)]


def refusal_groups(cluster: Cluster, pod: PodRequest) -> list[float]:
    """The same by reason, as the scheduler answers it."""
    return [timed(lambda: cluster.refusal_groups(pod)) for _ in range(TIMES // 5)]


def at_worst(nodes: int) -> Iterator[Figures]:
    """Thirteen containers that no node takes, though no sum tells."""
    cluster = worst.unlike(nodes)
    pods = [worst.misfit(number) for number in range(max(1, TIMES // 50))]
    assert cluster.place(pods[0]) is None
    yield figures("13 containers, unlike nodes, in vain", nodes, decide(cluster, iter(pods)))
    refused = [timed(lambda pod=pod: cluster.refusal_groups(pod)) for pod in pods]  # type: ignore[misc]
    yield figures("the same, refusal by all in groups", nodes, refused)


def decisions(nodes: int) -> Iterator[Figures]:
    """One decision, in every way it can go."""
    cluster = fleet.fleet(nodes, RUNNING)
    shapes = fleet.SHAPES
    yield figures(
        "seen shape", nodes, decide(cluster, (fleet.pod_of(f"s{i}", shapes[i % len(shapes)]) for i in range(TIMES)))
    )
    yield figures("new shape", nodes, decide(cluster, (fleet.unseen(i) for i in range(TIMES))))
    yield figures("nothing fits", nodes, decide(cluster, (fleet.pod_of(f"h{i}", HUGE) for i in range(TIMES))))
    yield figures("refusal by all", nodes, refusals(cluster, fleet.pod_of("refused", HUGE)))
    yield figures("refusal by all, in groups", nodes, refusal_groups(cluster, fleet.pod_of("refused", HUGE)))
    yield figures("two containers, NUMA", nodes, decide(cluster, (fleet.two_with_numa(i) for i in range(TIMES // 2))))
    yield figures("topology 4 of 8", nodes, decide(cluster, (fleet.linked(i, 4) for i in range(TIMES // 2))))
    large = fleet.fleet(nodes, RUNNING, cards=16)
    yield figures("topology 8 of 16", nodes, decide(large, (fleet.linked(i, 8) for i in range(TIMES // 2))))


def plainly(cluster: Cluster, pod: PodRequest) -> Placement | None:
    """The decision by the plain loops of the tests."""
    nodes = [cluster.cards.node(n) for n in range(cluster.cards.width)]
    uses = oracle.in_use((hold.node, hold.use) for hold in cluster.holds.values())
    return oracle.decide(nodes, uses, pod).placement


def against_oracle() -> Figures:
    """The same decisions by the plain loops of the tests, on the same cluster in the same run."""
    nodes = 100 if QUICK else 1000
    cluster = fleet.fleet(nodes, nodes * 4)
    pods = [fleet.pod_of(f"o{i}", fleet.SHAPES[i % len(fleet.SHAPES)]) for i in range(20)]
    ours, plain = [], []
    for pod in pods:
        ours.append(timed(lambda pod=pod: cluster.place(pod)))  # type: ignore[misc]
        plain.append(timed(lambda pod=pod: plainly(cluster, pod)))  # type: ignore[misc]
        assert cluster.place(pod) == plainly(cluster, pod)
    ratio = statistics.median(plain) / statistics.median(ours)
    return {"what": "oracle ÷ engine", "nodes": nodes, "ratio": round(ratio), "samples": len(pods)}


def simulation(form: str) -> Figures:
    """`cardwise simulate` on a file: wall time and peak memory of the process."""
    nodes, running, pending = (100, 400, 20) if QUICK else (5000, 20_000, 1000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"snapshot.{form}"
        whole = {"apiVersion": "v1", "kind": "List", "items": list(fleet.snapshot(nodes, running, pending))}
        text = msgspec.json.encode(whole) if form == "json" else _kubectl_yaml(whole)
        path.write_bytes(text)
        del whole
        command = [sys.executable, "-m", "cardwise", "simulate", str(path)]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _pid, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode in (0, 1), process.returncode
        return {
            "what": f"simulate {form}, {running} running, {pending} pending ({len(text) >> 20} MiB)",
            "nodes": nodes,
            "seconds": round(time.perf_counter() - start, 2),
            "peak_mb": usage.ru_maxrss // 1024,
        }


def _kubectl_yaml(whole: dict[str, Any]) -> bytes:
    """As kubectl prints a list: the items' dashes at the margin."""
    pieces = ["apiVersion: v1\nitems:\n"]
    for item in whole["items"]:
        lines = yaml12.format_yaml(item).splitlines()
        pieces.append("- " + "\n  ".join(lines) + "\n")
    return "".join([*pieces, "kind: List\nmetadata:\n  resourceVersion: ''\n"]).encode()


def main() -> None:
    """Run everything."""
    print(f"{'what':<58} {'nodes':>7} {'median µs':>11} {'p99 µs':>9}")
    rows: list[Figures] = []

    def took(row: Figures) -> None:
        rows.append(row)
        print(show(row), flush=True)

    for nodes in SIZES:
        for row in (*decisions(nodes), *at_worst(nodes)):
            took(row)
    took(against_oracle())
    for form in ("json", "yaml"):
        took(simulation(form))
    for row in following.following(*((100, 1000, 1000) if QUICK else (5000, 50_000, 50_000))):
        took(row)
    for nodes in (100,) if QUICK else (5000, 10_000):
        for row in calls.calls(nodes, (0, RUNNING), (500, 5000, 10_000), TIMES):
            took(row)
    for row in service.service(*((100, 400, 600) if QUICK else (5000, 20_000, 30_000)), pods=TIMES, idle_seconds=IDLE):
        took(row)
    if target := os.environ.get("BENCH_JSON"):
        Path(target).write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
