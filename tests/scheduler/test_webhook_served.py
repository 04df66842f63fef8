"""The webhook over HTTPS: an API server asks it, believes its own certificate, and does as it says."""

from __future__ import annotations

import base64
import copy
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cardwise.core.family import Family
from cardwise.kube.client import Client
from cardwise.kube.errors import KubeError
from cardwise.kube.requests import PODS, Resource
from cardwise.scheduler import config
from cardwise.scheduler.admission import OWNED_KEYS
from cardwise.scheduler.certificates import ServedPair, ServerContext
from cardwise.scheduler.issuing import issued, names_of
from cardwise.scheduler.webhook import View, review
from cardwise.sim.apiserver import MemoryServer
from cardwise.wire import names
from cardwise.wire.families import FAMILIES
from cardwise.wire.yaml_text import parse
from kube.servers import Json, plain, run, serving
from manifests import Object, container_object, pod_object
from scheduler.reviews import POLICY, RECORD

RAW_PODS: Resource[Json] = replace(PODS, decoded_as=dict)  # type: ignore[assignment, arg-type]
FILE = Path(__file__).parents[2] / "deploy" / "webhook.yaml"
SERVICE = "kube-system/cardwise-scheduler"
Act = Callable[[MemoryServer, Client], Awaitable[Any]]

(CONFIGURATION,) = parse(FILE.read_text(encoding="utf-8"))
WEBHOOKS = {each["name"]: each for each in CONFIGURATION["webhooks"]}


async def reviewed(request: web.Request) -> web.Response:
    assert request.path == "/webhook"
    return web.Response(body=review(await request.read(), POLICY, View()).body, content_type="application/json")


def installed(authority: bytes) -> Object:
    """The shipped configuration with this authority; without conditions, which the in-memory server cannot judge."""
    value = copy.deepcopy(CONFIGURATION)
    for each in value["webhooks"]:
        del each["matchConditions"]
        each["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    return dict(value)


def against(act: Act) -> Any:
    """What `act` gives against an API server that asks a webhook with a certificate of our own making."""
    pair = issued(names_of("cardwise-scheduler", "kube-system"), datetime.now(UTC))
    served = ServerContext(ServedPair(certificate=pair.certificate, key=pair.key))

    async def main() -> Any:
        async with serving(reviewed, served.context) as url:
            place = url.removeprefix("https://")
            async with MemoryServer(services={SERVICE: place}) as server, Client(plain(server.url)) as client:
                server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
                server.create(installed(pair.authority))
                return await act(server, client)

    return run(main())


def made(pod: Object) -> Json:
    """The pod as the server completed it."""
    found: Json = against(lambda _server, client: client.create(RAW_PODS, pod, "ml"))
    return found


def test_a_pod_is_completed_on_its_way_in() -> None:
    spec = made(pod_object("p", percent=100))["spec"]
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100", "nvidia.com/gpumem-percentage": "100"}
    assert spec["schedulerName"] == "cardwise-scheduler"
    assert spec["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}


def test_annotations_of_ours_do_not_come_in() -> None:
    found = made(pod_object("p", RECORD | {"mine": "1"}, gpu=1))
    assert found["metadata"]["annotations"] == {"mine": "1"}


def test_nor_do_they_with_a_label_that_passes_the_pod_by() -> None:
    found = made(pod_object("p", RECORD, gpu=1, meta={"labels": {"hami.io/webhook": "ignore"}}))
    assert found["metadata"].get("annotations", {}) == {}
    assert found["spec"]["schedulerName"] == "default-scheduler"


def test_a_generated_name_is_completed_too() -> None:
    pod = pod_object("", gpu=1, meta={"generateName": "train-"})
    del pod["metadata"]["name"]
    found = made(pod)
    assert found["metadata"]["name"].startswith("train-")
    assert found["spec"]["schedulerName"] == "cardwise-scheduler"


def test_a_refusal_is_what_the_user_reads() -> None:
    with pytest.raises(KubeError) as caught:
        made(pod_object("p", containers=[container_object("main", percent=120)]))
    said = "pod ml/p, container main: nvidia.com/gpumem-percentage is 120, must be 0 to 100"
    assert caught.value.code == 400
    assert f'admission webhook "pods.cardwise.io" denied the request: {said}' in str(caught.value)


def test_warnings_come_as_headers() -> None:
    async def act(server: MemoryServer, _client: Client) -> list[str]:
        path = f"{server.url}/api/v1/namespaces/ml/pods"
        async with aiohttp.ClientSession() as session, session.post(path, json=pod_object("p", RECORD, gpu=1)) as made:
            return made.headers.getall("Warning")

    warnings = against(act)
    assert len(warnings) == len(RECORD)
    assert '299 - "pod ml/p: annotation hami.io/vgpu-node is written by the scheduler only' in warnings[-1]


# -- the shipped file --------------------------------------------------------------------------------------------------


def condition(webhook: str, name: str) -> str:
    (found,) = [each["expression"] for each in WEBHOOKS[webhook]["matchConditions"] if each["name"] == name]
    return str(found)


def texts_in(expression: str) -> set[str]:
    """What stands in quotation marks."""
    return set(expression.split("'")[1::2])


def names_in(families: tuple[Family, ...]) -> set[str]:
    return {name for family in families for name in family.resources}


@pytest.mark.parametrize("webhook", ["pods.cardwise.io", "passed-by.cardwise.io"])
def test_the_conditions_name_every_resource_of_every_family(webhook: str) -> None:
    assert texts_in(condition(webhook, "asks-for-cards")) == names_in(FAMILIES)


@pytest.mark.parametrize("webhook", ["annotations.cardwise.io", "passed-by.cardwise.io"])
def test_the_conditions_name_every_annotation_of_ours(webhook: str) -> None:
    others = {key for key in OWNED_KEYS if not key.startswith(names.OWNED_PREFIXES)}
    assert texts_in(condition(webhook, "changes-annotations")) == {*names.OWNED_PREFIXES, *others}


def test_the_conditions_spare_the_writers_that_are_so_by_default() -> None:
    assert texts_in(condition("annotations.cardwise.io", "by-others")) == set(config.WRITERS)


def test_what_the_webhooks_have_in_common() -> None:
    service = {"namespace": "kube-system", "name": "cardwise-scheduler", "path": "/webhook", "port": 443}
    for each in CONFIGURATION["webhooks"]:
        assert each["clientConfig"] == {"service": service}
        assert (each["failurePolicy"], each["sideEffects"], each["timeoutSeconds"]) == ("Fail", "None", 10)


def test_pods_and_namespaces_may_be_kept_from_us() -> None:
    ignored = {
        "matchExpressions": [{"key": names.WEBHOOK_LABEL, "operator": "NotIn", "values": [names.WEBHOOK_IGNORE]}]
    }
    assert WEBHOOKS["pods.cardwise.io"]["namespaceSelector"] == ignored
    assert WEBHOOKS["pods.cardwise.io"]["objectSelector"] == ignored
