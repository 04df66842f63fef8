"""Reviews and their answers, whole, as they go over the wire; the patch is shown decoded.

REGOLD=1 in the environment writes the answers anew.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cardwise.scheduler.webhook import Policy, View, review
from commands import GOLDEN, golden
from manifests import Object
from scheduler.reviews import SCHEDULER

POLICY = Policy(runtime_class="nvidia", writers=frozenset((SCHEDULER,)))
FILES = sorted((GOLDEN / "admission").glob("*.json"))


def answer_to(asked: Object) -> Object:
    """The answer, with the patch as the operations that its text holds."""
    reviewed = review(json.dumps(asked).encode(), POLICY, View())
    answer: Object = json.loads(reviewed.body)
    response = answer["response"]
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
    return {"review": asked, "answer": answer, "outcome": reviewed.outcome.value, "says": reviewed.says}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    asked = json.loads(path.read_text(encoding="utf-8"))["review"]
    found = json.dumps(answer_to(asked), indent=2, ensure_ascii=False) + "\n"
    assert found == golden(f"admission/{path.name}", found)


def test_there_are_golden_pairs() -> None:
    assert len(FILES) >= 12
