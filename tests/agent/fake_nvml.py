"""A stand-in for the C library: a machine's cards, and a module object that answers about them as `pynvml` does.

Names, constants and shapes of answers are pynvml's own (nvidia-ml-py 13); `test_nvml` holds them to the installed one.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

CONSTANTS = {
    "NVML_SUCCESS": 0,
    "NVML_ERROR_UNINITIALIZED": 1,
    "NVML_ERROR_NOT_SUPPORTED": 3,
    "NVML_ERROR_NO_PERMISSION": 4,
    "NVML_ERROR_DRIVER_NOT_LOADED": 9,
    "NVML_ERROR_TIMEOUT": 10,
    "NVML_ERROR_LIBRARY_NOT_FOUND": 12,
    "NVML_ERROR_FUNCTION_NOT_FOUND": 13,
    "NVML_ERROR_GPU_IS_LOST": 15,
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": 18,
    "NVML_ERROR_UNKNOWN": 999,
    "NVML_TOPOLOGY_INTERNAL": 0,
    "NVML_TOPOLOGY_SINGLE": 10,
    "NVML_TOPOLOGY_MULTIPLE": 20,
    "NVML_TOPOLOGY_HOSTBRIDGE": 30,
    "NVML_TOPOLOGY_NODE": 40,
    "NVML_TOPOLOGY_SYSTEM": 50,
    "NVML_NVLINK_MAX_LINKS": 36,
    "NVML_NVLINK_DEVICE_TYPE_GPU": 0,
    "NVML_NVLINK_DEVICE_TYPE_SWITCH": 2,
    "NVML_DEVICE_MIG_ENABLE": 1,
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": 230,
    "NVML_GPU_RECOVERY_ACTION_NONE": 0,
    "NVML_GPU_RECOVERY_ACTION_GPU_RESET": 1,
    "NVML_GPU_RECOVERY_ACTION_NODE_REBOOT": 2,
    "NVML_GPU_RECOVERY_ACTION_DRAIN_P2P": 3,
    "NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET": 4,
    "nvmlEventTypeXidCriticalError": 8,
}
NOT_SUPPORTED, TIMEOUT, LOST, UNKNOWN = 3, 10, 15, 999
XID_EVENT = CONSTANTS["nvmlEventTypeXidCriticalError"]
_MIB = 1 << 20


class NvmlError(Exception):
    """As pynvml's NVMLError: a code, and a text that says no more than the code."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return next((name for name, value in CONSTANTS.items() if value == self.value and "ERROR" in name), "error")


@dataclass
class Gpu:
    """What one card answers. `errors` are codes by question; None is NOT_SUPPORTED. Old drivers tell no `action`."""

    uuid: str
    name: str | Exception = "NVIDIA A40"
    memory_mib: int | None = 46068
    bus: str = "00000000:10:00.0"
    minor: int | None = 0
    mig: int | None = 0
    nvlinks: list[str] = field(default_factory=list)
    action: int | None = 0
    events: int = 0x1F
    errors: dict[str, int] = field(default_factory=dict)


@dataclass
class Machine:
    """The cards, paths between them by pair of UUIDs, and the events to come: (card or None, XID) or an error's code."""

    gpus: list[Gpu] = field(default_factory=list)
    paths: dict[frozenset[str], int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    queue: deque[tuple[Any, int] | int] = field(default_factory=deque)
    watched: list[str] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    hang_seconds: float = 0.0

    def module(self) -> Any:
        """What `import pynvml` would give on this machine."""
        methods = {
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetCount": lambda: self._say("nvmlDeviceGetCount", len(self.gpus)),
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetPciInfo": lambda gpu: _of(gpu, "bus", SimpleNamespace(busId=gpu.bus.encode())),
            "nvmlDeviceGetMemoryInfo": lambda gpu: _of(gpu, "memory", _memory(gpu)),
            "nvmlDeviceGetMigMode": lambda gpu: _of(gpu, "mig", None if gpu.mig is None else [gpu.mig, gpu.mig]),
            "nvmlDeviceGetUUID": lambda gpu: _of(gpu, "uuid", gpu.uuid),
            "nvmlDeviceGetName": lambda gpu: _of(gpu, "name", gpu.name),
            "nvmlDeviceGetMinorNumber": lambda gpu: _of(gpu, "minor", gpu.minor),
            "nvmlDeviceGetTopologyCommonAncestor": self._path,
            "nvmlDeviceGetNvLinkState": lambda gpu, link: _of(
                gpu, "nvlink", None if not gpu.nvlinks else _up(gpu, link)
            ),
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda gpu, link: 2 if gpu.nvlinks[link] == "switch" else 0,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda gpu, link: SimpleNamespace(busId=gpu.nvlinks[link].encode()),
            "nvmlDeviceGetFieldValues": _fields,
            "nvmlDeviceGetSupportedEventTypes": lambda gpu: _of(gpu, "events", gpu.events),
            "nvmlDeviceRegisterEvents": self._register,
            "nvmlEventSetCreate": self._event_set,
            "nvmlEventSetWait_v2": self._wait,
            "nvmlEventSetFree": lambda _events: None,
        }
        return SimpleNamespace(NVMLError=NvmlError, **CONSTANTS, **methods)

    def _say(self, question: str, answer: Any) -> Any:
        if question in self.errors:
            raise NvmlError(self.errors[question])
        return answer

    def _init(self) -> None:
        self._say("nvmlInit", None)
        self.opened += 1

    def _shutdown(self) -> None:
        self.closed += 1

    def _handle(self, number: int) -> Gpu:
        time.sleep(self.hang_seconds)
        gpu = self.gpus[number]
        _of(gpu, "handle", "")
        return gpu

    def _path(self, one: Gpu, other: Gpu) -> int:
        pair = frozenset((one.uuid, other.uuid))
        if pair not in self.paths:
            raise NvmlError(NOT_SUPPORTED)
        return self.paths[pair]

    def _event_set(self) -> str:
        self._say("nvmlEventSetCreate", None)
        self.watched.clear()
        return "events"

    def _register(self, gpu: Gpu, _types: int, _events: str) -> None:
        _of(gpu, "register", "")
        self.watched.append(gpu.uuid)

    def _wait(self, _events: str, milliseconds: int) -> Any:
        self._say("nvmlEventSetWait_v2", None)
        if not self.queue:
            time.sleep(min(milliseconds, 2) / 1000)
            raise NvmlError(TIMEOUT)
        event = self.queue.popleft()
        if isinstance(event, int):
            raise NvmlError(event)
        return SimpleNamespace(device=event[0], eventType=XID_EVENT, eventData=event[1])


def _of(gpu: Gpu, question: str, answer: Any) -> Any:
    if question in gpu.errors:
        raise NvmlError(gpu.errors[question])
    if isinstance(answer, Exception):
        raise answer
    if answer is None:
        raise NvmlError(NOT_SUPPORTED)
    return answer


def _memory(gpu: Gpu) -> Any:
    return None if gpu.memory_mib is None else SimpleNamespace(total=gpu.memory_mib * _MIB + 12345)


def _up(gpu: Gpu, link: int) -> int:
    return int(link < len(gpu.nvlinks) and gpu.nvlinks[link] != "down")


def _fields(gpu: Gpu, _numbers: list[int]) -> list[Any]:
    known = gpu.action is not None
    value = SimpleNamespace(uiVal=gpu.action or 0)
    return [SimpleNamespace(nvmlReturn=0 if known else NOT_SUPPORTED, value=value)]
