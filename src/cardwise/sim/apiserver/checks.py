"""What a server refuses about any object: its shape as JSON, its name, its labels and annotations."""

from __future__ import annotations

import re
from typing import Any

from cardwise.sim.apiserver import errors
from cardwise.sim.apiserver.errors import Cause, bad_value, required
from cardwise.sim.apiserver.objects import Json, metadata_of
from cardwise.sim.apiserver.resources import Resource

ANNOTATIONS_LIMIT_BYTES = 256 * 1024

_LABEL_RULE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME_RULE = rf"{_LABEL_RULE}(\.{_LABEL_RULE})*"
_KEY_RULE = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_RULE = rf"({_KEY_RULE})?"
_NAME, _LABEL = re.compile(_NAME_RULE), re.compile(_LABEL_RULE)
_KEY, _VALUE = re.compile(_KEY_RULE), re.compile(_VALUE_RULE)

NAME_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME_RULE}')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_RULE}')"
)
KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY_RULE}')"
)
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_VALUE_RULE}')"
)

_TEXT_FIELDS = ("name", "generateName", "namespace", "uid", "resourceVersion")
_TEXT_MAPS = ("labels", "annotations")
_SECTIONS = ("metadata", "spec", "status")
_GO_KINDS: dict[type, str] = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def check_shape(value: Json, resource: Resource) -> None:
    """Raise RefusedError (400) where a part that this server reads is not of the type that it must be."""
    for section in _SECTIONS:
        _expect(value.get(section), dict, section, _section_type(section, resource), resource)
    metadata = metadata_of(value)
    for name in _TEXT_FIELDS:
        _expect(metadata.get(name), str, f"ObjectMeta.metadata.{name}", "string", resource)
    for name in _TEXT_MAPS:
        _expect(metadata.get(name), dict, f"ObjectMeta.metadata.{name}", "map[string]string", resource)
        for each in (metadata.get(name) or {}).values():
            _expect(each, str, f"ObjectMeta.metadata.{name}", "string", resource)


def check_items(items: Any, path: str, go_type: str, resource: Resource) -> None:
    """Raise RefusedError (400) where this is neither missing nor a list of objects."""
    _expect(items, list, path, f"[]{go_type}", resource)
    for each in items or ():
        _expect(each, dict, path, go_type, resource)


def _expect(value: Any, wanted: type, path: str, go_type: str, resource: Resource) -> None:
    if value is None or type(value) is wanted:
        return
    found = _GO_KINDS.get(type(value), "value")
    raise errors.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'
        f" json: cannot unmarshal {found} into Go struct field {path} of type {go_type}"
    )


def _section_type(section: str, resource: Resource) -> str:
    return "v1.ObjectMeta" if section == "metadata" else f"v1.{resource.kind}{section.title()}"


def metadata_causes(value: Json) -> list[Cause]:
    """What is wrong with the name, labels and annotations; nothing about what the server itself fills in."""
    metadata = metadata_of(value)
    causes = _name_causes(metadata.get("name", ""))
    for key, text in (metadata.get("labels") or {}).items():
        causes += _key_causes("metadata.labels", key)
        if not _VALUE.fullmatch(text) or len(text) > 63:
            causes.append(bad_value("metadata.labels", text, VALUE_TEXT))
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        causes += _key_causes("metadata.annotations", key, folds=True)
    return causes + _size_causes(annotations)


def is_label(text: str) -> bool:
    """Whether it is a name without dots of at most 63 characters, as containers have."""
    return bool(_LABEL.fullmatch(text)) and len(text) <= 63


def _name_causes(name: str) -> list[Cause]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return [] if _NAME.fullmatch(name) and len(name) <= 253 else [bad_value("metadata.name", name, NAME_TEXT)]


def _key_causes(field: str, key: str, *, folds: bool = False) -> list[Cause]:
    """`folds`: capitals do not matter, as in annotations."""
    prefix, slash, name = (key.lower() if folds else key).rpartition("/")
    sound = bool(_KEY.fullmatch(name)) and len(name) <= 63
    if slash and not _NAME.fullmatch(prefix):
        return [bad_value(field, key, f"prefix part {NAME_TEXT}")]
    return [] if sound else [bad_value(field, key, KEY_TEXT)]


def _size_causes(annotations: dict[str, str]) -> list[Cause]:
    size_bytes = sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
    if size_bytes <= ANNOTATIONS_LIMIT_BYTES:
        return []
    message = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
    return [Cause(field="metadata.annotations", message=message, reason="TooLong")]
