"""A file of make-believe cards: what one node has, how its cards are linked, and what breaks when.

    cards:
      - {model: NVIDIA A100-SXM4-80GB, memoryMib: 81920, count: 4, numa: [0, 0, 1, 1]}
    links: {nvlink: all, count: 12}
    failures:
      - {atSeconds: 30, card: 3, xid: 79, forSeconds: 60}
      - {atSeconds: 120, probe: Driver Not Loaded, forSeconds: 15}

All keys are shown in examples/agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from math import inf
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid5

from cardwise.agent.linkscores import MOST_NVLINKS
from cardwise.agent.probe import FoundCard, Level, Link, bus_id, bus_order
from cardwise.agent.yaml_fields import (
    Reader,
    choice,
    document,
    given,
    inside,
    items,
    mapping,
    number,
    refusal,
    required,
    text,
    truth,
    whole,
)
from cardwise.core.model import MOST
from cardwise.wire.errors import WireError, wrong

T = TypeVar("T")

CARD_KEYS = ("model", "memoryMib", "count", "uuid", "numa", "pci", "mig")
LINK_KEYS = ("nvlink", "count", "matrix")
FAILURE_KEYS = ("atSeconds", "forSeconds", "card", "xid", "why", "probe")
MOST_CARDS = 64
_MOST_XID, _MOST_NUMA = 1 << 16, 1 << 10
_UUIDS = UUID("6f0a5f5e-3a53-4c5b-9a7e-0d2c1f4b8e11")
"""The names that cards get without a UUID of their own are made in this space, from node and number."""
_FIRST_BUS = 16
_SECONDS = number(Fraction(0), Fraction(10**9))
_XID = whole(0, _MOST_XID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What breaks, from `start_seconds` on and until before `end_seconds` after the start.

    `cards` are positions in the script's cards; none of them: the card library itself fails. `why` is said of it.
    """

    start_seconds: float
    end_seconds: float = inf
    cards: tuple[int, ...] = ()
    why: str
    xid: int | None = None

    def covers(self, seconds: float) -> bool:
        """Whether it is broken then."""
        return self.start_seconds <= seconds < self.end_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The cards of one node, their links, and what breaks when."""

    cards: tuple[FoundCard, ...] = ()
    links: tuple[Link, ...] = ()
    failures: tuple[Failure, ...] = ()


def read_script(path: Path, node: str) -> Script:
    """The script of a file, for a node of this name, which makes the UUIDs of cards that have none in the file.

    Raises WireError: file and key, what it is, what it must be.
    """
    where = f"simulated cards {path}"
    fields = mapping(where, document(where, path), ("cards", "links", "failures"))
    cards = _cards(inside(where, "cards"), fields.get("cards"), node)
    links = _links(inside(where, "links"), fields.get("links"), cards)
    return Script(
        cards=_with_switch(cards, links),
        links=links.between,
        failures=_failures(inside(where, "failures"), fields.get("failures"), len(cards)),
    )


def made_uuid(node: str, number: int) -> str:
    """The UUID of a node's make-believe card: always the same."""
    return f"GPU-{uuid5(_UUIDS, f'{node}/{number}')}"


def _cards(where: str, raw: object, node: str) -> tuple[FoundCard, ...]:
    cards: list[FoundCard] = []
    for at, group in items(where, raw):
        cards += _group(at, group, node, len(cards))
        if len(cards) > MOST_CARDS:
            raise WireError(f"{where} holds more than {MOST_CARDS} cards, must hold at most so many")
    return tuple(cards)


def _group(where: str, raw: object, node: str, first: int) -> Iterator[FoundCard]:
    """Cards that are alike, numbered on from those before them."""
    fields = mapping(where, raw, CARD_KEYS)
    model = required(where, fields, "model", text)
    memory_mib = required(where, fields, "memoryMib", _memory)
    count = given(where, fields, "count", whole(1, MOST_CARDS), 1)
    mig = given(where, fields, "mig", truth, False)
    numbers = range(first, first + count)
    uuids = _each(where, fields, "uuid", text, [made_uuid(node, n) for n in numbers])
    on_first: list[int | None] = [0] * count
    numa = _each(where, fields, "numa", _numa, on_first)
    buses = _each(where, fields, "pci", _bus, [f"0000:{_FIRST_BUS + n:02x}:00.0" for n in numbers])
    for n, uuid, on, bus in zip(numbers, uuids, numa, buses, strict=True):
        yield FoundCard(uuid=uuid, index=n, model=model, memory_mib=memory_mib, numa=on, pci=bus, minor=n, mig=mig)


def _each(where: str, fields: dict[str, object], key: str, read: Reader[T], defaults: list[T]) -> list[T]:
    """A value for each card of a group: a list of as many, or one for all."""
    if key not in fields:
        return defaults
    place, raw = inside(where, key), fields[key]
    if not isinstance(raw, list):
        return [read(place, raw)] * len(defaults)
    if len(raw) != len(defaults):
        raise wrong(place, f"{len(raw)} values", f"{len(defaults)}, one for each card, or one value for all")
    return [read(at, item) for at, item in items(place, raw)]


def _memory(where: str, raw: object) -> int | None:
    if raw == "unified":
        return None
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MOST:
        return raw
    raise refusal(where, raw, f"a whole number, 0 to {MOST}, or unified (the host's memory)")


