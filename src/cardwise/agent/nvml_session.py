"""One process's use of NVML, step by step and never two steps at a time: opening, finding cards, watching their health.

A card is out, with a sentence, from the moment that
- the driver reports an XID of it that is not ignored (of a card that nobody knows: all cards are out), or
- the driver asks for it to be reset, or it does not answer, or cannot be watched, or
- NVML cannot wait for events any more, and no single card is seen to be the cause: then all are out.
It is back when the driver asks for nothing (XIDs), it answers and is watched, and waiting works. An older driver, which
does not tell whether it asks for something, never takes an XID back: that needs a new start of the agent.

NVML forgets a card that was reset until it is opened anew, so it is, now and then, while something fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cardwise.agent.nvml_cards import Handle, as_text, links_of, read_card
from cardwise.agent.probe import Found, FoundCard, HealthEvent, Link, ProbeError
from cardwise.agent.xids import IGNORED_XIDS

RECHECK_SECONDS = 5.0
"""How often cards that are out are looked at again, and the least time that an XID counts: the driver needs a moment."""

REOPEN_SECONDS = 30.0
"""How often NVML is opened anew while something fails: events of that moment are lost, and a driver may take seconds."""

_HINTS = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not to be found: is the driver installed, and does this"
    " container see it (NVIDIA's container runtime, or the driver's files mounted)?",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the driver's kernel module is not loaded, or not visible in this container",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "library and kernel module are of different versions: was the driver updated"
    " without a restart of the machine?",
    "NVML_ERROR_NO_PERMISSION": "this container may not use the driver's device files",
}
_ACTIONS = {
    "NVML_GPU_RECOVERY_ACTION_GPU_RESET": "a reset of the card",
    "NVML_GPU_RECOVERY_ACTION_NODE_REBOOT": "a restart of the machine",
    "NVML_GPU_RECOVERY_ACTION_DRAIN_P2P": "an end of traffic between cards",
    "NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET": "no new work, and a reset of the card",
}
Faults = dict[str, str]
"""Why a card is out, by UUID."""


@dataclass(frozen=True, slots=True)
class _Xid:
    why: str
    since_seconds: float


class Session:
    """NVML, open or not. `ignored` are XIDs that say nothing about the card; None: health is not looked at.

    Not for use by several threads at once.
    """

    def __init__(
        self,
        library: Any,
        *,
        sysfs: Path,
        ignored: frozenset[int] | None = IGNORED_XIDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library = library
        self._sysfs = sysfs
        self._ignored = ignored
        self._monotonic = monotonic
        self._open = False
        self._opened = 0.0
        self._stale = False
        self._known: dict[str, FoundCard] = {}
        self._handles: dict[str, Handle] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._events: Any = None
        self._watched: frozenset[str] = frozenset()
        self._unwatched: Faults = {}
        self._too_old: set[str] = set()
        self._xids: dict[str, _Xid] = {}
        self._blind = ""
        self._faults: Faults = {}
        self._looked = float("-inf")

    def find(self) -> Found:
        """The cards as they are now; one that was found before and does not answer stays, with a fault.

        Raises ProbeError where NVML cannot be opened or tells no number of cards.
        """
        self._ensure_open()
        self._looked = self._monotonic()
        unread, warnings = self._read_cards()
        self._read_links()
        self._watch()
        self._faults = {uuid: why for uuid in self._known if (why := self._fault(uuid, unread))}
        if not self._known and not warnings:
            warnings.append("NVML finds no card on this machine")
        self._stale = bool(warnings or self._unwatched or self._blind) or self._known.keys() != self._handles.keys()
        warnings += [
            f"card {uuid} cannot tell of failures (too old): taken as healthy" for uuid in sorted(self._too_old)
        ]
        cards = tuple(replace(card, fault=self._faults.get(uuid, "")) for uuid, card in self._known.items())
        return Found(cards=cards, links=tuple(self._links.values()), warnings=tuple(warnings))

    def poll(self, milliseconds: int) -> tuple[HealthEvent, ...]:
        """What happened to the cards' health, after waiting at most so long. Raises ProbeError.

        Only for sessions that look at health.
        """
        never = self._looked == float("-inf")
        if never or ((self._faults or self._stale) and self._monotonic() - self._looked >= RECHECK_SECONDS):
            return self._find_changes()
        if self._events is None:
            self._ensure_open()
            self._watch()
        if self._events is None:
            raise ProbeError(self._blind)
        try:
            data = self._library.nvmlEventSetWait_v2(self._events, milliseconds)
        except self._library.NVMLError as error:
            if error.value != self._library.NVML_ERROR_TIMEOUT:
                return self._waiting_failed(error)
            return self._waiting_works()
        return (*self._waiting_works(), *self._happened(data))

    def close(self) -> None:
        """Lets NVML go."""
        self._drop_events()
        if self._open:
            self._quietly(self._library.nvmlShutdown)
        self._open = False

    def _ensure_open(self) -> None:
        if self._stale and self._monotonic() - self._opened >= REOPEN_SECONDS:
            self.close()
        if self._open:
            return
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:
            raise ProbeError(f"NVML cannot be used: {error}{self._hint(error)}") from error
        self._open, self._opened, self._stale = True, self._monotonic(), False
        self._handles = {}

    def _hint(self, error: Any) -> str:
        hints = (hint for name, hint in _HINTS.items() if getattr(self._library, name) == error.value)
        return next((f" ({hint})" for hint in hints), "")

    def _read_cards(self) -> tuple[dict[int, str], list[str]]:
        """Asks every card. What comes back are reasons by number of those that did not answer, and sentences about them."""
        try:
            count = self._library.nvmlDeviceGetCount()
        except self._library.NVMLError as error:
            self._stale = True
            raise ProbeError(f"NVML cannot count the cards: {error}{self._hint(error)}") from error
        read: dict[str, Handle] = {}
        unread: dict[int, str] = {}
        warnings: list[str] = []
        for number in range(count):
            try:
                one = read_card(self._library, number, self._sysfs)
            except (self._library.NVMLError, UnicodeDecodeError) as error:
                unread[number] = f"it does not answer ({error})"
                continue
            if read.setdefault(one.card.uuid, one) is not one:
                warnings.append(f"card {number} has the UUID of card {read[one.card.uuid].card.index}: it is left out")
        self._handles = read
        self._known |= {uuid: each.card for uuid, each in read.items()}
        numbers = {card.index for uuid, card in self._known.items() if uuid not in read}
        warnings += [f"card {number} is left out: {why}" for number, why in unread.items() if number not in numbers]
        return unread, warnings

    def _read_links(self) -> None:
        """A card that does not answer keeps the links that it had: it may be back soon."""
        to_switch, links = links_of(self._library, self._handles)
        self._known |= {uuid: replace(self._known[uuid], switch_links=number) for uuid, number in to_switch.items()}
        kept = {pair: link for pair, link in self._links.items() if not self._handles.keys() >= set(pair)}
        self._links = {(link.uuid, link.peer): link for link in links} | kept

    def _fault(self, uuid: str, unread: Mapping[int, str]) -> str:
        one = self._handles.get(uuid)
        if one is None:
            return unread.get(self._known[uuid].index, "NVML does not find it any more")
        if self._ignored is None:
            return ""
        action = self._recovery_action(one.handle)
        xid = self._xids.get(uuid)
        if xid and action == self._library.NVML_GPU_RECOVERY_ACTION_NONE:
            if self._monotonic() - xid.since_seconds < RECHECK_SECONDS:
                return xid.why
            del self._xids[uuid]
            xid = None
        if xid:
            untold = "; this driver does not tell when it recovers, so it is out until the agent starts anew"
            return xid.why if action is not None else xid.why + untold
        return self._asked_for(action) or self._unwatched.get(uuid, "") or self._blind

    def _recovery_action(self, handle: Any) -> int | None:
        """What the driver asks for to get the card working again; None where it does not tell."""
        try:
            [field] = self._library.nvmlDeviceGetFieldValues(
                handle, [self._library.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
            )
        except self._library.NVMLError:
            return None
        return int(field.value.uiVal) if field.nvmlReturn == self._library.NVML_SUCCESS else None

    def _asked_for(self, action: int | None) -> str:
        if not action:
            return ""
        known = (what for name, what in _ACTIONS.items() if getattr(self._library, name) == action)
        return f"the driver asks for {next(known, f'recovery action {action}')}"

    def _watch(self) -> None:
        """Has events of all cards that answer come in; what is watched already stays so, as a new set loses events."""
        if self._ignored is None or (self._events is not None and self._watched == self._handles.keys()):
            return
        self._drop_events()
        self._unwatched, self._too_old = {}, set()
        try:
            self._events = self._library.nvmlEventSetCreate()
        except self._library.NVMLError as error:
            self._blind = f"NVML cannot watch the cards: {error}"
            return
        self._watched = frozenset(self._handles)
        for uuid, each in self._handles.items():
            self._register(uuid, each.handle)

    def _register(self, uuid: str, handle: Any) -> None:
        library, wanted = self._library, self._library.nvmlEventTypeXidCriticalError
        try:
            if library.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
                library.nvmlDeviceRegisterEvents(handle, wanted, self._events)
            else:
                self._too_old.add(uuid)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_NOT_SUPPORTED:
                self._too_old.add(uuid)
            else:
                self._unwatched[uuid] = f"NVML cannot watch it: {error}"

    def _drop_events(self) -> None:
        if self._events is not None:
            events, self._events = self._events, None
            self._quietly(lambda: self._library.nvmlEventSetFree(events))

    def _quietly(self, call: Callable[[], Any]) -> None:
        """For what is given up anyway."""
        try:
            call()
        except self._library.NVMLError:
            return

    def _find_changes(self) -> tuple[HealthEvent, ...]:
        before = self._faults
        self.find()
        return changes_between(before, self._faults)

    def _waiting_works(self) -> tuple[HealthEvent, ...]:
        if not self._blind:
            return ()
        blind, self._blind = self._blind, ""
        before = self._faults
        self._faults = {uuid: why for uuid, why in before.items() if why != blind}
        return changes_between(before, self._faults)

    def _waiting_failed(self, error: Any) -> tuple[HealthEvent, ...]:
        """Some card is the cause, or all are out: nobody would hear of the next failure."""
        was_blind, why = self._blind, f"NVML cannot wait for events: {error}"
        self._drop_events()
        self._stale = True
        try:
            events = self._find_changes()
        except ProbeError as failed:
            if was_blind:
                raise
            events, why = (), str(failed)
        if any(not event.healthy for event in events):
            return events
        if was_blind:
            raise ProbeError(why) from error
        self._blind = why
        self._faults = dict.fromkeys(self._known, why) | self._faults
        return (*events, HealthEvent(uuid="", healthy=False, why=why))

    def _happened(self, data: Any) -> tuple[HealthEvent, ...]:
        if data.eventType != self._library.nvmlEventTypeXidCriticalError or self._ignored is None:
            return ()
        xid = int(data.eventData)
        if xid in self._ignored:
            return ()
        try:
            uuid = as_text(self._library.nvmlDeviceGetUUID(data.device))
        except self._library.NVMLError:
            uuid = ""
        return (self._broken(uuid if uuid in self._known else "", xid),)

    def _broken(self, uuid: str, xid: int) -> HealthEvent:
        why = f"the driver reported XID {xid}" if uuid else f"the driver reported XID {xid} of a card that is not known"
        for each in [uuid] if uuid else list(self._known):
            self._xids[each] = _Xid(why, self._monotonic())
            self._faults = self._faults | {each: why}
        return HealthEvent(uuid=uuid, healthy=False, why=why, xid=xid)


def changes_between(before: Faults, after: Faults) -> tuple[HealthEvent, ...]:
    """The events that lead from these faults to those."""
    broken = [HealthEvent(uuid=uuid, healthy=False, why=why) for uuid, why in after.items() if before.get(uuid) != why]
    mended: Iterable[HealthEvent] = (HealthEvent(uuid=uuid, healthy=True) for uuid in before if uuid not in after)
    return (*broken, *mended)
