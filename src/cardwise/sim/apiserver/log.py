"""What was asked of the server: every write with who and what, and how often each kind was read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cardwise.sim.apiserver.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One request that would change something. `resource` is `pods` or `pods/binding`.

    `status` is the HTTP status that the write came to, whether or not the client heard of it; 0 where a fault kept it
    from being carried out without an answer.
    """

    time_seconds: float
    user: str
    user_agent: str
    verb: str
    resource: str
    namespace: str
    name: str
    body_bytes: int
    status: int
    dry_run: bool = False

    @property
    def done(self) -> bool:
        """Whether it was carried out."""
        return 200 <= self.status < 300 and not self.dry_run


class Log:
    """The writes in the order in which they were answered, and `reads` by verb and resource."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self.reads: Counter[tuple[str, str]] = Counter()

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(self._writes)

    def of(self, *, verb: str = "", resource: str = "", name: str = "", user: str = "") -> tuple[Write, ...]:
        """The writes with these properties; "" is any."""
        asked = {"verb": verb, "resource": resource, "name": name, "user": user}
        wanted = {key: text for key, text in asked.items() if text}
        return tuple(each for each in self.writes if all(getattr(each, key) == text for key, text in wanted.items()))

    def clear(self) -> None:
        self._writes.clear()
        self.reads.clear()

    def add(self, write: Write) -> None:
        self._writes.append(write)

    def count(self, call: Call) -> None:
        self.reads[call.verb, call.target] += 1
