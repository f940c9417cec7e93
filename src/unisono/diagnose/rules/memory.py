"""A machine or a GPU is nearly out of memory."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.load import GpuUse, Load
from unisono.diagnose.report import Finding
from unisono.diagnose.words import count, percent
from unisono.units import amount_of_bytes


@dataclass(frozen=True)
class Memory:
    """Memory came near its limit; for GPUs nearer, for torch keeps what it once had."""

    share: float = 0.92
    gpu_share: float = 0.97

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        loads = case.loads
        machines = [_machine(load) for load in loads if load.memory >= self.share]
        gpus = [
            Finding(
                id="memory",
                severity="info",
                summary=f"GPU {gpu.index} of {gpu.host} filled {percent(gpu.memory_share)} of "
                "its memory.",
                evidence=("a longer batch than any so far may not fit", *_whose(gpu)),
                advice="Lower `batching.tokens_per_micro_batch`; the update stays the same.",
                about=f"{gpu.host}, GPU {gpu.index}",
            )
            for load in loads
            for gpu in load.gpus
            if gpu.memory_share is not None and gpu.memory_share >= self.gpu_share
        ]
        return (*machines, *gpus)


def _machine(load: Load) -> Finding:
    return Finding(
        id="memory",
        severity="warning",
        summary=f"{load.host} used up to {percent(load.memory)} of its "
        f"{amount_of_bytes(load.memory_limit)} of memory.",
        evidence=(f"the run's own processes had {amount_of_bytes(load.own_memory)}",),
        advice="A process that asks for more is killed. Lower "
        "`batching.tokens_per_micro_batch`, start fewer workers on it, or end what else runs "
        "there.",
        about=load.host,
    )


def _whose(gpu: GpuUse) -> list[str]:
    """Return how much of a GPU's memory is the run's, and who else is there."""
    lines = []
    if gpu.own_memory_share is not None:
        lines.append(f"the run's own processes had {percent(gpu.own_memory_share)} of it")
    if gpu.others:
        lines.append(
            f"{count(gpu.others, 'other process', 'other processes')} computed on it, too"
        )
    return lines
