"""One sentence about why no node takes a pod, from the refusals of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cardwise.core.cards import Bools
from cardwise.core.model import Refusal
from cardwise.core.scene import Scene

MOST_SAMPLED = 200
"""Nodes asked for their own reason where only a summary is wanted and kube-scheduler's rules refuse many."""
MOST_NAMED = 3


def why(scene: Scene) -> str:
    """Why no node takes the scene's pod: equal reasons together, those of most nodes first."""
    allowed = scene.allowed()
    by_rules = rule_refusals(scene, refusing(scene, allowed)[:MOST_SAMPLED])
    return told(scene, by_rules, scene.cluster.refusals(scene.pod, allowed, scene.preference()))


def refusing(scene: Scene, allowed: Bools) -> list[int]:
    """The columns of the nodes that are not allowed; a column that no node has says nothing."""
    nodes = scene.cluster.cards.nodes
    return [n for n in np.flatnonzero(~allowed).tolist() if nodes[n] is not None]


def rule_refusals(scene: Scene, columns: Sequence[int]) -> dict[int, tuple[Refusal, ...]]:
    """What kube-scheduler's own rules say against these nodes."""
    return {n: scene.rule_refusals(n) for n in columns}


def told(scene: Scene, by_rules: Mapping[int, tuple[Refusal, ...]], by_cards: Mapping[str, Refusal]) -> str:
    """The sentence for refusals that are known: by column what the rules say, by name what the cards say."""
    names = scene.cluster.cards.names
    texts: dict[str, list[str]] = {}
    for n, found in by_rules.items():
        texts.setdefault("; ".join(refusal.text for refusal in found), []).append(names[n])
    for name, refusal in by_cards.items():
        texts.setdefault(named(scene, refusal), []).append(name)
    nodes = len(scene.cluster.cards.index_of)
    return _summary(nodes, texts, nodes - len(by_rules) - len(by_cards))


def named(scene: Scene, refusal: Refusal) -> str:
    """A refusal's text, with the container where several ask."""
    asking = sum(bool(container.cards) for container in scene.pod.containers)
    return f"container {refusal.container} {refusal.text}" if refusal.container and asking > 1 else refusal.text


def _summary(nodes: int, texts: dict[str, list[str]], unseen: int) -> str:
    if not nodes:
        return "no node fits: there are no nodes"
    parts = []
    for text, found in sorted(texts.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = ", ".join(sorted(found)[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        parts.append(f"{shown}{more}: {text}")
    if unseen > 0:
        parts.append(f"{unseen} more are refused by kube-scheduler's own rules")
    return f"0 of {nodes} nodes fit: {'; '.join(parts)}"
