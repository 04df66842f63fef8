"""What a waiting pod's user is told: one warning per pod and cause, with the smallest changes that would help.

kube-scheduler's own event folds all nodes into few words. This one has the numbers, and comes for pods too that never reach
the extender, since it is driven by the pods themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from cardwise.core.changes import each_change
from cardwise.core.scene import Scene
from cardwise.core.why import MOST_SAMPLED, refusing, rule_refusals, told
from cardwise.scheduler.books import Books
from cardwise.scheduler.pods import SeenPod, unplaceable
from cardwise.wire.rules import read_rules

REASON = "NoCardFits"
MOST_CHANGES = 3
MOST_ENDS = 100
"""Running pods of which it is tried whether their ending would help."""
MOST_WHY = 640
"""Characters for the reason, so that the changes fit into an event's 1,024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A warning about a pod. `cause` is the same while the same checks refuse it, whatever the numbers."""

    namespace: str
    name: str
    uid: str
    cause: str
    text: str

    @property
    def event_name(self) -> str:
        """The same for the same pod and cause, so that it is written once, by whichever replica and however often."""
        digest = hashlib.sha256(f"{self.uid} {self.cause}".encode()).hexdigest()[:16]
        return f"{self.name[:230]}.{digest}"


def tell(books: Books, seen: SeenPod) -> Iterator[Telling | None]:
    """Works out what to say in steps of a few milliseconds: None after each, at last the telling, where there is one.

    Nothing is said of a pod that would fit: it is woken, or kube-scheduler has reasons of its own, and says them. Nor of
    one for which others are leaving already.
    """
    fault = unplaceable(seen, books.holdings.families)
    if fault is not None:
        yield _telling(seen, fault.code, "; ".join(seen.reading.faults) or fault.text)
        return
    if seen.request is None or seen.nominated or not books.complete:
        return
    scene = Scene(
        cluster=books.holdings.cluster, table=books.nodes.table, pod=books.asked(seen), rules=read_rules(seen.spec)
    )
    if scene.place() is not None:
        return
    yield None
    causes, why = _why(scene)
    yield None
    found: list[str] = []
    for change in each_change(scene, {}, most_ends=MOST_ENDS):
        if change is not None:
            found.append(f"{change.change} (on {change.node})")
        if len(found) == MOST_CHANGES:
            break
        yield None
    yield _telling(seen, causes, f"{why}. {_helps(found)}")


def _why(scene: Scene) -> tuple[str, str]:
    """The codes of all that refuses, and the sentence."""
    allowed = scene.allowed()
    by_rules = rule_refusals(scene, refusing(scene, allowed)[:MOST_SAMPLED])
    by_cards = scene.cluster.refusals(scene.pod, allowed, scene.preference())
    codes = {refusal.code for refusal in by_cards.values()} | {r.code for found in by_rules.values() for r in found}
    text = told(scene, by_rules, by_cards)
    return ",".join(sorted(codes)), text if len(text) <= MOST_WHY else f"{text[: MOST_WHY - 3]}..."


def _helps(found: list[str]) -> str:
    if not found:
        return "No single change of the request, and no single pod's ending, would make it fit"
    return f"It would fit with {'; or '.join(found)}"


def _telling(seen: SeenPod, cause: str, text: str) -> Telling:
    return Telling(namespace=seen.namespace, name=seen.name, uid=seen.uid, cause=cause, text=text)
