"""A request's method, path and query, read into what it asks of which objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cardwise.sim.apiserver import errors
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.objects import key_of
from cardwise.sim.apiserver.resources import BY_PATH, GROUP_VERSIONS, NAMESPACES, Resource
from cardwise.sim.apiserver.selectors import Selection, read_fields, read_labels

Query = Mapping[str, str]
_TRUE = ("1", "true")
_NAMED_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of the API. `verb` is Kubernetes' word; `subresource` is "" for the object itself."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Query = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The resource as audit logs and RBAC name it: `pods`, `pods/binding`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name)

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    @property
    def dry_run(self) -> bool:
        return bool(self.query.get("dryRun"))

    def selection(self) -> Selection:
        """The objects that the query selects; raises RefusedError (400) where a selector cannot be read."""
        return Selection(
            namespace=self.namespace,
            labels=read_labels(self.query.get("labelSelector", "")),
            fields=read_fields(self.query.get("fieldSelector", ""), self.resource),
        )

    def number(self, name: str) -> int | None:
        """A whole number of the query, None where it is not given; raises RefusedError (400)."""
        text = self.query.get(name, "")
        return whole_number(text) if text else None


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def truth(query: Query, name: str) -> bool:
    return query.get(name, "") in _TRUE


def read_call(method: str, path: str, query: Query) -> Call | None:
    """What the request asks for; None where the path belongs to no served version of an API group.

    Raises RefusedError: 404 for a resource that is not there, 405 for what cannot be done with it.
    """
    parts = [part for part in path.split("/") if part]
    group, version, rest = _group_version(parts)
    if (group, version) not in GROUP_VERSIONS or not rest:
        return None
    namespace, rest = _namespace(rest)
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise errors.no_such_resource()
    name, subresource = (*rest[1:], "", "")[:2]
    verb = _verb(method, name, subresource, query)
    _check_verb(verb, resource, namespace, subresource)
    _check_dry_run(query)
    return Call(verb=verb, resource=resource, namespace=namespace, name=name, subresource=subresource, query=query)


def _group_version(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[:1] == ["api"]:
        return "", "".join(parts[1:2]), parts[2:]
    if parts[:1] == ["apis"]:
        return "".join(parts[1:2]), "".join(parts[2:3]), parts[3:]
    return "", "", []


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Namespaces are a part of paths and a resource of their own."""
    if rest[0] == NAMESPACES.plural and len(rest) > 2 and rest[2] not in NAMESPACES.subresources:
        return rest[1], rest[2:]
    return "", rest


def _verb(method: str, name: str, subresource: str, query: Query) -> str:
    if subresource and method == "POST":
        return "create"
    if name:
        return _NAMED_VERBS.get(method, "")
    if method == "GET" and truth(query, "watch"):
        return "watch"
    return _COLLECTION_VERBS.get(method, "")


def _check_verb(verb: str, resource: Resource, namespace: str, subresource: str) -> None:
    if subresource and subresource not in resource.subresources:
        raise errors.no_such_resource()
    allowed = resource.subresources[subresource] if subresource else resource.verbs
    everywhere = verb in ("list", "watch") or not resource.namespaced
    if verb not in allowed or not (namespace or everywhere):
        raise errors.method_not_allowed()


def _check_dry_run(query: Query) -> None:
    asked = query.get("dryRun", "")
    if asked not in ("", "All"):
        cause = errors.Cause(
            field="dryRun", message=f'Unsupported value: ["{asked}"]: supported values: "All"', reason="NotSupported"
        )
        raise errors.invalid_options("CreateOptions", cause)


def version_number(text: str) -> int:
    """A resourceVersion as a number; raises RefusedError in the words of a real server, which differ by place."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise RefusedError(500, f'strconv.ParseUint: parsing "{text}": invalid syntax')
