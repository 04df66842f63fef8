"""The assignment of a pod: the annotation that says which cards each of its containers has.

    uuid,WORD,mem,cores:uuid,WORD,mem,cores:;uuid,WORD,mem,cores:;

Each card is followed by ':', each container by ';', init containers before app containers; `mem` is MiB and `cores`
percent, of that card. Containers without cards have an empty entry, or none: that differs between the releases of HAMi
(2.4 to 2.10), and `align` finds out which containers are meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from cardwise.core.family import Family
from cardwise.core.model import CardAllocation, ContainerKind
from cardwise.wire.errors import WireError, shown, wrong
from cardwise.wire.fields import card_uuid, json_number, text_number

UNKNOWN_INDEX = -1
EMPTY_DEVICE = ["", "", "0", "0"]  # HAMi 2.4 wrote it for a container without cards that follows one with cards

Entry = tuple[CardAllocation, ...]


def decode_assignment(text: str, family: Family) -> tuple[Entry, ...]:
    """The entries of an assignment, one tuple of cards each, empty entries kept.

    A last ';' ends the last entry and begins none; the text may lack it. The text knows no index of a card: it is -1.
    What follows the fourth field of a card is ignored, and so is the vendor word, since the annotation's key says the
    family. Raises `WireError`: one card that cannot be read makes the whole text unreadable.
    """
    text = text.strip()
    if not text:
        return ()
    pieces = text.removesuffix(";").split(";")
    return tuple(
        _entry(f"assignment, entry {n} of {len(pieces)}", piece, family) for n, piece in enumerate(pieces, start=1)
    )


def encode_assignment(entries: Sequence[Sequence[CardAllocation]], family: Family) -> str:
    """The text of these entries. Raises `WireError` for a card that the decoder would not give back as it is."""
    return "".join(
        "".join(_card_text(f"assignment, entry {n} of {len(entries)}", card, family) for card in entry) + ";"
        for n, entry in enumerate(entries, start=1)
    )


def align(entries: Sequence[Entry], kinds: Sequence[ContainerKind], asks: Sequence[bool]) -> tuple[Entry, ...]:
    """The cards of each container of a pod, from the entries of its assignment.

    `kinds` and `asks` say of each container, in the pod's order (init containers first), what it is and whether it asks
    for cards of this family. As many entries as containers: by position. Otherwise the entries with cards belong, in
    order, to the app containers that ask where there are as many of those, else to all containers that ask. Raises
    `WireError` where no number matches.
    """
    if len(entries) == len(kinds):
        return tuple(entries)
    filled = [entry for entry in entries if entry]
    asking = [n for n, ask in enumerate(asks) if ask]
    apps = [n for n in asking if kinds[n] is ContainerKind.APP]
    for targets in (apps, asking):
        if len(filled) == len(targets):
            by_container = dict(zip(targets, filled, strict=True))
            return tuple(by_container.get(n, ()) for n in range(len(kinds)))
    raise WireError(
        f"assignment: {len(entries)} entries, {len(filled)} of them with cards, must be {len(kinds)} (the containers), "
        f"or {len(apps)} with cards (the app containers that ask), or {len(asking)} with cards (all that ask)"
    )


def _entry(where: str, text: str, family: Family) -> Entry:
    pieces = text.split(":")
    cards = (_card(f"{where}, card {n}", piece.strip(), family) for n, piece in enumerate(pieces, start=1))
    return tuple(card for card in cards if card is not None)


def _card(where: str, piece: str, family: Family) -> CardAllocation | None:
    if not piece:
        return None
    fields = piece.split(",")
    if len(fields) < 4:
        raise wrong(where, piece, "UUID, type, MiB and cores, with ',' between them")
    if fields[:4] == EMPTY_DEVICE:
        return None
    if not fields[1]:
        raise wrong(f"{where}: type", fields[1], "the vendor's word or a model")
    return CardAllocation(
        family=family.name,
        uuid=card_uuid(where, "UUID", fields[0]),
        index=UNKNOWN_INDEX,
        memory_mib=text_number(where, "memory", fields[2]),
        cores_percent=text_number(where, "cores", fields[3]),
    )


def _card_text(where: str, card: CardAllocation, family: Family) -> str:
    where = f"{where}, card {shown(card.uuid)}"
    if card.family != family.name:
        raise wrong(f"{where}: family", card.family, family.name)
    uuid = card_uuid(where, "UUID", card.uuid)
    memory_mib = json_number(where, "memory", card.memory_mib)
    return f"{uuid},{family.word},{memory_mib},{json_number(where, 'cores', card.cores_percent)}:"
