"""An API server of pods that follows a script, and what a reflector tells of it in short words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from aiohttp import web

from cardwise.kube.client import Client
from cardwise.kube.clock import Clock
from cardwise.kube.facts import Bookmark, Changed, Fact, Listed, Removed, Synced, Troubled, Unreadable
from cardwise.kube.requests import PODS
from cardwise.kube.watch import Counts, Reflector
from cardwise.wire.objects import Pod
from kube.servers import Json, Waits, answer, plain, pod_list, run, serving

Write = Callable[[web.StreamResponse], Awaitable[None]]
Step = bytes | tuple[bytes, ...] | Json | Write


class Api:
    """A server that answers lists and watches from two scripts; the last step of each is repeated.

    A watch's step is what is written before the stream ends: bytes, pieces of them, or a function; or a refusal.
    """

    def __init__(self, *watches: Step, lists: tuple[Json, ...] = ()) -> None:
        self.listed: list[dict[str, str]] = []
        self.watched: list[dict[str, str]] = []
        self._watches = list(watches)
        self._lists = list(lists) or [pod_list("a", version=10)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if "watch" not in query:
            self.listed.append(query)
            return _said(_next(self._lists))
        self.watched.append(query)
        step = _next(self._watches)
        if isinstance(step, dict):
            return _said(step)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await _write(response, step)
        return response

    @property
    def versions(self) -> list[str]:
        """From where each watch started."""
        return [query["resourceVersion"] for query in self.watched]


def _next(script: list[Any]) -> Any:
    return script.pop(0) if len(script) > 1 else script[0]


def _said(body: Json) -> web.Response:
    return answer(body, body["code"] if body["kind"] == "Status" else 200)


async def _write(response: web.StreamResponse, step: Any) -> None:
    if callable(step):
        await step(response)
        return
    for piece in (step,) if isinstance(step, bytes) else step:
        await response.write(piece)
        await asyncio.sleep(0)


async def stay(response: web.StreamResponse) -> None:
    """A watch in which nothing happens."""
    await response.write(b"\n")
    await asyncio.sleep(60)


async def facts_of(api: Api, enough: int, clock: Clock, **options: Any) -> tuple[list[Fact[Pod]], Counts]:
    facts: list[Fact[Pod]] = []
    async with serving(api.handle) as url, Client(plain(url)) as client:
        reflector = Reflector(client, PODS, clock=clock, **options)
        async with aclosing(reflector.facts()) as stream:
            async for fact in stream:
                facts.append(fact)
                if len(facts) == enough:
                    break
        return facts, reflector.counts


def told(api: Api, enough: int, clock: Clock | None = None, **options: Any) -> tuple[list[str], Counts]:
    """The first facts as short words, and the counts."""
    facts, counts = run(facts_of(api, enough, clock or Waits().clock, **options))
    return [in_words(fact) for fact in facts], counts


def in_words(fact: Fact[Pod]) -> str:
    match fact:
        case Listed():
            return f"listed {','.join(one.metadata.name for one in fact.objects)} @{fact.version}"
        case Changed() | Removed():
            return f"{type(fact).__name__.lower()} {fact.object.metadata.name} @{fact.version}"
        case Unreadable():
            return f"unreadable {fact.name} @{fact.version}"
        case Synced() | Bookmark():
            return f"{type(fact).__name__.lower()} @{fact.version}"
        case Troubled():
            return f"troubled: {fact.error.fault}"
