"""NVIDIA GPUs through NVML; none without the library or a device."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

from unisono.records.monitor_events import Gpu

try:
    import pynvml
except ImportError:  # pragma: no cover  it is a dependency, but need not be there
    pynvml = None

T = TypeVar("T")

# Bits of NVML's "clocks event reasons", which have had two names; an idle GPU is none of them.
THROTTLE_REASONS = {
    0x2: "application clocks",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "hardware heat",
    0x80: "power brake",
    0x100: "display clocks",
}


class Gpus:
    """The GPUs of the run, or else those that this process may use; none without NVML.

    NVML lists every GPU of the machine. `visible` names ours in the form of
    `CUDA_VISIBLE_DEVICES`, its default; the position in this list is the index in CUDA.
    """

    def __init__(
        self, nvml: ModuleType | Any | None = pynvml, visible: str | None = None
    ) -> None:
        """Open NVML; `nvml` is the module, or an object with its functions."""
        self._nvml, self._handles = nvml, dict[int, Any]()
        if nvml is None:
            return
        if visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        with suppress(nvml.NVMLError):
            nvml.nvmlInit()
            names = _all(nvml.nvmlDeviceGetCount()) if visible is None else visible.split(",")
            named = [name.strip() for name in names if name.strip()]
            found = {number: self._handle(name) for number, name in enumerate(named)}
            self._handles = {n: handle for n, handle in found.items() if handle is not None}

    def _handle(self, name: str) -> Any:
        """Return the device of an index, or of a name such as GPU-8932f937 or MIG-…, or None.

        As in CUDA, the beginning of a name is enough.
        """
        if name.isdecimal():
            return self._ask("nvmlDeviceGetHandleByIndex", int(name))
        handle = self._ask("nvmlDeviceGetHandleByUUID", name)
        for number in range(self._ask("nvmlDeviceGetCount") or 0) if handle is None else ():
            one = self._ask("nvmlDeviceGetHandleByIndex", number)
            if str(self._ask("nvmlDeviceGetUUID", one) or "").startswith(name):
                return one
        return handle

    @property
    def numbers(self) -> list[int]:
        """Return the indices of the GPUs that exist."""
        return list(self._handles)

    def names(self) -> list[str]:
        """Return the names of the devices."""
        return [
            str(self._ask("nvmlDeviceGetName", one) or "") for one in self._handles.values()
        ]

    def look(self, pids: Collection[int] = ()) -> list[Gpu]:
        """Return a sample of each device, without the values that its driver does not give.

        `pids` are the processes of the run, whose memory is counted on its own.
        """
        return [self._one(number, one, pids) for number, one in self._handles.items()]

    def _one(self, index: int, handle: Any, pids: Collection[int]) -> Gpu:
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        clock = getattr(self._nvml, "NVML_CLOCK_SM", 1)
        own_memory, others = self._shares(handle, pids)
        return Gpu(
            index=index,
            utilisation=None if rates is None else rates.gpu / 100,
            watts=_thousandth(self._ask("nvmlDeviceGetPowerUsage", handle)),
            limit_watts=_thousandth(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            mhz=self._ask("nvmlDeviceGetClockInfo", handle, clock),
            most_mhz=self._ask("nvmlDeviceGetMaxClockInfo", handle, clock),
            memory_used=None if memory is None else memory.used,
            memory_total=None if memory is None else memory.total,
            throttled=self._reasons(handle),
            own_memory=own_memory,
            others=others,
            # 1 stands for errors that could not be corrected, 0 for those since the last load.
            ecc_errors=self._ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
            nvlink_bytes=self._nvlink_bytes(handle),
            celsius=self._ask("nvmlDeviceGetTemperature", handle, 0),
        )

    def _nvlink_bytes(self, handle: Any) -> int | None:
        """Return the bytes over all NVLinks of a device, both ways; None without NVLink."""
        names = (
            "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
            "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
        )
        fields = [getattr(self._nvml, name, None) for name in names]
        if None in fields:
            return None
        found = self._ask("nvmlDeviceGetFieldValues", handle, fields)
        if found is None or any(one.nvmlReturn for one in found):
            return None
        return sum(int(one.value.ullVal) for one in found) * 1024  # in KiB

    def _shares(self, handle: Any, pids: Collection[int]) -> tuple[int | None, int | None]:
        """Return the memory of `pids`, and how many other processes compute on the device.

        The driver knows the pids of the host, which differ from those of a container: if it
        names none of ours, we cannot tell whose the others are.
        """
        there = self._ask("nvmlDeviceGetComputeRunningProcesses", handle) or []
        ours = [process for process in there if process.pid in pids]
        if not ours:
            return None, None
        memory = [process.usedGpuMemory for process in ours]
        known = None if any(used is None for used in memory) else sum(memory)
        return known, len(there) - len(ours)

    def _reasons(self, handle: Any) -> list[str]:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return [name for bit, name in THROTTLE_REASONS.items() if (bits or 0) & bit]

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Return the result of a query, or None if device or library do not support it."""
        question: Callable[..., Any] | None = getattr(self._nvml, function, None)
        if question is None or self._nvml is None:
            return None
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def _all(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000
