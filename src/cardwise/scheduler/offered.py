"""The node names that kube-scheduler offers for a pod, as they came: asked one by one, or all at once.

With thousands of names, decoding and looking up all of them takes longer than the decision. The best node is nearly
always among them, so it is looked for in the bytes: a node's name is a DNS name, never escaped, so the quoted name is
found exactly where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat

import msgspec
import numpy as np

from cardwise.core.cards import Bools, Cards

SMALL_BYTES = 12_000
"""Up to this size all names are looked up at once: it costs less than the first search that finds nothing."""
MOST_KNOWN_PER_NAME = 5
"""Where there are more nodes than this for each name, the best few are seldom among the names: all are looked up."""

_names = msgspec.json.Decoder(list[str])


class Offered:
    """Names in the JSON of a list, and the cards whose columns they mean. Raises msgspec.DecodeError when first read."""

    def __init__(self, raw: bytes, cards: Cards) -> None:
        self._raw = raw
        self._cards = cards
        self._searchable = len(raw) > SMALL_BYTES and self.plain and raw[:2] == b'["' and not self._few()

    @classmethod
    def of(cls, names: Sequence[str], cards: Cards) -> Offered:
        """These names."""
        return cls(msgspec.json.encode(list(names)), cards)

    def __call__(self, n: int) -> bool:
        """Whether the node in column n is offered."""
        if self._searchable:
            return f'"{self._cards.names[n]}"'.encode() in self._raw
        return bool(self.mask()[n])

    @property
    def at_once(self) -> bool:
        """Whether all are looked up when the first is asked for."""
        return not self._searchable

    @cached_property
    def plain(self) -> bool:
        """Whether nothing is escaped, and nothing stands between names but one comma: so Go's encoder writes them."""
        return b"\\" not in self._raw and b" " not in self._raw

    def _few(self) -> bool:
        bytes_per_name = max(3, self._raw.find(b'"', 2))
        return len(self._raw) * MOST_KNOWN_PER_NAME < self._cards.width * bytes_per_name

    @cached_property
    def names(self) -> list[str]:
        """All names, in the order in which they came."""
        return _names.decode(self._raw)

    def check(self) -> None:
        """Raises msgspec's errors where the names are no list of texts. What Go's encoder wrote is looked at later."""
        if not self._searchable:
            _ = self.names

    def has(self, name: str) -> bool:
        """Whether a name is among them, whether we know the node or not."""
        return f'"{name}"'.encode() in self._raw if self._searchable else name in self.names

    def mask(self) -> Bools:
        """For each column, whether its node is offered."""
        return self._looked_up[0]

    @property
    def unknown(self) -> list[str]:
        """The names of nodes that we do not know."""
        return self._looked_up[1]

    @cached_property
    def _looked_up(self) -> tuple[Bools, list[str]]:
        names, index_of = self.names, self._cards.index_of
        columns = np.fromiter(map(index_of.get, names, repeat(-1)), np.int64, len(names))
        mask = np.zeros(self._cards.width + 1, np.bool_)  # (the last place is for those that we do not know)
        mask[columns] = True
        return mask[:-1], [names[place] for place in np.flatnonzero(columns < 0).tolist()]
