"""The API server over the standard library alone, so that no client of ours can hide what the server does."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Where a certificate and its private key lie, both PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said: the HTTP status, the object (or the Status object of a refusal), and its warnings."""

    status: int
    body: Json
    warnings: tuple[str, ...] = ()

    def done(self) -> Json:
        """The object; raises AssertionError with the server's message if the request was refused."""
        assert self.status < 300, f"{self.status}: {self.body.get('message', self.body)}"
        return self.body


class Rest:
    """Requests as one user of one server. A connection per request, so that threads may share it.

    `tls` is what the user is known by, for other clients.
    """

    def __init__(self, port: int, authority: Path, client: KeyPair) -> None:
        self._port = port
        self.tls = ssl.create_default_context(cafile=str(authority))
        self.tls.load_cert_chain(client.certificate, client.key)

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: Json) -> Answer:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json) -> Answer:
        return self.request("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str) -> Answer:
        return self.request("DELETE", path)

    def request(self, method: str, path: str, body: Json | None = None, *, content_type: str = "") -> Answer:
        """The server's answer, whatever its status; raises OSError where the server cannot be reached."""
        response, text = self._exchange(method, path, body, content_type or "application/json")
        warnings = tuple(map(_warning, response.headers.get_all("Warning", [])))
        return Answer(status=response.status, body=json.loads(text), warnings=warnings)

    def status_of(self, path: str) -> int:
        """The status of a GET whose body is not JSON (/readyz), 0 where the server cannot be reached."""
        try:
            return self._exchange("GET", path, None, "")[0].status
        except OSError:
            return 0

    def _exchange(
        self, method: str, path: str, body: Json | None, content_type: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self.tls, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, _headers(content_type))
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()


def _warning(header: str) -> str:
    """The text of a Warning header (RFC 7234, 5.5): `299 - "TEXT"`."""
    return header.split(" ", 2)[2].strip('"').replace('\\"', '"')


def _headers(content_type: str) -> dict[str, str]:
    return {"Accept": "application/json", "Content-Type": content_type} if content_type else {}
