"""The self-signed pair in a cluster: one for all replicas, its authority in the webhook configuration, few writes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from cardwise.kube.client import Client
from cardwise.kube.errors import Fault, KubeError
from cardwise.scheduler.issuing import Pair
from cardwise.scheduler.selfsigned import MOST_TRIES, PARTS, SECRETS, SelfSignedError, Settings, ensure
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.apiserver.resources import BY_PATH, Resource
from kube.servers import Json, plain, run

HOOKS = "mutatingwebhookconfigurations"
NOW = datetime.now(UTC).replace(microsecond=0)
YEAR = timedelta(days=365)
SETTINGS = Settings()
RAW_SECRETS = SECRETS.seen_as(dict)
HOOK = {
    "name": "pods.cardwise.io",
    "clientConfig": {"service": {"namespace": "kube-system", "name": "cardwise-scheduler", "path": "/webhook"}},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}],
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
}
CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "cardwise"},
    "webhooks": [HOOK, HOOK | {"name": "annotations.cardwise.io"}],
}
Act = Callable[[MemoryServer, Client], Awaitable[Any]]


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The in-memory server serves secrets too: nothing else of the product needs them."""
    monkeypatch.setitem(BY_PATH, ("", "v1", "secrets"), Resource(plural="secrets", kind="Secret"))


def against(act: Act, *configurations: Json) -> Any:
    """What `act` gives against a server that has these webhook configurations."""

    async def main() -> Any:
        async with MemoryServer() as server, Client(plain(server.url)) as client:
            for each in configurations:
                server.create(each)
            return await act(server, client)

    return run(main())


def bundles(server: MemoryServer) -> list[bytes]:
    configuration = server.get(HOOKS, "cardwise") or {}
    return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in configuration["webhooks"]]


def writes(server: MemoryServer) -> list[tuple[str, str, int]]:
    return [(each.verb, each.resource, each.status) for each in server.log.writes]


async def stored(client: Client) -> Json:
    secret: Json = await client.get_quorum(RAW_SECRETS, SETTINGS.secret, SETTINGS.namespace)
    return secret


async def store(client: Client, data: Json) -> None:
    await client.patch(RAW_SECRETS, {"data": data}, SETTINGS.secret, SETTINGS.namespace)


def test_the_first_replica_makes_the_pair_and_tells_the_api_server() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        pair = await ensure(client, SETTINGS, NOW)
        secret = await stored(client)
        assert secret["type"] == "kubernetes.io/tls"
        assert {key: base64.b64decode(text) for key, text in secret["data"].items()} == {
            key: getattr(pair, name) for key, name in PARTS.items()
        }
        assert bundles(server) == [pair.authority] * 2
        assert writes(server) == [
            ("create", "secrets", 201),
            ("patch", HOOKS, 200),
        ]

    against(act, CONFIGURATION)


def test_nothing_of_the_configuration_is_changed_but_the_bundles() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        before = server.get(HOOKS, "cardwise") or {}
        await ensure(client, SETTINGS, NOW)
        after = server.get(HOOKS, "cardwise") or {}
        for each in after["webhooks"]:
            del each["clientConfig"]["caBundle"]
        assert after["webhooks"] == before["webhooks"]

    against(act, CONFIGURATION)


def test_later_calls_write_nothing() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        pairs = [await ensure(client, SETTINGS, NOW + days * timedelta(days=1)) for days in (0, 1, 300)]
        assert pairs[0] == pairs[1] == pairs[2]
        assert len(writes(server)) == 2

    against(act, CONFIGURATION)


def test_replicas_that_start_together_show_one_pair() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        pairs = await asyncio.gather(*(ensure(client, SETTINGS, NOW) for _ in range(4)))
        assert len({each.certificate for each in pairs}) == 1
        assert bundles(server) == [pairs[0].authority] * 2

    against(act, CONFIGURATION)


def test_a_certificate_that_ends_is_renewed_under_the_same_authority() -> None:
    async def act(server: MemoryServer, client: Client) -> tuple[Pair, Pair]:
        first = await ensure(client, SETTINGS, NOW)
        second = await ensure(client, SETTINGS, NOW + YEAR)
        assert writes(server)[2:] == [("patch", "secrets", 200)]
        assert await ensure(client, SETTINGS, NOW + YEAR) == second
        return first, second

    first, second = against(act, CONFIGURATION)
    assert first.authority == second.authority
    ends = [x509.load_pem_x509_certificate(each.certificate).not_valid_after_utc for each in (first, second)]
    assert ends == [NOW + YEAR, NOW + 2 * YEAR]


def test_replicas_that_renew_together_show_one_pair() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        await ensure(client, SETTINGS, NOW)
        pairs = await asyncio.gather(*(ensure(client, SETTINGS, NOW + YEAR) for _ in range(4)))
        assert len({each.certificate for each in pairs}) == 1

    against(act, CONFIGURATION)


def test_another_service_name_needs_another_certificate() -> None:
    async def act(_server: MemoryServer, client: Client) -> None:
        await ensure(client, SETTINGS, NOW)
        found = await ensure(client, Settings(service="other"), NOW)
        names = x509.load_pem_x509_certificate(found.certificate).extensions
        assert "other.kube-system.svc" in str(names.get_extension_for_class(x509.SubjectAlternativeName).value)

    against(act, CONFIGURATION)


