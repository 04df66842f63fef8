"""Calls the mutating webhooks that a new pod concerns, over HTTP or HTTPS, and applies what they say."""

from __future__ import annotations

import base64
import binascii
import ssl
import uuid
from collections.abc import Callable, Mapping

import aiohttp
import msgspec

from cardwise.sim.apiserver import errors, kinds, patch, webhooks
from cardwise.sim.apiserver.calls import Call
from cardwise.sim.apiserver.objects import Json
from cardwise.sim.apiserver.resources import MUTATING_WEBHOOKS, NAMESPACES, PODS
from cardwise.sim.apiserver.review import Answer, BadAnswerError, denied, question, read_answer
from cardwise.sim.apiserver.store import Store
from cardwise.sim.apiserver.writes import read_object

HEADERS = {
    "User-Agent": "kube-apiserver-admission",
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
}
CERTIFICATE_TEXT = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
_STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    503: "the server is currently unable to handle the request",
}


class Admission:
    """Webhooks as the store's configurations name them. `services` is where a `namespace/name` of a service listens."""

    def __init__(self, store: Store, services: Mapping[str, str], session: Callable[[], aiohttp.ClientSession]) -> None:
        self._store = store
        self._services = services
        self._session = session

    async def admit(self, call: Call, value: Json, user: str, warnings: list[str]) -> Json:
        """The object after all webhooks; their warnings are added to `warnings`, also where one denies.

        Raises RefusedError: what a webhook said, or 500 where one that must be asked cannot be.
        """
        if call.resource is not PODS:
            return value
        for each in self._concerned(call, value):
            answer = await self._ask(each, call, value, user)
            if answer is not None:
                warnings.extend(answer.warnings)
                value = _applied(each["name"], answer, value)
        return value

    def _concerned(self, call: Call, value: Json) -> list[Json]:
        revision = self._store.revision
        configurations = [each for _key, each in self._store.snapshot(MUTATING_WEBHOOKS.stored_as, revision)]
        namespace = self._store.get(NAMESPACES.stored_as, call.namespace) or {}
        return webhooks.concerned(configurations, namespace, value)

    async def _ask(self, config: Json, call: Call, value: Json, user: str) -> Answer | None:
        """The webhook's answer; None where there is none and its failurePolicy lets that pass."""
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(question(uid, call, value, user))
        try:
            return read_answer(await self._post(self._addressed(config), body), uid)
        except BadAnswerError as error:
            if config["failurePolicy"] == "Ignore":
                return None
            raise errors.internal(f'failed calling webhook "{config["name"]}": {error}') from error

    async def _post(self, webhook: webhooks.Webhook, body: bytes) -> bytes:
        try:
            async with self._session().post(
                webhook.called_url,
                data=body,
                headers=HEADERS,
                ssl=_tls(webhook),
                server_hostname=webhook.server_name or None,
                timeout=aiohttp.ClientTimeout(total=webhook.timeout_seconds),
            ) as response:
                if response.status != 200:
                    raise BadAnswerError(f"failed to call webhook: {_status_text(response.status)}")
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = f'failed to call webhook: Post "{_said_url(webhook)}": {_reason(error, webhook)}'
            raise BadAnswerError(why) from error

    def _addressed(self, config: Json) -> webhooks.Webhook:
        """Where the webhook is called; raises BadAnswerError for a service that nobody named."""
        client = config["clientConfig"]
        url, server_name = client.get("url", ""), ""
        if service := client.get("service"):
            place = self._services.get(f"{service['namespace']}/{service['name']}")
            server_name = f"{service['name']}.{service['namespace']}.svc"
            if place is None:
                said = f"https://{server_name}:{service['port']}{service.get('path', '')}"
                why = f'Post "{said}?timeout={config["timeoutSeconds"]}s": service "{service["name"]}" not found'
                raise BadAnswerError(f"failed to call webhook: {why}")
            url = f"https://{place}{service.get('path', '')}"
        return webhooks.Webhook(
            name=config["name"],
            url=url,
            server_name=server_name,
            authority=_decoded(client.get("caBundle", "")),
            timeout_seconds=config["timeoutSeconds"],
        )


def _applied(name: str, answer: Answer, value: Json) -> Json:
    if not answer.allowed:
        raise denied(name, answer)
    if not answer.patch:
        return value
    try:
        patched = patch.apply(value, answer.patch)
    except patch.PatchError as error:
        raise errors.internal(str(error)) from error
    return kinds.kind_of(PODS.stored_as).default(read_object(patched, PODS))


def _tls(webhook: webhooks.Webhook) -> ssl.SSLContext | bool:
    if not webhook.url.startswith("https:") or not webhook.authority:
        return True
    try:
        return ssl.create_default_context(cadata=webhook.authority)
    except (ssl.SSLError, ValueError) as error:
        raise BadAnswerError("failed to call webhook: unable to load root certificates") from error


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadAnswerError("failed to call webhook: unable to load root certificates") from error


def _said_url(webhook: webhooks.Webhook) -> str:
    """A service is named by its name in errors, not by where it listens here."""
    if not webhook.server_name:
        return webhook.called_url
    path = webhook.called_url.split("/", 3)[3]
    return f"https://{webhook.server_name}:443/{path}"


def _status_text(status: int) -> str:
    if status >= 500 and status not in _STATUS_TEXTS:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    return _STATUS_TEXTS.get(
        status, f"the server responded with the status code {status} but did not return more information"
    )


def _reason(error: Exception, webhook: webhooks.Webhook) -> str:
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return CERTIFICATE_TEXT
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        place = webhook.url.split("/")[2]
        return f"dial tcp {place}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error)
