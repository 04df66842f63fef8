"""What an answer of the API server means: the object asked for, or the error. Pure.

The codes and reasons are those of https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from cardwise.kube.errors import MOST_SHOWN, Fault, KubeError, cut
from cardwise.kube.requests import Resource
from cardwise.kube.types import Glimpse, ObjectList, Status
from cardwise.kube.unreadable import UNREADABLE, Unreadable, unreadable

T = TypeVar("T")

FAULT_OF_REASON = {
    "NotFound": Fault.NOT_FOUND,
    "Conflict": Fault.CONFLICT,
    "AlreadyExists": Fault.ALREADY_EXISTS,
    "Gone": Fault.GONE,
    "Expired": Fault.GONE,
    "Forbidden": Fault.FORBIDDEN,
    "Unauthorized": Fault.UNAUTHORIZED,
    "Invalid": Fault.INVALID,
    "BadRequest": Fault.BAD_REQUEST,
    "TooManyRequests": Fault.TOO_MANY,
}
FAULT_OF_CODE = {
    400: Fault.BAD_REQUEST,
    401: Fault.UNAUTHORIZED,
    403: Fault.FORBIDDEN,
    404: Fault.NOT_FOUND,
    409: Fault.CONFLICT,
    410: Fault.GONE,
    422: Fault.INVALID,
    429: Fault.TOO_MANY,
}
PLAIN_CODES = frozenset((401, 403, 429))
"""Codes that say it all, whoever answers. The others need the API server's own Status: a proxy's 404 tells nothing."""

_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_status = msgspec.json.Decoder(Status)
_glimpse = msgspec.json.Decoder(Glimpse)


def decoder_of(decoded_as: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, made once."""
    return _decoder_of(decoded_as)


@cache
def _decoder_of(decoded_as: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(decoded_as)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `retry_after` is the header as it stands, `where` names the request."""

    where: str
    code: int
    body: bytes
    content_type: str = ""
    retry_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A piece of a list. `next_page` asks for the next, empty at the end; `unreadable` is what could not be decoded."""

    objects: list[T]
    version: str
    next_page: str = ""
    remaining: int | None = None
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def skipped(self) -> int:
        """How many objects could not be decoded."""
        return len(self.unreadable)


def checked(answer: Answer) -> Answer:
    """The answer itself if the request was carried out. Raises KubeError if not."""
    if 200 <= answer.code < 300:
        return answer
    raise error_in(answer)


def error_in(answer: Answer) -> KubeError:
    """What an answer that is no success says."""
    status = _status_in(answer.body)
    if status is not None:
        return refusal(answer.where, status, answer.code, _seconds(answer.retry_after))
    fault = FAULT_OF_CODE[answer.code] if answer.code in PLAIN_CODES else Fault.BAD_ANSWER
    if answer.code >= 500:
        fault = Fault.SERVER
    message = f"{answer.where}: answered {answer.code} with {shown_body(answer)}"
    return KubeError(message, fault=fault, code=answer.code, retry_after_seconds=_seconds(answer.retry_after))


def refusal(where: str, status: Status, code: int, retry_after_seconds: float | None = None) -> KubeError:
    """The error that a Status says, which came with this HTTP status or in a watch."""
    details = status.details
    if retry_after_seconds is None and details is not None:
        retry_after_seconds = details.retry_after_seconds
    words = f"{code or ''} {status.reason}".strip() or "without a code"
    return KubeError(
        f"{where}: {status.message or 'refused'} ({words})",
        fault=_fault(status.reason, code),
        code=code,
        reason=status.reason,
        retry_after_seconds=retry_after_seconds,
    )


def object_in(answer: Answer, resource: Resource[T]) -> T:
    """The one object that was asked for. Raises KubeError for a refusal, and where something else was answered."""
    kind = _decoded(checked(answer), _glimpse).kind
    if kind != resource.kind:
        raise _bad(answer, f"is {shown_kind(kind)}, must be a {resource.kind}")
    one: T = _decoded(answer, decoder_of(resource.decoded_as))
    return one


def page_in(answer: Answer, resource: Resource[T]) -> Page[T]:
    """One page of a list. Objects that cannot be decoded stand by themselves. Raises KubeError otherwise."""
    try:
        listed: ObjectList[T] = _list_decoder(resource.decoded_as).decode(checked(answer).body)
    except UNREADABLE:
        return _piecewise(answer, resource)
    return _page(answer, resource, listed, listed.items or [], [])


def done(answer: Answer) -> None:
    """Makes sure that an answer whose object nobody needs is one of the API server. Raises KubeError if not."""
    if not _decoded(checked(answer), _glimpse).kind:
        raise _bad(answer, f"is {shown_body(answer)}, must be an object or a Status")


def shown_body(answer: Answer) -> str:
    """A foreign body as messages show it; of a page in HTML its title."""
    text = answer.body[: 16 * MOST_SHOWN].decode("utf-8", "replace")
    if "html" in answer.content_type or text.lstrip()[:1] == "<":
        title = _TITLE.search(text)
        return f"an HTML page ({cut(title[1]) if title else 'without a title'})"
    return cut(text)


def shown_kind(kind: str) -> str:
    """A kind as messages name it."""
    return f"a {cut(kind)}" if kind else "an object without a kind"


def _list_decoder(of: Any) -> msgspec.json.Decoder[Any]:
    return decoder_of(ObjectList[of])


def _fault(reason: str, code: int) -> Fault:
    if code >= 500:
        return Fault.SERVER
    return FAULT_OF_REASON.get(reason) or FAULT_OF_CODE.get(code, Fault.REJECTED)


def _status_in(body: bytes) -> Status | None:
    try:
        status = _status.decode(body)
    except UNREADABLE:
        return None
    return status if status.kind == "Status" else None


def _seconds(header: str) -> float | None:
    """Whole seconds, as the API server writes them. A date, which HTTP would allow, counts as nothing."""
    return float(header) if header.isascii() and header.isdigit() and len(header) < 7 else None


def _decoded(answer: Answer, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(answer.body)
    except msgspec.ValidationError as error:
        raise _bad(answer, f"cannot be read: {error}") from error
    except UNREADABLE as error:
        raise _bad(answer, f"is {shown_body(answer)}, must be JSON") from error


def _piecewise(answer: Answer, resource: Resource[T]) -> Page[T]:
    listed: ObjectList[msgspec.Raw] = _decoded(answer, _list_decoder(msgspec.Raw))
    decoder: msgspec.json.Decoder[T] = decoder_of(resource.decoded_as)
    objects: list[T] = []
    lost: list[Unreadable] = []
    for raw in listed.items or ():
        try:
            objects.append(decoder.decode(raw))
        except UNREADABLE as error:
            lost.append(unreadable(raw, cut(str(error))))
    return _page(answer, resource, listed, objects, lost)


def _page(
    answer: Answer, resource: Resource[T], listed: ObjectList[Any], objects: list[T], lost: list[Unreadable]
) -> Page[T]:
    if listed.kind != f"{resource.kind}List":
        raise _bad(answer, f"is {shown_kind(listed.kind)}, must be a {resource.kind}List")
    meta = listed.metadata
    if meta is None or not meta.resource_version:
        raise _bad(answer, "has no metadata.resourceVersion, which a list must have")
    return Page(
        objects=objects,
        version=meta.resource_version,
        next_page=meta.next_page,
        remaining=meta.remaining_item_count,
        unreadable=tuple(lost),
    )


def _bad(answer: Answer, what: str) -> KubeError:
    return KubeError(f"{answer.where}: the answer {what}", fault=Fault.BAD_ANSWER, code=answer.code)
