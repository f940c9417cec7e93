"""More threads than cores.

Cores that are not there when they are needed.

A machine or a GPU is nearly out of memory.
"""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.machine_load import GpuUse, Load
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import count, percent
from unisono.units import amount_of_bytes


@dataclass(frozen=True)
class Oversubscribed:
    """The processes of the leading machine want more cores than it has."""

    most_threads_per_core: float = 1.0

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        cores, starts = case.run.environment.get("cores"), case.run.last_starts
        if not isinstance(cores, int) or cores < 1 or not starts:
            return ()
        here = [s for s in starts if s.host == starts[0].host and s.device == "cpu"]
        threads = sum(start.threads for start in here)
        if threads <= self.most_threads_per_core * cores:
            return ()
        processes = count(len(here), "process", "processes")
        return (
            Finding(
                id="oversubscribed",
                severity="info",
                summary=f"{processes} on {starts[0].host} compute with {threads} threads, but "
                f"it has {count(cores, 'core')}.",
                evidence=("threads that take turns on a core make each other late",),
                advice="Give each process fewer threads (`OMP_NUM_THREADS`).",
            ),
        )


@dataclass(frozen=True)
class StolenTime:
    """Other guests of the host, or a quota, took a good part of the processors' time."""

    share: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        loads = case.loads
        stolen = [_stolen(load) for load in loads if load.steal >= self.share]
        held = [_held_back(load) for load in loads if load.held_back >= self.share]
        return (*stolen, *held)


def _stolen(load: Load) -> Finding:
    return Finding(
        id="stolen_time",
        severity="warning",
        summary=f"Other guests of its host took {percent(load.steal)} of the processor time of "
        f"{load.host}.",
        evidence=("the kernel counts it as `steal`",),
        advice="A virtual machine with processors of its own does not share them.",
        about=load.host,
    )


def _held_back(load: Load) -> Finding:
    return Finding(
        id="stolen_time",
        severity="warning",
        summary=f"A quota held the processes of {load.host} back for {load.held_back:.2f} s in "
        "every second.",
        evidence=("the kernel counts it in the control group as `throttled_usec`",),
        advice="Raise the container's CPU limit, or give each process fewer threads "
        "(`OMP_NUM_THREADS`).",
        about=f"{load.host}, by a quota",
    )


@dataclass(frozen=True)
class MemoryPressure:
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
