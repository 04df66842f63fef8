"""Settings that must go together: each alone may be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardwise.core.family import Family
from cardwise.scheduler.config import FAMILY_FIELDS, ConfigError, family_key
from cardwise.scheduler.config_file import load
from cardwise.wire.families import FAMILIES

from .configs import NO_WEBHOOK, SELF_SIGNED, loaded, refused

CERTIFICATES = {
    "neither": (
        {},
        "--admission-certificate and --admission-key are (empty), must be given where admission.address is ",
    ),
    "no key": ({"certificate": "/c"}, "--admission-key is (empty), must be given where admission.certificate is"),
    "no certificate": ({"key": "/k"}, "--admission-certificate is (empty), must be given where admission.key is"),
    "both ways": (
        {"key": "/k", "selfSigned": "true"},
        "--admission-self-signed is true, must be false where admission.key is given",
    ),
}


@pytest.mark.parametrize(("given", "sentence"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_webhook_has_a_certificate_in_one_way(given: dict[str, str], sentence: str) -> None:
    flags = {f"admission.{key}": text for key, text in given.items()}
    with pytest.raises(ConfigError) as raised:
        load(None, flags, {})
    assert str(raised.value).startswith(sentence)
    assert load(None, flags | NO_WEBHOOK, {}).admission.address is None


def test_one_sentence_names_both_keys_of_the_file(tmp_path: Path) -> None:
    said = refused(tmp_path, "log: {level: info}", {})
    assert said.startswith("config FILE: admission.certificate and admission.key are (empty), must be given where ")
    assert "admission.selfSigned" in said


def test_the_own_pod_is_named_in_whole(tmp_path: Path) -> None:
    sentence = (
        "config FILE: pod.namespace is (empty), must be given where pod.name is ($POD_NAMESPACE is not set either)"
    )
    assert refused(tmp_path, "pod: {name: a}") == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("metrics: {address: '0.0.0.0:8090'}", "metrics.address is 0.0.0.0:8090, must be another port than extender"),
        ("extender: {address: '[::1]:9443'}", "extender.address is [::1]:9443, must be another port than admission"),
    ],
    ids=["every address", "the one that was written is named"],
)
def test_two_servers_do_not_share_a_port(tmp_path: Path, text: str, sentence: str) -> None:
    assert refused(tmp_path, text + "\n" + SELF_SIGNED, {}).startswith(f"config FILE: {sentence}.address has")


def test_ports_that_the_system_chooses_and_other_hosts_do_not_meet(tmp_path: Path) -> None:
    text = "extender: {address: '127.0.0.1:0'}\nmetrics: {address: '127.0.0.1:0'}"
    assert loaded(tmp_path, text).extender.address.port == 0
    text = "extender: {address: '127.0.0.1:80'}\nmetrics: {address: '127.0.0.2:80'}"
    assert loaded(tmp_path, text).metrics.address.port == 80


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_field_of_a_family_that_can_be_configured_is_taken(tmp_path: Path, family: Family) -> None:
    wanted = {name: 7 if kind.word == "whole number" else f"x.com/{name}" for name, (kind, _) in FAMILY_FIELDS.items()}
    flags = {family_key(family, name): str(value) for name, value in wanted.items()}
    [found] = [each for each in loaded(tmp_path, "", NO_WEBHOOK | flags).families() if each.name == family.name]
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert (found.register_key, found.word) == (family.register_key, family.word)


def test_a_resource_means_one_thing(tmp_path: Path) -> None:
    text = "families: {nvidia: {memoryResource: hygon.com/dcumem}}"
    sentence = "families.nvidia.memoryResource is hygon.com/dcumem, must be another resource than families.hygon"
    assert refused(tmp_path, text) == f"config FILE: {sentence}.memoryResource has"
    swapped = {"families.nvidia.countResource": "a.com/b", "families.hygon.countResource": "nvidia.com/gpu"}
    assert loaded(tmp_path, "", NO_WEBHOOK | swapped).families()[1].count_resource == "nvidia.com/gpu"
