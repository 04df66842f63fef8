"""Calls an extender over HTTP as kube-scheduler does; a call that fails raises ExtenderError in kube-scheduler's words.

Format: https://pkg.go.dev/k8s.io/kube-scheduler/extender/v1. Its types have no JSON tags, so the names are Go's.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec

from cardwise.sim.kubescheduler.objects import Pod, go_json
from cardwise.sim.kubescheduler.settings import Settings

T = TypeVar("T")

MOST_CALLS = 10_000
HEADERS = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json", "Accept-Encoding": "gzip"}


class _Wire(msgspec.Struct, rename="pascal"):
    """Base of the answers."""


class FilterAnswer(_Wire):
    """Which nodes remain, and why the others do not."""

    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class _HostScore(_Wire):
    host: str
    score: int


class _Victim(_Wire):
    uid: str = msgspec.field(name="UID")


class _Victims(_Wire):
    pods: list[_Victim] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptAnswer(_Wire):
    victims: dict[str, _Victims | None] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")


class _BindAnswer(_Wire):
    error: str = ""


class ExtenderError(Exception):
    """An extender that cannot be reached, or whose answer is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that was made. `began_seconds` is on the monotonic clock."""

    verb: str
    pod: str
    began_seconds: float
    lasted_seconds: float
    error: str = ""


class Extender:
    """One extender that knows nodes by name (`nodeCacheCapable`). Use it as `async with`; `calls` are the last ones."""

    def __init__(self, url: str, managed: Collection[str], settings: Settings) -> None:
        self.url = url.rstrip("/")
        self.calls: deque[Call] = deque(maxlen=MOST_CALLS)
        self._managed = frozenset(managed)
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=HEADERS,
            skip_auto_headers=("Accept",),
            timeout=aiohttp.ClientTimeout(total=self._settings.http_seconds),
            connector=aiohttp.TCPConnector(limit=0),
        )
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def asked(self, verb: str, pod: Pod) -> bool:
        """Whether this verb is configured, and the pod names anything that the extender manages."""
        return verb in self._settings.verbs and not self._managed.isdisjoint(pod.resources)

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """What becomes of these nodes."""
        answer = await self._call("filter", pod, _nodes_body(pod, nodes), FilterAnswer)
        if answer.error:
            raise ExtenderError(answer.error)
        for name in answer.node_names or ():
            if name not in nodes:
                what = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.url}" {what}')
        return answer

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> dict[str, int]:
        """A score for each node that the extender names."""
        answer = await self._call("prioritize", pod, _nodes_body(pod, nodes), list[_HostScore])
        return {one.host: one.score for one in answer}

    async def preempt(self, pod: Pod, victims: Mapping[str, Sequence[Pod]]) -> dict[str, list[str]]:
        """The uids of those that shall leave, by node: the extender may choose others, and leave nodes out."""
        offered = {
            node: {"Pods": [{"UID": one.uid} for one in pods], "NumPDBViolations": 0}
            for node, pods in sorted(victims.items())
        }
        head = b'{"Pod":' + pod.wire + b',"NodeNameToVictims":null,"NodeNameToMetaVictims":'
        answer = await self._call("preempt", pod, head + go_json(offered) + b"}", _PreemptAnswer)
        return {
            node: [one.uid for one in (chosen.pods if chosen is not None else None) or ()]
            for node, chosen in (answer.victims or {}).items()
        }

    async def bind(self, pod: Pod, node: str) -> None:
        """The extender binds the pod to the node."""
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._call("bind", pod, go_json(body), _BindAnswer)
        if answer.error:
            raise ExtenderError(answer.error)

    async def _call(self, verb: str, pod: Pod, body: bytes, answer: type[T]) -> T:
        began, error = time.monotonic(), ""
        try:
            raw = await self._post(verb, body)
            try:
                return msgspec.json.decode(raw, type=answer)
            except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
                raise ExtenderError(f"the answer of {self.url}/{verb} cannot be read: {trouble}") from trouble
        except ExtenderError as trouble:
            error = str(trouble)
            raise
        finally:
            lasted = time.monotonic() - began
            call = Call(verb=verb, pod=pod.full_name, began_seconds=began, lasted_seconds=lasted, error=error)
            self.calls.append(call)

    async def _post(self, verb: str, body: bytes) -> bytes:
        if self._session is None:
            raise RuntimeError("the extender's client is not open: use it with `async with`")
        url = f"{self.url}/{verb}"
        try:
            async with self._session.post(url, data=body, allow_redirects=False) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return await response.read()
        except TimeoutError as error:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {why}') from error
        except aiohttp.ClientError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error


def _nodes_body(pod: Pod, nodes: Sequence[str]) -> bytes:
    return b'{"Pod":' + pod.wire + b',"Nodes":null,"NodeNames":' + go_json(list(nodes)) + b"}"
