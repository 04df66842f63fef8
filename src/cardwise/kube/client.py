"""The thin shell that sends requests: connections, TLS, time-outs, credentials. What an answer means is in `answers`.

Nothing that writes is ever sent twice from here. A 401 is answered once with newer credentials, where there are any.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from yarl import URL

from cardwise.kube import requests
from cardwise.kube.answers import Answer, Page, checked, done, error_in, object_in, page_in
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.connection import Connection
from cardwise.kube.credentials import Credentials, Grant, refused_hint
from cardwise.kube.errors import Fault, KubeError, cut
from cardwise.kube.requests import ANY, EVERYWHERE, LATEST, Request, Resource, Scope

T = TypeVar("T")

CALL_SECONDS = 10.0
PAGE_SECONDS = 60.0
WHOLE_SECONDS = 300.0
"""For a list without pages: 50,000 pods are some hundred MB."""
PAGE_OBJECTS = 500
OPEN_SECONDS = 30.0
"""For the head of a stream's answer: a server that starts holds watches back until it has read everything itself."""
MOST_CONNECTIONS = 100
GRACE_SECONDS = 60.0
"""How much longer than the server promised to end it a stream may last."""


@dataclass(slots=True)
class _Attempt:
    """What a request waits for, for messages, and whether anything of it may have left."""

    waits_for: str = "credential"
    sent: bool = False


