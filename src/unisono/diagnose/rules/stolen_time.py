"""Cores that are not there when they are needed."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.load import Load
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent


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
