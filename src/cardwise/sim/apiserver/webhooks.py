"""Mutating webhooks as configuration: defaults, what must hold, and which of them a new pod concerns.

matchConditions need Kubernetes' expression language, which is not evaluated here: a configuration that has them is
refused, since a webhook that is called for everything, or for nothing, would be a different cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from cardwise.sim.apiserver.errors import Cause, bad_value, forbidden_change, required
from cardwise.sim.apiserver.objects import Json, metadata_of, name_of
from cardwise.sim.apiserver.selectors import match_selector

WEBHOOK_DEFAULTS: Json = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
    "reinvocationPolicy": "Never",
}


def with_defaults(configuration: Json) -> Json:
    """The configuration with what each of its webhooks leaves out."""
    hooks = [_webhook(each) for each in configuration.get("webhooks") or ()]
    return configuration | ({"webhooks": hooks} if hooks else {})


def _webhook(webhook: Json) -> Json:
    rules = [{"scope": "*"} | each for each in webhook.get("rules") or ()]
    config = dict(webhook.get("clientConfig") or {})
    if config.get("service"):
        config["service"] = {"port": 443} | config["service"]
    return WEBHOOK_DEFAULTS | webhook | {"rules": rules, "clientConfig": config}


def causes(configuration: Json) -> list[Cause]:
    """What is wrong with a configuration."""
    hooks = configuration.get("webhooks") or ()
    return [cause for index, each in enumerate(hooks) for cause in _webhook_causes(f"webhooks[{index}]", each)]


def _webhook_causes(path: str, webhook: Json) -> Iterator[Cause]:
    name = webhook.get("name") or ""
    if name.count(".") < 2:
        yield bad_value(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
    if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    if "v1" not in (webhook.get("admissionReviewVersions") or ()):
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    if webhook.get("matchConditions"):
        yield forbidden_change(f"{path}.matchConditions", "this in-memory server evaluates no expressions")
    yield from _selector_causes(path, webhook)
    yield from _address_causes(f"{path}.clientConfig", webhook["clientConfig"])


def _selector_causes(path: str, webhook: Json) -> Iterator[Cause]:
    for name in ("namespaceSelector", "objectSelector"):
        for index, each in enumerate((webhook.get(name) or {}).get("matchExpressions") or ()):
            if each.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
                field = f"{path}.{name}.matchExpressions[{index}].operator"
                yield bad_value(field, each.get("operator", ""), "not a valid selector operator")


def _address_causes(path: str, config: Json) -> Iterator[Cause]:
    """Unlike a real server, plain HTTP is taken on loopback: a demo needs no certificates then."""
    if bool(config.get("url")) == bool(config.get("service")):
        yield required(path, "exactly one of url or service is required")
        return
    parts = urlsplit(config.get("url") or "https://service")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")):
        why = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield bad_value(f"{path}.url", parts.scheme, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook to be called. `url` is without its timeout; `server_name` is what its certificate must name.

    `authority` is PEM, "" for the system's own authorities.
    """

    name: str
    url: str
    server_name: str = ""
    authority: str = ""
    timeout_seconds: int = 10
    fails: bool = True

    @property
    def called_url(self) -> str:
        return f"{self.url}?timeout={self.timeout_seconds}s"


def concerned(configurations: list[Json], namespace: Json, pod: Json) -> list[Json]:
    """The webhooks that a new pod of this namespace concerns, by configuration name, as their configurations say them.

    matchPolicy, scope and other API versions play no part: only v1 is served.
    """
    ordered = sorted(configurations, key=name_of)
    return [each for one in ordered for each in one.get("webhooks") or () if _concerns(each, namespace, pod)]


def _concerns(webhook: Json, namespace: Json, pod: Json) -> bool:
    selected = _selects(webhook.get("namespaceSelector"), namespace) and _selects(webhook.get("objectSelector"), pod)
    return selected and any(map(_rule_matches, webhook.get("rules") or ()))


def _rule_matches(rule: Json) -> bool:
    wanted = {"operations": "CREATE", "apiGroups": "", "apiVersions": "v1", "resources": "pods"}
    stars = {"resources": ("*", "*/*")}
    return rule.get("scope") != "Cluster" and all(
        set(rule.get(name) or ()) & {value, *stars.get(name, ("*",))} for name, value in wanted.items()
    )


def _selects(selector: Json | None, value: Json) -> bool:
    labels = metadata_of(value).get("labels") or {}
    return all(each.holds(labels) for each in match_selector(selector))
