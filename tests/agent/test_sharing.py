"""How cards are shared: defaults, overrides by name and by selector in order, and errors with file and key."""

from fractions import Fraction

import pytest

from cardwise.agent.sharing import Sharing, SharingRules, read_sharing
from cardwise.wire import yaml_text
from cardwise.wire.errors import WireError


def rules(text: str) -> SharingRules:
    [whole] = yaml_text.parse(text) or [{}]
    return read_sharing("agent.yaml", whole.get("cards"), whole.get("nodes"))


def refusal(text: str) -> str:
    with pytest.raises(WireError) as caught:
        rules(text)
    return str(caught.value)


EVERY_KEY = """
cards:
  slotsPerCard: 20
  memoryScaling: 1.8
  coresScaling: 2
  unifiedMemoryMib: 65536
  leaveOut: [3, GPU-a]
  registerFormat: text
"""


def test_nothing_is_the_default() -> None:
    assert rules("{}").of("n", {}) == Sharing()
    assert rules("{cards: null, nodes: []}").of("n", {}) == Sharing()
    assert rules("cards:\nnodes:\n").of("n", {}) == Sharing()


def test_every_key_is_read() -> None:
    assert rules(EVERY_KEY).of("n", {}) == Sharing(
        slots_per_card=20,
        memory_scaling=Fraction(9, 5),
        cores_scaling=Fraction(2),
        unified_memory_mib=65536,
        leave_out=frozenset((3, "GPU-a")),
        register_format="text",
    )


OVERRIDES = """
cards: {slotsPerCard: 2, memoryScaling: 1.5, leaveOut: [0]}
nodes:
  - {name: a, slotsPerCard: 3}
  - selector: {matchLabels: {kind: a100}}
    slotsPerCard: 4
    leaveOut: []
  - selector: {matchExpressions: [{key: zone, operator: In, values: [x, y]}]}
    memoryScaling: 1
  - {name: a, registerFormat: text}
"""
NODES = {
    "nothing matches": ("b", {}, Sharing(slots_per_card=2, memory_scaling=Fraction(3, 2), leave_out=frozenset((0,)))),
    "by name, twice": (
        "a",
        {},
        Sharing(slots_per_card=3, memory_scaling=Fraction(3, 2), leave_out=frozenset((0,)), register_format="text"),
    ),
    "by label": ("b", {"kind": "a100"}, Sharing(slots_per_card=4, memory_scaling=Fraction(3, 2))),
    "by expression": (
        "b",
        {"zone": "y", "kind": "t4"},
        Sharing(slots_per_card=2, memory_scaling=Fraction(1), leave_out=frozenset((0,))),
    ),
    "by all, the later wins": (
        "a",
        {"zone": "x", "kind": "a100"},
        Sharing(slots_per_card=4, memory_scaling=Fraction(1), register_format="text"),
    ),
}


@pytest.mark.parametrize(("name", "labels", "sharing"), NODES.values(), ids=NODES)
def test_overrides_apply_in_order_key_by_key(name: str, labels: dict[str, str], sharing: Sharing) -> None:
    assert rules(OVERRIDES).of(name, labels) == sharing


SELECTORS = {
    "one label": ("{matchLabels: {a: x}}", {"a": "x"}, True),
    "another value": ("{matchLabels: {a: x}}", {"a": "y"}, False),
    "two labels": ("{matchLabels: {a: x, b: y}}", {"a": "x"}, False),
    "labels and expressions": (
        "{matchLabels: {a: x}, matchExpressions: [{key: b, operator: Exists}]}",
        {"a": "x", "b": ""},
        True,
    ),
    "NotIn where the label is absent": ("{matchExpressions: [{key: a, operator: NotIn, values: [x]}]}", {}, True),
    "DoesNotExist": ("{matchExpressions: [{key: a, operator: DoesNotExist}]}", {"a": "x"}, False),
    "a label with a prefix": ("{matchLabels: {nvidia.com/gpu.product: T4}}", {"nvidia.com/gpu.product": "T4"}, True),
    "an empty value": ("{matchLabels: {a: ''}}", {"a": ""}, True),
}


@pytest.mark.parametrize(("selector", "labels", "matches"), SELECTORS.values(), ids=SELECTORS)
def test_selectors_are_those_of_kubernetes(selector: str, labels: dict[str, str], matches: bool) -> None:
    sharing = rules(f"nodes: [{{selector: {selector}, slotsPerCard: 7}}]").of("n", labels)
    assert (sharing.slots_per_card == 7) is matches


