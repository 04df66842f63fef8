"""A scheduler extender of a few lines, whose answers a test sets while it runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from .rest import Json

Answers = dict[str, Callable[[Json], Any]]


class Extender:
    """Serves on loopback: a POST to `/verb` is answered by `answers[verb](request)`; `calls` keeps what was asked."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Json]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

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

    def answer(self, verb: str, request: Json) -> Any:
        self.calls.append((verb, request))
        return self.answers[verb](request)

    def asked(self, verb: str, pod: str) -> int:
        """How many times it was asked about the pod of this name."""
        return sum(1 for called, request in self.calls if called == verb and pod == _pod_of(request))


def _pod_of(request: Json) -> str:
    name: str = request["PodName"] if "PodName" in request else request["Pod"]["metadata"]["name"]
    return name


def _handler(extender: Extender) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(extender.answer(self.path.strip("/"), request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (as http.server names it)
            """Say nothing: the test reads `calls`."""

    return Handler
