"""How an answer is shown: whole, as a table or reduced to metadata, as the client's Accept header asks. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.objects import Json, metadata_of, without
from cardwise.sim.apiserver.reads import Page
from cardwise.sim.apiserver.resources import Resource
from cardwise.sim.apiserver.tables import partial_metadata, table
from cardwise.sim.apiserver.views import shown

WHOLE, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"
_JSON_RANGES = ("application/json", "application/*", "*/*")
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml,"
    " application/vnd.kubernetes.protobuf"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One of WHOLE, TABLE and PARTIAL; `include` is what of an object goes with its row of a table."""

    kind: str = WHOLE
    include: str = ""

    def one(self, value: Json, resource: Resource, now_seconds: float) -> Json:
        """A single object, or a Status, which is always shown whole."""
        if value["kind"] == "Status" or self.kind == WHOLE:
            return shown(value, resource)
        if self.kind == PARTIAL:
            return partial_metadata(value)
        version = {"resourceVersion": metadata_of(value).get("resourceVersion", "")}
        return table(resource, [value], version, now_seconds, include=self.include)

    def page(self, page: Page, resource: Resource, now_seconds: float) -> Json:
        """A list. Its items do not say their kind."""
        if self.kind == TABLE:
            return table(resource, page.items, page.metadata, now_seconds, include=self.include)
        if self.kind == PARTIAL:
            head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return head | {"metadata": page.metadata, "items": [partial_metadata(each) for each in page.items]}
        items = [without(shown(each, resource), "kind", "apiVersion") for each in page.items]
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return head | {"metadata": page.metadata, "items": items}

    def event(self, event: tuple[str, Json], resource: Resource, now_seconds: float, *, first: bool) -> Json:
        """A line of a watch. Only its first table has heads."""
        kind, value = event
        if self.kind == TABLE:
            version = {"resourceVersion": metadata_of(value).get("resourceVersion", "")}
            items = [] if kind == "BOOKMARK" else [value]
            told = table(resource, items, version, now_seconds, include=self.include, heads=first)
        elif self.kind == PARTIAL:
            told = partial_metadata(value)
        else:
            told = shown(value, resource)
        return {"type": kind, "object": told}


def shape_of(accept: str, include: str) -> Shape:
    """The first shape of the header that is served; raises RefusedError (406) where there is none."""
    ranges = [part.strip() for part in accept.split(",") if part.strip()] or ["*/*"]
    for each in ranges:
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind in _JSON_RANGES:
            wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
            if wanted.get("as", "").removesuffix("List") in (WHOLE, TABLE, PARTIAL) and _served(wanted):
                return Shape(kind=wanted.get("as", "").removesuffix("List"), include=include)
    raise RefusedError(406, NOT_ACCEPTABLE, "NotAcceptable", {})


def _served(wanted: dict[str, str]) -> bool:
    return "as" not in wanted or (wanted.get("v"), wanted.get("g")) == ("v1", "meta.k8s.io")
