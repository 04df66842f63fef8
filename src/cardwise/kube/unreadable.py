"""Objects that are there and cannot be decoded: what can be told of them all the same. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a text that is not JSON, or not of the type."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object that cannot be decoded, and why. Each text is empty where not even that can be read.

    `node_name` is where a pod is bound. `gone`: this was its end.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    node_name: str = ""
    version: str = ""
    reason: str
    gone: bool = False


def unreadable(raw: msgspec.Raw, reason: str, *, gone: bool = False) -> Unreadable:
    """What an object says about itself, each thing read by itself."""
    return Unreadable(
        namespace=text_at(raw, "metadata", "namespace"),
        name=text_at(raw, "metadata", "name"),
        uid=text_at(raw, "metadata", "uid"),
        node_name=text_at(raw, "spec", "nodeName"),
        version=text_at(raw, "metadata", "resourceVersion"),
        reason=reason,
        gone=gone,
    )


def text_at(raw: msgspec.Raw, *path: str) -> str:
    """The text at a path of keys, empty where there is none."""
    try:
        for key in path:
            raw = _fields.decode(raw)[key]
        return _text.decode(raw)
    except (*UNREADABLE, KeyError):
        return ""
