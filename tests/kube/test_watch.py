"""The reflector against servers that expire, cut, stall, lie and close: it goes on, from the right place, and counts."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

import pytest
from aiohttp import web

from cardwise.kube.client import Client
from cardwise.kube.clock import SYSTEM_CLOCK, Clock
from cardwise.kube.errors import Fault
from cardwise.kube.facts import Bookmark, Changed, Fact, Listed, Troubled, Unreadable
from cardwise.kube.requests import PODS, Scope
from cardwise.kube.watch import Counts, Reflector
from cardwise.wire.objects import Pod
from kube.scripted import Api, Step, facts_of, in_words, stay, told
from kube.servers import (
    Json,
    Waits,
    bookmark,
    line,
    plain,
    pod,
    pod_list,
    run,
    serving,
    serving_raw,
    status,
)


def test_it_lists_and_then_tells_what_happens() -> None:
    api = Api(
        line("ADDED", pod("b", 11)) + line("MODIFIED", pod("a", 12)) + bookmark(15) + line("DELETED", pod("b", 16))
    )
    words, counts = told(api, 6)
    assert words == ["listed a @10", "synced @10", "changed b @11", "changed a @12", "bookmark @15", "removed b @16"]
    assert counts == Counts()
    (watch,) = api.watched
    assert (watch["allowWatchBookmarks"], watch["resourceVersion"]) == ("true", "10")


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, "290"), (0.9999, "579")], ids=["least", "most"])
def test_the_server_ends_a_watch_after_a_time_left_to_chance(chance: float, seconds: str) -> None:
    api = Api(stay)
    told(api, 2, Clock(chance=lambda: chance))
    assert api.watched[0]["timeoutSeconds"] == seconds


def test_a_list_comes_in_pages_and_is_one_fact() -> None:
    api = Api(stay, lists=(pod_list("a", next_page="1"), pod_list("b", next_page="2"), pod_list("c")))
    words, _ = told(api, 2, page_objects=1, scope=Scope(labels="x=y", namespace="ml"))
    assert words == ["listed a,b,c @10", "synced @10"]
    assert [query.get("continue") for query in api.listed] == [None, "1", "2"]
    assert all(query["labelSelector"] == "x=y" for query in (*api.listed, *api.watched))


def test_others_may_go_first_before_each_page_is_decoded() -> None:
    ways: list[int] = []

    async def give_way() -> None:
        ways.append(len(api.listed))

    api = Api(stay, lists=(pod_list("a", next_page="1"), pod_list("b")))
    told(api, 2, give_way=give_way)
    assert ways == [1, 2]


def test_a_watch_that_ends_in_order_goes_on_from_its_last_version_without_a_wait() -> None:
    waits = Waits(step_seconds=300)
    api = Api(line("ADDED", pod("b", 11)), bookmark(20), b"")
    words, counts = told(api, 6, waits.clock)
    assert words == ["listed a @10", "synced @10", "changed b @11", "synced @11", "bookmark @20", "synced @20"]
    assert api.versions == ["10", "11", "20"]
    assert (counts.reconnects, counts.troubles, waits.waits) == (2, 0, [])


def test_a_server_that_closes_at_once_is_asked_less_and_less() -> None:
    waits = Waits()
    words, counts = told(Api(b""), 41, waits.clock)
    assert words[:4] == ["listed a @10", "synced @10", "troubled: unreachable", "synced @10"]
    assert counts.troubles == 20
    assert waits.waits[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6])
    assert waits.waits[-1] == pytest.approx(15)


GONE = status(410, "Expired", "too old resource version: 10 (20)")


@pytest.mark.parametrize("gone", [GONE, line("ERROR", GONE)], ids=["as the answer", "in the stream"])
def test_a_version_that_the_server_forgot_leads_to_a_new_list(gone: Step) -> None:
    api = Api(gone, stay, lists=(pod_list("a", "b", version=10), pod_list("b", version=20)))
    words, counts = told(api, 5 if isinstance(gone, bytes) else 4)
    assert words[0] == "listed a,b @10"
    assert words[-3:] == ["troubled: gone", "listed b @20", "synced @20"]
    assert (counts.relists, counts.troubles) == (1, 1)


def test_a_list_whose_moment_is_forgotten_starts_again_and_at_last_comes_at_once() -> None:
    first = pod_list("a", next_page="1")
    api = Api(stay, lists=(first, GONE, first, GONE, pod_list("a", "b")))
    words, counts = told(api, 4)
    assert words == ["troubled: gone", "troubled: gone", "listed a,b @10", "synced @10"]
    assert [query.get("limit") for query in api.listed] == ["500", "500", "500", "500", None]
    assert (counts.relists, counts.troubles) == (0, 2)


CUT = line("ADDED", pod("c", 12))[:40]


def test_a_line_that_is_cut_is_told_again_from_the_last_version() -> None:
    api = Api(line("ADDED", pod("b", 11)) + CUT, line("ADDED", pod("c", 12)))
    words, counts = told(api, 6)
    assert words[2:] == ["changed b @11", "troubled: unreachable", "synced @11", "changed c @12"]
    assert (api.versions, counts.bad_lines) == (["10", "11"], 1)


@pytest.mark.parametrize(
    "bad", [CUT + b"\n", b"<html>\n", b"{}\n", b"\xff\n"], ids=["cut", "HTML", "no event", "no text"]
)
def test_a_line_that_is_none_is_not_stepped_over_and_at_last_all_is_listed_again(bad: bytes) -> None:
    waits = Waits()
    api = Api(line("ADDED", pod("b", 11)) + bad, bad, bad, stay)
    words, counts = told(api, 10, waits.clock)
    assert words[2:] == [
        "changed b @11",
        "troubled: bad answer",
        "synced @11",
        "troubled: bad answer",
        "synced @11",
        "troubled: bad answer",
        "listed a @10",
        "synced @10",
    ]
    assert (counts.bad_lines, counts.relists, len(waits.waits)) == (3, 1, 3)


def test_unknown_kinds_and_objects_that_cannot_be_read_are_counted_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "cardwise")
    lines = [
        line("ADDED", pod("w", 11) | {"kind": "Widget"}),
        line("HELLO", pod("h", 12)),
        line("ADDED", pod("s", 13) | {"spec": 7}),
        line("ADDED", {}),
        line("DELETED", pod("u", 17) | {"spec": 7}),
        line("ADDED", pod("b", 14)),
    ]
    api = Api((b"".join(lines), *[line("ADDED", pod("w", 15) | {"kind": "Widget"})] * 20, bookmark(16)))
    words, counts = told(api, 6)
    assert words[2:] == ["unreadable s @13", "unreadable u @17", "changed b @14", "bookmark @16"]
    assert (counts.skipped, counts.bad_lines, counts.troubles) == (25, 0, 0)
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 20


def test_what_is_skipped_moves_the_version_on_where_it_has_one() -> None:
    api = Api(line("HELLO", pod("h", 12)), line("ADDED", {}), stay)
    told(api, 6)
    assert api.versions == ["10", "12", "12"]


def test_what_cannot_be_read_moves_the_version_on() -> None:
    api = Api(line("ADDED", pod("s", 12) | {"spec": 7}), stay)
    words, _ = told(api, 5)
    assert words[2:4] == ["unreadable s @12", "troubled: unreachable"]
    assert api.versions == ["10", "12"]


def test_a_pod_that_cannot_be_read_is_a_fact_with_all_that_can_be_told_of_it() -> None:
    broken = pod("s", 11) | {"spec": {"nodeName": "n1", "containers": 7}}
    facts, _ = run(facts_of(Api(line("MODIFIED", broken), stay), 3, Waits().clock))
    (said,) = (fact for fact in facts if isinstance(fact, Unreadable))
    assert (said.namespace, said.name, said.uid, said.node_name) == ("ml", "s", "uid-s", "n1")
    assert (said.version, said.gone) == ("11", False)
    assert said.reason == "Expected `array | null`, got `int` - at `$.spec.containers`"


def test_bad_lines_with_progress_between_them_are_no_reason_to_list_again() -> None:
    steps = [line("ADDED", pod("b", version)) + b"bad\n" for version in range(11, 16)]
    _, counts = told(Api(*steps, stay), 16)
    assert (counts.bad_lines, counts.relists) == (5, 0)


def test_after_a_healthy_minute_the_waits_start_anew() -> None:
    waits = Waits(step_seconds=100)
    told(Api(line("ERROR", status(500, "InternalError"))), 10, waits.clock)
    assert waits.waits == pytest.approx([0.1] * 4)


def test_objects_of_a_list_that_cannot_be_read_are_counted_and_told_page_after_page() -> None:
    first, second = pod_list("a", "b", next_page="1"), pod_list("c", "d")
    first["items"][0]["spec"] = second["items"][1]["spec"] = 7
    facts, counts = run(facts_of(Api(stay, lists=(first, second)), 1, Waits().clock))
    (listed,) = facts
    assert isinstance(listed, Listed)
    assert [one.metadata.name for one in listed.objects] == ["b", "c"]
    assert [(one.name, one.uid) for one in listed.unreadable] == [("a", "uid-a"), ("d", "uid-d")]
    assert (listed.skipped, counts.skipped) == (2, 2)


REFUSALS: dict[str, tuple[Json, str]] = {
    "not allowed": (status(403, "Forbidden"), "troubled: forbidden"),
    "server error": (status(500, "InternalError"), "troubled: server error"),
    "nobody": (status(401, "Unauthorized"), "troubled: unauthorized"),
    "not there": (status(404, "NotFound"), "troubled: not found"),
}


@pytest.mark.parametrize(("refusal", "says"), REFUSALS.values(), ids=REFUSALS)
def test_a_list_that_is_refused_is_tried_again(refusal: Json, says: str) -> None:
    waits = Waits()
    words, counts = told(Api(stay, lists=(refusal, refusal, pod_list("a"))), 4, waits.clock)
    assert words == [says, says, "listed a @10", "synced @10"]
    assert counts.troubles == 2
    assert waits.waits == pytest.approx([0.1, 0.2])


def test_an_outage_does_not_throw_the_version_away() -> None:
    api = Api(*[status(503, "ServiceUnavailable")] * 9, stay)
    words, counts = told(api, 11)
    assert words == ["listed a @10", *["troubled: server error"] * 9, "synced @10"]
    assert counts.relists == 0


def test_a_wait_that_the_server_asks_for_is_kept() -> None:
    waits = Waits()
    busy = status(429, "TooManyRequests", retryAfterSeconds=5)
    told(Api(busy, stay), 3, waits.clock)
    assert waits.waits == pytest.approx([5.1])


def test_html_is_a_trouble_and_not_the_end() -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html><title>Sign in</title>", content_type="text/html")

    async def main() -> list[Fact[Pod]]:
        async with serving(page) as url, Client(plain(url)) as client:
            stream = Reflector(client, PODS, clock=Waits().clock).facts()
            async with aclosing(stream):
                return [await anext(stream) for _ in range(3)]

    facts = run(main())
    assert all(isinstance(fact, Troubled) and fact.error.fault is Fault.BAD_ANSWER for fact in facts)
    assert isinstance(facts[0], Troubled)
    assert str(facts[0].error) == "GET /api/v1/pods: the answer is an HTML page (Sign in), must be JSON"


def test_lines_of_some_megabytes_in_pieces_are_told() -> None:
    large = line("ADDED", pod("b", 11, text="x" * 3_000_000))
    pieces = tuple(large[at : at + 100_000] for at in range(0, len(large), 100_000))
    facts, _ = run(facts_of(Api((*pieces, bookmark(12))), 4, Waits().clock))
    assert isinstance(facts[2], Changed)
    assert len(facts[2].object.annotations["text"]) == 3_000_000
    assert facts[3] == Bookmark(version="12")


def test_a_slow_stream_is_told_as_it_comes() -> None:
    async def slowly(response: web.StreamResponse) -> None:
        for at in range(0, len(slow), 7):
            await response.write(slow[at : at + 7])
            await asyncio.sleep(0.002)
        await asyncio.sleep(60)

    slow = line("ADDED", pod("b", 11)) + bookmark(12)
    words, counts = told(Api(slowly), 4)
    assert words[2:] == ["changed b @11", "bookmark @12"]
    assert counts.troubles == 0


def test_a_stream_in_which_nothing_comes_is_left_and_opened_again() -> None:
    api = Api(stay, line("ADDED", pod("b", 11)))
    words, counts = told(api, 4, silence_seconds=0.2)
    assert words == ["listed a @10", "synced @10", "synced @10", "changed b @11"]
    assert (counts.reconnects, counts.silences, counts.troubles) == (1, 1, 0)


def test_after_several_silent_streams_in_a_row_all_is_listed_again() -> None:
    words, counts = told(Api(stay), 6, silence_seconds=0.1)
    assert words == ["listed a @10", *["synced @10"] * 4, "listed a @10"]
    assert (counts.silences, counts.relists) == (4, 1)


def test_bookmarks_keep_a_quiet_stream_open() -> None:
    async def quiet(response: web.StreamResponse) -> None:
        for version in range(11, 100):
            await response.write(bookmark(version))
            await asyncio.sleep(0.1)

    words, counts = told(Api(quiet), 15, silence_seconds=1)
    assert words[-1] == "bookmark @23"
    assert counts.troubles == 0


def test_a_connection_that_breaks_within_a_stream_is_opened_again() -> None:
    heads: list[bytes] = []

    async def handle(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head.split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        text = line("ADDED", pod("b", 11))
        writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\nffff\r\n{")

    async def main() -> list[str]:
        async with serving_raw(handle) as url, Client(plain(url)) as client:
            reflector = Reflector(client, PODS, clock=Waits().clock)
            reflector.version = "10"
            async with aclosing(reflector.facts()) as stream:
                return [in_words(await anext(stream)) for _ in range(4)]

    assert run(main()) == ["synced @10", "changed b @11", "troubled: unreachable", "synced @11"]
    assert b"resourceVersion=11" in heads[1]


def test_a_server_that_is_away_is_waited_for() -> None:
    api = Api(stay)

    async def main() -> list[str]:
        async with serving(api.handle) as gone:
            pass
        waits = Waits()
        async with (
            Client(plain(gone)) as client,
            aclosing(Reflector(client, PODS, clock=waits.clock).facts()) as stream,
        ):
            return [in_words(await anext(stream)) for _ in range(5)]

    assert run(main()) == ["troubled: unreachable"] * 5


def test_others_have_their_turn_while_a_stream_is_full() -> None:
    async def main() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        flood = b"".join(line("MODIFIED", pod("b", version, text="x" * 500)) for version in range(11, 2000))
        await facts_of(Api(flood), 1900, SYSTEM_CLOCK)
        task.cancel()
        return turns

    assert run(main()) > 20


def test_a_task_that_follows_can_be_cancelled_at_any_time() -> None:
    async def main() -> None:
        for seconds in (0, 0.001, 0.01, 0.1):
            task = asyncio.create_task(facts_of(Api(stay), 99, SYSTEM_CLOCK))
            await asyncio.sleep(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
