"""An extender whose answers a test sets while it runs, and which keeps what was asked to the byte."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Self

Json = dict[str, Any]
Answer = Callable[[Json], Any]


@dataclass(frozen=True, slots=True)
class Status:
    """An answer that is only an HTTP status."""

    code: int


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request. `ended` is 0 while it is being answered; times are on the monotonic clock."""

    verb: str
    pod: str
    body: bytes
    headers: dict[str, str]
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    @property
    def request(self) -> Json:
        read: Json = json.loads(self.body)
        return read

    @property
    def nodes(self) -> list[str]:
        names: list[str] = self.request["NodeNames"]
        return names


class ScriptedExtender:
    """Serves on loopback from a thread of its own: `answers[verb]` is called with the request."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def of(self, verb: str, pod: str = "") -> list[Asked]:
        """What was asked, of one pod or of all."""
        return [one for one in tuple(self.asked) if one.verb == verb and pod in ("", one.pod)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _pod_of(request: Json) -> str:
    name: str = request["PodName"] if "PodName" in request else request["Pod"]["metadata"]["name"]
    return name


def overlapping(calls: Iterable[Asked]) -> bool:
    """Whether any two were being answered at the same time."""
    ordered = sorted(calls, key=lambda one: one.began)
    return any(later.began < earlier.ended for earlier, later in pairwise(ordered))


def _handler(extender: ScriptedExtender) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            verb, request = self.path.strip("/"), json.loads(body)
            call = Asked(verb=verb, pod=_pod_of(request), body=body, headers=dict(self.headers))
            extender.asked.append(call)
            answer = extender.answers[verb](request)
            call.ended = time.monotonic()
            self._reply(answer)

        def _reply(self, answer: Any) -> None:
            body = b"" if isinstance(answer, Status) else json.dumps(answer).encode()
            try:
                self.send_response(answer.code if isinstance(answer, Status) else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the caller did not wait
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (as http.server names it)
            """Say nothing: the test reads `asked`."""

    return Handler
