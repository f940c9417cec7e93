"""Muon's iteration, shared out over processes on CPUs where that saves time.

All processes have the same gradients, so each can make a share of the matrices orthogonal and
get the others from its peers. No bit depends on it: each matrix is computed by itself either
way. Hence a measurement may decide, and a continued run may decide otherwise.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unisono.optim.muon import MuonWithAdam, orthogonal
from unisono.stopwatch import Stopwatch

TRIAL_NUMBERS = 2**18  # of each process: 1 MB
WORTH_IT = 0.9  # of the seconds that each process needs by itself


class ProcessPlace(Protocol):
    """Which of how many processes this one is, and its device."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def device(self) -> str: ...


class Peers(Protocol):
    """What the iteration needs of the other processes: part of `Comm`."""

    @property
    def world(self) -> ProcessPlace: ...

    def gather(self, numbers: Sequence[float | Tensor]) -> list[list[float]]: ...

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]: ...


class HasAgreed(Protocol):
    """What the iteration needs of a strategy."""

    @property
    def agreed(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class SharedMuon:
    """Shares the iteration out, except in updates that machines make each by itself."""

    comm: Peers
    memory: HasAgreed
    stopwatch: Stopwatch

    @property
    def place(self) -> tuple[int, int]:
        if not self.memory.agreed:
            return 0, 1
        return self.comm.world.rank, self.comm.world.size

    def gathered(self, mine: Tensor) -> Sequence[Tensor]:
        with self.stopwatch.time("exchange"):
            return self.comm.gather_tensors(mine)


@dataclass(frozen=True)
class IterationCost:
    """Seconds of the iteration: by each process alone, or shared with what is sent for it."""

    alone: float
    shared: float

    @property
    def pays(self) -> bool:
        """Return whether sharing saves enough to be worth it."""
        return self.shared < WORTH_IT * self.alone


def share_if_it_pays(optimizer: torch.optim.Optimizer, sharing: SharedMuon) -> None:
    """Let `optimizer`, if it is Muon, share its iteration; all processes call this together.

    On GPUs each process works for itself: there the iteration takes milliseconds, and whether
    the exchange takes fewer has not been measured.
    """
    world = sharing.comm.world
    if not isinstance(optimizer, MuonWithAdam) or world.size == 1 or world.device != "cpu":
        return
    if iteration_cost(optimizer, sharing.comm).pays:
        optimizer.sharing = sharing


def iteration_cost(optimizer: MuonWithAdam, comm: Peers) -> IterationCost:
    """Measure one matrix of each shape and one exchange; return what all agree on."""
    alone = shared = numbers = 0.0
    for shape, count in optimizer.shapes().items():
        each = -(-count // comm.world.size)
        seconds = _seconds_of_one(shape, optimizer.products)
        alone += count * seconds
        shared += each * seconds
        numbers += each * shape.numel()
    comm.gather_tensors(torch.zeros(1))  # connects
    began = time.perf_counter()
    comm.gather_tensors(torch.zeros(TRIAL_NUMBERS))
    sent = (time.perf_counter() - began) * numbers / TRIAL_NUMBERS
    rows = comm.gather([alone, shared, sent])
    slowest = [max(row[column] for row in rows) for column in range(3)]
    return IterationCost(slowest[0], slowest[1] + slowest[2])


def _seconds_of_one(shape: torch.Size, products: torch.dtype) -> float:
    matrix = torch.ones(shape)
    # The first products take longer: torch starts threads, oneDNN makes programs.
    orthogonal(matrix if products == torch.bfloat16 else matrix[:1, :1], products)
    began = time.perf_counter()
    orthogonal(matrix, products)
    return time.perf_counter() - began
