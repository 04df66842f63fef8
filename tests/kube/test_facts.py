"""The stream of a watch: lines out of any chunks, and what each line says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.facts import Bookmark, Changed, Lines, Removed, Skipped, Unreadable, read_line
from cardwise.kube.requests import PODS
from kube.servers import bookmark, line, pod, status

STREAM = b"".join(
    [
        line("ADDED", pod("a", 1, text="ü\\n\u2028")),
        b"\n",
        line("MODIFIED", pod("a", 2, text="x" * 700)),
        bookmark(3),
        line("DELETED", pod("b", 4)),
        line("FROBNICATED", pod("c", 5)),
    ]
)


def told(chunks: list[bytes]) -> list[object]:
    lines = Lines("GET /x")
    return [read_line("GET /x", one, PODS) for chunk in chunks for one in lines.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=40).map(sorted))
def test_any_chunking_of_a_stream_says_the_same(cuts: list[int]) -> None:
    chunks = [STREAM[start:end] for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    assert told(chunks) == told([STREAM])


def test_byte_by_byte_says_the_same() -> None:
    assert told([STREAM[at : at + 1] for at in range(len(STREAM))]) == told([STREAM])


@given(st.lists(st.binary(max_size=20)))
def test_lines_lose_and_invent_nothing(chunks: list[bytes]) -> None:
    lines = Lines("")
    found = [one for chunk in chunks for one in lines.feed(chunk)]
    whole = b"".join(chunks).split(b"\n")
    assert found == [one for one in whole[:-1] if one.strip()]
    assert lines.rest == len(whole[-1])


def test_blank_lines_say_nothing() -> None:
    assert Lines("").feed(b"\n\r\n \t\na\n") == [b"a"]


def test_a_long_line_in_small_chunks_takes_time_in_proportion_to_its_length() -> None:
    def seconds(kib: int) -> float:
        lines, start = Lines(""), time.process_time()
        found = [one for _ in range(kib) for one in lines.feed(b"x" * 1024)] + lines.feed(b"\n")
        assert len(found[0]) == kib * 1024
        return time.process_time() - start

    assert seconds(32 * 1024) < 0.5 + 40 * seconds(1024)


def test_a_line_without_an_end_is_given_up() -> None:
    lines = Lines("GET /x", most_bytes=2048)
    lines.feed(b"x" * 2048)
    with pytest.raises(KubeError, match=r"GET /x: the watch sent a line of more than 2 KiB"):
        lines.feed(b"x")


def test_added_modified_and_deleted_are_changes_and_removals() -> None:
    said = [read_line("", line(kind, pod("a", 9)), PODS) for kind in ("ADDED", "MODIFIED", "DELETED")]
    assert [type(one) for one in said] == [Changed, Changed, Removed]
    assert all(one.version == "9" for one in said)


def test_a_bookmark_has_a_version_and_no_object() -> None:
    assert read_line("", bookmark(12), PODS) == Bookmark(version="12")


SKIPPED: dict[str, tuple[str, Any, str, str]] = {
    "an event we do not know": ("HELLO", pod("a", 5), "5", "event HELLO, must be ADDED, MODIFIED or DELETED"),
    "a kind we do not know": ("ADDED", pod("a", 5) | {"kind": "Widget"}, "5", "ADDED of a Widget, must be a Pod"),
    "a bookmark of another kind": ("BOOKMARK", pod("a", 5) | {"kind": ""}, "5", "BOOKMARK of an object without a kind"),
    "no version": ("ADDED", pod("a") | {"metadata": {}}, "", "ADDED without metadata.resourceVersion"),
    "no metadata": ("ADDED", {"kind": "Pod"}, "", "ADDED without metadata.resourceVersion"),
    "a bookmark that cannot be read": (
        "BOOKMARK",
        {"kind": "Pod", "metadata": {"resourceVersion": "5", "name": 7}},
        "5",
        "BOOKMARK of an object that cannot be read",
    ),
    "a kind we do not know, that cannot be read": (
        "ADDED",
        {"kind": "Widget", "metadata": {"resourceVersion": "5", "name": 7}},
        "5",
        "ADDED of an object that cannot be read",
    ),
}


@pytest.mark.parametrize(("kind", "one", "version", "says"), SKIPPED.values(), ids=SKIPPED)
def test_what_says_nothing_to_us_is_skipped_with_its_version(kind: str, one: Any, version: str, says: str) -> None:
    said = read_line("", line(kind, one), PODS)
    assert isinstance(said, Skipped)
    assert said.version == version
    assert says in said.reason


UNREADABLE: dict[str, tuple[bytes, Unreadable]] = {
    "a spec of another type": (
        line("ADDED", pod("a", 5) | {"spec": []}),
        Unreadable(namespace="ml", name="a", uid="uid-a", version="5", reason="Expected `object`"),
    ),
    "a pod that is gone": (
        line("DELETED", pod("a", 5) | {"spec": {"nodeName": "n1", "volumes": 7}}),
        Unreadable(namespace="ml", name="a", uid="uid-a", node_name="n1", version="5", reason="Expected", gone=True),
    ),
    "a name of another type": (
        line("MODIFIED", {"kind": "Pod", "metadata": {"name": 7, "uid": "u", "resourceVersion": "5"}}),
        Unreadable(uid="u", version="5", reason="Expected `str`, got `int`"),
    ),
    "metadata of another type": (
        line("ADDED", {"kind": "Pod", "metadata": [], "spec": {"nodeName": "n1"}}),
        Unreadable(node_name="n1", reason="Expected `object | null`, got `array`"),
    ),
    "a node's name of another type": (
        line("ADDED", pod("a", 5) | {"spec": {"nodeName": 7}}),
        Unreadable(namespace="ml", name="a", uid="uid-a", version="5", reason="Expected `str`, got `int`"),
    ),
    "no object": (b'{"type":"ADDED","object":7}', Unreadable(reason="Expected `object`, got `int`")),
    "bytes that are no text": (
        line("ADDED", pod("a", 5, text="?")).replace(b"?", b"\xff"),
        Unreadable(namespace="ml", name="a", uid="uid-a", version="5", reason="Invalid UTF-8"),
    ),
}


@pytest.mark.parametrize(("text", "expected"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_object_that_cannot_be_decoded_tells_what_it_can(text: bytes, expected: Unreadable) -> None:
    said = read_line("", text, PODS)
    assert isinstance(said, Unreadable)
    assert expected.reason in said.reason
    assert replace(said, reason="") == replace(expected, reason="")


BROKEN = {
    "cut": line("ADDED", pod("a"))[:50],
    "HTML": b"<html>",
    "no event": b"{}",
    "a number": b"7",
    "no UTF-8": b'{"type":"\xff","object":{}}',
    "deep": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_line_that_is_no_event_is_a_bad_answer(text: bytes) -> None:
    with pytest.raises(KubeError) as caught:
        read_line("GET /x", text, PODS)
    assert caught.value.fault is Fault.BAD_ANSWER
    assert str(caught.value).endswith(", must be an event")


ERRORS: dict[str, tuple[Any, Fault]] = {
    "expired": (status(410, "Expired"), Fault.GONE),
    "expired, without a code": ({"kind": "Status", "reason": "Expired"}, Fault.GONE),
    "server error": (status(500, "InternalError"), Fault.SERVER),
    "no Status": (7, Fault.REJECTED),
}


@pytest.mark.parametrize(("one", "fault"), ERRORS.values(), ids=ERRORS)
def test_an_error_in_the_stream_is_raised(one: Any, fault: Fault) -> None:
    with pytest.raises(KubeError) as caught:
        read_line("GET /x", line("ERROR", one), PODS)
    assert caught.value.fault is fault
    assert msgspec.json.encode(str(caught.value)).startswith(b'"GET /x: ')
