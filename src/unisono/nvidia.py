"""What NVIDIA's driver says about the GPUs of this machine. No torch here.

NVML knows all GPUs that this process may open, whether or not torch can use them. Where NVML
does not answer, device files and the PCI bus still tell whether there is a GPU.
"""

import os
import re
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

try:
    import pynvml
except ImportError:  # pragma: no cover  it is a dependency, but need not be there
    pynvml = None

VISIBLE = "CUDA_VISIBLE_DEVICES"
NVIDIA_VENDOR, COMPUTE_CARD = "0x10de", "0x0302"  # a class of PCI devices: no display
KERNEL_RECORD_BYTES = 2**16
Capability = tuple[int, int]
GPU_FAULT_FIX = (
    "look for `Xid` in the output of `dmesg`; reset the GPU (`nvidia-smi --gpu-reset`) or "
    "reboot, and replace the card if it happens again"
)
DRIVER_FIX = (
    "install or reload NVIDIA's driver (after an update: reboot); in a container, start it "
    "with its GPUs (`docker run --gpus all`)"
)


# Of torch: in a CUDA build the first one that is set counts.
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def keep_gpu_memory_whole(variables: MutableMapping[str, str]) -> None:
    """Let torch's blocks of GPU memory grow in place, unless the user has set how they do.

    Batches of all sizes would otherwise tear the memory to pieces. When torch reads this has
    changed from version to version: call it before torch is imported, where that is possible.
    """
    if not any(variables.get(name) for name in ALLOCATOR_VARIABLES):
        variables[ALLOCATOR_VARIABLES[0]] = "expandable_segments:True"


class GpuIdentity(msgspec.Struct, frozen=True):
    """A GPU as the driver names it; `fault` says why it cannot be used, if the driver does.

    `memory` is in bytes; 0 and (0, 0) are unknown. With `mig`, it is cut into slices.
    """

    name: str = ""
    uuid: str = ""
    capability: Capability = (0, 0)
    memory: int = 0
    mig: bool = False
    fault: str = ""


class Driver(msgspec.Struct, frozen=True):
    """The driver: its version, the newest CUDA it can run, its GPUs.

    `trouble` says why it does not answer, although there is a GPU.
    """

    version: str = ""
    cuda: Capability = (0, 0)
    gpus: tuple[GpuIdentity, ...] = ()
    trouble: str = ""

    @property
    def branch(self) -> int:
        """Return the first number of the version; 0 if it is unknown."""
        first = self.version.partition(".")[0]
        return int(first) if first.isdecimal() else 0

    def visible(self, variables: Mapping[str, str]) -> tuple[GpuIdentity, ...]:
        """Return the GPUs that CUDA may use: all, or those `CUDA_VISIBLE_DEVICES` names.

        CUDA numbers GPUs in another order than NVML, so of numbers only the count is certain.
        As CUDA does, stop at the first name that is wrong.
        """
        named = variables.get(VISIBLE)
        if named is None:
            return self.gpus
        found: list[GpuIdentity] = []
        for name in (part.strip() for part in named.split(",")):
            gpu = self._gpu_called(name)
            if gpu is None or gpu in found:
                break
            found.append(gpu)
        return tuple(found)

    def _gpu_called(self, name: str) -> GpuIdentity | None:
        if name.isdecimal():
            return self.gpus[int(name)] if int(name) < len(self.gpus) else None
        if name.startswith("MIG-"):
            return next((gpu for gpu in self.gpus if gpu.mig), None)
        return next((gpu for gpu in self.gpus if name and gpu.uuid.startswith(name)), None)

    def processes(self, variables: Mapping[str, str]) -> int:
        """Return how many processes can train here, each on a GPU of its own; 0 without GPUs.

        CUDA gives a process one MIG slice, and slices cannot talk to each other.
        """
        gpus = self.visible(variables)
        return 1 if any(gpu.mig for gpu in gpus) else len(gpus)


def read_driver(nvml: ModuleType | Any | None = pynvml, root: Path = Path("/")) -> Driver:
    """Ask the driver of this machine; `nvml` is anything that speaks like NVML."""
    if nvml is None:
        return Driver(trouble=_unanswered(root, "the package nvidia-ml-py is missing"))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Driver(trouble=_unanswered(root, _words(error)))
    try:
        count = nvml.nvmlDeviceGetCount()
        version = nvml.nvmlSystemGetCudaDriverVersion()
        gpus = [_identity(nvml, number) for number in range(count)]
        return Driver(
            version=str(nvml.nvmlSystemGetDriverVersion()),
            cuda=(version // 1000, version % 1000 // 10),
            gpus=tuple(gpu for gpu in gpus if gpu is not None),
        )
    except nvml.NVMLError as error:
        return Driver(trouble=f"the driver does not answer: {_words(error)}")
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _identity(nvml: Any, number: int) -> GpuIdentity | None:
    """Return one GPU; None if this process may not open it, as under Slurm."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        found = GpuIdentity(
            name=str(nvml.nvmlDeviceGetName(handle)),
            uuid=str(nvml.nvmlDeviceGetUUID(handle)),
            capability=(major, minor),
            memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        )
    except nvml.NVMLError as error:
        if isinstance(error, nvml.NVMLError_NoPermission):
            return None
        return GpuIdentity(name=f"GPU {number}", fault=_words(error))
    mig = False
    with suppress(nvml.NVMLError, AttributeError):
        mig = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    return msgspec.structs.replace(found, mig=mig)


def _words(error: Exception) -> str:
    return f"{error}".strip() or type(error).__name__


def _unanswered(root: Path, why: str) -> str:
    """Return what is wrong if there is a GPU whose driver does not answer, or ""."""
    files = [f for f in (root / "dev").glob("nvidia*") if f.name[6:].isdecimal()]
    if files:
        return f"{len(files)} NVIDIA GPUs have device files, but NVML does not answer: {why}"
    cards = [device.name for device in _pci(root) if _is_compute_card(device)]
    if cards:
        return f"an NVIDIA GPU is on the PCI bus ({cards[0]}), but no driver runs: {why}"
    return ""


def _pci(root: Path) -> list[Path]:
    directory = root / "sys/bus/pci/devices"
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _is_compute_card(device: Path) -> bool:
    try:
        vendor = (device / "vendor").read_text().strip()
        kind = (device / "class").read_text().strip()
    except OSError:
        return False
    return vendor == NVIDIA_VENDOR and kind.startswith(COMPUTE_CARD)


KERNEL_LOG = Path("/dev/kmsg")
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
XID_NAMES = {
    13: "an error of the program or the card",
    31: "a memory page fault",
    48: "a double-bit ECC error",
    63: "a memory row was remapped",
    64: "a memory row could not be remapped",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit ECC errors",
    94: "a contained ECC error",
    95: "an uncontained ECC error",
    119: "the GPU's own processor does not answer",
}


def recent_xids(log: Path = KERNEL_LOG) -> list[str]:
    """Return what the driver reported in the kernel's log, if this process may read it."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    found: dict[str, None] = {}
    try:
        while record := os.read(descriptor, KERNEL_RECORD_BYTES):
            for place, number in XID.findall(record.decode("utf-8", errors="replace")):
                name = XID_NAMES.get(int(number), "see NVIDIA's list")
                found[f"Xid {number} of the GPU at {place}: {name}"] = None
    except OSError:  # there is no more, or a record was overwritten
        pass
    finally:
        os.close(descriptor)
    return list(found)
