"""The service as a process, as kube-scheduler and the API server meet it: the time it takes of its own, and its writes.

The API server is canned (bench/canned.py). For each pod the watch tells of it, then filter and bind are called; what
the API server itself took for the Binding is taken off. Where there are several processors, the service has one of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import calls
import fleet
import msgspec
from controlplane.process import Process, free_ports
from figures import Figures, figures

from cardwise.scheduler import issuing

HERE = Path(__file__).parent
LEAST_SECONDS_APART = 0.01
"""Between two pods: a hundred a second are as many as kube-scheduler brings."""
REVIEWS_A_SECOND = 200
RELISTS = 5
READY_SECONDS = 120.0
PROCESSORS = sorted(os.sched_getaffinity(0))
Took = dict[str, tuple[float, float]]
"""By pod: when its filter call began, and the seconds of both calls together."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Peer:
    """A connection that is kept, as Go's client keeps it, and hardly any work at this end."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes = b"") -> bytes:
        """The body of the answer, which must be a success."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        head_of, _, text = answer.partition(b"\r\n\r\n")
        assert head_of.startswith(b"HTTP/1.1 200"), answer
        length = int(re.search(rb"(?i)content-length: (\d+)", head_of)[1])  # type: ignore[index]
        while len(text) < length:
            text += self._more()
        return text

    def _more(self) -> bytes:
        piece = self._socket.recv(1 << 20)
        assert piece, "the connection was closed"
        return piece


