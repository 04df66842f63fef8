"""What can go wrong between us and an API server: one exception, and a fault in it that callers match on."""

from __future__ import annotations

from enum import StrEnum

MOST_SHOWN = 256
"""Characters of a foreign text that a message may hold: bodies of proxies and plugins can be whole pages."""


class Fault(StrEnum):
    """What kind of failure it is. Those in REFUSED were decided by the server: the request was not carried out."""

    NOT_FOUND = "not found"
    CONFLICT = "conflict"
    ALREADY_EXISTS = "already exists"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    INVALID = "invalid"
    BAD_REQUEST = "bad request"
    TOO_MANY = "too many requests"
    REJECTED = "rejected"
    SERVER = "server error"
    BAD_ANSWER = "bad answer"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed out"
    SILENT = "silent"
    KUBECONFIG = "kubeconfig"


REFUSED = frozenset(
    (
        Fault.NOT_FOUND,
        Fault.CONFLICT,
        Fault.ALREADY_EXISTS,
        Fault.GONE,
        Fault.FORBIDDEN,
        Fault.UNAUTHORIZED,
        Fault.INVALID,
        Fault.BAD_REQUEST,
        Fault.TOO_MANY,
        Fault.REJECTED,
    )
)


class KubeError(Exception):
    """A request that failed; its text is one sentence that names the request.

    `code` is the HTTP status, 0 where there was none. `reason` is the word of the server's Status (`AlreadyExists`).
    `retry_after_seconds` is the wait that the server asks for, None where it asks for none. `sent` says whether
    anything of the request left this process.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        code: int = 0,
        reason: str = "",
        retry_after_seconds: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.code = code
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        self.sent = sent

    @property
    def in_doubt(self) -> bool:
        """Whether a write may have been carried out all the same: only a read of the object can tell."""
        return self.sent and self.fault not in REFUSED


class KubeconfigError(KubeError):
    """What says how to reach the server, or as whom, cannot be used: the path, the key, and what is wrong with it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fault=Fault.KUBECONFIG, sent=False)


def cut(text: str, most: int = MOST_SHOWN) -> str:
    """A foreign text as a message may hold it: one printable line of at most `most` characters."""
    text = " ".join(text[: 4 * most].split())
    if not text:
        return "(empty)"
    if not text.isprintable():
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
    return text if len(text) <= most else text[: most - 3] + "..."
