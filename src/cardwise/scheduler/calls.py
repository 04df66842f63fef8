"""kube-scheduler's calls: bodies in, bodies out, each counted by what became of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cardwise.core.model import Refusal
from cardwise.scheduler import extender
from cardwise.scheduler.answers import Chosen, Filtered, Refused, Untouched
from cardwise.scheduler.binds import Binds
from cardwise.scheduler.extender import Args, ProtocolError
from cardwise.scheduler.filtering import filter_pod
from cardwise.scheduler.offered import Offered
from cardwise.scheduler.pods import SeenPod, is_managed, unplaceable
from cardwise.scheduler.preempting import preempt_on
from cardwise.scheduler.ranking import scores
from cardwise.scheduler.trial import try_nodes
from cardwise.scheduler.world import World
from cardwise.wire import objects

_log = logging.getLogger("cardwise.scheduler")


@dataclass(frozen=True, slots=True)
class Answered:
    """A body, what became of the call (for metrics), and whether the request was one at all."""

    body: bytes
    result: str
    status: int = 200


Verb = Callable[[bytes], Awaitable[Answered]]


class Calls:
    """The four verbs. Each gives an answer to whatever comes, and raises nothing."""

    def __init__(self, world: World, binds: Binds) -> None:
        self.precedence = world.precedence
        self._world = world
        self._binds = binds
        self.verbs: dict[str, Verb] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }

    async def answer(self, verb: str, body: bytes) -> Answered:
        """The answer to a call, counted."""
        started = time.perf_counter()
        try:
            answered = await self.verbs[verb](body)
        except (ProtocolError, *extender.UNREADABLE) as error:
            _log.warning("/%s: %s", verb, error)
            answered = Answered(extender.bind_answer(str(error)), "error", 400 if _unreadable(error) else 200)
        except Exception:  # noqa: BLE001  (a defect of ours must not end the service, nor go unseen)
            _log.exception("/%s failed", verb)
            answered = Answered(extender.bind_answer(f"/{verb} failed inside, see the log of cardwise"), "error", 500)
        self._world.metrics.decided(verb, answered.result, time.perf_counter() - started)
        self._world.settle()
        return answered

    # -- filter ----------------------------------------------------------------------------------------------------

    async def _filter(self, body: bytes) -> Answered:
        args = extender.filter_args(body)
        if args.nodes is not None:
            return self._try(args, args.pod_sent)
        books = self._world.books
        if not args.pod_sent.metadata.uid and is_managed(args.pod_sent, books.holdings.families):
            raise ProtocolError("Pod.metadata.uid is (empty), must be the uid of the pod")
        offered = extender.offered(args, books.holdings.cluster.cards)
        answer = filter_pod(books, args.pod_sent, offered, now=self._world.now)
        self._count(answer)
        return Answered(extender.filter_answer(answer, args, offered, books.holdings.cluster.cards), _result(answer))

    def _try(self, args: Args, pod: objects.Pod) -> Answered:
        """Nodes sent whole: the answer is about them alone, and nothing is reserved."""
        books, sent = self._world.books, extender.sent_nodes(args)
        if not is_managed(pod, books.holdings.families):
            return Answered(extender.nodes_answer(sent), "untouched")
        seen = books.read(pod)
        fault = unplaceable(seen, books.holdings.families)
        if fault is None and seen.request is None:
            return Answered(extender.nodes_answer(sent), "untouched")
        found: str | dict[str, Refusal]
        if fault is not None:
            found = {each.node.metadata.name: fault for each in sent}
        else:
            found = try_nodes(books, seen, [each.node for each in sent])
        if isinstance(found, str):
            return Answered(
                extender.nodes_answer([each for each in sent if each.node.metadata.name == found]), "placed"
            )
        return Answered(extender.failed_answer(found), "refused")

    def _count(self, answer: Filtered) -> None:
        if isinstance(answer, Refused):
            self._world.metrics.refused(answer.code)

    # -- prioritize, preempt, bind ---------------------------------------------------------------------------------

    async def _prioritize(self, body: bytes) -> Answered:
        args = extender.filter_args(body)
        if args.nodes is not None:
            names = [each.node.metadata.name for each in extender.sent_nodes(args)]
        else:
            names = self._offered(args).names
        books = self._world.books
        return Answered(
            extender.scores_answer(scores(books, books.read(args.pod_sent), names, now=self._world.now)), "answered"
        )

    def _offered(self, args: Args) -> Offered:
        return extender.offered(args, self._world.books.holdings.cluster.cards)

    async def _preempt(self, body: bytes) -> Answered:
        args = extender.preempt_args(body)
        books = self._world.books
        pod, victims = args.pod_sent, args.victims
        if not is_managed(pod, books.holdings.families):
            return Answered(
                extender.preempt_answer({node: (each.uids, each.violations) for node, each in victims.items()}),
                "untouched",
            )
        seen = books.note(pod, now=self._world.now)
        kept: dict[str, tuple[list[str], int]] = {}
        for node, each in victims.items():
            chosen = None if seen is None else self._preempt_on(seen, node, each.uids)
            if chosen:
                kept[node] = chosen, each.violations
            await asyncio.sleep(0)  # a node may take a millisecond, and there may be hundreds
        return Answered(extender.preempt_answer(kept), "answered" if kept else "refused")

    def _preempt_on(self, seen: SeenPod, node: str, given: list[str]) -> list[str] | None:
        return preempt_on(self._world.books, seen, node, given, now=self._world.now)

    async def _bind(self, body: bytes) -> Answered:
        args = extender.bind_args(body)
        bound = await self._binds.bind(args)
        if bound.error:
            _log.warning("pod %s/%s is not bound to node %s: %s", args.namespace, args.name, args.node, bound.error)
        return Answered(extender.bind_answer(bound.error), bound.result)


def _unreadable(error: Exception) -> bool:
    return isinstance(error, ProtocolError) and not error.readable


def _result(answer: Filtered) -> str:
    match answer:
        case Untouched():
            return "untouched"
        case Chosen():
            return "placed"
        case Refused():
            return "refused"
