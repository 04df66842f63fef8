"""From a file and flags to the configuration, or to one sentence about what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path

from cardwise.scheduler.config import FAMILY_FIELDS, SETTINGS, Config, ConfigError, family_key, made
from cardwise.scheduler.settings import said
from cardwise.wire import yaml_text
from cardwise.wire.errors import MOST_SHOWN, WireError, shown, wrong

BY_KEY = {row.key: row for row in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where values come from, and so how an error names them. `given` are the keys that file or flags hold."""

    path: Path | None
    flags: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    def name(self, key: str) -> str:
        """A key as its writer knows it: the flag, or the file and the key in it."""
        if key in self.flags or self.path is None:
            return BY_KEY[key].flag
        return f"config {self.path}: {key}"


def load(path: Path | None, flags: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration of a file (None for none), with `flags`, texts by dotted key, over it.

    What is left out is as by default; our own pod and host are taken from `environ` and from the system. Raises
    ConfigError with one sentence: path and key, or flag, what it is and what it must be.
    """
    try:
        in_file = {} if path is None else dict(_leaves(path, "", _read(path)))
        source = Source(path=path, flags=frozenset(flags), given=frozenset({*in_file, *flags}))
        values = {key: BY_KEY[key].read(f"config {path}: {key}", raw) for key, raw in in_file.items()}
        values |= {key: BY_KEY[key].read_text(BY_KEY[key].flag, text) for key, text in flags.items()}
        config = _completed(made(values), environ)
        _check_certificate(config, source)
        _check_own_pod(config, source)
        _check_addresses(config, source)
        _check_resources(config, source)
    except WireError as error:
        raise ConfigError(str(error)) from error
    return config


def _read(path: Path) -> dict[object, object]:
    where = f"config {path}"
    try:
        documents = yaml_text.parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise WireError(f"{where} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{where} is no UTF-8 text") from error
    except yaml_text.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise WireError(f"{where}{line}: {shown(error.what)}, must be YAML in which every key stands once") from error
    if len(documents) > 1:
        raise wrong(where, f"{len(documents)} documents", "one")
    whole = documents[0] if documents else None
    if whole is None:
        return {}
    if not isinstance(whole, dict):
        raise wrong(where, said(whole), "a mapping")
    return whole


def _leaves(path: Path, prefix: str, section: dict[object, object]) -> Iterator[tuple[str, object]]:
    """The values of a section and of those in it, by dotted key. An empty section says nothing."""
    for name, value in section.items():
        word = said(name)
        key = prefix + word
        if word not in (known := _within(prefix)):
            raise WireError(
                f"config {path}: {shown(key)} is no known key{_hint(word, known)}, must be one of {', '.join(known)}"
            )
        if key in BY_KEY:
            yield key, value
        elif isinstance(value, dict):
            yield from _leaves(path, f"{key}.", value)
        elif value is not None:
            raise wrong(f"config {path}: {key}", said(value), "a mapping")


def _within(prefix: str) -> list[str]:
    """The keys of a section."""
    names = (key.removeprefix(prefix).partition(".")[0] for key in BY_KEY if key.startswith(prefix))
    return list(dict.fromkeys(names))


def _hint(word: str, known: list[str]) -> str:
    near = get_close_matches(word[:MOST_SHOWN], known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _completed(config: Config, environ: Mapping[str, str]) -> Config:
    """With what the pod's environment and the system say, where the configuration says nothing."""
    pod, election = config.pod, config.leader_election
    pod = replace(
        pod,
        name=pod.name or environ.get("POD_NAME", ""),
        namespace=pod.namespace or environ.get("POD_NAMESPACE", ""),
    )
    election = replace(election, identity=election.identity or os.uname().nodename)
    return replace(config, pod=pod, leader_election=election)


def _check_certificate(config: Config, source: Source) -> None:
    admission = config.admission
    pair = {"admission.certificate": admission.certificate, "admission.key": admission.key}
    given = [key for key, path in pair.items() if path]
    missing = [key for key, path in pair.items() if not path]
    if admission.address is None:
        return
    if given and admission.self_signed:
        raise wrong(source.name("admission.selfSigned"), "true", f"false where {given[0]} is given")
    if given and missing:
        raise wrong(source.name(missing[0]), "", f"given where {given[0]} is")
    if missing and not admission.self_signed:
        address = f"admission.address is {admission.address} (or admission.selfSigned be true, or the address empty)"
        names = " and ".join(_together(source, *missing))
        raise WireError(f"{names} are (empty), must be given where {address}")


def _together(source: Source, first: str, second: str) -> tuple[str, str]:
    """Two keys as one sentence names them: the file once."""
    name = source.name(second)
    return source.name(first), name.removeprefix(f"config {source.path}: ")


def _check_own_pod(config: Config, source: Source) -> None:
    pod = {"pod.name": config.pod.name, "pod.namespace": config.pod.namespace}
    missing = [key for key, value in pod.items() if not value]
    if len(missing) == 1:
        [other] = pod.keys() - missing
        variable = missing[0].replace(".", "_").upper()
        raise wrong(source.name(missing[0]), "", f"given where {other} is (${variable} is not set either)")


def _check_addresses(config: Config, source: Source) -> None:
    listening = {
        "extender.address": config.extender.address,
        "admission.address": config.admission.address,
        "metrics.address": config.metrics.address,
    }
    for (key, one), (other_key, other) in combinations(listening.items(), 2):
        if one is None or other is None or one.port != other.port or one.port == 0:
            continue
        if one.is_any or other.is_any or one.host == other.host:
            culprit, rest = _culprit(source, other_key, key)
            raise wrong(source.name(culprit), str(listening[culprit]), f"another port than {rest} has")


def _check_resources(config: Config, source: Source) -> None:
    """A resource means one thing of one family."""
    seen: dict[str, str] = {}
    for family in config.families():
        for name in FAMILY_FIELDS:
            value = getattr(family, name)
            if not name.endswith("_resource") or not value:
                continue
            key = family_key(family, name)
            if value in seen:
                culprit, rest = _culprit(source, key, seen[value])
                raise wrong(source.name(culprit), value, f"another resource than {rest} has")
            seen[value] = key


def _culprit(source: Source, *keys: str) -> tuple[str, ...]:
    """Keys that do not go together, the one that somebody wrote first."""
    return tuple(sorted(keys, key=lambda key: key not in source.given))
