"""What is measured, as rows of a table, and how the table looks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

Figures = dict[str, Any]


def timed(call: Callable[[], object]) -> float:
    """Microseconds that a call takes."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1000


def figures(name: str, nodes: int, samples: Sequence[float], **more: Any) -> Figures:
    """Median and p99 of samples in microseconds."""
    ordered = sorted(samples)
    return {
        "what": name,
        "nodes": nodes,
        "median_us": round(statistics.median(ordered), 1),
        "p99_us": round(ordered[max(0, int(len(ordered) * 0.99) - 1)], 1),
        "samples": len(ordered),
        **more,
    }


def show(row: Figures) -> str:
    """One line of the table."""
    shown = [f"{row['what']:<58}", f"{row['nodes']:>7}"]
    if "median_us" in row:
        shown += [f"{row['median_us']:>11,.0f}", f"{row['p99_us']:>9,.0f}"]
        shown += [f"  ({row['cpu_us']:,} µs of CPU)"] if "cpu_us" in row else []
    elif "ratio" in row:
        shown += [f"{row['ratio']:>10,}×"]
    elif "count" in row:
        shown += [f"{row['count']:>11}"]
    elif "cpu_seconds" in row:
        events = f", {row['events_per_second']:,} watch events a second" if "events_per_second" in row else ""
        peak = f", {row['peak_mb']} MB at most" if "peak_mb" in row else ""
        shown += [f"{row['cpu_seconds']:>9} s of CPU, {row['kept_mb']} MB kept{peak}{events}"]
    else:
        shown += [f"{row['seconds']:>9} s", f"{row['peak_mb']:>6} MB"]
    return " ".join(shown)
