"""Stands in for NVML: what a driver of our choice would answer. No real GPU is behind it."""

from dataclasses import dataclass, field
from types import SimpleNamespace


class NvmlError(Exception):
    """Any error of NVML."""


class NoPermissionError(NvmlError):
    """This process may not open the GPU."""


@dataclass(frozen=True)
class Card:
    """A GPU as NVML describes it."""

    name: str = "Tesla V100-SXM2-16GB"
    uuid: str = "GPU-0"
    capability: tuple = (7, 0)
    memory: int = 16 * 2**30
    mig: bool = False
    error: Exception | None = None


def cards(*capabilities, **further):
    names = {(6, 0): "Tesla P100", (7, 0): "Tesla V100", (7, 5): "T4", (8, 0): "A100"}
    return [
        Card(names.get(one, f"sm {one}"), f"GPU-{number}", one, **further)
        for number, one in enumerate(capabilities)
    ]


@dataclass
class StandInNvml:
    """Speaks like pynvml about the GPUs `gpus`."""

    gpus: list = field(default_factory=list)
    driver: str = "580.65.06"
    cuda: int = 13000
    init_error: Exception | None = None
    NVMLError = NvmlError
    NVMLError_NoPermission = NoPermissionError

    def nvmlInit(self):  # noqa: N802
        if self.init_error:
            raise self.init_error

    def nvmlShutdown(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlSystemGetCudaDriverVersion(self):  # noqa: N802
        return self.cuda

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.driver

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        card = self.gpus[number]
        if card.error:
            raise card.error
        return card

    def nvmlDeviceGetCudaComputeCapability(self, card):  # noqa: N802
        return card.capability

    def nvmlDeviceGetName(self, card):  # noqa: N802
        return card.name

    def nvmlDeviceGetUUID(self, card):  # noqa: N802
        return card.uuid

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        return SimpleNamespace(total=card.memory, used=0, free=card.memory)

    def nvmlDeviceGetMigMode(self, card):  # noqa: N802
        if card.capability < (8, 0):
            raise NvmlError("Not Supported")
        return [int(card.mig), int(card.mig)]
