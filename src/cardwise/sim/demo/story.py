"""What happens to the demo's pods, as lines: each change of a pod and each event about it becomes at most one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cardwise.core.cluster import Hold
from cardwise.scheduler.telling import REASON
from cardwise.sim.demo.workload import Fate
from cardwise.wire import names, objects
from cardwise.wire.families import FAMILIES
from cardwise.wire.pods import read_hold

Json = dict[str, Any]

PREEMPTED = "Preempted"


class Story:
    """What is known of each pod (`namespace/name`), and the lines that tell it. `indices` are the cards', by UUID."""

    def __init__(self, indices: Mapping[str, int]) -> None:
        self._indices = indices
        self.fates: dict[str, Fate] = {}
        self._names: dict[str, str] = {}
        self._marks: dict[str, dict[str, str]] = defaultdict(dict)

    def asked(self, pod: str) -> None:
        """A pod is being submitted."""
        self.fates[pod] = Fate.ASKED

    def refused(self, pod: str) -> None:
        """The API server did not take it."""
        self.fates[pod] = Fate.REFUSED

    def see(self, body: Json) -> Iterator[tuple[str, str]]:
        """Lines about a pod that is new or changed: whom they are about, and what they say."""
        name = _full_name(body["metadata"])
        self._names[body["metadata"]["uid"]] = name
        status, spec = body.get("status", {}), body["spec"]
        woken = body["metadata"].get("annotations", {}).get(names.WAKE, "")
        if not spec.get("nodeName") and self._new(name, "woken", woken):
            yield name, "is woken: it fits now"
        if self._new(name, "nominated", status.get("nominatedNodeName", "")):
            yield name, f"gets room made for it on {status['nominatedNodeName']}"
        if self._new(name, "node", spec.get("nodeName", "")):
            self.fates[name] = Fate.PLACED
            yield name, self._bound(body)
        ended = status.get("phase") in ("Succeeded", "Failed") and self.fates.get(name) is not Fate.EVICTED
        if ended and self._new(name, "ended", status["phase"]):
            self.fates[name] = Fate.ENDED
            yield name, "has ended"

    def hear(self, event: Json) -> Iterator[tuple[str, str]]:
        """Lines about an event."""
        about = event["involvedObject"]
        name, message = _full_name(about), event["message"]
        if event["reason"] == REASON and self.fates.get(name) in (Fate.ASKED, Fate.WAITING):
            self.fates[name] = Fate.WAITING
            if "nominated" not in self._marks[name] and self._new(name, "told", message):
                yield name, f"waits: {message}"
        if event["reason"] == PREEMPTED and self._new(name, "evicted", about["uid"]):
            self.fates[name] = Fate.EVICTED
            yield name, f"is evicted for {self._named(message)}"

    def counted(self) -> Mapping[Fate, int]:
        """How many pods there are of each fate."""
        return {fate: sum(one is fate for one in self.fates.values()) for fate in Fate}

    def _bound(self, body: Json) -> str:
        node = body["spec"]["nodeName"]
        hold = read_hold(msgspec.convert(body, objects.Pod), FAMILIES)
        return f"bound to {node}, {self._cards(hold) if hold is not None else 'without a record of cards'}"

    def _cards(self, hold: Hold) -> str:
        cards = [card for container in hold.containers for card in container.cards]
        indices = " and ".join(str(self._indices[card.uuid]) for card in cards)
        sizes = " or ".join(sorted({f"{card.memory_mib} MiB, {card.cores_percent} %" for card in cards}))
        alone = ", alone" if any(use.holders for use in hold.use.values()) else ""
        if len(cards) == 1:
            return f"card {indices} ({sizes}{alone})"
        return f"cards {indices} ({sizes} each{alone})"

    def _new(self, name: str, what: str, text: str) -> bool:
        """Whether this is said of the pod for the first time."""
        if not text or self._marks[name].get(what) == text:
            return False
        self._marks[name][what] = text
        return True

    def _named(self, message: str) -> str:
        """kube-scheduler names the pod for which another goes by its uid."""
        return next((name for uid, name in self._names.items() if uid in message), "a more important pod")


def _full_name(meta: Json) -> str:
    return f"{meta['namespace']}/{meta['name']}"
