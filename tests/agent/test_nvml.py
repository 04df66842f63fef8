"""NVML behind the probe: sentences where it is absent, nothing lost, nobody held up; and that the stand-in is like it."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.fake_nvml import CONSTANTS, Gpu, Machine
from cardwise.agent import nvml
from cardwise.agent.nvml import NvmlProbe
from cardwise.agent.probe import HealthEvent, Probe, ProbeError

XID_79 = HealthEvent(uuid="GPU-a", healthy=False, why="the driver reported XID 79", xid=79)


def play(machine: Machine, story: Callable[[NvmlProbe], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        probe = NvmlProbe(machine.module(), sysfs=Path("/nowhere"), poll_milliseconds=20, **options)
        typed: Probe = probe
        try:
            await story(probe)
        finally:
            await typed.close()

    asyncio.run(whole())


ABSENT = {
    "no library": (
        12,
        "NVML cannot be used: NVML_ERROR_LIBRARY_NOT_FOUND (libnvidia-ml.so.1 is not to be found: is the driver ",
    ),
    "no driver": (
        9,
        "NVML cannot be used: NVML_ERROR_DRIVER_NOT_LOADED (the driver's kernel module is not loaded, or ",
    ),
    "another error": (999, "NVML cannot be used: NVML_ERROR_UNKNOWN"),
}


@pytest.mark.parametrize(("code", "sentence"), ABSENT.values(), ids=ABSENT)
def test_an_absent_library_is_one_sentence_and_is_tried_again(code: int, sentence: str) -> None:
    machine = Machine(gpus=[Gpu("GPU-a")], errors={"nvmlInit": code})

    async def story(probe: NvmlProbe) -> None:
        for ask in (probe.find, probe.changes, probe.find):
            with pytest.raises(ProbeError) as caught:
                await ask()
            assert str(caught.value).startswith(sentence)
            assert str(caught.value).isprintable()
        machine.errors = {}
        assert [card.uuid for card in (await probe.find()).cards] == ["GPU-a"]

    play(machine, story)


def test_changes_are_waited_for_while_cards_are_found() -> None:
    machine = Machine(gpus=[Gpu("GPU-a")])

    async def story(probe: NvmlProbe) -> None:
        waiting = asyncio.ensure_future(probe.changes())
        for _look in range(3):
            assert [card.fault for card in (await probe.find()).cards] == [""]
        assert not waiting.done()
        machine.queue.append((machine.gpus[0], 79))
        assert await waiting == (XID_79,)
        assert [card.fault for card in (await probe.find()).cards] == [XID_79.why]

    play(machine, story)


def test_a_caller_that_stops_waiting_loses_nothing() -> None:
    machine = Machine(gpus=[Gpu("GPU-a")])

    async def story(probe: NvmlProbe) -> None:
        await probe.find()
        waiting = asyncio.ensure_future(probe.changes())
        await asyncio.sleep(0.05)
        machine.queue.append((machine.gpus[0], 79))
        waiting.cancel()
        await asyncio.sleep(0.05)
        assert await probe.changes() == (XID_79,)

    play(machine, story)


def test_a_driver_that_hangs_holds_nobody_up() -> None:
    machine = Machine(gpus=[Gpu("GPU-a")], hang_seconds=0.3)

    async def story(probe: NvmlProbe) -> None:
        with pytest.raises(ProbeError, match=re.escape("NVML does not answer within 0.05 s")):
            await probe.find()
        machine.hang_seconds = 0
        await asyncio.sleep(0.4)
        assert len((await probe.find()).cards) == 1

    play(machine, story, find_seconds=0.05)


def test_without_health_changes_never_come() -> None:
    async def story(probe: NvmlProbe) -> None:
        assert len((await probe.find()).cards) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await probe.changes()

    play(Machine(gpus=[Gpu("GPU-a")]), story, ignored=None)


def test_closing_lets_nvml_go() -> None:
    machine = Machine(gpus=[Gpu("GPU-a")])

    async def story(probe: NvmlProbe) -> None:
        await probe.find()

    play(machine, story)
    assert (machine.opened, machine.closed) == (1, 1)


def test_a_package_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(ProbeError, match="the Python package nvidia-ml-py is not installed"):
        nvml.load_library()


@pytest.fixture(name="pynvml")
def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        pytest.skip("nvidia-ml-py is not installed")


def test_the_stand_in_has_the_librarys_names_and_numbers(pynvml: Any) -> None:
    stand_in = vars(Machine().module())
    for name in stand_in.keys() - CONSTANTS.keys():
        assert callable(getattr(pynvml, name))
    assert {name: getattr(pynvml, name) for name in CONSTANTS} == CONSTANTS


def test_the_librarys_structures_have_the_fields_that_are_read(pynvml: Any) -> None:
    structures = {
        "nvmlPciInfo_t": {"busId"},
        "c_nvmlMemory_t": {"total"},
        "c_nvmlEventData_t": {"device", "eventType", "eventData"},
        "c_nvmlFieldValue_t": {"nvmlReturn", "value"},
        "c_nvmlValue_t": {"uiVal"},
    }
    for structure, fields in structures.items():
        assert fields <= {name for name, *_type in getattr(pynvml, structure)._fields_}


def test_the_library_itself_without_a_driver_is_one_sentence(pynvml: Any) -> None:
    async def story() -> str:
        probe = NvmlProbe(pynvml)
        try:
            await probe.find()
        except ProbeError as error:
            return str(error)
        finally:
            await probe.close()
        return "there is a driver"

    assert asyncio.run(story()).startswith(("NVML cannot be used: ", "there is a driver"))
