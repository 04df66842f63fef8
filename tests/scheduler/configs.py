"""Configuration files of tests, and what loading them says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cardwise.scheduler.config import Config, ConfigError
from cardwise.scheduler.config_file import load

SELF_SIGNED = "admission: {selfSigned: true}\n"
NO_WEBHOOK = {"admission.address": ""}


def file(folder: Path, text: str) -> Path:
    path = folder / "scheduler.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def loaded(folder: Path, text: str, flags: Mapping[str, str] = NO_WEBHOOK) -> Config:
    return load(file(folder, text), flags, {})


def refused(folder: Path, text: str, flags: Mapping[str, str] = NO_WEBHOOK) -> str:
    """The sentence, the file's name left out."""
    path = file(folder, text)
    with pytest.raises(ConfigError) as raised:
        load(path, flags, {})
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence.replace(str(path), "FILE")
