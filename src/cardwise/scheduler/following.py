"""Watches become facts in the books, in slices between which calls are answered: a list may be 50,000 pods."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from cardwise.kube.facts import Bookmark, Changed, Fact, Listed, Removed, Synced, Troubled, Unreadable
from cardwise.kube.requests import PODS, Resource, Scope
from cardwise.kube.types import Lease
from cardwise.kube.watch import Reflector
from cardwise.scheduler.world import World
from cardwise.wire import names, objects
from cardwise.wire.quotas import ResourceQuota, read_quota, unreadable_quota

T = TypeVar("T")

SLICE = 20
"""Objects taken in at once: less than a millisecond."""
PAGE = 250
"""Objects listed at once: they are decoded in one piece, of one or two milliseconds."""
COLLECT_YOUNG, COLLECT_MIDDLE, COLLECT_ALL = 700, 10, 10_000
"""When cyclic garbage is looked for. Tens of thousands of pods come and go in a list, none of them in a cycle: looking
through all of them each time, as Python does by default, stalls decisions for a fifth of a second.
"""

_log = logging.getLogger("cardwise.scheduler")


async def in_slices(world: World, objects_: list[T], take: Callable[[T], object]) -> None:
    """Takes in many objects without holding up anybody for long. They are let go of as they come: that takes time too."""
    objects_.reverse()
    while objects_:
        for one in reversed(objects_[-SLICE:]):
            take(one)
        del objects_[-SLICE:]
        world.settle()
        await world.precedence.give_way()


class _Following:
    """One watch. A subclass says what its facts mean."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self._taken = 0

    async def follow(self, resource: Resource[Any], scope: Scope | None = None) -> None:
        """Follows without an end."""
        reflector = Reflector(
            self.world.client,
            resource,
            scope or Scope(),
            page_objects=PAGE,
            give_way=self.world.precedence.give_way,
            clock=self.world.clock,
        )
        self.world.metrics.watching(self.name, reflector.counts)
        async with aclosing(reflector.facts()) as facts:
            while True:
                await self._next(facts)
                self.world.settle()

    async def _next(self, facts: AsyncIterator[Fact[Any]]) -> None:
        fact = await anext(facts)
        if isinstance(fact, Listed):
            all_there_is, fact = list(fact.objects), replace(fact, objects=())
            await self.listed(all_there_is, fact)
            self.world.listed.add(self.name)
            return
        self.take(fact)
        self._taken += 1
        if self._taken % SLICE == 0:
            await self.world.precedence.give_way()

    def take(self, fact: Fact[Any]) -> None:
        """One fact of the watch, but for a list."""
        match fact:
            case Changed():
                self.seen(fact.object)
            case Removed():
                self.gone(fact.object)
            case Unreadable():
                self.unreadable(fact)
            case Synced():
                self.world.troubled.pop(self.name, None)
            case Troubled():
                self.world.troubled[self.name] = str(fact.error)
                _log.warning("watch of %s: %s; tried again in %.1f s", self.name, fact.error, fact.wait_seconds)
            case Bookmark() | Listed():
                pass

    async def listed(self, there: list[Any], fact: Listed[Any]) -> None:
        """All there is, which is taken out of its fact so that it can be let go of piece by piece."""
        raise NotImplementedError

    def seen(self, one: Any) -> None:
        """An object is there, or has changed."""
        raise NotImplementedError

    def gone(self, one: Any) -> None:
        """An object is gone."""
        raise NotImplementedError

    def unreadable(self, fact: Unreadable) -> None:
        """An object is there that cannot be decoded."""
        _log.error("%s %s/%s cannot be read: %s", self.name, fact.namespace, fact.name, fact.reason)


class Nodes(_Following):
    """Every node."""

    name = "nodes"

    async def listed(self, there: list[objects.Node], fact: Listed[objects.Node]) -> None:
        names_there = [node.metadata.name for node in there]
        await in_slices(self.world, there, self.seen)
        if not fact.skipped:
            self.world.books.nodes_listed(names_there)

    def seen(self, one: objects.Node) -> None:
        self.world.books.node_seen(one, now=self.world.now)

    def gone(self, one: objects.Node) -> None:
        self.world.books.node_gone(one.metadata.name)

    def unreadable(self, fact: Unreadable) -> None:
        """A node whose text cannot be decoded is one that nothing is known of: as if it were gone, what runs there kept."""
        super().unreadable(fact)
        self.world.books.node_gone(fact.name)


