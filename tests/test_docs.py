"""The docs say what the code does: commands run, names exist, tables match."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cardwise.cli.main import COMMANDS
from cardwise.core.checks import CHECKS

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT) for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"`(?:src/cardwise/)?((?:core|wire|scheduler|sim|cli)/[a-z_]+\.py)`")
_NAME = re.compile(r"`(\w+)`")


def commands() -> list[tuple[str, str]]:
    """Every command of ours that a page shows as one to run as it stands."""
    found = []
    for page in PAGES:
        for block in _SHELL.findall((ROOT / page).read_text()):
            found += [(str(page), line) for line in block.splitlines() if line.startswith("cardwise ")]
    return found


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda value: value[:60])
def test_commands_in_the_docs_run(page: str, command: str) -> None:
    """Exit code 1 says that a pod waits, which examples may show; 2 would be wrong input."""
    words = shlex.split(command, comments=True)[1:]
    done = subprocess.run([sys.executable, "-m", "cardwise", *words], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    assert done.stdout


def test_the_readme_shows_what_simulate_prints() -> None:
    command = [sys.executable, "-m", "cardwise", "simulate", "examples/cluster.yaml"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    shown = (ROOT / "README.md").read_text()
    assert "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_and_has_help(name: str) -> None:
    assert f"cardwise {name} " in (ROOT / "README.md").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "cardwise", name, "--help"], capture_output=True, text=True, check=True
    )
    assert "Exit code" in done.stdout


def test_the_table_of_checks_in_the_docs_is_the_table_in_the_code() -> None:
    page = (ROOT / "docs" / "choosing-cards.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| `([A-Z]\w+)` \| .* \| (yes|no) \|$", page, re.MULTILINE)
    assert rows == [(check.name, check.code, "no" if check.lasting else "yes") for check in CHECKS]


def test_one_pod_names_modules_and_things_that_exist() -> None:
    page = (ROOT / "docs" / "one-pod.md").read_text()
    modules = _MODULE.findall(page)
    assert len(modules) > 15
    source = "\n".join((ROOT / "src" / "cardwise" / module).read_text() for module in modules)
    names = {name for name in _NAME.findall(page) if name not in ("uuid", "explain")}
    missing = [name for name in names if not re.search(rf"\b{name}\b", source)]
    assert missing == []


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text()
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"
