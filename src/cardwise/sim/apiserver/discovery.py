"""What a client asks first: version, groups and resources, and as much of OpenAPI as lets kubectl validate on the server.

Pure: a path and what the client accepts, turned into a document.
"""

from __future__ import annotations

import re

from cardwise.sim.apiserver.objects import Json
from cardwise.sim.apiserver.resources import GROUP_VERSIONS, RESOURCES, Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED = re.compile(
    r"application/json;(?=[^,]*g=apidiscovery\.k8s\.io)(?=[^,]*v=v2(?:;|,|$))(?=[^,]*as=APIGroupD)"
)
# What kubectl asks for before it takes a `kind: List` apart: a document without schemas, in protobuf (gnostic's
# openapi.v2.Document, whose first field is the text `2.0`).
OPENAPI_V2_PATH, OPENAPI_V2 = "/openapi/v2", b"\x0a\x032.0"
OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")


def document(path: str, version: str, *, aggregated: bool) -> Json | None:
    """The discovery document at this path; None where there is none. `version` is a text like v1.36.2."""
    path = path.rstrip("/")
    if aggregated and path in ("/api", "/apis"):
        return _aggregated(core=path == "/api")
    documents = {
        "/version": _version(version),
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(each) for each in _groups()]},
        "/openapi/v3": {"paths": {_prefix(*each): _reference(*each) for each in GROUP_VERSIONS}},
    }
    documents |= {f"/apis/{each}": {"kind": "APIGroup", "apiVersion": "v1"} | _group(each) for each in _groups()}
    documents |= {f"/{_prefix(*each)}": _resource_list(*each) for each in GROUP_VERSIONS}
    documents |= {f"/openapi/v3/{_prefix(*each)}": _openapi(*each) for each in GROUP_VERSIONS}
    return documents.get(path)


def wants_aggregated(accept: str) -> bool:
    """Whether a client's Accept header asks for all groups in one document."""
    return bool(_AGGREGATED.search(accept.replace(" ", "")))


def _version(version: str) -> Json:
    major, minor = version.lstrip("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _groups() -> list[str]:
    return [group for group, _version in GROUP_VERSIONS if group]


def _group(group: str) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for name, version in GROUP_VERSIONS if name == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _served(group: str, version: str) -> list[Resource]:
    return [each for each in RESOURCES if (each.group, each.version) == (group, version)]


def _resource_list(group: str, version: str) -> Json:
    resources = []
    for each in _served(group, version):
        resources.append(_resource(each))
        resources += [_subresource(each, name) for name in each.subresources]
    head: Json = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    return head | {"groupVersion": f"{group}/{version}" if group else version, "resources": resources}


def _resource(resource: Resource) -> Json:
    lists = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    } | {name: each for name, each in lists.items() if each}


def _subresource(resource: Resource, name: str) -> Json:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.subresource_kinds.get(name, resource.kind),
        "verbs": list(resource.subresources[name]),
    }


def _aggregated(*, core: bool) -> Json:
    groups = [""] if core else _groups()
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_discovered(each) for each in _served(group, version)],
                    "freshness": "Current",
                }
                for name, version in GROUP_VERSIONS
                if name == group
            ],
        }
        for group in groups
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _discovered(resource: Resource) -> Json:
    lists: Json = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    lists["subresources"] = [
        {
            "subresource": name,
            "responseKind": _kind(resource, resource.subresource_kinds.get(name, resource.kind)),
            "verbs": list(verbs),
        }
        for name, verbs in resource.subresources.items()
    ]
    return {
        "resource": resource.plural,
        "responseKind": _kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    } | {name: each for name, each in lists.items() if each}


def _kind(resource: Resource, kind: str) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": kind}


def _reference(group: str, version: str) -> Json:
    return {"serverRelativeURL": f"/openapi/v3/{_prefix(group, version)}?hash=1"}


def _openapi(group: str, version: str) -> Json:
    """No schemas: just that every kind can be patched with the parameter fieldValidation.

    kubectl takes that as the promise that the server validates, and asks for no schemas.
    """
    paths = {f"/{_prefix(group, version)}/{each.plural}/{{name}}": _patchable(each) for each in _served(group, version)}
    info = {"title": "Kubernetes", "version": "in memory"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _patchable(resource: Resource) -> Json:
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    operation = {
        "parameters": [parameter],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _kind(resource, resource.kind),
    }
    return {"patch": operation}