class Pods(_Following):
    """Every pod; our own among them shows that the watch is as new as what we wrote on it."""

    name = "pods"

    def __init__(self, world: World, term: int) -> None:
        super().__init__(world)
        self._term = term  # of leadership, when this watch began

    async def listed(self, there: list[objects.Pod], fact: Listed[objects.Pod]) -> None:
        """Those that are there first, then those that are not: nothing is free before what took its place is counted."""
        uids = {each.uid for each in fact.unreadable}

        def seen(pod: objects.Pod) -> None:
            uids.add(pod.metadata.uid)
            self.seen(pod)

        await in_slices(self.world, there, seen)
        for each in fact.unreadable:
            self.unreadable(each)
        if fact.skipped == len(fact.unreadable) and "" not in uids:
            self.world.books.pods_listed(uids, fact.version)
        if not self.world.config.pod.name:
            self.world.fence.proved(self._term)
        if self.name not in self.world.listed:
            gc.freeze()  # what is known of a cluster stays: looking through it again and again would stall decisions

    def seen(self, one: objects.Pod) -> None:
        own = self.world.config.pod
        if one.metadata.name == own.name and one.metadata.namespace == own.namespace:
            self.world.fence.proof_seen(one.annotations.get(names.TAKEOVER, ""))
        self.world.books.pod_seen(one, now=self.world.now)

    def gone(self, one: objects.Pod) -> None:
        self.world.books.pod_gone(one.metadata.uid, one.version)

    def unreadable(self, fact: Unreadable) -> None:
        super().unreadable(fact)
        if fact.gone:
            self.world.books.pod_gone(fact.uid)
            return
        self.world.books.pod_unreadable(fact.node_name, fact.uid, f"{fact.namespace}/{fact.name}")


class Quotas(_Following):
    """Every ResourceQuota."""

    name = "resourcequotas"

    async def listed(self, there: list[ResourceQuota], fact: Listed[ResourceQuota]) -> None:
        for one in there:
            self.seen(one)
        for each in fact.unreadable:
            self.unreadable(each)
        keys = {(one.metadata.namespace, one.metadata.name) for one in there}
        keys |= {(each.namespace, each.name) for each in fact.unreadable}
        if fact.skipped != len(fact.unreadable):
            return
        holdings = self.world.books.holdings
        for namespace, name in [known for known in holdings.quotas.known if known not in keys]:
            holdings.freed.namespaces |= holdings.quotas.remove_quota(namespace, name)

    def seen(self, one: ResourceQuota) -> None:
        holdings = self.world.books.holdings
        reading = read_quota(one, holdings.families)
        for warning in reading.warnings:
            _log.warning("%s", warning)
        holdings.freed.namespaces |= holdings.quotas.set_quota(reading)

    def gone(self, one: ResourceQuota) -> None:
        holdings = self.world.books.holdings
        holdings.freed.namespaces |= holdings.quotas.remove_quota(one.metadata.namespace, one.metadata.name)

    def unreadable(self, fact: Unreadable) -> None:
        """Nobody knows what it limits: never taken as no limit."""
        super().unreadable(fact)
        holdings = self.world.books.holdings
        if fact.gone:
            holdings.freed.namespaces |= holdings.quotas.remove_quota(fact.namespace, fact.name)
            return
        reading = unreadable_quota(fact.namespace, fact.name, fact.reason, holdings.families)
        holdings.freed.namespaces |= holdings.quotas.set_quota(reading)


class Leases(_Following):
    """The lease of the kube-scheduler beside us."""

    name = "leases"

    async def listed(self, there: list[Lease], fact: Listed[Lease]) -> None:  # noqa: ARG002
        self.world.fence.lease_seen(there[0] if there else None, listed=True)
        if not there:
            election = self.world.config.leader_election
            _log.warning(
                "lease %s/%s does not exist: nothing is decided until the kube-scheduler beside us holds it"
                " (leaderElection.leaseName and leaderElection.namespace must be those of its configuration)",
                election.namespace,
                election.lease_name,
            )

    def seen(self, one: Lease) -> None:
        self.world.fence.lease_seen(one)

    def gone(self, one: Lease) -> None:  # noqa: ARG002  (there is one lease in the scope)
        self.world.fence.lease_seen(None)


async def follow_pods(world: World) -> None:
    """The pods; listed anew for each term of leadership where there is no pod of our own to prove freshness with."""
    gc.set_threshold(COLLECT_YOUNG, COLLECT_MIDDLE, COLLECT_ALL)
    while True:
        term = world.fence.term
        watch = asyncio.create_task(Pods(world, term).follow(PODS))
        other_term = asyncio.create_task(_another_term(world, term))
        try:
            done, _ = await asyncio.wait((watch, other_term), return_when=asyncio.FIRST_COMPLETED)
            if watch in done:
                watch.result()
        finally:
            watch.cancel()
            other_term.cancel()
            await asyncio.gather(watch, other_term, return_exceptions=True)


async def _another_term(world: World, term: int) -> None:
    while world.config.pod.name or world.fence.term == term:
        await world.changed.next(60.0)