SCALING = "a number, 0.01 to 100"
ALL_KEYS = "slotsPerCard, memoryScaling, coresScaling, unifiedMemoryMib, leaveOut, registerFormat"
EXPRESSION = "agent.yaml: nodes[0].selector.matchExpressions[0]"
LABEL_VALUE = "a label's value (a number or true needs quotation marks)"
REFUSALS = {
    "an unknown key": (
        "cards: {slotPerCard: 2}",
        f"agent.yaml: cards: slotPerCard is no known key (did you mean slotsPerCard?), must be one of {ALL_KEYS}",
    ),
    "no mapping": ("cards: [1]", "agent.yaml: cards is a list, must be a mapping"),
    "no slots": ("cards: {slotsPerCard: 0}", "agent.yaml: cards.slotsPerCard is 0, must be a whole number, 1 to 1000"),
    "too many slots": (
        "cards: {slotsPerCard: 5000}",
        "agent.yaml: cards.slotsPerCard is 5000, must be a whole number, 1 to 1000",
    ),
    "slots as text": (
        'cards: {slotsPerCard: "10"}',
        "agent.yaml: cards.slotsPerCard is the text 10, must be a whole number, 1 to 1000",
    ),
    "slots true": (
        "cards: {slotsPerCard: true}",
        "agent.yaml: cards.slotsPerCard is true, must be a whole number, 1 to 1000",
    ),
    "scaling 0": ("cards: {memoryScaling: 0}", f"agent.yaml: cards.memoryScaling is 0, must be {SCALING}"),
    "scaling below 0": ("cards: {coresScaling: -1.5}", f"agent.yaml: cards.coresScaling is -1.5, must be {SCALING}"),
    "scaling without end": (
        "cards: {memoryScaling: .inf}",
        f"agent.yaml: cards.memoryScaling is no finite number, must be {SCALING}",
    ),
    "scaling no number": (
        "cards: {memoryScaling: .nan}",
        f"agent.yaml: cards.memoryScaling is no finite number, must be {SCALING}",
    ),
    "scaling null": ("cards: {memoryScaling: }", f"agent.yaml: cards.memoryScaling is null, must be {SCALING}"),
    "a format": (
        "cards: {registerFormat: xml}",
        "agent.yaml: cards.registerFormat is the text xml, must be one of json, text",
    ),
    "a card's number as text": (
        'cards: {leaveOut: [GPU-a, "3"]}',
        "agent.yaml: cards.leaveOut[1] is the text 3, must be a card's UUID, or its number",
    ),
    "a card below 0": (
        "cards: {leaveOut: [-1]}",
        "agent.yaml: cards.leaveOut[0] is -1, must be a card's UUID, or its number",
    ),
    "one card without a list": ("cards: {leaveOut: 3}", "agent.yaml: cards.leaveOut is 3, must be a list"),
    "nodes no list": ("nodes: {a: 1}", "agent.yaml: nodes is a mapping, must be a list"),
    "neither name nor selector": (
        "nodes: [{slotsPerCard: 2}]",
        "agent.yaml: nodes[0] has neither of name and selector, must have one of them",
    ),
    "both": (
        "nodes: [{name: a}, {name: a, selector: {matchLabels: {a: b}}}]",
        "agent.yaml: nodes[1] has both of name and selector, must have one of them",
    ),
    "a selector of everything": (
        "nodes: [{selector: {}}]",
        "agent.yaml: nodes[0].selector selects nothing, must hold matchLabels or matchExpressions (all nodes: under cards)",
    ),
    "a label's value true": (
        "nodes: [{selector: {matchLabels: {gpu: true}}}]",
        f"agent.yaml: nodes[0].selector.matchLabels.gpu is true, must be {LABEL_VALUE}",
    ),
    "an operator": (
        "nodes: [{selector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]",
        f"{EXPRESSION}.operator is the text Gt, must be one of In, NotIn, Exists, DoesNotExist",
    ),
    "no operator": (
        "nodes: [{selector: {matchExpressions: [{key: a}]}}]",
        f"{EXPRESSION}.operator is left out, must be given",
    ),
    "values that Exists has not": (
        "nodes: [{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]",
        f"{EXPRESSION} is no requirement on a label that Kubernetes knows, must be a label's key and values",
    ),
    "a value in an override": (
        "nodes: [{name: a, unifiedMemoryMib: -1}]",
        "agent.yaml: nodes[0].unifiedMemoryMib is -1, must be a whole number, 0 to 2147483647",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_refused_with_file_and_key(text: str, sentence: str) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize("raw", ["!!binary abc", "1: 2", "- a", "~", "{a: {1: 2}}"])
def test_whatever_yaml_holds_is_refused_in_one_line(raw: str) -> None:
    [value] = yaml_text.parse(raw)
    for key in ("slotsPerCard", "memoryScaling", "registerFormat"):
        with pytest.raises(WireError) as caught:
            read_sharing("agent.yaml", {key: value}, None)
        assert str(caught.value).startswith(f"agent.yaml: cards.{key} is ")
        assert str(caught.value).isprintable()