class Service:
    """`cardwise scheduler` beside the canned API server."""

    def __init__(self, api_port: int, folder: Path) -> None:
        self.extender_port, self.page_port, self.webhook_port = free_ports(3)
        self.authority = folder / "authority.pem"
        pair = issuing.issued(("localhost", "127.0.0.1"), datetime.now(UTC))
        certificate, key = folder / "tls.crt", folder / "tls.key"
        self.authority.write_bytes(pair.authority)
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        kubeconfig = folder / "kubeconfig.json"
        kubeconfig.write_text(json.dumps(_kubeconfig(api_port)))
        flags = {
            "kubeconfig": kubeconfig,
            "extender-address": f"127.0.0.1:{self.extender_port}",
            "metrics-address": f"127.0.0.1:{self.page_port}",
            "admission-address": f"127.0.0.1:{self.webhook_port}",
            "admission-certificate": certificate,
            "admission-key": key,
            "leader-election-enabled": "false",
        }
        argv = [sys.executable, "-m", "cardwise", "scheduler", *(f"--{name}={value}" for name, value in flags.items())]
        self.process = Process("cardwise", argv, folder / "cardwise.log")
        if len(PROCESSORS) > 1:
            os.sched_setaffinity(self.process.pid, PROCESSORS[:1])

    def wait_ready(self) -> None:
        """Returns when it says that it is ready."""
        self.process.wait_until(self._ready, seconds=READY_SECONDS)

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.page_port, timeout=10)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    @property
    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self, which: str) -> int:
        """`VmRSS` now, or `VmHWM` at most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(which))
        return int(line.split()[1]) // 1024


def _kubeconfig(port: int) -> dict[str, Any]:
    def named(key: str, value: dict[str, str]) -> list[dict[str, Any]]:
        return [{"name": "bench", key: value}]

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": named("cluster", {"server": f"http://127.0.0.1:{port}"}),
        "users": named("user", {}),
        "contexts": named("context", {"cluster": "bench", "user": "bench"}),
    }


@contextmanager
def canned(nodes: int, running: int, plain: int) -> Iterator[int]:
    """The port of a canned API server in a process of its own."""
    command = [sys.executable, str(HERE / "canned.py"), str(nodes), str(running), str(plain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextmanager
def reviewed(service: Service) -> Iterator[list[float]]:
    """Admission is asked while the block runs; afterwards the list has the milliseconds of each answer."""
    samples: list[float] = []
    command = [sys.executable, str(HERE / "reviews.py"), str(service.webhook_port), str(service.authority)]
    with subprocess.Popen(
        [*command, str(REVIEWS_A_SECOND)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        time.sleep(1)
        yield samples
        samples += json.loads(process.communicate("")[0])


class Driver:
    """Brings pods to the service as kube-scheduler does, one after the other."""

    def __init__(self, service: Service, api: Peer, nodes: int, names: int) -> None:
        self._api = api
        self._service = Peer(service.extender_port)
        self._offers = calls.offers([f"node-{number:05d}" for number in range(nodes)], names)

    def bring(self, enough: Callable[[int], bool]) -> Took:
        """Pods until it is enough."""
        took: Took = {}
        while not enough(len(took)):
            due = time.perf_counter() + LEAST_SECONDS_APART
            name, started, seconds = self._one(next(calls.numbers))
            took[name] = started, seconds
            time.sleep(max(0.0, due - time.perf_counter()))
        return took

    def _one(self, number: int) -> tuple[str, float, float]:
        name, shape = f"asks-{number}", fleet.SHAPES[number % len(fleet.SHAPES)]
        pod = self._api.post("/bench/pod", msgspec.json.encode(fleet.pod_object(name, number, shape)))
        body = calls.call_with(pod, next(self._offers))
        started = time.perf_counter()
        filtered = self._service.post("/filter", body)
        seconds = time.perf_counter() - started
        (node,) = json.loads(filtered)["NodeNames"]
        namespace, uid = fleet.namespace_of(number), fleet.uid_of(number)
        body = msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})
        resumed = time.perf_counter()
        bound = self._service.post("/bind", body)
        seconds += time.perf_counter() - resumed
        assert json.loads(bound) == {"Error": ""}, bound
        return name, started, seconds


def service(nodes: int, running: int, plain: int, *, pods: int, idle_seconds: float) -> Iterator[Figures]:
    """All rows, for one size of cluster."""
    with ExitStack() as stack:
        if len(PROCESSORS) > 1:
            os.sched_setaffinity(0, PROCESSORS[1:])
            stack.callback(os.sched_setaffinity, 0, PROCESSORS)
        port = stack.enter_context(canned(nodes, running, plain))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        own = Service(port, folder)
        stack.callback(own.process.stop)
        own.wait_ready()
        yield {
            "what": f"start-up with {running + plain:,} pods, to ready",
            "nodes": nodes,
            "cpu_seconds": round(own.cpu_seconds, 2),
            "kept_mb": own.memory_mb("VmRSS"),
            "peak_mb": own.memory_mb("VmHWM"),
        }
        yield from _placing(own, Peer(port), nodes, pods, idle_seconds)


def _placing(own: Service, api: Peer, nodes: int, pods: int, idle_seconds: float) -> Iterator[Figures]:
    driver = Driver(own, api, nodes, min(nodes, 5000))
    driver.bring(lambda count: count >= pods // 10)  # to get warm
    cpu_before = own.cpu_seconds
    idle = driver.bring(lambda count: count >= pods)
    cpu_us = (own.cpu_seconds - cpu_before) / pods * 1e6
    yield _row("filter and bind, nothing else going on", nodes, idle, _counted(api), cpu_us=round(cpu_us))
    api.post("/bench/forget", str(RELISTS).encode())
    before = len(_counted(api)["listings"])
    during = driver.bring(lambda count: count % 20 == 0 and len(_counted(api)["listings"]) >= before + RELISTS)
    counted = _counted(api)
    spans = [tuple(span) for span in counted["listings"][before:]]
    during = {name: one for name, one in during.items() if any(start <= one[0] <= end for start, end in spans)}
    if during:  # (a small cluster is listed too quickly)
        yield _row("filter and bind, while all pods are listed again", nodes, during, counted)
    with reviewed(own) as milliseconds:
        beside = driver.bring(lambda count: count >= pods)
    yield _row(f"filter and bind, {REVIEWS_A_SECOND} reviews a second beside", nodes, beside, _counted(api))
    yield figures("admission, one review over TLS", nodes, [each * 1000 for each in milliseconds])
    yield from _writes(api, nodes, idle_seconds)


def _writes(api: Peer, nodes: int, idle_seconds: float) -> Iterator[Figures]:
    before = _counted(api)
    bound = before["writes"]["binding"]
    yield {"what": "writes per pod", "nodes": nodes, "count": round(sum(before["writes"].values()) / bound, 3)}
    time.sleep(idle_seconds)
    more = sum(_counted(api)["writes"].values()) - sum(before["writes"].values())
    yield {"what": "writes per idle minute", "nodes": nodes, "count": round(more * 60 / idle_seconds)}


def _counted(api: Peer) -> dict[str, Any]:
    counted: dict[str, Any] = json.loads(api.post("/bench/counts"))
    return counted


def _row(name: str, nodes: int, took: Took, counted: dict[str, Any], **more: float) -> Figures:
    served = counted["bind_seconds"]
    own = [(seconds - served[pod]) * 1e6 for pod, (_started, seconds) in took.items()]
    return figures(name, nodes, own, **more)
