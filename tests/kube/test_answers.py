"""What an answer means: the object, or one error whose fault callers can match on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cardwise.kube.answers import Answer, checked, done, object_in, page_in
from cardwise.kube.errors import Fault, KubeError, cut
from cardwise.kube.requests import PODS
from kube.servers import pod, pod_list, status

HTML = b"<!DOCTYPE html><html><head><title>502\n Bad\tGateway</title></head><body>nginx</body></html>"


def came(code: int, body: bytes | dict[str, Any], content_type: str = "", retry_after: str = "") -> Answer:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Answer(where="GET /x", code=code, body=raw, content_type=content_type, retry_after=retry_after)


def error_of(answer: Answer) -> KubeError:
    with pytest.raises(KubeError) as caught:
        object_in(answer, PODS)
    return caught.value


REFUSALS = {
    "missing": (404, "NotFound", Fault.NOT_FOUND, False),
    "another was faster": (409, "Conflict", Fault.CONFLICT, False),
    "there already": (409, "AlreadyExists", Fault.ALREADY_EXISTS, False),
    "version forgotten": (410, "Expired", Fault.GONE, False),
    "version forgotten, older word": (410, "Gone", Fault.GONE, False),
    "not allowed": (403, "Forbidden", Fault.FORBIDDEN, False),
    "not known": (401, "Unauthorized", Fault.UNAUTHORIZED, False),
    "not valid": (422, "Invalid", Fault.INVALID, False),
    "not understood": (400, "BadRequest", Fault.BAD_REQUEST, False),
    "too many": (429, "TooManyRequests", Fault.TOO_MANY, False),
    "a code without a word": (409, "", Fault.CONFLICT, False),
    "a webhook's own word": (400, "Policy", Fault.BAD_REQUEST, False),
    "a code of its own": (418, "", Fault.REJECTED, False),
    "server error": (500, "InternalError", Fault.SERVER, True),
    "server time-out": (504, "Timeout", Fault.SERVER, True),
    "server error that says missing": (503, "NotFound", Fault.SERVER, True),
}


@pytest.mark.parametrize(("code", "reason", "fault", "in_doubt"), REFUSALS.values(), ids=REFUSALS)
def test_a_status_is_an_error_with_its_fault(code: int, reason: str, fault: Fault, in_doubt: bool) -> None:
    error = error_of(came(code, status(code, reason, 'pods "a" is so')))
    assert (error.fault, error.code, error.reason, error.in_doubt) == (fault, code, reason, in_doubt)
    assert str(error) == f'GET /x: pods "a" is so ({f"{code} {reason}".strip()})'


FOREIGN = {
    "HTML with an error": (502, HTML, "", Fault.SERVER, "answered 502 with an HTML page (502 Bad Gateway)"),
    "HTML without a title": (403, b"<p>no", "", Fault.FORBIDDEN, "answered 403 with an HTML page (without a title)"),
    "HTML by its type": (503, b"down", "text/html", Fault.SERVER, "answered 503 with an HTML page (without a title)"),
    "HTML as success": (200, HTML, "", Fault.BAD_ANSWER, "is an HTML page (502 Bad Gateway), must be JSON"),
    "a proxy's 404": (404, b"404 page not found\n", "", Fault.BAD_ANSWER, "answered 404 with 404 page not found"),
    "a proxy's 409": (409, b"{}", "", Fault.BAD_ANSWER, "answered 409 with {}"),
    "a redirect": (302, b"", "", Fault.BAD_ANSWER, "answered 302 with (empty)"),
    "too many, in plain text": (429, b"Too many requests", "", Fault.TOO_MANY, "answered 429 with Too many requests"),
    "long": (500, b"x" * 100_000, "", Fault.SERVER, f"answered 500 with {'x' * 253}..."),
    "bytes": (500, b"\x00\xff", "", Fault.SERVER, "answered 500 with \\x00\ufffd"),
    "nothing": (200, b"", "", Fault.BAD_ANSWER, "the answer is (empty), must be JSON"),
    "cut": (200, b'{"kind":"Pod","meta', "", Fault.BAD_ANSWER, 'the answer is {"kind":"Pod","meta, must be JSON'),
    "deep": (200, b'{"a":' * 100_000, "", Fault.BAD_ANSWER, "..., must be JSON"),
    "a list": (200, b"[]", "", Fault.BAD_ANSWER, "the answer cannot be read: Expected `object`, got `array`"),
    "no kind": (200, b"{}", "", Fault.BAD_ANSWER, "the answer is an object without a kind, must be a Pod"),
    "another kind": (200, b'{"kind":"Widget"}', "", Fault.BAD_ANSWER, "the answer is a Widget, must be a Pod"),
    "another shape": (
        200,
        b'{"kind":"Pod","metadata":{},"spec":[]}',
        "",
        Fault.BAD_ANSWER,
        "cannot be read: Expected `object`, got `array` - at `$.spec`",
    ),
    "no UTF-8": (200, b'{"kind":"\xff"}', "", Fault.BAD_ANSWER, "must be JSON"),
}


@pytest.mark.parametrize(("code", "body", "content_type", "fault", "says"), FOREIGN.values(), ids=FOREIGN)
def test_what_no_api_server_says_is_named(code: int, body: bytes, content_type: str, fault: Fault, says: str) -> None:
    error = error_of(came(code, body, content_type))
    assert error.fault is fault
    assert says in str(error)
    assert len(str(error)) < 350


RETRIES = {
    "the header": ("7", {}, 7.0),
    "the Status": ("", {"retryAfterSeconds": 3}, 3.0),
    "both": ("7", {"retryAfterSeconds": 3}, 7.0),
    "neither": ("", {}, None),
    "a date": ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
    "nonsense": ("-1", {}, None),
    "ages": ("9" * 4000, {}, None),
}


@pytest.mark.parametrize(("header", "details", "seconds"), RETRIES.values(), ids=RETRIES)
def test_the_wait_that_is_asked_for_is_kept(header: str, details: dict[str, Any], seconds: float | None) -> None:
    error = error_of(came(429, status(429, "TooManyRequests", **details), retry_after=header))
    assert error.retry_after_seconds == seconds


def test_an_object_is_decoded() -> None:
    one = object_in(came(200, pod("a", 4)), PODS)
    assert (one.full_name, one.metadata.resource_version) == ("ml/a", "4")


def test_a_success_is_passed_on_as_it_is() -> None:
    answer = came(201, b"")
    assert checked(answer) is answer


@pytest.mark.parametrize("body", [b"{}", HTML, b""], ids=["no kind", "HTML", "nothing"])
def test_a_write_that_something_else_answered_is_in_doubt(body: bytes) -> None:
    with pytest.raises(KubeError) as caught:
        done(came(200, body))
    assert caught.value.in_doubt


def test_a_page_is_decoded() -> None:
    page = page_in(came(200, pod_list("a", "b", version=7, next_page="next")), PODS)
    assert [one.full_name for one in page.objects] == ["ml/a", "ml/b"]
    assert (page.version, page.next_page, page.skipped) == ("7", "next", 0)


def test_an_object_of_a_page_that_cannot_be_read_is_told_beside_the_others() -> None:
    listed = pod_list("a", "b", "c")
    listed["items"][1]["spec"] = {"nodeName": "n1", "containers": {}}
    page = page_in(came(200, listed), PODS)
    assert [one.full_name for one in page.objects] == ["ml/a", "ml/c"]
    (lost,) = page.unreadable
    assert (lost.namespace, lost.name, lost.uid, lost.node_name) == ("ml", "b", "uid-b", "n1")
    assert "at `$.spec.containers`" in lost.reason
    assert page.skipped == 1


BAD_PAGES = {
    "another kind": (pod_list() | {"kind": "WidgetList"}, "the answer is a WidgetList, must be a PodList"),
    "no version": (pod_list() | {"metadata": {}}, "has no metadata.resourceVersion, which a list must have"),
    "no metadata": ({"kind": "PodList", "items": []}, "has no metadata.resourceVersion, which a list must have"),
    "items of another type": (pod_list() | {"items": "x"}, "cannot be read: Expected `array | null`, got `str`"),
}


@pytest.mark.parametrize(("body", "says"), BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_page_that_is_none_is_a_bad_answer(body: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeError) as caught:
        page_in(came(200, body), PODS)
    assert says in str(caught.value)
    assert caught.value.fault is Fault.BAD_ANSWER


def test_an_empty_list_may_say_null() -> None:
    assert page_in(came(200, pod_list() | {"items": None}), PODS).objects == []


TEXTS = {
    "blank": (" \n ", "(empty)"),
    "lines": ("a\n  b\t c", "a b c"),
    "escapes": ("a\x1b[31mb", "a\\x1b[31mb"),
    "long": ("x" * 300, "x" * 253 + "..."),
    "just right": ("x" * 256, "x" * 256),
}


@pytest.mark.parametrize(("text", "shown"), TEXTS.values(), ids=TEXTS)
def test_a_foreign_text_is_shown_on_one_short_line(text: str, shown: str) -> None:
    assert cut(text) == shown
