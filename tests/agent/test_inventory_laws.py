"""Whatever is found, the register can be written and read back, and neither order nor a second look changes it."""

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cardwise.agent.inventory import change, inventory, wanted
from cardwise.agent.probe import Found, FoundCard, Level, Link
from cardwise.agent.sharing import Sharing
from cardwise.core.model import MOST
from cardwise.wire.families import NVIDIA
from cardwise.wire.links import decode_links
from cardwise.wire.nodes import read_node
from cardwise.wire.objects import Meta, Node
from cardwise.wire.register import decode_register

UUIDS = ("GPU-0", "GPU-1", "GPU-2", "GPU-3", "[", "", "a,b", "\n")
MODELS = ("NVIDIA A40", "Tesla T4", "a,b:c;", "", "[{", " x ", "\ud800")

uuids = st.sampled_from(UUIDS) | st.text(max_size=5)
odd_numbers = st.integers(-2, 9) | st.sampled_from((MOST, MOST + 1, -(1 << 40)))
found_cards = st.builds(
    FoundCard,
    uuid=uuids,
    index=odd_numbers,
    model=st.sampled_from(MODELS) | st.text(max_size=5),
    memory_mib=st.none() | odd_numbers,
    numa=st.none() | odd_numbers,
    pci=st.sampled_from(("0000:01:00.0", "0000:02:00.0", "00000000:0A:00.0", "", "x")),
    mig=st.booleans(),
    switch_links=odd_numbers,
    fault=st.sampled_from(("", "XID 79")),
)
links = st.builds(Link, uuid=uuids, peer=uuids, level=st.none() | st.sampled_from(Level), nvlinks=st.integers(-2, 20))
founds = st.builds(
    Found,
    cards=st.lists(found_cards, max_size=6).map(tuple),
    links=st.lists(links, max_size=8, unique_by=lambda link: (link.uuid, link.peer)).map(tuple),
)
sharings = st.builds(
    Sharing,
    slots_per_card=st.integers(1, 1000),
    memory_scaling=st.fractions(Fraction(1, 100), 100),
    cores_scaling=st.fractions(Fraction(1, 100), 100),
    unified_memory_mib=st.sampled_from((0, 4096)),
    leave_out=st.frozensets(st.sampled_from(UUIDS) | st.integers(0, 9), max_size=2),
    register_format=st.sampled_from(("json", "text")),
)


@given(founds, sharings)
def test_a_register_is_read_back_as_the_same_cards(told: Found, sharing: Sharing) -> None:
    got = inventory(told, sharing)
    texts = wanted(got, version="1")
    register = decode_register(texts[NVIDIA.register_key], NVIDIA)
    cards = [each.card for each in got.cards]
    assert sorted(register.cards, key=lambda card: card.uuid) == sorted(cards, key=lambda card: card.uuid)
    scores = decode_links(texts[NVIDIA.links_key], [card.uuid for card in cards])
    assert (scores.matrix, scores.warnings) == (got.links, ())


@given(founds, sharings)
def test_the_scheduler_reads_the_node_without_a_word(told: Found, sharing: Sharing) -> None:
    texts = wanted(inventory(told, sharing), version="1")
    reading = read_node(Node(metadata=Meta(name="n", annotations=texts)), [NVIDIA])
    assert reading.node.out_of_service == ""
    assert [warning for warning in reading.warnings if "no card stands in it" not in warning] == []


@given(founds, sharings, st.randoms(use_true_random=False))
def test_the_order_in_which_cards_are_found_changes_nothing(told: Found, sharing: Sharing, chance: Random) -> None:
    cards, between = list(told.cards), list(told.links)
    chance.shuffle(cards)
    chance.shuffle(between)
    assert inventory(Found(cards=tuple(cards), links=tuple(between)), sharing) == inventory(told, sharing)


@given(founds, sharings)
def test_a_node_that_has_it_already_is_not_written(told: Found, sharing: Sharing) -> None:
    texts = wanted(inventory(told, sharing), version="1")
    patch = change({"other": "x"}, texts)
    assert patch is not None
    has = {"other": "x"} | patch["metadata"]["annotations"]
    assert change(has, wanted(inventory(told, sharing), version="1")) is None


@given(founds, sharings)
def test_every_card_is_registered_or_left_out(told: Found, sharing: Sharing) -> None:
    got = inventory(told, sharing)
    both = [each.found for each in got.cards] + [each.found for each in got.left_out]
    assert sorted(map(repr, both)) == sorted(map(repr, told.cards))
    said = sum("it is left out" in warning for warning in got.warnings)
    assert said == sum(bool(each.why) for each in got.left_out)
    assert all(warning.isprintable() for warning in got.warnings)


@given(founds, sharings, found_cards)
def test_one_more_card_changes_nothing_about_the_others(told: Found, sharing: Sharing, other: FoundCard) -> None:
    """It comes last, under a UUID of its own; at most what is said of NUMA nodes counts it in."""
    last = replace(other, uuid="GPU-last", pci="ffff:ff:1f.7")
    before = [each.card for each in inventory(told, sharing).cards]
    after = [each.card for each in inventory(replace(told, cards=(*told.cards, last)), sharing).cards]
    assert [card for card in after if card.uuid != "GPU-last"] == [card for card in before if card.uuid != "GPU-last"]
