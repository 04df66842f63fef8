"""A node's register: the annotation in which a node agent lists its cards.

Three forms are about (HAMi 2.4 to 2.10): text with 7 fields per card, text with 9, and a JSON array. In the text forms
every card is followed by ':', and nothing is escaped.

    uuid,count,devmem,devcore,type,numa,health:
    uuid,count,devmem,devcore,type,numa,health,index,mode:
    [{"id":...,"index":...,"count":...,"devmem":...,"devcore":...,"type":...,"numa":...,"mode":...,"migProfiles":...,"health":...}]

`devmem` is MiB, `devcore` percent of one card, both of one card and scaled where scaling is on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from cardwise.core.family import Family
from cardwise.core.model import Card, PartitionProfile
from cardwise.wire.errors import WireError, few, shown, wrong
from cardwise.wire.fields import (
    LEAST_INT32,
    card_uuid,
    json_array,
    json_flag,
    json_number,
    json_object,
    json_text,
    parse_array,
    text_flag,
    text_number,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """The cards of a node in the order of its text, and sentences about what is odd but could be read."""

    cards: tuple[Card, ...]
    warnings: tuple[str, ...] = ()


def decode_register(text: str, family: Family) -> Register:
    """The cards that a register of any form lists.

    One card that cannot be read makes the whole text a `WireError`: half a node would look like a smaller node. The
    same UUID twice, or no card at all, is a warning. Cards of the form with 7 fields are numbered as they stand.
    """
    text = text.strip()
    cards = _json_cards(text, family) if text.startswith(("[", "{")) else _text_cards(text, family)
    first: dict[str, Card] = {}
    repeated = [card for card in cards if first.setdefault(card.uuid, card) is not card]
    warnings = [
        f"register: card {shown(card.uuid)} stands there more than once, the first is used" for card in repeated
    ]
    if not first:
        warnings.append("register: no card stands in it")
    return Register(cards=tuple(first.values()), warnings=few(warnings))


def encode_register(cards: Iterable[Card], form: Literal["json", "text"]) -> str:
    """The register of these cards in canonical order (index, then UUID).

    Form `json` is compact, with zero fields left out; form `text` has 9 fields per card and loses the partition
    profiles. Cards that the decoder would not give back as they are raise `WireError`, such as a ',' in a model in form
    `text`.
    """
    ordered = sorted(cards, key=lambda card: (card.index, card.uuid))
    seen: set[str] = set()
    for number, card in enumerate(ordered, start=1):
        _check(_place(number, len(ordered)), card, seen)
    if form == "json":
        return msgspec.json.encode([_json_fields(card) for card in ordered]).decode()
    # A register without cards is ':' because '' is read by nobody as a register.
    return "".join(_text_fields(_place(n, len(ordered)), card) for n, card in enumerate(ordered, start=1)) or ":"


def _place(number: int, total: int) -> str:
    return f"register, card {number} of {total}"


def _text_cards(text: str, family: Family) -> list[Card]:
    if ":" not in text:
        raise wrong("register", text, "cards that each end with ':', or a JSON array of cards")
    pieces = [piece for piece in map(str.strip, text.split(":")) if piece]
    cards = [_text_card(_place(n + 1, len(pieces)), piece, n, family) for n, piece in enumerate(pieces)]
    if not text.endswith(":"):
        raise wrong("register: its end", text.rpartition(":")[2], "':', as after every card (it seems to be cut short)")
    return cards


def _text_card(where: str, piece: str, position: int, family: Family) -> Card:
    fields = piece.split(",")
    if len(fields) not in {7, 9}:
        raise WireError(f"{where} has {_counted(len(fields), 'field')} ({shown(piece)}), must be 7 or 9")
    index, mode = position, family.default_mode
    if len(fields) == 9:
        index, mode = text_number(where, "index", fields[7]), fields[8]
    return Card(
        uuid=card_uuid(where, "id", fields[0]),
        index=index,
        family=family.name,
        model=fields[4],
        slots=text_number(where, "count", fields[1]),
        memory_mib=text_number(where, "devmem", fields[2]),
        cores_percent=text_number(where, "devcore", fields[3]),
        numa=max(0, text_number(where, "numa", fields[5], least=LEAST_INT32)),
        healthy=text_flag(where, "health", fields[6]),
        mode=mode,
        partitioned=mode in family.partition_modes,
    )


def _json_cards(text: str, family: Family) -> list[Card]:
    records = parse_array("register", text, "cards")
    return [_json_card(_place(n, len(records)), record, family) for n, record in enumerate(records, start=1)]


def _json_card(where: str, record: object, family: Family) -> Card:
    fields = json_object(where, record)
    mode = json_text(where, "mode", fields.get("mode"))
    return Card(
        uuid=card_uuid(where, "id", json_text(where, "id", fields.get("id"))),
        index=json_number(where, "index", fields.get("index")),
        family=family.name,
        model=json_text(where, "type", fields.get("type")),
        slots=json_number(where, "count", fields.get("count")),
        memory_mib=json_number(where, "devmem", fields.get("devmem")),
        cores_percent=json_number(where, "devcore", fields.get("devcore")),
        numa=max(0, json_number(where, "numa", fields.get("numa"), least=LEAST_INT32)),
        healthy=json_flag(where, "health", fields.get("health")),
        mode=mode,
        partitioned=mode in family.partition_modes,
        profiles=_profiles(where, fields.get("migProfiles")),
    )


def _profiles(where: str, value: object) -> tuple[PartitionProfile, ...]:
    records = json_array(where, "migProfiles", value)
    return tuple(_profile(f"{where}, migProfiles {n} of {len(records)}", r) for n, r in enumerate(records, start=1))


def _profile(where: str, record: object) -> PartitionProfile:
    fields = json_object(where, record)
    return PartitionProfile(
        name=json_text(where, "name", fields.get("name")),
        memory_mib=json_number(where, "memoryMB", fields.get("memoryMB")),
        cores_percent=json_number(where, "core", fields.get("core")),
        slices=json_number(where, "sliceCount", fields.get("sliceCount")),
        placements=tuple(_placement(where, one) for one in json_array(where, "placements", fields.get("placements"))),
    )


def _placement(where: str, record: object) -> tuple[int, int]:
    fields = json_object(f"{where}: placement", record)
    return json_number(where, "start", fields.get("start")), json_number(where, "size", fields.get("size"))


def _check(where: str, card: Card, seen: set[str]) -> None:
    if card_uuid(where, "id", card.uuid) in seen:
        raise wrong(f"{where}: id", card.uuid, "a UUID that no card before it has")
    seen.add(card.uuid)
    _profiles(where, [_profile_fields(profile) for profile in card.profiles])


def _json_fields(card: Card) -> dict[str, object]:
    fields: dict[str, object] = {
        "id": card.uuid,
        "index": card.index,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": card.cores_percent,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "migProfiles": [_profile_fields(profile) for profile in card.profiles],
        "health": card.healthy,
    }
    return {field: value for field, value in fields.items() if value}


def _profile_fields(profile: PartitionProfile) -> dict[str, object]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores_percent,
        "sliceCount": profile.slices,
        "placements": [{"start": start, "size": size} for start, size in profile.placements],
    }


def _text_fields(where: str, card: Card) -> str:
    for field, text in (("id", card.uuid), ("type", card.model), ("mode", card.mode)):
        if "," in text or ":" in text:
            raise wrong(f"{where}: {field}", text, "without ',' and ':' in the text form")
    if card.mode != card.mode.strip():
        raise wrong(f"{where}: mode", card.mode, "without blanks at its ends in the text form")
    if card.uuid.startswith(("[", "{")):
        raise wrong(
            f"{where}: id", card.uuid, "without a leading bracket in the text form, where it would read as JSON"
        )
    sizes = f"{card.slots},{card.memory_mib},{card.cores_percent}"
    healthy = "true" if card.healthy else "false"
    return f"{card.uuid},{sizes},{card.model},{card.numa},{healthy},{card.index},{card.mode}:"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
