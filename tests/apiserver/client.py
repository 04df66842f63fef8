"""The server over the standard library alone: one connection per request, and watches as lines."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
TIMEOUT_SECONDS = 10.0
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The HTTP status, the JSON body (text where it is none) and all headers."""

    status: int
    body: Any
    headers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.body["items"]]

    def header(self, name: str) -> list[str]:
        return [text for each, text in self.headers if each.lower() == name.lower()]


class Client:
    """Requests as one user of the server."""

    def __init__(self, url: str, *, user: str = "", context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self._context = context
        self._headers = {"Authorization": f"Bearer user:{user}"} if user else {}

    def get(self, path: str, **query: object) -> Answer:
        return self.request("GET", path + _query(query))

    def post(self, path: str, body: Any, **query: object) -> Answer:
        return self.request("POST", path + _query(query), body)

    def put(self, path: str, body: Any) -> Answer:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE) -> Answer:
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, body: Any = None, **query: object) -> Answer:
        return self.request("DELETE", path + _query(query), body)

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        headers = self._headers | {"Content-Type": content_type, "User-Agent": "a-test"}
        if accept:
            headers["Accept"] = accept
        with self._connection() as connection:
            connection.request(method, path, _encoded(body), headers)
            response = connection.getresponse()
            return Answer(status=response.status, body=_decoded(response.read()), headers=response.getheaders())

    @contextmanager
    def watch(self, path: str, *, accept: str = "", **query: object) -> Iterator[Watching]:
        """An open watch of this list."""
        with self._connection() as connection:
            headers = self._headers | ({"Accept": accept} if accept else {})
            connection.request("GET", path + _query({"watch": 1} | query), headers=headers)
            response = connection.getresponse()
            try:
                yield Watching(response)
            finally:
                response.close()

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        place = urlsplit(self.url).netloc
        if self._context is None:
            connection = http.client.HTTPConnection(place, timeout=TIMEOUT_SECONDS)
        else:
            connection = http.client.HTTPSConnection(place, timeout=TIMEOUT_SECONDS, context=self._context)
        try:
            yield connection
        finally:
            connection.close()


class Watching:
    """What a watch says, line by line."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def line(self) -> bytes:
        """The next line, b"" at the end."""
        return self.response.readline()

    def event(self) -> tuple[str, Json]:
        """The next event's type and object."""
        told = json.loads(self.line())
        return told["type"], told["object"]

    def brief(self) -> tuple[str, str]:
        """The next event's type, and the name of its object."""
        kind, value = self.event()
        return kind, value["metadata"].get("name", "")

    def briefs(self, count: int) -> list[tuple[str, str]]:
        return [self.brief() for _ in range(count)]

    def rest(self) -> list[tuple[str, Json]]:
        """All events up to the end."""
        lines = iter(self.line, b"")
        return [(told["type"], told["object"]) for told in map(json.loads, lines)]


def _query(query: dict[str, object]) -> str:
    pairs = [f"{name.rstrip('_')}={quote(str(value))}" for name, value in query.items()]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _encoded(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body).encode()


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def pod(name: str = "a", *, limits: dict[str, str] | None = None, **metadata: Any) -> Json:
    """A pod of one container `main`."""
    container = {"name": "main", "image": "none", "resources": {"limits": limits or {"nvidia.com/gpu": "1"}}}
    named = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named | metadata, "spec": {"containers": [container]}}


def node(name: str = "one", **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name} | metadata}


def binding(name: str, target: str = "one", **metadata: Any) -> Json:
    return {"metadata": {"name": name} | metadata, "target": {"kind": "Node", "name": target}}
