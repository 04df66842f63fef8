"""A certificate of our own making for the webhook, where nobody else makes one (`--self-signed`).

It lies in a Secret, so that all replicas show certificates of one authority, and the authority stands in the webhook
configuration, so that the API server believes them.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime

from cardwise.kube.client import Client
from cardwise.kube.errors import Fault, KubeError
from cardwise.kube.requests import Resource
from cardwise.scheduler.issuing import Pair, issued, names_of, renewed
from cardwise.wire.objects import Meta, Object, Texts

MOST_TRIES = 5
PARTS = {"ca.crt": "authority", "ca.key": "authority_key", "tls.crt": "certificate", "tls.key": "key"}
"""The keys of the Secret, and which field of a Pair stands under each."""
_RACES = frozenset((Fault.CONFLICT, Fault.ALREADY_EXISTS))


class SelfSignedError(Exception):
    """Why certificates of our own cannot be used in this cluster, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the pair lies, whom it is for, and which MutatingWebhookConfiguration is told of its authority."""

    namespace: str = "kube-system"
    service: str = "cardwise-scheduler"
    secret: str = "cardwise-webhook"  # noqa: S105  (a name)
    configuration: str = "cardwise"


class Secret(Object):
    api_version: str = ""
    kind: str = ""
    metadata: Meta | None = None
    type: str = ""
    data: Texts | None = None


class ClientConfig(Object):
    ca_bundle: str = ""


class Webhook(Object):
    client_config: ClientConfig | None = None


class WebhookConfiguration(Object):
    metadata: Meta
    webhooks: list[Webhook] | None = None


SECRETS = Resource(group_version="v1", plural="secrets", kind="Secret", decoded_as=Secret)
WEBHOOK_CONFIGURATIONS = Resource(
    group_version="admissionregistration.k8s.io/v1",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    decoded_as=WebhookConfiguration,
    namespaced=False,
)


async def ensure(client: Client, settings: Settings, now: datetime) -> Pair:
    """The pair to show, good for weeks: call it again every few hours. Writes only what is missing, old or wrong.

    Other replicas may do the same at the same time: who comes second takes what the first made. Raises SelfSignedError
    where the webhook configuration is not there, and KubeError where the API server refuses or cannot be reached.
    """
    tries = 1
    while True:
        try:
            pair = await _kept(client, settings, now)
            await _publish(client, settings.configuration, pair.authority)
            return pair
        except KubeError as error:
            if error.fault not in _RACES or tries == MOST_TRIES:
                raise
            tries += 1


async def _kept(client: Client, settings: Settings, now: datetime) -> Pair:
    wanted = names_of(settings.service, settings.namespace)
    secret = await _found(client, settings)
    if secret is None:
        pair = issued(wanted, now)
        await client.create(SECRETS, _secret(settings, pair), settings.namespace)
        return pair
    old = _pair_in(secret.data or {})
    pair = renewed(old, wanted, now) if old is not None else issued(wanted, now)
    if pair != old:
        version = secret.metadata.resource_version if secret.metadata else ""
        change = {"metadata": {"resourceVersion": version}, "data": _data(pair)}
        await client.patch(SECRETS, change, settings.secret, settings.namespace)
    return pair


async def _found(client: Client, settings: Settings) -> Secret | None:
    try:
        return await client.get_quorum(SECRETS, settings.secret, settings.namespace)
    except KubeError as error:
        if error.fault is not Fault.NOT_FOUND:
            raise
        return None


async def _publish(client: Client, name: str, authority: bytes) -> None:
    """Writes the authority into every webhook of the configuration that has another one."""
    try:
        configuration = await client.get_quorum(WEBHOOK_CONFIGURATIONS, name)
    except KubeError as error:
        if error.fault is not Fault.NOT_FOUND:
            raise
        must = "must be there before the scheduler writes its certificate's authority into it"
        raise SelfSignedError(
            f"MutatingWebhookConfiguration {name} is not found, {must} (deploy/webhook.yaml)"
        ) from error
    bundle = base64.b64encode(authority).decode()
    steps = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
        for index, each in enumerate(configuration.webhooks or ())
        if each.client_config is not None and each.client_config.ca_bundle != bundle
    ]
    if steps:
        # The version makes it a conflict where somebody changed the list meanwhile, whose places the steps name.
        version = configuration.metadata.resource_version
        steps.insert(0, {"op": "replace", "path": "/metadata/resourceVersion", "value": version})
        await client.patch(WEBHOOK_CONFIGURATIONS, steps, name)


def _secret(settings: Settings, pair: Pair) -> Secret:
    meta = Meta(name=settings.secret, namespace=settings.namespace)
    return Secret(api_version="v1", kind="Secret", metadata=meta, type="kubernetes.io/tls", data=_data(pair))


def _data(pair: Pair) -> Texts:
    return {key: base64.b64encode(getattr(pair, name)).decode() for key, name in PARTS.items()}


def _pair_in(data: Texts) -> Pair | None:
    """The pair that a Secret holds; None where a part is missing or no base64."""
    try:
        return Pair(**{name: base64.b64decode(data[key], validate=True) for key, name in PARTS.items()})
    except (KeyError, binascii.Error):
        return None
