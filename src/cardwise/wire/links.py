"""A node's link scores: the annotation that says how well each two of its cards are linked.

    [{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}},{"uuid":"GPU-1","score":{"GPU-0":50,"GPU-2":20}},...]

Every card has a row, and every pair stands there twice, once from either side. Source: HAMi 2.10, whose NVIDIA device
plugin writes it where topology scores are switched on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cardwise.core.model import Links
from cardwise.wire.errors import WireError, few, shown
from cardwise.wire.fields import json_number, json_object, json_text, parse_array

MOST_SCORE = 1 << 31

Rows = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScores:
    """A symmetric matrix of link scores with a zero diagonal, and sentences about what is odd but could be read."""

    matrix: Links
    warnings: tuple[str, ...] = ()


def decode_links(text: str, uuids: Sequence[str]) -> LinkScores:
    """The link scores between these cards, in their order; 0 where the text says nothing of a pair.

    A pair whose directions differ has the smaller score; one that is scored in one direction only has 0, as a link that
    only one side sees. Both are warnings, as are cards that only one of text and `uuids` knows. Raises `WireError` for
    text that is not of the format, and for scores beyond 2^31 either way.
    """
    warnings: list[str] = []
    rows = _rows(text, warnings)
    warnings += _strangers(rows, uuids)
    matrix = _matrix(rows, uuids, warnings)
    return LinkScores(matrix=matrix, warnings=few(warnings))


def encode_links(uuids: Sequence[str], matrix: Links) -> str:
    """The text of these link scores, compact, rows in the order of `uuids`.

    Raises `WireError` for what the decoder would not give back as it is: a matrix that is not square, not symmetric,
    not zero on the diagonal, or of another size than `uuids`; a UUID twice; a score beyond 2^31 either way.
    """
    size = len(uuids)
    if len(set(uuids)) != size or len(matrix) != size or any(len(row) != size for row in matrix):
        rows = ", ".join(str(len(row)) for row in matrix)
        raise WireError(f"links: rows of {rows or 'nothing'} for {size} cards, must be one score for each two cards")
    if any(matrix[i][j] != (0 if i == j else matrix[j][i]) for i in range(size) for j in range(i + 1)):
        raise WireError("links: the matrix is not symmetric, must have the same score both ways and 0 on its diagonal")
    rows_out = [{"uuid": uuid, "score": _scores(i, uuids, matrix)} for i, uuid in enumerate(uuids)]
    return msgspec.json.encode(rows_out).decode()


def _scores(row: int, uuids: Sequence[str], matrix: Links) -> dict[str, int]:
    where = f"links, card {shown(uuids[row])}"
    return {other: _score(where, other, matrix[row][j]) for j, other in enumerate(uuids) if j != row}


def _score(where: str, other: str, value: object) -> int:
    return json_number(where, f"score to {shown(other)}", value, least=-MOST_SCORE, most=MOST_SCORE)


def _rows(text: str, warnings: list[str]) -> Rows:
    rows: Rows = {}
    records = parse_array("links", text, "cards with scores")
    for number, record in enumerate(records, start=1):
        where = f"links, card {number} of {len(records)}"
        fields = json_object(where, record)
        uuid = json_text(where, "uuid", fields.get("uuid"))
        scores = json_object(f"{where}: score", fields.get("score"))
        row = {other: _score(where, other, value) for other, value in scores.items()}
        if rows.setdefault(uuid, row) is not row:
            warnings.append(f"links: card {shown(uuid)} stands there more than once, the first is used")
    return rows


def _strangers(rows: Rows, uuids: Sequence[str]) -> list[str]:
    """Warnings about cards that only the text knows, and about those that only the caller knows."""
    named = dict.fromkeys(rows) | dict.fromkeys(other for row in rows.values() for other in row)
    known = set(uuids)
    warnings = [
        f"links: scores of card {shown(uuid)}, which the node does not register" for uuid in named if uuid not in known
    ]
    missing = [uuid for uuid in uuids if uuid not in rows]
    if missing:
        warnings.insert(
            0, f"links: no scores for {len(missing)} of {len(uuids)} cards ({shown(', '.join(missing))}), taken as 0"
        )
    return warnings


def _matrix(rows: Rows, uuids: Sequence[str], warnings: list[str]) -> Links:
    matrix = [[0] * len(uuids) for _ in uuids]
    differing: list[str] = []
    one_way = 0
    for i, uuid in enumerate(uuids):
        for j in range(i):
            there, back = _both_ways(rows, uuids[j], uuid)
            if there is None or back is None:
                one_way += there != back
                continue
            if there != back:
                pair = f"{shown(uuids[j])} and {shown(uuid)}"
                differing.append(f"links: {pair} score {there} one way and {back} the other, the smaller is used")
            matrix[i][j] = matrix[j][i] = min(there, back)
    if one_way:
        warnings.append(f"links: {one_way} pairs of cards are scored in one direction only, taken as 0")
    warnings += differing
    return tuple(map(tuple, matrix))


def _both_ways(rows: Mapping[str, Mapping[str, int]], one: str, other: str) -> tuple[int | None, int | None]:
    return rows.get(one, {}).get(other), rows.get(other, {}).get(one)
