"""The server as a whole: started in an event loop, or in a thread of its own for code that has none."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from cardwise.sim.apiserver import errors, patch
from cardwise.sim.apiserver.calls import Call
from cardwise.sim.apiserver.faults import Faults
from cardwise.sim.apiserver.log import Log
from cardwise.sim.apiserver.objects import Json, namespace_of
from cardwise.sim.apiserver.reads import Reads
from cardwise.sim.apiserver.resources import BY_KIND, BY_PLURAL, Resource
from cardwise.sim.apiserver.server import Server
from cardwise.sim.apiserver.store import Store
from cardwise.sim.apiserver.writes import Demands, Writes

VERSION = "v1.36.2"
LABELS_MERGED_SINCE = 35
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
STOP_SECONDS = 2.0


class MemoryServer:
    """A Kubernetes API server on a free port of 127.0.0.1, or on this one, with an `async with` for its life, or for each:
    what it stores stays.

    `faults` and `log` may be used at any time and from any thread, as may the methods that create, change and read
    objects in Python: these pass webhooks, faults and log by. `version` is what the server says it is; labels of a
    Binding reach the pod from 1.35 on. `services` names, as `namespace/name`, where a webhook's service listens
    (`127.0.0.1:8443`). With `tls` it speaks HTTPS, and `authority_pem` goes into kubeconfig files.
    """

    def __init__(
        self,
        *,
        version: str = VERSION,
        services: Mapping[str, str] | None = None,
        history_limit: int = 100_000,
        bookmark_seconds: float = 5.0,
        tls: ssl.SSLContext | None = None,
        authority_pem: bytes = b"",
        clock: Callable[[], float] = time.time,
        port: int = 0,
    ) -> None:
        self.faults = Faults()
        self.log = Log()
        self.url = ""
        self._store = Store(history_limit=history_limit)
        self._reads = Reads(self._store)
        minor = int(version.lstrip("v").split(".")[1])
        self._writes = Writes(self._store, clock=clock, merge_binding_labels=minor >= LABELS_MERGED_SINCE)
        self._version = version
        self._services = services or {}
        self._bookmark_seconds = bookmark_seconds
        self._tls = tls
        self._authority_pem = authority_pem
        self._clock = clock
        self._port = port
        self._numbers = itertools.count(1)
        self._ending: list[Callable[[], None]] = []
        self._server: Server | None = None
        self._runner: web.ServerRunner | None = None
        self._furnish()

    async def __aenter__(self) -> Self:
        server = Server(
            self._store,
            self.faults,
            self.log,
            reads=self._reads,
            writes=self._writes,
            services=self._services,
            version=self._version,
            bookmark_seconds=self._bookmark_seconds,
            clock=self._clock,
        )
        self._ending.append(self._store.listen(server.bell.ring))
        self.faults.on_change(server.bell.ring)
        runner = web.ServerRunner(
            web.Server(server.handle, access_log=None, handler_cancellation=True), shutdown_timeout=STOP_SECONDS
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        self._server, self._runner = server, runner
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in self._ending:
            end()
        self._ending.clear()
        self.faults.on_change(lambda: None)
        if self._server is not None and self._runner is not None:
            await self._server.close()
            await self._runner.cleanup()

    @property
    def revision(self) -> int:
        """The version of the last write."""
        return self._store.revision

    @property
    def watching(self) -> int:
        """How many watches are open."""
        return self._server.bell.listening if self._server is not None else 0

    def write_kubeconfig(self, path: Path, *, user: str = "admin") -> Path:
        """Write a kubeconfig file that speaks as this user; answers its path."""
        cluster: Json = {"server": self.url}
        if self._authority_pem:
            cluster["certificate-authority-data"] = base64.b64encode(self._authority_pem).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "memory", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": f"user:{user}"}}],
            "contexts": [{"name": "memory", "context": {"cluster": "memory", "user": user, "namespace": "default"}}],
            "current-context": "memory",
        }
        path.write_text(json.dumps(content, indent=1))
        return path

    def create(self, value: Json) -> Json:
        """Create the object, in namespace `default` where it needs one and names none; answers it. RefusedError."""
        resource = BY_KIND.get((value.get("apiVersion", ""), value.get("kind", "")))
        if resource is None:
            raise errors.no_such_resource()
        namespace = (namespace_of(value) or "default") if resource.namespaced else ""
        call = Call(verb="create", resource=resource, namespace=namespace)
        with errors.understood(resource):
            return deepcopy(self._writes.create(call, self._writes.draft(call, value)))

    def get(self, plural: str, name: str, namespace: str = "default") -> Json | None:
        """The object; None where there is none."""
        return deepcopy(self._store.get(_resource(plural).stored_as, _call("get", plural, name, namespace).key))

    def list(self, plural: str, namespace: str = "") -> tuple[Json, ...]:
        """All objects of the kind, in one namespace or in all, by namespace and name."""
        with self._store.locked():
            rows = self._store.snapshot(_resource(plural).stored_as, self._store.revision)
        return tuple(deepcopy(each) for _key, each in rows if namespace in ("", namespace_of(each)))

    def patch(
        self, plural: str, name: str, changes: Json, *, namespace: str = "default", subresource: str = ""
    ) -> Json:
        """The object after this merge patch; `subresource` is "" or `status`. RefusedError."""
        call = _call("patch", plural, name, namespace, subresource)
        with errors.understood(call.resource):
            return deepcopy(self._writes.patch(call, changes, patch.MERGE))

    def bind(self, name: str, node: str, *, namespace: str = "default", annotations: Json | None = None) -> Json:
        """Bind the pod to the node as a scheduler does; answers it. RefusedError."""
        binding = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "target": {"kind": "Node", "name": node},
        }
        self._writes.bind(_call("create", "pods", name, namespace, "binding"), binding)
        return self.get("pods", name, namespace) or {}

    def delete(self, plural: str, name: str, *, namespace: str = "default", grace_seconds: int | None = None) -> None:
        """Delete the object, or let it end; RefusedError where there is none."""
        self._writes.delete(_call("delete", plural, name, namespace), Demands(grace_seconds=grace_seconds))

    def compact(self) -> None:
        """Forget the past: continue tokens and versions from before now are answered with 410."""
        self._store.compact()

    def _furnish(self) -> None:
        """What a new cluster has."""
        for name in NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, value in PRIORITIES.items():
            named = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            self.create(named | {"value": value})


def _resource(plural: str) -> Resource:
    if plural not in BY_PLURAL:
        raise errors.no_such_resource()
    return BY_PLURAL[plural]


def _call(verb: str, plural: str, name: str, namespace: str, subresource: str = "") -> Call:
    resource = _resource(plural)
    own = namespace if resource.namespaced else ""
    return Call(verb=verb, resource=resource, namespace=own, name=name, subresource=subresource)


def _set_in(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


@contextmanager
def running_server(**options: Any) -> Iterator[MemoryServer]:
    """A started MemoryServer with these options, in a thread of its own; stopped when the block ends."""
    server = MemoryServer(**options)
    started: threading.Event = threading.Event()
    stop: list[Callable[[], None]] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        stop.append(partial(_set_in, loop, over))
        async with server:
            started.set()
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001  (handed to the other thread)
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="memory-server")
    thread.start()
    started.wait()
    try:
        if failed:
            raise failed[0]
        yield server
    finally:
        if thread.is_alive():
            stop[0]()
        thread.join()
