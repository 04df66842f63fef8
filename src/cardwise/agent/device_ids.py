"""The device ids that the kubelet counts with: a slot of a card each. They are tokens; which cards a container gets, its
pod's record says.

The form is that of HAMi's device plugin, `<UUID>-<slot>`, so that what a kubelet remembers outlives a change from one to
the other.
"""

from __future__ import annotations


def device_id(uuid: str, slot: int) -> str:
    """The id of a card's slot; slots count from 0."""
    return f"{uuid}-{slot}"


def card_of(device: str) -> str:
    """The UUID of the card whose slot this is; an id of another form is nobody's: an empty text."""
    uuid, _dash, slot = device.rpartition("-")
    return uuid if slot.isascii() and slot.isdigit() else ""