class Client:
    """Talks to one API server as one user. Use it as `async with Client(connection) as client`.

    All that it does raises KubeError: see `errors.Fault` for the kinds, and `KubeError.in_doubt` after a write.
    """

    def __init__(self, connection: Connection, *, user_agent: str = "cardwise", clock: Clock = SYSTEM_CLOCK) -> None:
        self.connection = connection
        self._user_agent = user_agent
        self._clock = clock
        self._credentials = Credentials(connection, clock)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_note_sent)
        encoding = "gzip" if self.connection.compressed else "identity"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": requests.JSON,
                "Accept-Encoding": encoding,
                "User-Agent": self._user_agent,
            },
            trace_configs=[trace],
        )
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._credentials.close()
        if self._session is not None:
            await self._session.close()

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object out of the API server's memory: it may be a little old."""
        return object_in(await self.send(requests.get(resource, name, namespace, version=ANY)), resource)

    async def get_quorum(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object as it is now: every write that was answered before is in it."""
        return object_in(await self.send(requests.get(resource, name, namespace, version=LATEST)), resource)

    async def list_pages(
        self,
        resource: Resource[T],
        scope: Scope = EVERYWHERE,
        *,
        limit: int = PAGE_OBJECTS,
        give_way: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Page[T]]:
        """All objects as of one moment, page by page; `limit` 0 is one page.

        A page takes milliseconds to decode: `give_way` is awaited before each, so that others may go first.
        Fault.GONE on a later page means that the moment was forgotten: what was listed so far is to be thrown away.
        """
        at = ""
        while True:
            request = requests.list_page(resource, scope, limit=limit, page=at)
            answer = await self.send(request, timeout_seconds=PAGE_SECONDS if limit else WHOLE_SECONDS)
            if give_way is not None:
                await give_way()
            page = page_in(answer, resource)
            yield page
            at = page.next_page
            if not at:
                return

    async def create(self, resource: Resource[T], one: T, namespace: str = "") -> T:
        """Creates an object, and returns it as the server completed it."""
        return object_in(await self.send(requests.create(resource, one, namespace)), resource)

    async def update(self, resource: Resource[T], one: T, name: str, namespace: str = "") -> T:
        """Replaces an object; Fault.CONFLICT if it no longer has the resource version that `one` has."""
        return object_in(await self.send(requests.update(resource, one, name, namespace)), resource)

    async def bind(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_seconds: float = CALL_SECONDS,
    ) -> None:
        """Binds this very pod to a node and records annotations and labels on it.

        Fault.CONFLICT if it is bound already, or another pod of that name stands there.
        """
        request = requests.bind(namespace, name, uid=uid, node=node, annotations=annotations, labels=labels)
        done(await self.send(request, timeout_seconds=timeout_seconds))

    async def patch(
        self,
        resource: Resource[T],
        change: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Changes an object, by a merge patch (a mapping) or by the steps of a JSON patch (a sequence)."""
        if isinstance(change, Mapping):
            request = requests.merge_patch(resource, change, name, namespace, subresource=subresource)
        else:
            request = requests.json_patch(resource, change, name, namespace, subresource=subresource)
        return object_in(await self.send(request), resource)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Deletes an object: only the one with this uid, where it is given (Fault.CONFLICT if it is another)."""
        done(await self.send(requests.delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)))

    async def send(self, request: Request, *, timeout_seconds: float = CALL_SECONDS) -> Answer:
        """The answer to any request, a refusal included (but for a 401, which is raised).

        The time-out is for all of it: credentials, connection, answer.
        """
        attempt = _Attempt()
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._open(request, attempt, aiohttp.ClientTimeout(total=None))
                return await _read(request, response)
        except TimeoutError as error:
            raise _timed_out(request, attempt, f"no {attempt.waits_for} within {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(request, attempt, error) from error

    @asynccontextmanager
    async def stream(
        self, request: Request, *, silence_seconds: float, most_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of an answer as it arrives. Fault.SILENT where nothing comes for too long, or no end comes."""
        attempt, fault = _Attempt(), Fault.TIMED_OUT
        timeout = aiohttp.ClientTimeout(total=most_seconds + GRACE_SECONDS, sock_read=silence_seconds)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                response = await self._open(request, attempt, timeout)
            async with response:
                if response.status != 200:
                    checked(await _read(request, response))
                attempt.waits_for, fault = f"sign of life for {silence_seconds:g} s, or no end", Fault.SILENT
                try:
                    yield response.content.iter_any()
                finally:
                    _hang_up(response)
        except TimeoutError as error:
            raise _timed_out(request, attempt, f"no {attempt.waits_for} in time", fault) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(request, attempt, error) from error

    async def _open(
        self, request: Request, attempt: _Attempt, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        grant = await self._credentials.grant()
        response = await self._respond(request, attempt, timeout, grant)
        if response.status != 401:
            return response
        refused = await _read(request, response)
        newer = await self._credentials.instead_of(grant)
        if newer is not None:
            grant = newer
            response = await self._respond(request, attempt, timeout, grant)
            if response.status != 401:
                return response
            refused = await _read(request, response)
        raise self._unauthorized(refused, grant)

    async def _respond(
        self, request: Request, attempt: _Attempt, timeout: aiohttp.ClientTimeout, grant: Grant
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it with `async with`")
        headers = grant.headers
        if request.content_type:
            headers["Content-Type"] = request.content_type
        attempt.waits_for, attempt.sent = "connection", False
        return await self._session.request(
            request.method,
            URL(self.connection.url + request.target, encoded=True),
            data=request.body or None,
            headers=headers,
            timeout=timeout,
            ssl=grant.context if grant.context is not None else True,
            server_hostname=self.connection.tls.server_name or None,
            allow_redirects=False,
            trace_request_ctx=attempt,
            middlewares=(_once,) if request.writes else (),
        )

    def _unreachable(self, request: Request, attempt: _Attempt, error: Exception) -> KubeError:
        """A server that is not the one that was meant is told with where the connection says which one is."""
        what = cut(str(error) or type(error).__name__)
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            keys = "certificate-authority or certificate-authority-data, server and tls-server-name"
            what = f"{what}; {self.connection.where}: {keys} must match the server's certificate"
        return KubeError(f"{request.where}: {what}", fault=Fault.UNREACHABLE, sent=attempt.sent)

    def _unauthorized(self, refused: Answer, grant: Grant) -> KubeError:
        error, hint = error_in(refused), refused_hint(self.connection, grant, self._clock.now())
        return KubeError(f"{error}; {hint}", fault=Fault.UNAUTHORIZED, code=error.code, reason=error.reason)


async def _note_sent(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    context.trace_request_ctx.sent = True
    context.trace_request_ctx.waits_for = "answer"


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keeps aiohttp from sending a PUT or DELETE again when a connection breaks: the first may have been carried out."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _read(request: Request, response: aiohttp.ClientResponse) -> Answer:
    async with response:
        return Answer(
            where=request.where,
            code=response.status,
            body=await response.read(),
            content_type=response.headers.get("Content-Type", ""),
            retry_after=response.headers.get("Retry-After", ""),
        )


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End a stream that is left in the middle at once: an orderly end of TLS would wait for what the server still sends."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _timed_out(request: Request, attempt: _Attempt, what: str, fault: Fault = Fault.TIMED_OUT) -> KubeError:
    return KubeError(f"{request.where}: {what}", fault=fault, sent=attempt.sent)