def _numa(where: str, raw: object) -> int | None:
    if raw == "none":
        return None
    if isinstance(raw, int) and not isinstance(raw, bool) and -1 <= raw <= _MOST_NUMA:
        return raw
    raise refusal(where, raw, f"a whole number, -1 to {_MOST_NUMA}, or none")


def _bus(where: str, raw: object) -> str:
    if isinstance(raw, str) and bus_order(raw) != bus_order(""):
        return bus_id(raw)
    raise refusal(where, raw, "a PCI bus id such as 0000:3b:00.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linked:
    """Links between cards, and how many NVLinks each card has to an NVSwitch."""

    between: tuple[Link, ...] = ()
    to_switch: int = 0


def _links(where: str, raw: object, cards: Sequence[FoundCard]) -> _Linked:
    """Without a matrix, the PCI path follows from the NUMA nodes."""
    fields = mapping(where, raw, LINK_KEYS)
    if "matrix" in fields:
        if len(fields) > 1:
            raise WireError(f"{where} has matrix and other keys, must have matrix alone")
        return _Linked(between=_matrix(inside(where, "matrix"), fields["matrix"], cards))
    nvlink = given(where, fields, "nvlink", choice("none", "all", "pairs"), "none")
    usual = {"none": 0, "all": 12, "pairs": 4}[nvlink]
    count = given(where, fields, "count", whole(1, MOST_NVLINKS), usual) if nvlink != "none" else 0
    if nvlink == "none" and "count" in fields:
        raise refusal(inside(where, "count"), fields["count"], "left out where nvlink is none")
    return _Linked(
        between=tuple(_by_numa(cards, count if nvlink == "pairs" else 0)), to_switch=count if nvlink == "all" else 0
    )


def _by_numa(cards: Sequence[FoundCard], bridges: int) -> Iterator[Link]:
    for (i, one), (j, other) in permutations(enumerate(cards), 2):
        level = Level.SAME_CPU if one.numa == other.numa else Level.CROSS_CPU
        yield Link(uuid=one.uuid, peer=other.uuid, level=level, nvlinks=bridges if i // 2 == j // 2 else 0)


def _with_switch(cards: Sequence[FoundCard], links: _Linked) -> tuple[FoundCard, ...]:
    return tuple(replace(card, switch_links=links.to_switch) for card in cards)


def _matrix(where: str, raw: object, cards: Sequence[FoundCard]) -> tuple[Link, ...]:
    """Rows as `nvidia-smi topo -m` prints them, without the headings; NV4+SYS has a PCI path beside its NVLinks."""
    rows = [(at, text(at, row).split()) for at, row in items(where, raw)]
    if len(rows) != len(cards):
        raise wrong(where, f"{len(rows)} rows", f"{len(cards)}, one for each card")
    for at, row in rows:
        if len(row) != len(cards):
            raise wrong(at, " ".join(row), f"{len(cards)} words, one for each card")
    return tuple(
        _link(f"{rows[i][0]}, word {j + 1}", rows[i][1][j], one, other)
        for (i, one), (j, other) in permutations(enumerate(cards), 2)
    )


def _link(where: str, word: str, one: FoundCard, other: FoundCard) -> Link:
    levels = {level.value: level for level in Level}
    nvlink, _plus, path = word.partition("+") if word.startswith("NV") else ("", "", word)
    count = nvlink.removeprefix("NV")
    sound = not nvlink or (count.isascii() and count.isdigit() and len(count) <= 2)
    if not sound or (path not in levels and (path or not nvlink or word.endswith("+"))):
        raise wrong(where, word, f"one of {', '.join(levels)}, NV and a number, or both such as NV4+NODE")
    return Link(uuid=one.uuid, peer=other.uuid, level=levels.get(path), nvlinks=int(count or 0))


def _failures(where: str, raw: object, cards: int) -> tuple[Failure, ...]:
    return tuple(_failure(at, each, cards) for at, each in items(where, raw))


def _failure(where: str, raw: object, cards: int) -> Failure:
    fields = mapping(where, raw, FAILURE_KEYS)
    start = float(required(where, fields, "atSeconds", _SECONDS))
    end = start + float(required(where, fields, "forSeconds", _SECONDS)) if "forSeconds" in fields else inf
    if ("card" in fields) == ("probe" in fields):
        many = "both" if "card" in fields else "neither"
        raise WireError(f"{where} has {many} of card and probe, must have one of them")
    if "probe" in fields:
        why = required(where, fields, "probe", text)
        return Failure(start_seconds=start, end_seconds=end, why=why)
    xid = given(where, fields, "xid", _XID, -1)
    why = f"the driver reported XID {xid}" if xid >= 0 else "it failed"
    return Failure(
        start_seconds=start,
        end_seconds=end,
        cards=_card_numbers(inside(where, "card"), fields["card"], cards),
        why=given(where, fields, "why", text, why),
        xid=xid if xid >= 0 else None,
    )


def _card_numbers(where: str, raw: object, cards: int) -> tuple[int, ...]:
    if raw == "all":
        return tuple(range(cards))
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < cards:
        return (raw,)
    raise refusal(where, raw, f"a card's number, 0 to {cards - 1}, or all")
