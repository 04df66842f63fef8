"""Configuration out of files and flags: what is taken, and the one sentence for what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cardwise.core.model import CardPolicy
from cardwise.scheduler.config import SETTINGS, ConfigError
from cardwise.scheduler.config_file import load
from cardwise.scheduler.kinds import Address
from cardwise.scheduler.settings import Setting
from cardwise.wire.families import FAMILIES

from .configs import NO_WEBHOOK, SELF_SIGNED, file, loaded, refused

ANY = "0.0.0.0"  # noqa: S104  (the default of what others ask)


def test_an_empty_file_is_all_defaults_but_for_the_host(tmp_path: Path) -> None:
    config = loaded(tmp_path, SELF_SIGNED, {})
    assert (config.scheduler_name, config.also_named) == ("cardwise-scheduler", ("hami-scheduler",))
    assert config.leader_election.identity == os.uname().nodename
    assert config.families() == FAMILIES
    assert (config.extender.address, config.metrics.address) == (Address("127.0.0.1", 8090), Address(ANY, 9395))
    assert loaded(tmp_path, "# nothing\n" + SELF_SIGNED, {}) == config


@pytest.mark.parametrize(
    ("text", "flags", "wanted"),
    [
        ("", {}, "binpack"),
        ("policies: {node: spread}", {}, "spread"),
        ("policies: {node: spread}", {"policies.node": "binpack"}, "binpack"),
        ("policies:", {"policies.node": "spread"}, "spread"),
    ],
    ids=["default", "file", "flag over file", "an empty section says nothing"],
)
def test_a_flag_wins_over_the_file_and_the_file_over_the_default(
    tmp_path: Path, text: str, flags: dict[str, str], wanted: str
) -> None:
    assert loaded(tmp_path, text, NO_WEBHOOK | flags).policies.node == wanted


def test_values_come_as_types(tmp_path: Path) -> None:
    text = """
        alsoNamed: [a, b]
        policies: {cards: "numa, mutex"}
        admission: {address: "[::]:443", certificate: tls.crt, key: /tls.key, writers: ["system:serviceaccount:a:b"]}
        leaderElection: {enabled: false}
        bindTimeoutSeconds: 2.5
    """
    config = loaded(tmp_path, text, {})
    assert config.also_named == ("a", "b")
    assert config.policies.cards == CardPolicy(keys=("numa",), idle=True)
    assert config.admission.address == Address("::", 443)
    assert (config.admission.certificate, config.admission.key) == (Path("tls.crt"), Path("/tls.key"))
    assert config.admission.writers == ("system:serviceaccount:a:b",)
    assert (config.leader_election.enabled, config.bind_timeout_seconds) == (False, 2.5)


def test_rules_of_admission_are_the_configured_ones(tmp_path: Path) -> None:
    text = """
        schedulerName: ours
        alsoNamed: [theirs]
        nodeChoice: kube-scheduler
        policies: {node: spread, cards: binpack}
        admission: {privileged: skip}
        families: {nvidia: {defaultMemoryMib: 1024}}
    """
    rules = loaded(tmp_path, text).rules()
    assert rules.own_names == {"ours", "theirs"}
    assert (rules.defaults.node_policy, rules.defaults.card_policy) == ("spread", CardPolicy(keys=("binpack",)))
    assert rules.privileged == "skip"
    assert not rules.one_node
    assert rules.families[0].default_memory_mib == 1024


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, ("", "", "kube-system")),
        ({"POD_NAME": "p-1", "POD_NAMESPACE": "gpu"}, ("p-1", "gpu", "gpu")),
        ({"POD_NAME": "p-1", "POD_NAMESPACE": "gpu", "set": ""}, ("mine", "gpu", "gpu")),
    ],
    ids=["nothing known", "environment", "file over environment"],
)
def test_the_own_pod(tmp_path: Path, environ: dict[str, str], wanted: tuple[str, str, str]) -> None:
    path = file(tmp_path, "pod: {name: mine}" if "set" in environ else "")
    config = load(path, NO_WEBHOOK, environ)
    assert (config.pod.name, config.pod.namespace, config.namespace) == wanted


WRONG = {
    "a word that is none": ("policies: {node: spred}", "policies.node is spred, must be one of binpack, spread"),
    "a policy of a chain": (
        "policies: {cards: 'numa,fast'}",
        (
            "policies.cards is numa,fast, must be one of binpack, spread, numa, topology-aware, mutex, or several with"
            " commas between"
        ),
    ),
    "unknown key": ("log: {colour: red}", "log.colour is no known key, must be one of level, form"),
    "misspelt key": (
        "log: {levle: info}",
        "log.levle is no known key (did you mean level?), must be one of level, form",
    ),
    "unknown family": ("families: {intel: {}}", "families.intel is no known key, must be one of nvidia, hygon"),
    "no section": ("policies: binpack", "policies is binpack, must be a mapping"),
    "list for a section": ("policies: []", "policies is a list, must be a mapping"),
    "null for a value": ("admission: {privileged:}", "admission.privileged is null, must be one of refuse, skip"),
    "text for a number": (
        'bindTimeoutSeconds: "5"',
        "bindTimeoutSeconds is the text 5, must be a number of seconds, 0.1 to 60",
    ),
    "not a number": ("gateWaitSeconds: .nan", "gateWaitSeconds is nan, must be a number of seconds, 0 to 600"),
    "endless": ("gateWaitSeconds: .inf", "gateWaitSeconds is inf, must be a number of seconds, 0 to 600"),
    "a switch for a number": (
        "gateWaitSeconds: true",
        "gateWaitSeconds is true, must be a number of seconds, 0 to 600",
    ),
    "a word for a switch": (
        "leaderElection: {enabled: yes}",
        "leaderElection.enabled is the text yes, must be true or false",
    ),
    "a number for a switch": ("leaderElection: {enabled: 1}", "leaderElection.enabled is 1, must be true or false"),
    "a number for a text": (
        "leaderElection: {identity: 12}",
        "leaderElection.identity is the number 12, must be text of one line",
    ),
    "text for a list": ("alsoNamed: a", "alsoNamed is the text a, must be a list of names"),
    "an item": (
        "alsoNamed: [a, B]",
        "alsoNamed[1] is B, must be a name of small letters, digits, '-' and '.', at most 253 long",
    ),
    "a tagged value": ("log: {form: !json a}", "log.form is a tagged value, must be one of json, text"),
    "a namespace with a dot": (
        "leaderElection: {namespace: a.b}",
        "leaderElection.namespace is a.b, must be a name of small letters, digits and '-', at most 63 long",
    ),
    "open to the world": (
        "extender: {address: '0.0.0.0:8090'}",
        (
            "extender.address is 0.0.0.0:8090, must be a loopback address such as 127.0.0.1:8090, since what is served"
            " there has no authentication"
        ),
    ),
    "a port only": (
        "metrics: {address: ':9395'}",
        "metrics.address is :9395, must be HOST:PORT, with an IP address (version 6 in brackets) or localhost",
    ),
    "no resource": (
        "families: {nvidia: {countResource: gpu}}",
        "families.nvidia.countResource is gpu, must be a resource name such as example.com/gpu, not of kubernetes.io",
    ),
    "a resource of Kubernetes": (
        "families: {nvidia: {coresResource: a.kubernetes.io/b}}",
        (
            "families.nvidia.coresResource is a.kubernetes.io/b, must be a resource name such as example.com/gpu, not of"
            " kubernetes.io, or empty"
        ),
    ),
    "no factor": (
        "families: {hygon: {memoryFactor: 0}}",
        "families.hygon.memoryFactor is 0, must be a whole number, 1 to 2147483647",
    ),
    "half a percent": (
        "families: {hygon: {defaultCoresPercent: 0.5}}",
        "families.hygon.defaultCoresPercent is 0.5, must be a whole number, 0 to 100",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_a_value_that_cannot_be_meant_is_refused_with_path_and_key(tmp_path: Path, text: str, sentence: str) -> None:
    assert refused(tmp_path, text) == f"config FILE: {sentence}"


@pytest.mark.parametrize("key", ["policies.node", "1", "null"])
def test_keys_at_the_top_are_known_or_refused(tmp_path: Path, key: str) -> None:
    sentence = refused(tmp_path, f"{key}: spread")
    assert sentence.startswith(f"config FILE: {key} is no known key")
    assert ", must be one of schedulerName, alsoNamed, " in sentence


UNREADABLE = {
    "a key twice": (
        "log: {}\nlog: {}",
        ", line 2: key log stands twice, must be YAML in which every key stands once",
    ),
    "no YAML": (
        "log: {}\n[",
        ", line 3: simple key expected, must be YAML in which every key stands once",
    ),
    "a list": ("- a", " is a list, must be a mapping"),
    "a text": ("hello", " is hello, must be a mapping"),
    "two documents": ("log: {}\n---\nlog: {}", " is 2 documents, must be one"),
}


@pytest.mark.parametrize(("text", "sentence"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_no_mapping_in_yaml_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    assert refused(tmp_path, text) == f"config FILE{sentence}"


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path: Path) -> None:
    missing, binary = tmp_path / "none.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, reason in ((missing, "cannot be read: No such file or directory"), (binary, "is no UTF-8 text")):
        with pytest.raises(ConfigError) as raised:
            load(path, {})
        assert str(raised.value) == f"config {path} {reason}"


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("policies.node", "spred", "--policies-node is spred, must be one of binpack, spread"),
        ("policies.node", "", "--policies-node is (empty), must be one of binpack, spread"),
        ("admission.selfSigned", "yes", "--admission-self-signed is yes, must be true or false"),
        ("bindTimeoutSeconds", "5s", "--bind-timeout-seconds is 5s, must be a number of seconds, 0.1 to 60"),
        ("bindTimeoutSeconds", "nan", "--bind-timeout-seconds is nan, must be a number of seconds, 0.1 to 60"),
        ("bindTimeoutSeconds", "61", "--bind-timeout-seconds is 61, must be a number of seconds, 0.1 to 60"),
        (
            "families.nvidia.defaultMemoryMib",
            "-1",
            "--families-nvidia-default-memory-mib is -1, must be a whole number, 0 to 2147483647",
        ),
        (
            "families.nvidia.defaultCount",
            "9" * 5000,
            f"--families-nvidia-default-count is {'9' * 77}..., must be a whole number, 0 to 1024",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_a_flag_is_named_as_a_flag(tmp_path: Path, key: str, text: str, sentence: str) -> None:
    assert refused(tmp_path, "policies: {node: spread}", {key: text}) == sentence


def test_a_value_of_the_file_is_wrong_even_under_a_flag(tmp_path: Path) -> None:
    assert "policies.node is 3" in refused(tmp_path, "policies: {node: '3'}", {"policies.node": "spread"})


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.key)
def test_every_default_is_what_a_file_and_a_flag_would_say(row: Setting) -> None:
    raw = row.default
    text = ",".join(raw) if isinstance(raw, list) else str(raw).lower() if isinstance(raw, bool) else str(raw)
    assert row.read_text(row.flag, text) == row.read(row.key, raw)
    assert row.read(row.key, yaml.safe_load(yaml.safe_dump(raw))) == row.read(row.key, raw)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


def outcome(path: Path | None, flags: dict[str, str]) -> str:
    """The sentence, or "taken"."""
    try:
        load(path, flags, {})
    except ConfigError as error:
        return str(error)
    return "taken"


@given(row=st.sampled_from(SETTINGS), value=TREES)
def test_any_value_is_taken_or_refused_in_one_line(
    row: Setting, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree: object = value
    for part in reversed(row.key.split(".")):
        tree = {part: tree}
    path = file(tmp_path_factory.mktemp("any"), yaml.safe_dump(tree))
    assert outcome(path, {}).isprintable()


@given(row=st.sampled_from(SETTINGS), text=st.text())
def test_any_text_of_a_flag_is_taken_or_refused_in_one_line(row: Setting, text: str) -> None:
    assert outcome(None, {"admission.selfSigned": "true", row.key: text}).isprintable()
