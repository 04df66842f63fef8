"""Broken texts for the laws of the decoders: valid texts, cut, doubled, swapped and sprinkled with separators."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from cardwise.wire.errors import WireError

Read = TypeVar("Read")

SPRINKLES = (*',:;[]{}"\\- \n\x000', "-1", "null", "true", "9999999999999999999999", "\N{ARABIC-INDIC DIGIT ONE}")


@st.composite
def mutated(draw: st.DrawFn, texts: Sequence[str]) -> str:
    """One of the texts after one to four edits."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        head, middle, tail = text[:start], text[start:end], text[end:]
        sprinkled = head + draw(st.sampled_from(SPRINKLES)) + middle + tail
        text = draw(st.sampled_from((head, tail, head + tail, tail + middle + head, text + middle, sprinkled)))
    return text


def broken(texts: Sequence[str]) -> st.SearchStrategy[str]:
    """Any text at all, or one of these texts with faults in it."""
    return st.text() | mutated(texts)


def attempt(read: Callable[[], Read]) -> Read | WireError:
    """What was read, or the one error that a decoder may raise; any other error comes through."""
    try:
        return read()
    except WireError as error:
        return error
