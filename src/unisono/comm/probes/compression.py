"""What compressing gradients costs the CPU that also computes them."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median

import torch
from torch import Tensor

from unisono.comm.protocol import Comm
from unisono.comm.strategies.quantize import Bits, add_dequantized, quantize
from unisono.cost_model.exchange import QUANTIZED_BLOCK
from unisono.cost_model.probe_results import Packing

PROBE_NUMBERS = 4096 * QUANTIZED_BLOCK * 4  # more than the caches hold, as for a real model
REPEATS = 5
REPEAT_SECONDS = 0.5  # a measurement that takes longer is not repeated
WIDTHS: tuple[Bits, ...] = (16, 8, 4)


class CompressionProbe:
    """Quantizes between real updates, when the caches hold the model's data, not its own."""

    def __init__(self, comm: Comm) -> None:
        self._comm, self._mine = comm, {bits: (list[float](), list[float]()) for bits in WIDTHS}
        self._needed = comm.world.size > 1 and comm.world.device.startswith("cpu")
        self._buffers = [torch.randn(PROBE_NUMBERS) for _ in range(3 * self._needed)]

    def once(self) -> None:
        """Measure each width once, unless this process runs alone or on a GPU."""
        if not self._needed:
            return
        gradient, residual, wanted = self._buffers
        for bits, (sending, adding) in self._mine.items():
            sending.append(_sending_seconds(gradient, residual, wanted, bits))
            adding.append(_adding_seconds(wanted, quantize(gradient, bits), bits))

    def costs(self) -> list[Packing]:
        """Return the seconds per number on the slowest process; nothing where it is free."""
        costs = []
        for bits, seconds in self._mine.items() if self._needed else ():
            rows = self._comm.gather([median(some) for some in seconds])
            packing, unpacking = map(max, zip(*rows, strict=True))
            costs.append(Packing(bits, packing / PROBE_NUMBERS, unpacking / PROBE_NUMBERS))
        return costs


def outer_cost(comm: Comm) -> float:
    """Return the seconds per number of DiLoCo's outer optimizer, on the slowest process."""
    if not comm.world.device.startswith("cpu"):
        return 0.0
    anchor, now, mean = (torch.randn(PROBE_NUMBERS) for _ in range(3))
    mine = median(_outer_seconds(anchor, now, mean) for _ in range(REPEATS))
    return max(row[0] for row in comm.gather([mine])) / PROBE_NUMBERS


def low_rank_cost(comm: Comm, shapes: Sequence[tuple[int, int]], rank: int) -> float:
    """Return PowerSGD's seconds per update for these matrices, on the slowest process."""
    if not comm.world.device.startswith("cpu"):
        return 0.0
    mine = sum(
        count * _mean_seconds(partial(_low_rank_seconds, shape, rank))
        for shape, count in Counter(shapes).items()
    )
    return max(row[0] for row in comm.gather([mine]))


def _mean_seconds(seconds_of_one: Callable[[], float]) -> float:
    """Return the mean of several measurements, or of fewer if they take long.

    Processes that share a core take turns on it, and each turn is longer than most of these
    measurements: the median would not show the waiting.
    """
    seconds = [seconds_of_one()]
    while len(seconds) < REPEATS and sum(seconds) < REPEAT_SECONDS:
        seconds.append(seconds_of_one())
    return fmean(seconds)


def _low_rank_seconds(shape: tuple[int, int], rank: int) -> float:
    """Approximate a matrix as torch's PowerSGD hook and ours do, without any exchange."""
    matrix, residual = torch.randn(shape), torch.randn(shape)
    narrow = torch.randn(shape[1], min(*shape, rank))
    began = time.perf_counter()
    matrix.add_(residual * 1.0)
    before = matrix.clone()
    first = torch.linalg.qr(matrix @ torch.linalg.qr(narrow).Q).Q
    torch.mm(first, (matrix.T @ first).T, out=matrix)
    dropped = before - matrix
    matrix.mul_(2)
    torch.div(dropped, 1.0, out=residual)
    return time.perf_counter() - began


def _outer_seconds(anchor: Tensor, now: Tensor, mean: Tensor) -> float:
    """Pass over the numbers as often as the outer optimizer does for one fragment."""
    began = time.perf_counter()
    here = now.clone()
    mean.add_(anchor - here).div_(2)
    mean.sum().isfinite()
    anchor.sub_(mean)
    now.copy_(now.clone().sub_(here).add_(anchor))
    return time.perf_counter() - began


def _sending_seconds(gradient: Tensor, residual: Tensor, wanted: Tensor, bits: Bits) -> float:
    """Do what the compressed exchange does once per number, whatever the group's size."""
    began = time.perf_counter()
    torch.add(gradient, residual, out=wanted)
    add_dequantized(wanted, quantize(wanted, bits), bits, sign=-1)
    gradient.copy_(wanted)  # as DDP copies the sum into the gradient
    return time.perf_counter() - began


def _adding_seconds(total: Tensor, message: Tensor, bits: Bits) -> float:
    began = time.perf_counter()
    add_dequantized(total, message, bits)
    return time.perf_counter() - began
