"""A Kubernetes Node becomes the core's Node: its cards, their links, which are cordoned, and whether it takes new pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cardwise.core.family import Family
from cardwise.core.model import Card, Links, Node
from cardwise.wire import objects
from cardwise.wire.errors import WireError
from cardwise.wire.links import decode_links
from cardwise.wire.lists import comma_list
from cardwise.wire.quantity import parse_quantity
from cardwise.wire.register import decode_register


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """A node as read, and what is to be said about its annotations: whole sentences."""

    node: Node
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _FamilyReading:
    cards: tuple[Card, ...] = ()
    links: Links = ()
    warnings: tuple[str, ...] = ()
    unreadable: str = ""
    gone: str = ""


def read_node(node: objects.Node, families: Iterable[Family]) -> NodeReading:
    """The node's cards of all families. A register that cannot be read puts the node out of service, and says so.

    Handshake annotations decide nothing. Where the kubelet counts 0 allocatable of a family's cards, its device plugin
    is gone: no new pods for those cards, while what runs on them keeps counting.
    """
    found = [(family, _read_family(node, family)) for family in families]
    name = node.metadata.name
    cards, duplicates = _distinct(card for _family, reading in found for card in reading.cards)
    gone = [reading.gone for _family, reading in found if reading.gone]
    with_cards = [reading for _family, reading in found if reading.cards]
    out = next((reading.unreadable for _family, reading in found if reading.unreadable), "")
    if not out and gone and len(gone) == len(with_cards):
        out = gone[0]
    warnings = [warning for _family, reading in found for warning in reading.warnings]
    warnings += [f"card {uuid} is registered under two families: the first counts" for uuid in duplicates]
    warnings += [f"out of service: {out}"] if out else gone
    if gone and not out:
        cards = _out_of_use(cards, [family for family, reading in found if reading.gone])
    return NodeReading(
        node=Node(
            name=name,
            cards=cards,
            links=_joined_links([(reading.cards, reading.links) for reading in with_cards], cards),
            cordoned=_cordoned(node, families),
            out_of_service=out,
        ),
        warnings=tuple(f"node {name}: {warning}" for warning in warnings),
    )


def _read_family(node: objects.Node, family: Family) -> _FamilyReading:
    annotations = node.metadata.annotations or {}
    text = annotations.get(family.register_key)
    if text is None:
        return _FamilyReading()
    try:
        register = decode_register(text, family)
    except WireError as error:
        return _FamilyReading(unreadable=f"{family.register_key}: {error}")
    warnings = [f"{family.register_key}: {warning}" for warning in register.warnings]
    links: Links = ()
    if family.links_key and (scores := annotations.get(family.links_key)) is not None:
        try:
            decoded = decode_links(scores, [card.uuid for card in register.cards])
        except WireError as error:
            warnings.append(f"{family.links_key}: {error}; no links are known")
        else:
            links = decoded.matrix
            warnings += [f"{family.links_key}: {warning}" for warning in decoded.warnings]
    gone = _plugin_gone(node, family) if register.cards else ""
    return _FamilyReading(cards=register.cards, links=links, warnings=tuple(warnings), gone=gone)


def _plugin_gone(node: objects.Node, family: Family) -> str:
    allocatable = (node.status.allocatable if node.status else None) or {}
    amount = allocatable.get(family.count_resource)
    try:
        gone = amount is not None and parse_quantity(amount).value <= 0
    except WireError:
        gone = True
    return f"allocatable {family.count_resource} is {amount}: its device plugin is not running" if gone else ""


def _distinct(cards: Iterable[Card]) -> tuple[tuple[Card, ...], list[str]]:
    kept: dict[str, Card] = {}
    duplicates = []
    for card in cards:
        if card.uuid in kept:
            duplicates.append(card.uuid)
        else:
            kept[card.uuid] = card
    return tuple(kept.values()), duplicates


def _out_of_use(cards: tuple[Card, ...], families: list[Family]) -> tuple[Card, ...]:
    names = {family.name for family in families}
    return tuple(replace(card, healthy=False) if card.family in names else card for card in cards)


def _joined_links(parts: list[tuple[tuple[Card, ...], Links]], cards: tuple[Card, ...]) -> Links:
    """One matrix over all families' cards: cards of different families have no link."""
    if not any(links for _cards, links in parts):
        return ()
    scores = {
        (a.uuid, b.uuid): links[i][j]
        for own, links in parts
        if links
        for i, a in enumerate(own)
        for j, b in enumerate(own)
    }
    return tuple(tuple(scores.get((a.uuid, b.uuid), 0) for b in cards) for a in cards)


def _cordoned(node: objects.Node, families: Iterable[Family]) -> frozenset[str]:
    annotations = node.metadata.annotations or {}
    keys = {family.cordon_key for family in families if family.cordon_key}
    return frozenset(uuid for key in keys for uuid in comma_list(annotations.get(key, "")))
