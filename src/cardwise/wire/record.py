"""The record of a placement: the annotations that the Binding carries into the pod, in one write.

The keys and forms are HAMi's (2.4 to 2.10), so that its node plugins, its monitor and its schedulers read them. What its
text cannot say (a card held alone with less than all of its compute) has a key of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from cardwise.core.family import Family
from cardwise.core.model import WHOLE_CARD_CORES_PERCENT, Placement
from cardwise.wire import names
from cardwise.wire.assignment import encode_assignment

ALLOCATING = "allocating"


def encode_record(placement: Placement, families: Iterable[Family], unix_seconds: int) -> dict[str, str]:
    """The annotations of a pod that is bound with this placement. Raises WireError for a card that no text can say."""
    record = {
        names.ASSIGNED_NODE: placement.node,
        names.ASSIGNED_TIME: str(unix_seconds),
        names.BIND_TIME: str(unix_seconds),
        names.BIND_PHASE: ALLOCATING,
    }
    for family in families:
        entries = [
            tuple(card for card in container.cards if card.family == family.name) for container in placement.containers
        ]
        if any(entries):
            record[family.to_allocate_key] = record[family.allocated_key] = encode_assignment(entries, family)
    if unsaid := _held_alone_in_part(placement):
        record[names.EXCLUSIVE_CARDS] = ",".join(unsaid)
    return record


def _held_alone_in_part(placement: Placement) -> list[str]:
    whole = {
        card.uuid
        for container in placement.containers
        for card in container.cards
        if card.cores_percent >= WHOLE_CARD_CORES_PERCENT
    }
    return sorted(placement.exclusive - whole)
