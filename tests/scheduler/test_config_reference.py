"""The reference page, the example file and kube-scheduler's configuration say what the code says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from cardwise.core.family import Family
from cardwise.scheduler.config import SETTINGS, Config
from cardwise.scheduler.config_file import load
from cardwise.wire.families import FAMILIES

from .reference import BEGIN, CHANGED, END, example, tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "deploy" / "scheduler.yaml"
DEFAULT = Config()


def held(path: Path, wanted: str) -> str:
    """What the file holds; with REGOLD=1 in the environment it is written first."""
    if os.environ.get("REGOLD"):
        path.write_text(wanted, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def kube_scheduler() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "kube-scheduler-config.yaml").read_text())
    return loaded


def extender() -> dict[str, Any]:
    [found] = kube_scheduler()["extenders"]
    return dict(found)


def test_the_page_holds_the_table_of_settings() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    wanted = before + tables() + after
    assert held(PAGE, wanted) == wanted


def test_the_example_file_holds_every_key() -> None:
    assert held(EXAMPLE, example()) == example()


def test_the_example_file_is_the_default_but_for_what_it_says() -> None:
    flags = {"admission.selfSigned": "true"}
    assert list(CHANGED) == list(flags)
    assert load(EXAMPLE, {}, {}) == load(None, flags, {})


def test_errors_on_the_page_are_what_is_said(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    path = tmp_path / "scheduler.yaml"
    path.write_text("policies: {node: spred}")
    for given, flags in ((path, {}), (None, {"bindTimeoutSeconds": "5s"})):
        with pytest.raises(ValueError, match="must be") as raised:
            load(given, flags)
        assert f"error: {raised.value}".replace(str(path), "/etc/cardwise/scheduler.yaml") in page


def test_every_setting_is_said_in_one_sentence() -> None:
    docs = [row.doc for row in SETTINGS]
    assert all(doc.endswith(".") and ". " not in doc for doc in docs)
    assert len({row.key for row in SETTINGS}) == len({row.flag for row in SETTINGS}) == len(SETTINGS)


def test_kube_scheduler_calls_where_we_listen() -> None:
    found = extender()
    assert (found["urlPrefix"], found["enableHTTPS"]) == (f"http://{DEFAULT.extender.address}", False)
    verbs = {key: value for key, value in found.items() if key.endswith("Verb")}
    assert verbs == {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    assert found["nodeCacheCapable"] is True
    assert found["ignorable"] is False


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_kube_scheduler_counts_cards_and_not_their_sizes(family: Family) -> None:
    managed = {each["name"]: each["ignoredByScheduler"] for each in extender()["managedResources"]}
    assert managed[family.count_resource] is False
    assert all(managed[name] is True for name in family.uncounted_resources)


def test_kube_scheduler_knows_no_other_resources() -> None:
    named = [each["name"] for each in extender()["managedResources"]]
    ours = [name for family in FAMILIES for name in (family.count_resource, *family.uncounted_resources)]
    assert sorted(named) == sorted(ours)


def test_kube_scheduler_waits_longer_than_bind_may_take() -> None:
    longest = 2 * DEFAULT.bind_timeout_seconds + DEFAULT.gate_wait_seconds
    assert float(extender()["httpTimeout"].removesuffix("s")) >= longest + 5


def test_kube_scheduler_has_our_name_and_our_lease() -> None:
    config = kube_scheduler()
    assert [each["schedulerName"] for each in config["profiles"]] == [DEFAULT.scheduler_name]
    election = config["leaderElection"]
    lease = (election["resourceNamespace"], election["resourceName"])
    assert lease == (DEFAULT.leader_election.namespace, DEFAULT.leader_election.lease_name)
    assert election["leaderElect"] is DEFAULT.leader_election.enabled


def test_kube_scheduler_tries_again_soon_and_offers_all_nodes() -> None:
    config = kube_scheduler()
    assert (config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"]) == (1, 1)
    assert config["percentageOfNodesToScore"] == 100
    assert config["clientConnection"]["qps"] > 50
