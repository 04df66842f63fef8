"""Log lines: one JSON object a line, or text for people. What is passed as `extra` stands beside the message."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

OWN_KEYS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record holds. All else is an `extra` of whoever logged."""


class JsonLines(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, what was passed as `extra`, and `exception` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the record holds."""
        fields = _fields(record)
        try:
            return _encoder.encode(fields).decode()
        except (TypeError, ValueError, RecursionError):  # keys or texts that JSON does not have
            return _encoder.encode({_encodable(key): _encodable(value) for key, value in fields.items()}).decode()


class TextLines(logging.Formatter):
    """A record as a line of text; a traceback follows it."""

    def format(self, record: logging.LogRecord) -> str:
        """The message and the extras in one line, whatever they hold."""
        fields = _fields(record)
        exception = fields.pop("exception", "")
        time, level, logger, message = (fields.pop(key) for key in ("time", "level", "logger", "message"))
        extras = "".join(f" {key}={value}" for key, value in fields.items())
        line = _one_line(f"{time} {level.upper():7} {logger}: {message}{extras}")
        return f"{line}\n{_encodable(exception)}" if exception else line


FORMS: dict[str, type[logging.Formatter]] = {"json": JsonLines, "text": TextLines}


def set_up(level: str, form: str, stream: TextIO) -> None:
    """Log all of this process to `stream`, from `level` (debug, info, warning, error) on, as `json` or `text`.

    What was set up before is replaced. Python's own warnings are logged too. Raises KeyError for another form, ValueError
    for another level.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMS[form]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "time": rfc3339(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    for key, value in record.__dict__.items():
        if key not in OWN_KEYS:
            fields.setdefault(key, value)
    parts = [_TRACEBACK.formatException(record.exc_info) if record.exc_info else record.exc_text, record.stack_info]
    if exception := "\n".join(part for part in parts if part):
        fields["exception"] = exception
    return fields


def rfc3339(seconds: float) -> str:
    """A time since 1970 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encodable(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _one_line(text: str) -> str:
    """Without line breaks and escape sequences that came from outside."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_TRACEBACK = logging.Formatter()
_encoder = msgspec.json.Encoder(enc_hook=str)
