"""Admission reviews, so many a second, over TLS as the API server sends them.

`python bench/reviews.py PORT AUTHORITY RATE` asks until its input ends, then prints the milliseconds of each answer.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
from typing import Any

import fleet


def review(number: int) -> bytes:
    """The review of a new pod."""
    pod = fleet.pod_object(f"new-{number}", number, fleet.SHAPES[number % len(fleet.SHAPES)])
    del pod["metadata"]["uid"], pod["metadata"]["creationTimestamp"]
    pods = {"group": "", "version": "v1", "resource": "pods"}
    request: dict[str, Any] = {
        "uid": fleet.uid_of(number),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": pods,
        "requestResource": pods,
        "name": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "someone", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def ask(port: int, authority: str, rate: float, ended: threading.Event) -> list[float]:
    """Milliseconds of each answer, on one connection that is kept."""
    connection = http.client.HTTPSConnection("localhost", port, context=ssl.create_default_context(cafile=authority))
    samples: list[float] = []
    due = time.perf_counter()
    while not ended.is_set():
        body = review(len(samples))
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        connection.request("POST", "/webhook", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        samples.append((time.perf_counter() - started) * 1000)
        assert answer["response"]["allowed"], answer
        due += 1 / rate
    return samples


def main(port: str, authority: str, rate: str) -> None:
    """Until the input ends."""
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    print(json.dumps(ask(int(port), authority, float(rate), ended)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
