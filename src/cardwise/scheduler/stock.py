"""What cards the cluster has at all, kept at hand for admission's warnings.

Making it takes tens of milliseconds for tens of thousands of cards, so it is made in a thread, and only when cards came or
went: warnings may be some seconds old.
"""

from __future__ import annotations

import asyncio

from cardwise.core.model import Node
from cardwise.scheduler.inventory import Inventory
from cardwise.scheduler.world import World

LOOK_SECONDS = 2.0


class Stock:
    """`inventory` is None until the nodes are known."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes: tuple[Node, ...] = ()
        self.inventory: Inventory | None = None

    async def keep(self) -> None:
        """Keeps it fresh, without an end."""
        while True:
            if "nodes" in self._world.listed:
                await self._look()
            await self._world.clock.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        nodes = tuple(node for node in self._world.books.holdings.cluster.cards.nodes if node is not None)
        if len(nodes) == len(self._nodes) and all(a is b for a, b in zip(nodes, self._nodes, strict=True)):
            return
        families = self._world.books.holdings.families
        self.inventory = await asyncio.to_thread(Inventory.of, nodes, families)
        self._nodes = nodes
