"""Link scores of a node: a symmetric matrix in the order of the cards, whatever the text lacks or has too much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.model import Links
from cardwise.wire.errors import MOST_WARNINGS, WireError
from cardwise.wire.links import LinkScores, decode_links, encode_links
from mutations import attempt, broken

FOUR = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
NVLINKS = ((0, 100, 100, 200), (100, 0, 200, 100), (100, 200, 0, 200), (200, 100, 200, 0))
NVLINKS_TEXT = (
    '[{"uuid":"GPU-0","score":{"GPU-1":100,"GPU-2":100,"GPU-3":200}},'
    '{"uuid":"GPU-1","score":{"GPU-0":100,"GPU-2":200,"GPU-3":100}},'
    '{"uuid":"GPU-2","score":{"GPU-0":100,"GPU-1":200,"GPU-3":200}},'
    '{"uuid":"GPU-3","score":{"GPU-0":200,"GPU-1":100,"GPU-2":200}}]'
)
PAIR = '[{"uuid":"GPU-0","score":{"GPU-1":50}},{"uuid":"GPU-1","score":{"GPU-0":50}}]'
ONE_ROW = '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20,"GPU-3":20}}]'
ZEROS = ((0, 0, 0, 0),) * 4


def two(there: int, back: int) -> str:
    return f'[{{"uuid":"GPU-0","score":{{"GPU-1":{there}}}}},{{"uuid":"GPU-1","score":{{"GPU-0":{back}}}}}]'


def test_four_cards_with_nvlinks_are_read_and_written() -> None:
    assert decode_links(NVLINKS_TEXT, FOUR) == LinkScores(matrix=NVLINKS)
    assert encode_links(FOUR, NVLINKS) == NVLINKS_TEXT


def test_rows_and_columns_stand_in_the_order_of_the_cards() -> None:
    matrix = decode_links(NVLINKS_TEXT, ("GPU-3", "GPU-2", "GPU-0", "GPU-1")).matrix
    assert matrix == ((0, 200, 200, 100), (200, 0, 100, 200), (200, 100, 0, 100), (100, 200, 100, 0))


@pytest.mark.parametrize(
    "text", ['[{"uuid":"GPU-0","score":{}}]', '[{"uuid":"GPU-0"}]', '[{"uuid":"GPU-0","score":{"GPU-0":7}}]']
)
def test_a_card_has_no_score_to_itself(text: str) -> None:
    assert decode_links(text, ("GPU-0",)) == LinkScores(matrix=((0,),))


def test_a_node_without_cards_has_no_links() -> None:
    assert decode_links("[]", ()) == LinkScores(matrix=())
    assert encode_links((), ()) == "[]"


@pytest.mark.parametrize("score", [-50, 0, 1800, 2**31, -(2**31)])
def test_scores_may_be_negative_and_large(score: int) -> None:
    assert decode_links(two(score, score), FOUR[:2]) == LinkScores(matrix=((0, score), (score, 0)))


@pytest.mark.parametrize(("there", "back"), [(50, 20), (20, 50)])
def test_of_two_directions_that_differ_the_smaller_holds_with_a_warning(there: int, back: int) -> None:
    links = decode_links(two(there, back), FOUR[:2])
    assert links.matrix == ((0, 20), (20, 0))
    assert links.warnings == (
        f"links: GPU-0 and GPU-1 score {there} one way and {back} the other, the smaller is used",
    )


def test_pairs_that_are_scored_one_way_only_are_0_with_one_warning_for_all() -> None:
    text = (
        '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}},{"uuid":"GPU-1","score":{"GPU-2":20}},'
        '{"uuid":"GPU-2","score":{"GPU-0":20}}]'
    )
    links = decode_links(text, FOUR[:3])
    assert links.matrix == ((0, 0, 20), (0, 0, 0), (20, 0, 0))
    assert links.warnings == ("links: 2 pairs of cards are scored in one direction only, taken as 0",)


def test_cards_that_the_text_lacks_are_0_with_a_warning() -> None:
    links = decode_links(ONE_ROW, FOUR)
    assert links.matrix == ZEROS
    assert links.warnings == (
        "links: no scores for 3 of 4 cards (GPU-1, GPU-2, GPU-3), taken as 0",
        "links: 3 pairs of cards are scored in one direction only, taken as 0",
    )


def test_cards_that_the_node_lacks_are_ignored_with_a_warning() -> None:
    links = decode_links(NVLINKS_TEXT, FOUR[:3])
    assert links.matrix == tuple(row[:3] for row in NVLINKS[:3])
    assert links.warnings == ("links: scores of card GPU-3, which the node does not register",)


def test_a_card_that_stands_twice_is_a_warning_and_the_first_is_used() -> None:
    links = decode_links(PAIR[:-1] + ',{"uuid":"GPU-0","score":{"GPU-1":9}}]', FOUR[:2])
    assert links.matrix == ((0, 50), (50, 0))
    assert links.warnings == ("links: card GPU-0 stands there more than once, the first is used",)


def test_many_warnings_are_counted_instead_of_shown() -> None:
    strangers = ",".join(f'"GPU-x{n}":1' for n in range(1000))
    links = decode_links(f'[{{"uuid":"GPU-0","score":{{{strangers}}}}}]', ("GPU-0",))
    assert len(links.warnings) == MOST_WARNINGS + 1
    assert links.warnings[-1] == f"and {1000 - MOST_WARNINGS} more"


WHOLE = "must be a whole number, -2147483648 to 2147483648"
FAULTS = {
    "empty": ("", "links is (empty), must be a JSON array of cards with scores"),
    "null": ("null", "links is null, must be a JSON array of cards with scores"),
    "object": ("{}", "links is {}, must be a JSON array of cards with scores"),
    "cut short": (PAIR[:-1], f"links is {PAIR[:-1]}, must be a JSON array of cards with scores"),
    "nested too deep": ("[" * 100_000, f"links is {'[' * 77}..., must be a JSON array of cards with scores"),
    "number for a card": ("[5]", "links, card 1 of 1 is 5, must be a JSON object"),
    "number for a UUID": ('[{"uuid":5}]', "links, card 1 of 1: uuid is 5, must be a JSON string"),
    "array of scores": ('[{"uuid":"a","score":[1]}]', "links, card 1 of 1: score is [1], must be a JSON object"),
    "text for a score": ('[{"score":{"b":"50"}}]', f'links, card 1 of 1: score to b is "50", {WHOLE}'),
    "truth for a score": ('[{"score":{"b":true}}]', f"links, card 1 of 1: score to b is true, {WHOLE}"),
    "fraction": ('[{"score":{"b":0.5}}]', f"links, card 1 of 1: score to b is 0.5, {WHOLE}"),
    "too large": (two(50, 2**31 + 1), f"links, card 2 of 2: score to GPU-0 is 2147483649, {WHOLE}"),
    "too small": (two(-(2**31) - 1, 50), f"links, card 1 of 2: score to GPU-1 is -2147483649, {WHOLE}"),
}


@pytest.mark.parametrize(("text", "says"), FAULTS.values(), ids=FAULTS)
def test_a_text_that_cannot_be_meant_is_refused_with_what_stands_there(text: str, says: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_links(text, FOUR)
    assert str(caught.value).startswith(says)


UNWRITABLE: dict[str, tuple[tuple[str, ...], Links, str]] = {
    "nothing known": (("a", "b"), (), "rows of nothing for 2 cards"),
    "too small": (("a", "b"), ((0,),), "rows of 1 for 2 cards"),
    "ragged": (("a", "b"), ((0, 1), (1,)), "rows of 2, 1 for 2 cards"),
    "a card twice": (("a", "a"), ((0, 1), (1, 0)), "rows of 2, 2 for 2 cards"),
    "not symmetric": (("a", "b"), ((0, 1), (2, 0)), "not symmetric"),
    "linked to itself": (("a",), ((1,),), "0 on its diagonal"),
    "too large": (("a", "b"), ((0, 2**31 + 1), (2**31 + 1, 0)), "card a: score to b is 2147483649"),
}


@pytest.mark.parametrize(("uuids", "matrix", "says"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_could_not_be_read_back_is_not_written(uuids: tuple[str, ...], matrix: Links, says: str) -> None:
    with pytest.raises(WireError, match=says):
        encode_links(uuids, matrix)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[tuple[str, ...], Links]:
    uuids = tuple(draw(st.lists(st.text(min_size=1), unique=True, max_size=6)))
    scores = {(i, j): draw(st.integers(-(2**31), 2**31)) for i in range(len(uuids)) for j in range(i)}
    return uuids, tuple(
        tuple(scores.get((max(i, j), min(i, j)), 0) for j in range(len(uuids))) for i in range(len(uuids))
    )


@given(nodes())
def test_links_that_were_written_are_given_back(node: tuple[tuple[str, ...], Links]) -> None:
    uuids, matrix = node
    assert decode_links(encode_links(uuids, matrix), uuids) == LinkScores(matrix=matrix)


@given(broken([NVLINKS_TEXT, PAIR, ONE_ROW, two(-1, 5)]), st.sampled_from([FOUR, FOUR[:2], (), ("GPU-9", "GPU-0")]))
def test_any_text_is_a_symmetric_matrix_or_a_wire_error(text: str, uuids: tuple[str, ...]) -> None:
    links = attempt(lambda: decode_links(text, uuids))
    if isinstance(links, WireError):
        assert str(links).startswith("links")
        return
    assert decode_links(encode_links(uuids, links.matrix), uuids).matrix == links.matrix
    assert len(links.warnings) <= MOST_WARNINGS + 1
