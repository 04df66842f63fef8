"""A node's register: every form ever written is read, and a broken one is refused whole, with card and field."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.family import Family
from cardwise.core.model import Card, PartitionProfile
from cardwise.wire.errors import MOST_WARNINGS, WireError
from cardwise.wire.families import HYGON, NVIDIA
from cardwise.wire.register import Register, decode_register, encode_register
from mutations import attempt, broken

P4 = "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4"
A40 = ("GPU-0b1c2d3e-1111-2222-3333-444455556666", "GPU-1b1c2d3e-1111-2222-3333-444455556666")
MOST = 2**31 - 1
P4_FIELDS = '"count":10,"devmem":7680,"devcore":100,"type":"NVIDIA-Tesla P4","mode":"hami-core","health":true'

WILD_MODELS = [
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA H100 80GB HBM3",
    "Tesla T4",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "GRID V100D-32Q",
    "NVIDIA-NVIDIA A100-PCIE-40GB",
]


def card(
    uuid: str = P4, index: int = 0, model: str = "NVIDIA-Tesla P4", slots: int = 10, memory_mib: int = 7680
) -> Card:
    return Card(
        uuid=uuid,
        index=index,
        family="nvidia",
        model=model,
        slots=slots,
        memory_mib=memory_mib,
        cores_percent=100,
        mode="hami-core",
    )


def refusal(text: str, family: Family = NVIDIA) -> str:
    with pytest.raises(WireError) as caught:
        decode_register(text, family)
    return str(caught.value)


TEXTS = {
    "7 fields": (f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true:", [card()]),
    "9 fields": (f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:", [card(index=1)]),
    "9 fields, index 0": (f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:", [card()]),
    "7 fields, numbered as they stand": (
        "".join(f"{uuid},10,46068,100,NVIDIA-NVIDIA A40,0,true:" for uuid in A40),
        [card(uuid, n, "NVIDIA-NVIDIA A40", memory_mib=46068) for n, uuid in enumerate(A40)],
    ),
    "V100 with 9 fields": (
        "GPU-...,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true,0,hami-core:",
        [card("GPU-...", 0, "NVIDIA-Tesla V100-PCIE-32GB", memory_mib=32768)],
    ),
    "V100 of the first releases": (
        "GPU-00552014-...,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:",
        [card("GPU-00552014-...", 0, "NVIDIA-Tesla V100-PCIE-32GB", memory_mib=32768)],
    ),
    "scaled memory, order not by index": (
        "GPU-...,10,258787,100,NVIDIA H20-3e,0,true,6,hami-core:GPU-b,10,258787,100,NVIDIA H20-3e,0,true,2,hami-core:",
        [card("GPU-...", 6, "NVIDIA H20-3e", memory_mib=258787), card("GPU-b", 2, "NVIDIA H20-3e", memory_mib=258787)],
    ),
    "blanks and empty segments": (
        f" \n:{P4},10,7680,100,NVIDIA-Tesla P4,0,true: :\n{A40[0]},10,7680,100,NVIDIA-Tesla P4,0,true,7,hami-core::\n",
        [card(), card(A40[0], 7)],
    ),
    "JSON": (f'[{{"id":"{P4}",{P4_FIELDS}}}]\n', [card()]),
    "JSON, unknown keys and null": (
        f' [{{"id":"{P4}","index":null,{P4_FIELDS},"migProfiles":null,"migtemplate":[[]],"custominfo":{{"a":1}}}}]',
        [card()],
    ),
}


@pytest.mark.parametrize(("text", "cards"), TEXTS.values(), ids=TEXTS)
def test_every_form_is_read(text: str, cards: list[Card]) -> None:
    assert decode_register(text, NVIDIA) == Register(cards=tuple(cards))


@pytest.mark.parametrize("model", ["type", "NVIDIA-Tesla V100-PCIE-32GB"], ids=["as in the fixture", "real model"])
def test_json_fields_that_are_left_out_are_zero(model: str) -> None:
    text = (
        f'[{{"index":1,"id":"id-1","count":1,"devmem":1024,"devcore":10,"type":"{model}","health":true}},'
        f'{{"index":2,"id":"id-2","count":2,"devmem":4096,"devcore":20,"type":"{model}2","health":false}}]'
    )
    first, second = decode_register(text, NVIDIA).cards
    assert (first.uuid, first.index, first.slots, first.memory_mib, first.cores_percent) == ("id-1", 1, 1, 1024, 10)
    assert (first.model, first.numa, first.healthy, first.mode, first.profiles) == (model, 0, True, "", ())
    assert (second.uuid, second.index, second.memory_mib, second.model, second.healthy) == (
        "id-2",
        2,
        4096,
        f"{model}2",
        False,
    )


def test_json_without_health_index_and_numa_is_an_unhealthy_card_0() -> None:
    text = f'[{{"id":"{P4}","count":10,"devmem":7680,"devcore":100,"type":"NVIDIA-Tesla P4","mode":"hami-core"}}]'
    (one,) = decode_register(text, NVIDIA).cards
    assert (one.healthy, one.index, one.numa) == (False, 0, 0)


MIG_PROFILE = '{"name":"1g.5gb","memoryMB":4864,"core":15,"sliceCount":1,"placements":[{"start":6,"size":1}]}'


def test_partition_profiles_are_read_and_written_back() -> None:
    text = (
        f'[{{"id":"{P4}","count":7,"devmem":40960,"devcore":100,"type":"NVIDIA A100-SXM4-40GB","mode":"mig",'
        f'"migProfiles":[{MIG_PROFILE}],"health":true}}]'
    )
    (one,) = decode_register(text, NVIDIA).cards
    profile = PartitionProfile(name="1g.5gb", memory_mib=4864, cores_percent=15, slices=1, placements=((6, 1),))
    assert one.profiles == (profile,)
    assert one.partitioned
    assert encode_register([one], "json") == text


@pytest.mark.parametrize(
    ("family", "mode", "partitioned"),
    [(NVIDIA, "mig", True), (NVIDIA, "hami-core", False), (NVIDIA, "", False), (HYGON, "mig", False)],
    ids=["cut in hardware", "shared by slots", "no mode", "no such mode in the family"],
)
def test_the_family_says_which_modes_are_partitions(family: Family, mode: str, partitioned: bool) -> None:
    (one,) = decode_register(f"{P4},7,40960,100,A100,0,true,0,{mode}:", family).cards
    assert (one.family, one.mode, one.partitioned) == (family.name, mode, partitioned)


@pytest.mark.parametrize("text", ["GPU-a,1,2,3,T4,-1,true:", '[{"id":"GPU-a","numa":-1}]'], ids=["text", "JSON"])
def test_an_unknown_numa_node_is_0(text: str) -> None:
    assert decode_register(text, NVIDIA).cards[0].numa == 0


@pytest.mark.parametrize("text", [":", "::", " : \n", "[]", " [ ] "])
def test_a_register_without_cards_is_read_with_a_warning(text: str) -> None:
    assert decode_register(text, NVIDIA) == Register(cards=(), warnings=("register: no card stands in it",))


def test_a_card_that_stands_twice_is_a_warning_and_the_first_is_used() -> None:
    register = decode_register("GPU-a,1,2,3,T4,0,true:GPU-a,9,9,9,T4,0,true:GPU-b,1,2,3,T4,0,true:", NVIDIA)
    assert [(one.uuid, one.slots, one.index) for one in register.cards] == [("GPU-a", 1, 0), ("GPU-b", 1, 2)]
    assert register.warnings == ("register: card GPU-a stands there more than once, the first is used",)


def test_many_warnings_are_counted_instead_of_shown() -> None:
    register = decode_register("GPU-a,1,2,3,T4,0,true:" * 100, NVIDIA)
    assert len(register.warnings) == MOST_WARNINGS + 1
    assert register.warnings[-1] == f"and {99 - MOST_WARNINGS} more"


def test_an_index_may_repeat() -> None:
    register = decode_register("GPU-a,1,2,3,T4,0,true,0,:GPU-b,1,2,3,T4,0,true,0,:", NVIDIA)
    assert [one.index for one in register.cards] == [0, 0]
    assert register.warnings == ()


FIRST_OF_9 = [P4, "10", "7680", "100", "NVIDIA-Tesla P4", "0", "true", "1", "hami-core"]
WHOLE = f"must be a whole number, 0 to {MOST}"
FIELD_FAULTS = [
    (1, "notanint", f"count is notanint, {WHOLE}"),
    (1, "", f"count is (empty), {WHOLE}"),
    (1, "-1", f"count is -1, {WHOLE}"),
    (1, "1_0", f"count is 1_0, {WHOLE}"),
    (1, " 10", f"count is  10, {WHOLE}"),
    (1, "1.0", f"count is 1.0, {WHOLE}"),
    (2, "notanint", f"devmem is notanint, {WHOLE}"),
    (2, "2147483648", f"devmem is 2147483648, {WHOLE}"),
    (2, "9" * 26, f"devmem is {'9' * 26}, {WHOLE}"),
    (2, "9" * 5000, f"devmem is {'9' * 77}..., {WHOLE}"),
    (2, "\N{ARABIC-INDIC DIGIT ONE}", f"devmem is \N{ARABIC-INDIC DIGIT ONE}, {WHOLE}"),
    (3, "notanint", f"devcore is notanint, {WHOLE}"),
    (5, "notanint", f"numa is notanint, must be a whole number, -2147483648 to {MOST}"),
    (6, "notabool", "health is notabool, must be true or false"),
    (6, "tru", "health is tru, must be true or false"),
    (7, "notanint", f"index is notanint, {WHOLE}"),
    (7, "-1", f"index is -1, {WHOLE}"),
    (0, "", "id is (empty), must be a card's UUID, without ',', ':' and ';'"),
    (0, "GPU;a", "id is GPU;a, must be a card's UUID, without ',', ':' and ';'"),
    (0, "GPU\na", "id is GPU\\na, must be a card's UUID, without ',', ':' and ';'"),
]


@pytest.mark.parametrize(("field", "value", "says"), FIELD_FAULTS, ids=[says[:28] for _, _, says in FIELD_FAULTS])
def test_a_field_that_cannot_be_meant_is_named_with_its_card(field: int, value: str, says: str) -> None:
    fields = [*FIRST_OF_9[:field], value, *FIRST_OF_9[field + 1 :]]
    text = f"GPU-first,1,2,3,T4,0,true:{','.join(fields)}:"
    assert refusal(text) == f"register, card 2 of 2: {says}"


SHAPE_FAULTS = {
    "empty": ("", "register is (empty), must be cards that each end with ':', or a JSON array of cards"),
    "blank": (" \n", "register is (empty), must be cards that each end with ':', or a JSON array of cards"),
    "one letter": ("a", "register is a, must be cards that each end with ':', or a JSON array of cards"),
    "only a comma": (",", "register is ,, must be cards that each end with ':', or a JSON array of cards"),
    "null": ("null", "register is null, must be cards that each end with ':', or a JSON array of cards"),
    "empty fields": (",:", "register, card 1 of 1 has 2 fields (,), must be 7 or 9"),
    "garbage": ("garbage:", "register, card 1 of 1 has 1 field (garbage), must be 7 or 9"),
    "5 fields": (
        f"{P4},10,7680,100,NVIDIA-Tesla P4:",
        f"register, card 1 of 1 has 5 fields ({P4},10,7680,100,NVIDIA-Tesla P4), must be 7 or 9",
    ),
    "8 fields": ("a,1,2,3,T4,0,true,0:", "register, card 1 of 1 has 8 fields (a,1,2,3,T4,0,true,0), must be 7 or 9"),
    "10 fields": (
        "a,1,2,3,T4,0,true,0,x,:",
        "register, card 1 of 1 has 10 fields (a,1,2,3,T4,0,true,0,x,), must be 7 or 9",
    ),
    "cut short within a card": (
        "MLU-...,10,23308,0,MLU-MLU370-X4,0,false:MLU-...,10,23308,0,",
        "register, card 2 of 2 has 5 fields (MLU-...,10,23308,0,), must be 7 or 9",
    ),
    "cut short within the last field": (
        "a,1,2,3,T4,0,true,0,mig:b,1,2,3,T4,0,true,1,mi",
        "register: its end is b,1,2,3,T4,0,true,1,mi, must be ':', as after every card (it seems to be cut short)",
    ),
    "JSON object": ('{"id":"GPU-a"}', 'register is {"id":"GPU-a"}, must be a JSON array of cards'),
    "JSON array of numbers": ("[1]", "register, card 1 of 1 is 1, must be a JSON object"),
}


@pytest.mark.parametrize(("text", "says"), SHAPE_FAULTS.values(), ids=SHAPE_FAULTS)
def test_a_text_that_is_no_register_is_refused_with_what_stands_there(text: str, says: str) -> None:
    assert refusal(text) == says


JSON_FAULTS = [
    ({"id": 5}, "id is 5, must be a JSON string"),
    ({"id": ""}, "id is (empty), must be a card's UUID, without ',', ':' and ';'"),
    ({}, "id is (empty), must be a card's UUID, without ',', ':' and ';'"),
    ({"count": "10"}, f'count is "10", {WHOLE}'),
    ({"count": -1}, f"count is -1, {WHOLE}"),
    ({"count": 1.5}, f"count is 1.5, {WHOLE}"),
    ({"count": True}, f"count is true, {WHOLE}"),
    ({"devmem": 2**31}, f"devmem is 2147483648, {WHOLE}"),
    ({"devcore": []}, f"devcore is [], {WHOLE}"),
    ({"index": -1}, f"index is -1, {WHOLE}"),
    ({"numa": 2**31}, f"numa is 2147483648, must be a whole number, -2147483648 to {MOST}"),
    ({"type": 4090}, "type is 4090, must be a JSON string"),
    ({"mode": False}, "mode is false, must be a JSON string"),
    ({"health": "true"}, 'health is "true", must be true or false'),
    ({"health": 1}, "health is 1, must be true or false"),
    ({"migProfiles": {}}, "migProfiles is {}, must be a JSON array"),
]


@pytest.mark.parametrize(("fields", "says"), JSON_FAULTS, ids=[says[:28] for _, says in JSON_FAULTS])
def test_a_json_field_that_cannot_be_meant_is_named_with_its_card(fields: dict[str, object], says: str) -> None:
    record = {"id": P4} | fields if fields else fields
    text = msgspec.json.encode([{"id": "GPU-first"}, record]).decode()
    assert refusal(text) == f"register, card 2 of 2: {says}"


def test_a_partition_profile_that_cannot_be_meant_is_named_with_its_place() -> None:
    text = f'[{{"id":"GPU-a","migProfiles":[{MIG_PROFILE},{MIG_PROFILE.replace("4864", "-1")}]}}]'
    assert refusal(text) == f"register, card 1 of 1, migProfiles 2 of 2: memoryMB is -1, {WHOLE}"


@pytest.mark.parametrize(
    "text", ["[", "[{]", '[{"id":"GPU-a"}', "[1e999]", "[" * 100_000, '[{"id":"\\ud800"}]', "[\ud800]"]
)
def test_json_that_cannot_be_parsed_is_refused(text: str) -> None:
    assert "must be a JSON array of cards" in refusal(text)


def test_text_is_written_with_9_fields_and_a_colon_after_each_card() -> None:
    assert encode_register([card()], "text") == f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:"
    assert encode_register([card(index=1)], "text") == f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:"


def test_json_is_compact_and_leaves_zero_fields_out() -> None:
    assert encode_register([card()], "json") == f'[{{"id":"{P4}",{P4_FIELDS}}}]'
    assert encode_register([], "json") == "[]"


def test_cards_are_written_by_index_then_uuid() -> None:
    cards = [card("GPU-c", 1), card("GPU-b", 0), card("GPU-a", 1)]
    for text in (encode_register(cards, "text"), encode_register(cards, "json")):
        assert [one.uuid for one in decode_register(text, NVIDIA).cards] == ["GPU-b", "GPU-a", "GPU-c"]


@pytest.mark.parametrize("model", WILD_MODELS)
def test_models_as_they_are_met_survive_both_forms(model: str) -> None:
    one = card(model=model)
    assert decode_register(encode_register([one], "json"), NVIDIA).cards == (one,)
    assert decode_register(encode_register([one], "text"), NVIDIA).cards == (one,)


def test_text_loses_partition_profiles() -> None:
    one = Card(
        uuid=P4,
        index=0,
        family="nvidia",
        model="A100",
        slots=7,
        memory_mib=40960,
        cores_percent=100,
        mode="mig",
        partitioned=True,
        profiles=(PartitionProfile(name="1g.5gb"),),
    )
    (read,) = decode_register(encode_register([one], "text"), NVIDIA).cards
    assert read.profiles == ()
    assert read.partitioned


UNWRITABLE = [
    (
        card(model="NVIDIA A100, 80GB"),
        "text",
        "type is NVIDIA A100, 80GB, must be without ',' and ':' in the text form",
    ),
    (card(model="A:B"), "text", "type is A:B, must be without ',' and ':' in the text form"),
    (
        card("[GPU"),
        "text",
        "id is [GPU, must be without a leading bracket in the text form, where it would read as JSON",
    ),
    (card("GPU:a"), "text", "id is GPU:a, must be a card's UUID, without ',', ':' and ';'"),
    (card("GPU,a"), "json", "id is GPU,a, must be a card's UUID, without ',', ':' and ';'"),
    (card(""), "json", "id is (empty), must be a card's UUID, without ',', ':' and ';'"),
]


@pytest.mark.parametrize(("one", "form", "says"), UNWRITABLE, ids=[says[:24] for _, _, says in UNWRITABLE])
def test_what_could_not_be_read_back_is_not_written(one: Card, form: str, says: str) -> None:
    with pytest.raises(WireError) as caught:
        encode_register([one], "json" if form == "json" else "text")
    assert str(caught.value) == f"register, card 1 of 1: {says}"


def test_a_card_is_not_written_twice() -> None:
    with pytest.raises(WireError, match="card 2 of 2: id is GPU-a, must be a UUID that no card before it has"):
        encode_register([card("GPU-a"), card("GPU-a", index=1)], "json")


numbers = st.integers(0, MOST)
profiles = st.builds(
    PartitionProfile,
    name=st.text(),
    memory_mib=numbers,
    cores_percent=numbers,
    slices=numbers,
    placements=st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple),
)
uuids = st.text(st.characters(codec="utf-8", exclude_characters=",:;[{", exclude_categories=["C", "Z"]), min_size=1)


@st.composite
def registers(draw: st.DrawFn, texts: st.SearchStrategy[str], profiled: int) -> tuple[Card, ...]:
    cards = []
    for uuid in draw(st.lists(uuids, unique=True, max_size=4)):
        mode = draw(st.sampled_from(["", "hami-core", "mig", "mps"]))
        cards.append(
            Card(
                uuid=uuid,
                index=draw(numbers),
                family="nvidia",
                model=draw(texts),
                slots=draw(numbers),
                memory_mib=draw(numbers),
                cores_percent=draw(numbers),
                numa=draw(numbers),
                healthy=draw(st.booleans()),
                mode=mode,
                partitioned=mode == "mig",
                profiles=tuple(draw(st.lists(profiles, max_size=profiled))),
            )
        )
    return tuple(sorted(cards, key=lambda one: (one.index, one.uuid)))


@given(registers(st.text(), profiled=2))
def test_json_gives_back_the_cards_that_were_written(cards: tuple[Card, ...]) -> None:
    assert decode_register(encode_register(cards, "json"), NVIDIA).cards == cards


@given(registers(st.text(st.characters(codec="utf-8", exclude_characters=",:")), profiled=0))
def test_text_gives_back_the_cards_that_were_written(cards: tuple[Card, ...]) -> None:
    assert decode_register(encode_register(cards, "text"), NVIDIA).cards == cards


@given(broken([text for text, _ in TEXTS.values()]))
def test_any_text_is_a_register_that_can_be_written_again_or_a_wire_error(text: str) -> None:
    register = attempt(lambda: decode_register(text, NVIDIA))
    if isinstance(register, WireError):
        assert str(register).startswith("register")
        return
    canonical = tuple(sorted(register.cards, key=lambda one: (one.index, one.uuid)))
    assert decode_register(encode_register(register.cards, "json"), NVIDIA).cards == canonical
