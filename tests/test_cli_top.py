"""`cardwise top`, as its users meet it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from commands import PROGRAM, as_json, golden, on_terminal, process, run
from manifests import Object, card_record, card_records, node_object, pod_object, running_pod, to_yaml, using, write


def used(name: str, *cards: tuple[str, int, int], node: str = "n1") -> Object:
    return running_pod(name, node, using(*cards), gpu=len(cards), gpumem=1)


def scene() -> list[Object]:
    cards = [card_record("GPU-0"), card_record("GPU-1", 1), card_record("GPU-2", 2, health=False)]
    return [
        node_object("n1", cards, annotations={"hami.io/device-cordon": "GPU-1"}),
        node_object("n2", card_records(1, "X", count=4)),
        node_object("cpu-only", [], key="none"),
        used("a", ("GPU-0", 12288, 50), ("GPU-1", 6144, 0)),
        used("b", ("GPU-0", 4096, 25)),
        used("over", ("X-0", 30000, 0), node="n2"),
        pod_object("waits", gpu=1),
    ]


def test_the_table_and_the_object_as_a_whole(tmp_path: Path) -> None:
    path = write(tmp_path, *scene())
    for form, ending in (("table", "txt"), ("json", "json")):
        printed = run("top", "-f", path, "-o", form)
        assert printed.exit_code == 0
        assert printed.stdout == golden(f"top.{ending}", printed.stdout)


def test_sums_of_cards_nodes_and_all(tmp_path: Path) -> None:
    found = as_json("top", "-f", write(tmp_path, *scene()))
    assert [node["node"] for node in found["nodes"]] == ["n1", "n2"]
    for total in ("slots", "memory", "cores"):
        unit = {"slots": "", "memory": "_mib", "cores": "_percent"}[total]
        for which in ("used", "total"):
            key = f"{total}_{which}{unit}"
            sums = [node["sum"][key] for node in found["nodes"]]
            assert [sum(card[key] for card in node["cards"]) for node in found["nodes"]] == sums
            assert sum(sums) == found["sum"][key]
    assert found["sum"]["memory_used_mib"] == 12288 + 6144 + 4096 + 30000


def test_more_in_use_than_there_is_shows_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, *scene())
    assert "30000/24576 MiB" in run("top", "-f", path).stdout
    assert as_json("top", "-f", path)["nodes"][1]["cards"][0]["memory_used_mib"] == 30000


def test_unhealthy_and_cordoned_cards_are_marked(tmp_path: Path) -> None:
    shown = run("top", "-f", write(tmp_path, *scene())).stdout
    assert "1: GPU-1 (cordoned)" in shown
    assert "2: GPU-2 (unhealthy)" in shown


def test_pods_stand_at_their_cards(tmp_path: Path) -> None:
    cards = as_json("top", "-f", write(tmp_path, *scene()))["nodes"][0]["cards"]
    assert [card["pods"] for card in cards] == [["ml/a", "ml/b"], ["ml/a"], []]


def test_a_node_out_of_service_is_shown_with_the_reason(tmp_path: Path) -> None:
    result = run("top", "-f", write(tmp_path, node_object("n1", "GPU-0,x,1:")))
    assert result.exit_code == 0
    assert "out of service: hami.io/node-nvidia-register: register, card 1 of 1 has 3 fields" in result.stdout
    assert "warning: node n1: out of service" in result.stderr


def test_a_pod_held_alone_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, node_object("n1", card_records(1)), used("a", ("GPU-0", 24576, 100)))
    assert as_json("top", "-f", path)["nodes"][0]["cards"][0]["exclusive"] is True


def test_no_bars_and_no_colours_in_a_pipe() -> None:
    done = process("top", "-f", "-", stdin=to_yaml(*scene()).encode())
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert "█".encode() not in done.stdout


@pytest.mark.parametrize("columns", [200, 80, 20])
def test_bars_on_a_terminal_of_any_width(columns: int, tmp_path: Path) -> None:
    code, shown = on_terminal("top", "-f", write(tmp_path, *scene()), columns=columns)
    assert code == 0
    assert "Traceback" not in shown
    if columns == 200:
        assert "█" * 13 + "·" * 7 in shown  # 16384 of 24576 MiB
        assert "\x1b[31m" + "█" * 20 in shown  # more than all, in red


def test_uuids_can_be_read_whole_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    node = node_object("j99cloudvm")
    _code, shown = on_terminal("top", "-f", write(tmp_path, node), columns=80)
    assert "GPU-03f69c50" in shown
    assert "46068" in shown


def test_a_reader_that_stops_reading_is_no_crash(tmp_path: Path) -> None:
    path = write(tmp_path, *(node_object(f"n{n}", card_records(8, f"N{n}")) for n in range(300)))
    command = ["/bin/bash", "-c", '"$@" | head -1', "bash", *PROGRAM, "top", "-f", path]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.stdout.startswith(b"NODE")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["table", "json"])
def test_nothing_at_all_is_no_crash(form: str, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("", encoding="utf-8")
    assert run("top", "-f", str(tmp_path / "empty.yaml"), "-o", form).exit_code == 0


def test_a_file_that_is_not_there_is_an_error_and_the_rest_is_shown(tmp_path: Path) -> None:
    result = run("top", "-f", str(tmp_path / "none.yaml"), "-f", write(tmp_path, *scene()))
    assert result.exit_code == 2
    assert "none.yaml: No such file or directory" in result.stderr
    assert "GPU-0" in result.stdout
