"""The HTTP shell: a request is read, meets its faults, is carried out, logged and answered."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from cardwise.sim.apiserver import errors
from cardwise.sim.apiserver.admission import Admission
from cardwise.sim.apiserver.calls import Call, read_call
from cardwise.sim.apiserver.discovery import (
    AGGREGATED,
    HEALTH_PATHS,
    OPENAPI_V2,
    OPENAPI_V2_PATH,
    OPENAPI_V2_TYPE,
    document,
    wants_aggregated,
)
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.faults import Fault, Faults, How
from cardwise.sim.apiserver.log import Log, Write
from cardwise.sim.apiserver.objects import Json, name_of
from cardwise.sim.apiserver.reads import Reads
from cardwise.sim.apiserver.review import warning_headers
from cardwise.sim.apiserver.shapes import Shape, shape_of
from cardwise.sim.apiserver.store import Store
from cardwise.sim.apiserver.waking import Bell
from cardwise.sim.apiserver.watch import Surroundings, Watch, refuse
from cardwise.sim.apiserver.writes import PATCHES, SUCCESS, Demands, Writes

BODY_LIMIT_BYTES = 3 * 1024 * 1024
ANONYMOUS = "system:anonymous"
TOKEN_PREFIX = "user:"  # noqa: S105  (what comes before a name, and no secret)
JSON_TYPE = "application/json"
BODY_TYPES = (JSON_TYPE, "")
_BODY_TYPES_TEXT = (
    "the body of the request was in an unknown format - accepted media types include: application/json,"
    " application/yaml, application/vnd.kubernetes.protobuf"
)


@dataclass(slots=True)
class Request:
    """What is known of one request while it is served."""

    user: str
    user_agent: str
    accept: str
    content_type: str
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    """The HTTP status, and a stored object or a document that is shown as it is."""

    status: int
    value: Json
    shown: bool = False


class Server:
    """Answers requests from one store. All methods but `handle` are steps of it."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        log: Log,
        *,
        reads: Reads,
        writes: Writes,
        services: Mapping[str, str],
        version: str,
        bookmark_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._faults = faults
        self._log = log
        self._reads = reads
        self._writes = writes
        self._version = version
        self._bookmark_seconds = bookmark_seconds
        self._clock = clock
        self._client: aiohttp.ClientSession | None = None
        self._admission = Admission(store, services, self._session)
        self.closing = asyncio.Event()
        self.bell = Bell(asyncio.get_running_loop())

    async def close(self) -> None:
        """End all watches and the connections to webhooks."""
        self.closing.set()
        self.bell.ring()
        if self._client is not None:
            await self._client.close()

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """The answer to one request, whatever comes: a refusal is an answer too."""
        try:
            request = Request(
                user=user_of(http),
                user_agent=http.headers.get("User-Agent", ""),
                accept=http.headers.get("Accept", ""),
                content_type=http.headers.get("Content-Type", "").partition(";")[0].strip(),
            )
            call = read_call(http.method, http.path, http.query)
            if call is None:
                return self._document(http, request)
            request.body = await read_body(http)
            return await self._served(http, call, request)
        except RefusedError as error:
            return refusal(error)

    def _document(self, http: web.BaseRequest, request: Request) -> web.Response:
        if http.path in HEALTH_PATHS:
            return web.Response(text="ok")
        if http.path == OPENAPI_V2_PATH:
            return web.Response(body=OPENAPI_V2, content_type=OPENAPI_V2_TYPE)
        aggregated = wants_aggregated(request.accept)
        found = document(http.path, self._version, aggregated=aggregated) if http.method == "GET" else None
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        aggregated = aggregated and found.get("kind") == "APIGroupDiscoveryList"
        return answer(200, found, content_type=AGGREGATED if aggregated else JSON_TYPE)

    async def _served(self, http: web.BaseRequest, call: Call, request: Request) -> web.StreamResponse:
        fault = self._faults.take(call)
        if fault is not None and not fault.after_write:
            early = await self._meet(fault, http)
            if early is not None:
                self._record(call, request, call.name, early.status if fault.how is How.ANSWER else 0)
                return early
        if call.verb == "watch":
            self._log.count(call)
            return await self._watch(http, call, request)
        response = await self._carried_out(call, request)
        if fault is not None and fault.after_write:
            late = await self._meet(fault, http)
            return response if late is None else late
        return response

    async def _meet(self, fault: Fault, http: web.BaseRequest) -> web.Response | None:
        """What the client gets instead of an answer; None where it gets one after all."""
        if fault.how in (How.TIME_OUT, How.DELAY):
            await self._pause(fault.seconds)
        if fault.how is How.DROP and http.transport is not None:
            http.transport.abort()
        if fault.how is How.TIME_OUT:
            return refusal(errors.timed_out())
        return None if fault.how is How.DELAY else _planned(fault)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.closing.wait()
        except TimeoutError:
            return

    async def _carried_out(self, call: Call, request: Request) -> web.Response:
        try:
            shape = shape_of(request.accept, call.query.get("includeObject", ""))
            with errors.understood(call.resource):
                result = await self._result(call, request, shape)
        except RefusedError as error:
            self._record(call, request, call.name, error.status)
            return refusal(error, request.warnings)
        self._record(call, request, call.name or name_of(result.value), result.status)
        value = result.value if result.shown else shape.one(result.value, call.resource, self._clock())
        return answer(result.status, value, request.warnings)

    async def _result(self, call: Call, request: Request, shape: Shape) -> Result:
        if call.verb == "create":
            return await self._created(call, request)
        if call.verb == "update":
            value, new = self._writes.update(call, self._object(request, call))
            return Result(201 if new else 200, value)
        if call.verb == "patch":
            known = request.content_type in PATCHES
            operations = decoded(request.body, "invalid JSON patch") if known else None
            return Result(200, self._writes.patch(call, operations, request.content_type))
        if call.verb == "delete":
            return Result(200, self._writes.delete(call, self._demands(call, request)))
        if call.verb == "deletecollection":
            page = self._reads.page(call)
            self._writes.delete_all(call, page.items, self._demands(call, request))
            return Result(200, shape.page(page, call.resource, self._clock()), shown=True)
        if call.verb == "list":
            return Result(200, shape.page(self._reads.page(call), call.resource, self._clock()), shown=True)
        return Result(200, self._reads.get(call))

    async def _created(self, call: Call, request: Request) -> Result:
        body = self._object(request, call)
        if call.subresource == "binding" or call.resource.plural == "bindings":
            self._writes.bind(call, body)
            return Result(201, SUCCESS | {"code": 201}, shown=True)
        draft = self._writes.draft(call, body)
        draft = await self._admission.admit(call, draft, request.user, request.warnings)
        return Result(201, self._writes.create(call, draft))

    async def _watch(self, http: web.BaseRequest, call: Call, request: Request) -> web.StreamResponse:
        around = Surroundings(
            store=self._store,
            faults=self._faults,
            bell=self.bell,
            closing=self.closing,
            bookmark_seconds=self._bookmark_seconds,
            clock=self._clock,
            shape=shape_of(request.accept, call.query.get("includeObject", "")),
        )
        response = web.StreamResponse()
        with contextlib.suppress(ConnectionError):  # the client may leave
            await self._run_watch(call, around, response, http)
        return response

    async def _run_watch(
        self, call: Call, around: Surroundings, response: web.StreamResponse, http: web.BaseRequest
    ) -> None:
        try:
            start = self._reads.watch_start(call)
        except RefusedError as error:
            if error.status != 410:
                raise
            await refuse(error, response, http)  # a forgotten version is told in the stream, as a real server does
            return
        await Watch(call, start, around).run(response, http)

    def _object(self, request: Request, call: Call) -> Any:
        if request.content_type not in BODY_TYPES:
            raise errors.unsupported_media_type(_BODY_TYPES_TEXT)
        kind = call.resource.subresource_kinds.get(call.subresource, call.resource.kind)
        unread = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind"
        return decoded(request.body, f"{unread}; json parse error")

    def _demands(self, call: Call, request: Request) -> Demands:
        """From the body (DeleteOptions), and the grace from the query too, which wins."""
        body = decoded(request.body, "couldn't get version/kind; json parse error") if request.body else {}
        options = body if isinstance(body, dict) else {}
        preconditions = options.get("preconditions") or {}
        asked = call.number("gracePeriodSeconds")
        return Demands(
            grace_seconds=options.get("gracePeriodSeconds") if asked is None else asked,
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
        )

    def _record(self, call: Call, request: Request, name: str, status: int) -> None:
        if not call.writes:
            self._log.count(call)
            return
        write = Write(
            time_seconds=self._clock(),
            user=request.user,
            user_agent=request.user_agent,
            verb=call.verb,
            resource=call.target,
            namespace=call.namespace,
            name=name,
            body_bytes=len(request.body),
            status=status,
            dry_run=call.dry_run,
        )
        self._log.add(write)

    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = aiohttp.ClientSession(trust_env=False)
        return self._client


