"""What the memory of machines has to hold, also what probes without an exchange do not see."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.cost_model.exchange import BYTES_PER_FLOAT32
from unisono.cost_model.probe_results import ProbeResults, Process
from unisono.cost_model.strategies import STRATEGIES


@dataclass(frozen=True)
class MemoryNeed:
    """What is needed of the memory of a machine, or of its fullest device, and what it has."""

    needed: int
    there: int

    @property
    def share(self) -> float:
        """Return how full it will be; more than 1 does not fit."""
        return self.needed / max(1, self.there)


def exchange_memory(
    parameters: int, strategy: str, processes: int, *, momentum: bool = False
) -> int:
    """Return the bytes that each of several processes keeps for the exchange with the others.

    `strategy` is what `sync.strategy` calls it; `momentum` says whether the outer optimizer of
    local updates has one.
    """
    if processes == 1:
        return 0
    facts = STRATEGIES[strategy]
    numbers = facts.kept_numbers + (momentum and facts.keeps_momentum)
    return numbers * BYTES_PER_FLOAT32 * parameters


def memory_of(measured: ProbeResults, ranks: Sequence[int], strategy: str) -> MemoryNeed:
    """Return the memory of the machine with these `ranks`.

    Its processes share that of the processors; of devices that each has for itself, it is the
    fullest.
    """
    job, processes = measured.job, [measured.processes[rank] for rank in ranks]
    more = exchange_memory(
        job.parameters, strategy, len(measured.processes), momentum=job.outer_momentum
    )
    if all(process.device == "cpu" for process in processes):
        whole = sum(process.peak_bytes + more for process in processes)
        return MemoryNeed(whole, min(process.memory_bytes for process in processes))
    return max((_of_one(process, more) for process in processes), key=lambda one: one.share)


def _of_one(process: Process, more: int) -> MemoryNeed:
    return MemoryNeed(process.peak_bytes + more, process.memory_bytes)
