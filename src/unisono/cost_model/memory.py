"""What the memory of machines has to hold, also what probes without an exchange do not see."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.cost_model.exchange import BYTES_PER_FLOAT32
from unisono.cost_model.probe_results import ProbeResults, Process

# Numbers that each strategy keeps for every weight besides weight, gradient and optimizer.
KEPT_NUMBERS = {
    "all_reduce": 2,  # the message, and its sum
    "ddp": 1,  # the buckets
    "compressed": 3,  # the buckets, what is left over, what an unsettled update leaves
    "powersgd": 3,  # as above
    "diloco": 3,  # the buckets, the weights all have in common, what is left over
}


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

    `strategy` is what `sync.strategy` calls it; `momentum` is that of diloco's outer optimizer.
    """
    if processes == 1:
        return 0
    numbers = KEPT_NUMBERS[strategy] + (momentum and strategy == "diloco")
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
