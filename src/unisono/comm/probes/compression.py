"""What making gradients smaller costs the processor that computes them."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median

import torch
from torch import Tensor

from unisono.comm.protocol import Comm
from unisono.comm.strategies.quantize import BLOCK, Bits, add_dequantized, quantize
from unisono.cost_model.probe_results import Packing

NUMBERS = 4096 * BLOCK * 4  # more than a processor keeps near it, as of a model
REPEATS = 5
LONG_ENOUGH = 0.5  # seconds: what takes longer is not repeated
WAYS: tuple[Bits, ...] = (16, 8, 4)


class CompressionProbe:
    """Packs between updates: what they left in the processor's caches is not what it needs."""

    def __init__(self, comm: Comm) -> None:
        self._comm, self._mine = comm, {bits: (list[float](), list[float]()) for bits in WAYS}
        self._needed = comm.world.size > 1 and comm.world.device.startswith("cpu")
        self._rooms = [torch.randn(NUMBERS) for _ in range(3 * self._needed)]

    def once(self) -> None:
        """Measure each way once, unless there is nobody to send to or a GPU does it."""
        if not self._needed:
            return
        gradient, left, wanted = self._rooms
        for bits, (sending, adding) in self._mine.items():
            sending.append(_sending_seconds(gradient, left, wanted, bits))
            adding.append(_adding_seconds(wanted, quantize(gradient, bits), bits))

    def costs(self) -> list[Packing]:
        """Return what each number costs, on the slowest process; nothing where it is free."""
        costs = []
        for bits, seconds in self._mine.items() if self._needed else ():
            rows = self._comm.gather([median(some) for some in seconds])
            packing, unpacking = map(max, zip(*rows, strict=True))
            costs.append(Packing(bits, packing / NUMBERS, unpacking / NUMBERS))
        return costs


def outer_cost(comm: Comm) -> float:
    """Return what DiLoCo's outer optimizer costs a number besides packing, as above."""
    if not comm.world.device.startswith("cpu"):
        return 0.0
    anchor, now, mean = (torch.randn(NUMBERS) for _ in range(3))
    mine = median(_outer_seconds(anchor, now, mean) for _ in range(REPEATS))
    return max(row[0] for row in comm.gather([mine])) / NUMBERS


def narrowing_cost(comm: Comm, shapes: Sequence[tuple[int, int]], rank: int) -> float:
    """Return what PowerSGD computes in one update, for matrices of these shapes, as above."""
    if not comm.world.device.startswith("cpu"):
        return 0.0
    mine = sum(
        count * _repeated(partial(_narrowing_seconds, shape, rank))
        for shape, count in Counter(shapes).items()
    )
    return max(row[0] for row in comm.gather([mine]))


def _repeated(seconds_of_one: Callable[[], float]) -> float:
    """Return the mean of some, or of fewer if they take long.

    Processes that share a core take turns on it, and each turn is longer than most of these:
    in the median nobody would be waiting.
    """
    seconds = [seconds_of_one()]
    while len(seconds) < REPEATS and sum(seconds) < LONG_ENOUGH:
        seconds.append(seconds_of_one())
    return fmean(seconds)


def _narrowing_seconds(shape: tuple[int, int], rank: int) -> float:
    """Make a matrix narrow as torch's hook and `NarrowSum` do, and exchange nothing."""
    matrix, left_over = torch.randn(shape), torch.randn(shape)
    narrow = torch.randn(shape[1], min(*shape, rank))
    began = time.perf_counter()
    matrix.add_(left_over * 1.0)
    before = matrix.clone()
    first = torch.linalg.qr(matrix @ torch.linalg.qr(narrow).Q).Q
    torch.mm(first, (matrix.T @ first).T, out=matrix)
    dropped = before - matrix
    matrix.mul_(2)
    torch.div(dropped, 1.0, out=left_over)
    return time.perf_counter() - began


def _outer_seconds(anchor: Tensor, now: Tensor, mean: Tensor) -> float:
    """Go through the numbers as often as `Outer` does to send a fragment and to take it."""
    began = time.perf_counter()
    here = now.clone()
    mean.add_(anchor - here).div_(2)
    mean.sum().isfinite()
    anchor.sub_(mean)
    now.copy_(now.clone().sub_(here).add_(anchor))
    return time.perf_counter() - began


def _sending_seconds(gradient: Tensor, left: Tensor, wanted: Tensor, bits: Bits) -> float:
    """Do what `PackedSum` does with each number once, however many processes there are."""
    began = time.perf_counter()
    torch.add(gradient, left, out=wanted)
    add_dequantized(wanted, quantize(wanted, bits), bits, sign=-1)
    gradient.copy_(wanted)  # as DDP takes the sum for the gradient
    return time.perf_counter() - began


def _adding_seconds(total: Tensor, message: Tensor, bits: Bits) -> float:
    began = time.perf_counter()
    add_dequantized(total, message, bits)
    return time.perf_counter() - began