SPOILT: dict[str, Json] = {
    "key-taken-out": {"tls.key": None},
    "no-base64": {"tls.crt": "%%%"},
    "empty": {"ca.crt": "", "ca.key": "", "tls.crt": "", "tls.key": ""},
    "no-pem": {"ca.crt": base64.b64encode(b"x").decode()},
}


@pytest.mark.parametrize("data", SPOILT.values(), ids=SPOILT)
def test_a_secret_that_somebody_spoilt_is_made_good(data: Json) -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        first = await ensure(client, SETTINGS, NOW)
        await store(client, data | {"theirs": "eA=="})
        second = await ensure(client, SETTINGS, NOW)
        assert second.certificate != first.certificate
        assert bundles(server) == [second.authority] * 2
        assert await ensure(client, SETTINGS, NOW) == second
        assert (await stored(client))["data"]["theirs"] == "eA=="

    against(act, CONFIGURATION)


def test_a_bundle_that_somebody_else_wrote_is_replaced_and_no_other() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        pair = await ensure(client, SETTINGS, NOW)
        spoilt = server.get(HOOKS, "cardwise") or {}
        spoilt["webhooks"][1]["clientConfig"]["caBundle"] = "eA=="
        server.patch(HOOKS, "cardwise", {"webhooks": spoilt["webhooks"]})
        await ensure(client, SETTINGS, NOW)
        assert bundles(server) == [pair.authority] * 2

    against(act, CONFIGURATION)


def test_a_configuration_that_is_not_there_is_told_in_one_sentence() -> None:
    async def act(_server: MemoryServer, client: Client) -> None:
        await ensure(client, Settings(configuration="mine"), NOW)

    with pytest.raises(SelfSignedError) as caught:
        against(act)
    assert str(caught.value) == (
        "MutatingWebhookConfiguration mine is not found, must be there before the scheduler writes its certificate's"
        " authority into it (deploy/webhook.yaml)"
    )


RACES = [
    ("create", "secrets", 409, "AlreadyExists"),
    ("patch", "secrets", 409, "Conflict"),
    ("patch", HOOKS, 409, "Conflict"),
]


@pytest.mark.parametrize(("verb", "resource", "status", "reason"), RACES, ids=str)
@pytest.mark.parametrize("times", [1, MOST_TRIES - 1, MOST_TRIES])
def test_who_comes_second_reads_again_but_not_for_ever(
    verb: str, resource: str, status: int, reason: str, times: int
) -> None:
    async def act(server: MemoryServer, client: Client) -> Pair:
        if (verb, resource) == ("patch", "secrets"):
            await ensure(client, SETTINGS, NOW - YEAR)
        server.faults.answer(status, reason=reason, verb=verb, resource=resource, times=times)
        return await ensure(client, SETTINGS, NOW)

    if times < MOST_TRIES:
        assert against(act, CONFIGURATION).certificate
        return
    with pytest.raises(KubeError) as caught:
        against(act, CONFIGURATION)
    assert caught.value.fault in (Fault.CONFLICT, Fault.ALREADY_EXISTS)


def test_webhooks_that_change_places_meanwhile_keep_what_is_theirs() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        server.faults.delay(0.2, verb="patch", resource=HOOKS)
        ensuring = asyncio.create_task(ensure(client, SETTINGS, NOW))
        await asyncio.sleep(0.1)
        foreign = {"name": "first.example.com", "clientConfig": {"url": "https://example.com/x"}}
        server.patch(HOOKS, "cardwise", {"webhooks": [HOOK | foreign, HOOK]})
        pair = await ensuring
        assert bundles(server) == [pair.authority] * 2
        assert [each.status for each in server.log.of(resource=HOOKS)] == [409, 200]

    against(act, CONFIGURATION)


def test_a_create_that_was_carried_out_without_an_answer_is_found_the_next_time() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        server.faults.drop(after_write=True, verb="create", resource="secrets")
        with pytest.raises(KubeError) as caught:
            await ensure(client, SETTINGS, NOW)
        assert caught.value.in_doubt
        pair = await ensure(client, SETTINGS, NOW)
        assert base64.b64decode((await stored(client))["data"]["tls.crt"]) == pair.certificate

    against(act, CONFIGURATION)


@pytest.mark.parametrize(("verb", "resource"), [("get", "secrets"), ("create", "secrets"), ("get", HOOKS)])
def test_what_the_api_server_refuses_comes_through_with_its_words(verb: str, resource: str) -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        server.faults.answer(403, message="no rights", reason="Forbidden", verb=verb, resource=resource)
        await ensure(client, SETTINGS, NOW)

    with pytest.raises(KubeError, match=f"{resource}.*: no rights") as caught:
        against(act, CONFIGURATION)
    assert caught.value.fault is Fault.FORBIDDEN


def test_a_configuration_without_webhooks_needs_nothing() -> None:
    async def act(server: MemoryServer, client: Client) -> None:
        await ensure(client, SETTINGS, NOW)
        assert [each.resource for each in server.log.writes] == ["secrets"]

    against(act, {**CONFIGURATION, "webhooks": []})
