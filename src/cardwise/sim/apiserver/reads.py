"""Reading: one object, lists in pages that stay true to one version, and where a watch begins."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left
from dataclasses import dataclass
from operator import itemgetter

from cardwise.sim.apiserver import errors
from cardwise.sim.apiserver.calls import Call, Query, truth
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.objects import Json
from cardwise.sim.apiserver.selectors import Selection
from cardwise.sim.apiserver.store import CompactedError, Store

LIST_EXPIRED = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)
PRESENT = -1  # the version in the token of such a list: whatever is there now
_FORM = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A list or a part of one: the version that it shows, and the token of the next part, "" at the end.

    `remaining` counts what is left, None where a selector makes that unknown.
    """

    revision: int
    items: list[Json]
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> Json:
        told: Json = {"resourceVersion": str(self.revision)}
        if self.token:
            told["continue"] = self.token
        if self.token and self.remaining is not None:
            told["remainingItemCount"] = self.remaining
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStart:
    """A watch tells of `initial` as if they were new, and then of what happens after `revision`.

    `marks_end`: a bookmark says where the initial ones end.
    """

    selection: Selection
    revision: int
    initial: list[Json]
    marks_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    revision: int
    start: str = ""
    limit: int = 0


class Reads:
    """Answers from the store. Nothing here changes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, call: Call) -> Json:
        """The stored object; raises RefusedError (404)."""
        found = self._store.get(call.resource.stored_as, call.key)
        if found is None:
            raise errors.not_found(call.resource, call.name)
        return found

    def page(self, call: Call) -> Page:
        """The list that is asked for; raises RefusedError: 400, 410 where its version is forgotten, 504 if to come."""
        selection = call.selection()
        with self._store.locked():
            window = self._window(call)
            try:
                rows = self._store.snapshot(call.resource.stored_as, window.revision)
            except CompactedError as error:
                raise _list_expired(window) from error
        return _page(rows, selection, window)

    def watch_start(self, call: Call) -> WatchStart:
        """Where the watch begins; raises RefusedError: 410 where its version is forgotten, 422 for a wrong question."""
        selection, query = call.selection(), call.query
        _check_initial_events(query)
        asked = _watch_version(query.get("resourceVersion", ""))
        marks_end = truth(query, "sendInitialEvents")
        with self._store.locked():
            if "sendInitialEvents" in query and not marks_end:
                return WatchStart(selection=selection, revision=max(asked, self._store.revision), initial=[])
            if asked and not marks_end:
                return self._resumed(call, selection, asked)
            rows = self._store.snapshot(call.resource.stored_as, self._store.revision)
            initial = [each for _key, each in rows if selection.holds(each)]
            return WatchStart(selection=selection, revision=self._store.revision, initial=initial, marks_end=marks_end)

    def _resumed(self, call: Call, selection: Selection, asked: int) -> WatchStart:
        oldest = self._store.oldest(call.resource.stored_as)
        if asked < oldest:
            raise errors.expired(f"too old resource version: {asked} ({oldest})")
        return WatchStart(selection=selection, revision=asked, initial=[])

    def _window(self, call: Call) -> _Window:
        query = call.query
        limit, version = call.number("limit") or 0, query.get("resourceVersion", "")
        if token := query.get("continue", ""):
            if version not in ("", "0"):
                raise errors.bad_request("specifying resource version is not allowed when using continue")
            revision, start = read_token(token)
            return _Window(revision=self._store.revision if revision == PRESENT else revision, start=start, limit=limit)
        if not version:
            _check_no_match(query)
            return _Window(revision=self._store.revision, limit=limit)
        asked = _list_version(version)
        if asked > self._store.revision:
            raise errors.version_too_large(asked, self._store.revision)
        if query.get("resourceVersionMatch") == "Exact":
            return _Window(revision=asked, limit=limit)
        return _Window(revision=self._store.revision, limit=limit if asked else 0)  # from its cache it gives no pages


def _page(rows: list[tuple[str, Json]], selection: Selection, window: _Window) -> Page:
    first, last = 0, len(rows)
    if selection.namespace:
        first = bisect_left(rows, f"{selection.namespace}/", key=itemgetter(0))
        last = bisect_left(rows, f"{selection.namespace}0", key=itemgetter(0))  # 0 is the character after /
    first = max(first, bisect_left(rows, window.start, key=itemgetter(0)))
    items: list[Json] = []
    for index in range(first, last):
        if window.limit and len(items) == window.limit:
            token = write_token(window.revision, rows[index - 1][0])
            remaining = None if selection.selective else last - index
            return Page(revision=window.revision, items=items, token=token, remaining=remaining)
        if selection.holds(rows[index][1]):
            items.append(rows[index][1])
    return Page(revision=window.revision, items=items)


def _list_expired(window: _Window) -> RefusedError:
    if not window.start:
        return errors.expired(LIST_EXPIRED)
    return errors.expired(CONTINUE_EXPIRED, write_token(PRESENT, window.start.rstrip("\0")))


def write_token(revision: int, last_key: str) -> str:
    """A continue token: the list of this version goes on after this key. The form is a real server's own."""
    body = {"v": _FORM, "rv": revision, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode()).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Version and first key of a continue token; raises RefusedError (400)."""
    try:
        body = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error):
        body = None
    read = (body.get("rv"), body.get("start")) if isinstance(body, dict) else (None, None)
    match read:
        case (int(revision), str(start)) if start and revision >= PRESENT:
            return revision, start
    raise errors.bad_request("invalid continue token: continue key is not valid")


def _list_version(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise errors.bad_request(f"invalid resource version: {_bad_version(text)}")


def _watch_version(text: str) -> int:
    if not text:
        return 0
    if text.isascii() and text.isdigit():
        return int(text)
    raise RefusedError(500, _bad_version(text))


def _bad_version(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def _check_no_match(query: Query) -> None:
    if query.get("resourceVersionMatch"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise errors.invalid_options("ListOptions", errors.forbidden_change("resourceVersionMatch", why))


def _check_initial_events(query: Query) -> None:
    if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise errors.invalid_options("ListOptions", errors.forbidden_change("resourceVersionMatch", why))
