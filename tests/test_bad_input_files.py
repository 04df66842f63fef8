"""Files that are wrong: the path, the line and what is wrong are told, nothing else is lost, and nothing crashes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardwise.sim import documents as reader
from cardwise.sim.documents import documents
from cardwise.sim.snapshot import Snapshot, load
from commands import as_json, process, run
from manifests import card_records, list_object, node_object, pod_object, to_json, to_yaml, write

GOOD = (node_object("n1"), pod_object("p", gpu=1))


def put(folder: Path, text: str | bytes, name: str = "input.yaml") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


NOT_YAML = [
    pytest.param("a: 1\nb: [1,\n", "line 3, column 1", id="open-bracket"),
    pytest.param("a:\n\tb: 2\n", "line 2, column 2", id="tab"),
    pytest.param('a: 1\nb: "x\n', "line 2, column 4", id="open-quote"),
    pytest.param("a: 1\n---\nb: *nothing\n", "line 3", id="unknown-alias"),
    pytest.param('{"a": 1,\n "b": }}\n', "line 2", id="json"),
    pytest.param('{"kind": "Pod"', "line 2, column 1", id="json-cut-short"),
    pytest.param("a: 1\n\x00\nb: 2\n", "line 2", id="what-follows-a-nul-is-not-read"),
    pytest.param(b"ok: 1\n\xff\xfe\x00binary", "line 2: is no UTF-8 text (byte 0xff)", id="binary"),
    pytest.param("kind: Pod\n".encode("utf-16"), "line 1: is no UTF-8 text", id="utf-16"),
    pytest.param("[" * 100_000, "nested too deeply", id="deep-json"),
    pytest.param('{"a":' * 3000 + "1" + "}" * 3000, "nested too deeply", id="deep-json-that-ends"),
]


@pytest.mark.parametrize(("text", "says"), NOT_YAML)
def test_a_file_that_is_not_yaml_is_told_and_the_others_are_read(text: str | bytes, says: str, tmp_path: Path) -> None:
    bad = put(tmp_path, text, "bad.yaml")
    result = run("simulate", bad, write(tmp_path, *GOOD))
    assert result.exit_code == 2
    assert "1 of 1 pods placed" in result.stdout
    assert f"error: {bad}" in result.stderr
    assert says in result.stderr
    assert len(result.stderr) < 1000


def test_yaml_nested_without_end_does_not_kill_the_process(tmp_path: Path) -> None:
    done = process("simulate", put(tmp_path, "- " * 200_000 + "x", "deep.yaml"), write(tmp_path, *GOOD))
    assert done.returncode == 2
    assert b"1 of 1 pods placed" in done.stdout


def test_aliases_that_multiply_do_not_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    bad = put(tmp_path, "\n".join(lines), "bomb.yaml")
    done = process("simulate", bad, write(tmp_path, *GOOD))
    assert done.returncode == 2
    assert b"1 of 1 pods placed" in done.stdout
    assert f"{bad}, line ".encode() in done.stderr


@pytest.mark.parametrize(
    ("name", "says"), [("none.yaml", "No such file or directory"), ("", "Is a directory")], ids=["missing", "directory"]
)
def test_a_file_that_cannot_be_read_among_good_ones(name: str, says: str, tmp_path: Path) -> None:
    good = write(tmp_path, *GOOD)
    result = run("simulate", good, str(tmp_path / name))
    assert result.exit_code == 2
    assert says in result.stderr
    assert "1 of 1 pods placed" in result.stdout


def test_the_error_stands_in_the_object_too(tmp_path: Path) -> None:
    found = as_json("simulate", put(tmp_path, "a: [", "bad.yaml"), write(tmp_path, *GOOD))
    assert len(found["placements"]) == 1
    assert found["warnings"][0].startswith("error: ")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "---\n---\n# x\n", "null\n", "kind: List\napiVersion: v1\nitems: []\n"]
)
def test_a_file_with_nothing_in_it_is_no_error(text: str, tmp_path: Path) -> None:
    result = run("simulate", put(tmp_path, text))
    assert (result.exit_code, result.stdout.strip()) == (0, "0 of 0 pods placed; 0 pending")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeff" + to_yaml(*GOOD), id="byte-order-mark"),
        pytest.param(to_yaml(*GOOD).replace("\n", "\r\n"), id="crlf"),
        pytest.param("\ufeff" + to_json(list_object(GOOD)), id="byte-order-mark-json"),
        pytest.param(to_json(list(GOOD)), id="json-array"),
        pytest.param(to_json(GOOD[0]) + "\n---\n" + to_json(GOOD[1]) + "\n", id="json-documents"),
        pytest.param(to_yaml(*GOOD) + "...\n", id="document-end"),
        pytest.param(json.dumps(list_object(GOOD), indent=4), id="indented-json"),
        pytest.param(to_yaml(list_object(GOOD)), id="yaml-list"),
        pytest.param(to_yaml({**list_object(GOOD), "kind": "PodList"}), id="typed-list"),
        pytest.param(
            to_yaml(*GOOD, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}), id="other-kinds"
        ),
        pytest.param("# first\n" + to_yaml(*GOOD), id="comment-first"),
    ],
)
def test_ways_of_writing_the_same(text: str, tmp_path: Path) -> None:
    result = run("simulate", put(tmp_path, text))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 of 1 pods placed" in result.stdout


def test_a_list_inside_a_list_is_read_or_told(tmp_path: Path) -> None:
    result = run("simulate", write(tmp_path, list_object([list_object(GOOD)])))
    assert "1 of 1 pods placed" in result.stdout or "skipped" in result.stderr


def test_json_documents_one_a_line_are_read_as_several(tmp_path: Path) -> None:
    result = run("simulate", put(tmp_path, "".join(to_json(each) + "\n" for each in GOOD)))
    assert "1 of 1 pods placed" in result.stdout


def test_two_lists_without_a_line_between_lose_nothing_silently(tmp_path: Path) -> None:
    """`kubectl get nodes -o yaml > f; kubectl get pods -A -o yaml >> f`: every key stands there twice."""
    text = "".join(to_yaml(list_object([each])).removeprefix("---\n") for each in GOOD)
    result = run("simulate", put(tmp_path, text))
    assert "1 of 1 pods placed" in result.stdout or result.exit_code == 2


def test_a_key_that_is_there_twice_is_told(tmp_path: Path) -> None:
    text = to_yaml(*GOOD).replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1\n          nvidia.com/gpu: 2")
    assert text.count("nvidia.com/gpu:") == 2
    result = run("simulate", put(tmp_path, text))
    assert result.stderr != ""


NO_OBJECTS = [
    "just text",
    "5",
    "- 1\n- two\n",
    "a: 1",
    "kind: Pod",
    "apiVersion: v1",
    "kind: 5\napiVersion: v1",
    "!foo {a: 1}",
]


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_a_document_that_is_no_object_is_named_skipped_and_counted(text: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"{text}\n", "odd.yaml")
    result = run("simulate", path, write(tmp_path, *GOOD))
    assert result.exit_code == 0
    assert f"warning: {path}" in result.stderr
    assert "is no Kubernetes object (no apiVersion and kind), skipped" in result.stderr
    assert re.search(r"documents? w(as|ere) skipped", result.stderr)
    assert "1 of 1 pods placed" in result.stdout


def test_the_number_of_the_document_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, to_yaml(GOOD[0], {"a": 1}, GOOD[1]))
    assert f"{path}, document 2: is no Kubernetes object" in run("simulate", path).stderr


def test_anchors_and_merged_aliases_are_followed(tmp_path: Path) -> None:
    text = to_yaml(GOOD[0]) + (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "  - {name: a, resources: &r {limits: {nvidia.com/gpu: 1}}}\n  - {name: b, resources: *r}\n"
    )
    found = as_json("simulate", put(tmp_path, text))
    assert [container["name"] for container in found["placements"][0]["containers"]] == ["a", "b"]


@pytest.mark.parametrize("tag", ["!secret", "!!binary", "!!timestamp"])
def test_tags_are_no_crash(tag: str, tmp_path: Path) -> None:
    text = to_yaml(*GOOD).replace("name: p\n", f"name: {tag} p\n")
    assert text.count(tag) == 1
    result = run("simulate", put(tmp_path, text))
    assert result.exit_code == 2
    assert "Pod" in result.stderr


@pytest.mark.parametrize("key", ["? [a, b]\n: 1\n", "? {c: d}\n: 1\n", "1: 2\ntrue: 3\n", "~: 1\n"])
def test_keys_that_are_no_text_are_no_crash(key: str, tmp_path: Path) -> None:
    result = run("simulate", put(tmp_path, to_yaml(GOOD[0]) + "---\n" + key), write(tmp_path, GOOD[1], name="b.yaml"))
    assert "1 of 1 pods placed" in result.stdout


# -- a large list, read in pieces --------------------------------------------------------------------------------------


def large(items: list[Any], tail: str = 'kind: List\nmetadata:\n  resourceVersion: ""\n') -> str:
    """What kubectl prints, several pieces long."""
    filler = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"text": "y" * 2000}}
    some = [filler] * (2 * reader.PIECE_CHARACTERS // 2000 + 100)
    inside = to_yaml([GOOD[0], *some, *items]).removeprefix("---\n").removesuffix("...\n")
    return f"apiVersion: v1\nitems:\n{inside}{tail}"


def read(path: str) -> Snapshot:
    return load([path])


def test_a_large_list_is_read_in_pieces_and_whole(tmp_path: Path) -> None:
    text = large([GOOD[1], pod_object("q", gpu=1)])
    assert len(text) > 2 * reader.PIECE_CHARACTERS
    assert reader._pieces(text) is not None
    snapshot = read(put(tmp_path, text))
    assert (snapshot.errors, snapshot.warnings) == ([], [])
    assert [pod.metadata.name for pod in snapshot.pods] == ["p", "q"]


def test_progress_adds_up_to_about_the_whole(tmp_path: Path) -> None:
    text = large([GOOD[1]])
    done: list[int] = []
    assert len(list(documents("x", text, done.append))) > 2000
    assert len(done) > 1
    assert 0 <= len(text) - sum(done) < 200


@pytest.mark.parametrize("bad", ["  broken: [\n", "  a: 'open\n"])
def test_an_error_in_the_middle_has_the_line_of_the_whole_file(bad: str, tmp_path: Path) -> None:
    lines = large([GOOD[1]]).splitlines(keepends=True)
    at = len(lines) * 2 // 3
    while not lines[at].startswith("- "):
        at += 1
    lines.insert(at, f"- kind: Pod\n{bad}")
    [error] = read(put(tmp_path, "".join(lines))).errors
    line = int(error.partition(", line ")[2].partition(",")[0])
    # A scalar or list that is left open is an error where it begins or anywhere after, in its own piece.
    assert at < line <= len(lines) + 2
    whole = reader._parse
    with pytest.raises(reader.InputError) as at_once:
        whole("x", "".join(lines), 0)
    expected = int(str(at_once.value).partition(", line ")[2].partition(",")[0])
    assert abs(line - expected) <= 1


def test_a_wrong_object_late_in_a_large_list_is_named_by_its_number(tmp_path: Path) -> None:
    snapshot = read(put(tmp_path, large([pod_object("bad", gpu=True), GOOD[1]])))
    number = 2 + 2 * reader.PIECE_CHARACTERS // 2000 + 100
    assert f"item {number}: Pod bad" in snapshot.errors[0]
    assert len(snapshot.pods) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(large([GOOD[1]], tail=""), id="no-tail"),
        pytest.param(large([GOOD[1]], tail="kind: List\n"), id="short-tail"),
        pytest.param(large([GOOD[1]]).replace("\n", "\r\n"), id="crlf"),
        pytest.param("---\n" + large([GOOD[1]]), id="document-start"),
        pytest.param(large([], tail="# more\n" + to_yaml([GOOD[1]]).removeprefix("---\n")), id="comment-between-items"),
        pytest.param(large([], tail="kind: List\n---\n" + to_yaml(GOOD[1])), id="another-document"),
    ],
)
def test_large_lists_of_other_looks_lose_nothing(text: str, tmp_path: Path) -> None:
    snapshot = read(put(tmp_path, text))
    assert snapshot.errors == []
    assert [pod.metadata.name for pod in snapshot.pods] == ["p"]


def test_what_follows_the_items_of_a_large_list_is_read_too(tmp_path: Path) -> None:
    small = "apiVersion: v1\nitems:\n- {}\nkind: List\nbroken: [\n"
    assert read(put(tmp_path, small)).errors != []
    assert read(put(tmp_path, large([GOOD[1]], tail="kind: List\nbroken: [\n"))).errors != []


def test_two_large_lists_one_after_another_lose_nothing_silently(tmp_path: Path) -> None:
    text = large([]) + large([GOOD[1]])
    snapshot = read(put(tmp_path, text))
    assert snapshot.errors or snapshot.pods


def test_a_large_json_list_is_read(tmp_path: Path) -> None:
    nodes = [node_object(f"n{n}", card_records(8, f"N{n}")) for n in range(300)]
    snapshot = read(put(tmp_path, to_json(list_object([*nodes, GOOD[1]])), "big.json"))
    assert (len(snapshot.nodes), len(snapshot.pods), snapshot.errors) == (300, 1, [])
