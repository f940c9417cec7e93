"""Machines that are short of cores or memory."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.machine_load import GpuUse, Load
from unisono.diagnose.report import Finding, finding
from unisono.diagnose.wording import count, percent
from unisono.units import amount_of_bytes


@dataclass(frozen=True)
class Oversubscribed:
    """The processes on the leading machine have more compute threads than it has cores."""

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
        return finding(
            "oversubscribed",
            f"{processes} on {starts[0].host} compute with {threads} threads, but "
            f"the machine has {count(cores, 'core')}.",
            "threads that share a core delay each other",
            severity="info",
            advice="Give each process fewer threads (`OMP_NUM_THREADS`).",
        )


@dataclass(frozen=True)
class StolenTime:
    """Other virtual machines on the host, or a CPU quota, took much of the processor time."""

    share: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for load in case.loads:
            found += _stolen(load) if load.steal >= self.share else ()
        for load in case.loads:
            found += _throttled(load) if load.held_back >= self.share else ()
        return tuple(found)


def _stolen(load: Load) -> tuple[Finding, ...]:
    return finding(
        "stolen_time",
        f"Other virtual machines took {percent(load.steal)} of the processor time of "
        f"{load.host}.",
        "the kernel counts this time as `steal`",
        advice="Rent a virtual machine with dedicated processors.",
        about=load.host,
    )


def _throttled(load: Load) -> tuple[Finding, ...]:
    return finding(
        "stolen_time",
        f"A CPU quota stopped the processes on {load.host} for {load.held_back:.2f} s "
        "in every second.",
        "the control group counts this time as `throttled_usec`",
        advice="Raise the container's CPU limit, or give each process fewer threads "
        "(`OMP_NUM_THREADS`).",
        about=f"{load.host}, by a quota",
    )


@dataclass(frozen=True)
class MemoryPressure:
    """A machine or a GPU is nearly out of memory (`Load.is_full`, `GpuUse.is_full`)."""

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for load in case.loads:
            found += _machine(load) if load.is_full else ()
        for gpu in (gpu for load in case.loads for gpu in load.gpus if gpu.is_full):
            found += finding(
                "memory",
                f"GPU {gpu.index} of {gpu.host} used up to {percent(gpu.memory_share or 0.0)} "
                "of its memory.",
                "a longer batch than any so far may not fit",
                *_whose(gpu),
                severity="info",
                advice="Lower `batching.tokens_per_micro_batch`; the updates stay the same.",
                about=f"{gpu.host}, GPU {gpu.index}",
            )
        return tuple(found)


def _machine(load: Load) -> tuple[Finding, ...]:
    return finding(
        "memory",
        f"{load.host} used up to {percent(load.memory)} of its "
        f"{amount_of_bytes(load.memory_limit)} of memory.",
        f"the run's own processes used {amount_of_bytes(load.own_memory)}",
        advice="The kernel kills a process that asks for more. Lower "
        "`batching.tokens_per_micro_batch`, start fewer workers on this machine, or stop other "
        "programs on it.",
        about=load.host,
    )


def _whose(gpu: GpuUse) -> list[str]:
    """Return how much of a GPU's memory the run uses, and who else uses the GPU."""
    lines = []
    if gpu.own_memory_share is not None:
        lines.append(f"the run's own processes used {percent(gpu.own_memory_share)} of it")
    if gpu.others:
        lines.append(
            f"{count(gpu.others, 'other process', 'other processes')} computed on it too"
        )
    return lines