def user_of(http: web.BaseRequest) -> str:
    """Who asks: the token `user:NAME`, else the common name of a client certificate, else nobody in particular.

    Raises RefusedError (401) for any other token.
    """
    scheme, _, token = http.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        if not token.startswith(TOKEN_PREFIX) or token == TOKEN_PREFIX:
            raise errors.unauthorized()
        return token.removeprefix(TOKEN_PREFIX)
    certificate = http.transport.get_extra_info("peercert") if http.transport else None
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    name: str = dict(subject).get("commonName", ANONYMOUS)
    return name


async def read_body(http: web.BaseRequest) -> bytes:
    """The body; raises RefusedError (413) where it is longer than a server takes."""
    if (http.content_length or 0) > BODY_LIMIT_BYTES:
        raise errors.too_large(BODY_LIMIT_BYTES)
    body = bytearray()
    async for chunk in http.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT_BYTES:
            raise errors.too_large(BODY_LIMIT_BYTES)
    return bytes(body)


def decoded(body: bytes, complaint: str) -> Any:
    """The body as JSON; raises RefusedError (400) with the complaint."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(complaint if complaint == "invalid JSON patch" else f"{complaint}: {error}") from error


def answer(
    status: int, value: Json, warnings: list[str] | None = None, *, content_type: str = JSON_TYPE
) -> web.Response:
    """A JSON answer."""
    response = web.Response(status=status, body=msgspec.json.encode(value) + b"\n")
    response.headers["Content-Type"] = content_type
    for name, text in warning_headers(warnings or []):
        response.headers.add(name, text)
    return response


def refusal(error: RefusedError, warnings: list[str] | None = None) -> web.Response:
    """The Status object of a request that is not carried out."""
    response = answer(error.status, error.body, warnings)
    for name, text in error.headers:
        response.headers.add(name, text)
    return response


def _planned(fault: Fault) -> web.Response:
    """The answer of a fault; for a dropped connection, which nobody reads, any."""
    message = fault.message or f"the server answers {fault.status}, as a test asked it to"
    error = RefusedError(fault.status, message, fault.reason)
    response = refusal(error)
    if fault.body is not None:
        response = web.Response(status=fault.status, body=fault.body)
        response.headers["Content-Type"] = fault.content_type
    if fault.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(fault.retry_after_seconds)
    return response
