"""Log lines: one a record, whatever it holds."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.scheduler.logs import FORMS, JsonLines, TextLines, rfc3339, set_up

LOG = logging.getLogger("cardwise.test")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the lines go; what was set up before is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def record(message: object = "m", *args: object, **extra: object) -> logging.LogRecord:
    return LOG.makeRecord(LOG.name, logging.INFO, "file.py", 1, message, args, None, extra=extra or None)


def test_a_json_line_holds_time_level_logger_message_and_extras(stream: io.StringIO) -> None:
    set_up("info", "json", stream)
    LOG.warning("bound to %s", "n1", extra={"pod": "ml/a", "cards": ["GPU-0"]})
    line = json.loads(stream.getvalue())
    assert TIME.fullmatch(line.pop("time"))
    assert line == {
        "level": "warning",
        "logger": "cardwise.test",
        "message": "bound to n1",
        "pod": "ml/a",
        "cards": ["GPU-0"],
    }
    assert stream.getvalue().count("\n") == 1


def test_a_text_line_holds_the_same(stream: io.StringIO) -> None:
    set_up("info", "text", stream)
    LOG.info("bound", extra={"pod": "ml/a", "node": "n1"})
    time, rest = stream.getvalue().split(" ", 1)
    assert TIME.fullmatch(time)
    assert rest == "INFO    cardwise.test: bound pod=ml/a node=n1\n"


@pytest.mark.parametrize("form", FORMS)
def test_what_is_below_the_level_is_not_logged(form: str, stream: io.StringIO) -> None:
    set_up("warning", form, stream)
    LOG.info("quiet")
    LOG.error("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_setting_up_again_replaces_what_was_there(stream: io.StringIO) -> None:
    first = io.StringIO()
    set_up("info", "json", first)
    set_up("info", "json", stream)
    LOG.info("once")
    assert first.getvalue() == ""
    assert stream.getvalue().count("once") == 1


def test_an_exception_is_one_text_in_one_line(stream: io.StringIO) -> None:
    set_up("info", "json", stream)
    try:
        raise ValueError("no\nsuch")
    except ValueError:
        LOG.exception("failed")
    [text] = stream.getvalue().splitlines()
    assert "ValueError: no\nsuch" in json.loads(text)["exception"]
    assert "Traceback" in json.loads(text)["exception"]


def test_a_warning_of_python_is_a_line(stream: io.StringIO) -> None:
    set_up("info", "json", stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    assert json.loads(stream.getvalue())["logger"] == "py.warnings"


def test_an_extra_does_not_hide_what_is_ours() -> None:
    line = json.loads(JsonLines().format(record("m", level="mine", time=3)))
    assert (line["level"], line["message"]) == ("info", "m")
    assert TIME.fullmatch(line["time"])


def test_a_time_of_whole_seconds_has_milliseconds_too() -> None:
    assert (rfc3339(0), rfc3339(1.0625)) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.062Z")


def test_a_traceback_follows_a_line_of_text(stream: io.StringIO) -> None:
    set_up("info", "text", stream)
    LOG.info("failed", exc_info=ValueError("why"))
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("cardwise.test: failed")
    assert rest == ["ValueError: why"]


def test_text_from_outside_makes_no_line_of_its_own() -> None:
    assert TextLines().format(record("a\nb", pod="\x1b[31m")).endswith("a\\nb pod=\\x1b[31m")


class Odd:
    def __str__(self) -> str:
        return "odd"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Odd),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner),
    max_leaves=5,
)


@given(message=st.text(), value=VALUES | st.just("\ud800"))
def test_any_record_is_one_line(message: str, value: object) -> None:
    for form in FORMS.values():
        assert "\n" not in form().format(record("%s", message, value=value))
    line = json.loads(JsonLines().format(record("%s", message, value=value)))
    assert line["message"] == message
    assert "value" in line
