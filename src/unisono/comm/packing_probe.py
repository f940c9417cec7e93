"""What making gradients smaller costs the processor that computes them."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor

from unisono.comm.packing import BLOCK, Bits, pack, unpack
from unisono.comm.protocol import Comm
from unisono.physics.measured import Packing

NUMBERS = 1024 * BLOCK * 4
REPEATS = 5
LONG_ENOUGH = 0.5  # seconds: what takes longer is not repeated
WAYS: tuple[Bits, ...] = (16, 8, 4)


def packing_costs(comm: Comm) -> list[Packing]:
    """Return what each number costs, on the slowest process; nothing where a GPU does it."""
    if not comm.world.device.startswith("cpu"):
        return []
    numbers = torch.randn(NUMBERS)
    costs = []
    for bits in WAYS:
        message = pack(numbers, bits)
        mine = [
            median(_seconds(pack, numbers, bits) for _ in range(REPEATS)),
            median(_seconds(unpack, message, bits) for _ in range(REPEATS)),
        ]
        packing, unpacking = map(max, zip(*comm.gather(mine), strict=True))
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
    """Return the median of some, or of fewer if they take long."""
    seconds = [seconds_of_one()]
    while len(seconds) < REPEATS and sum(seconds) < LONG_ENOUGH:
        seconds.append(seconds_of_one())
    return median(seconds)


def _narrowing_seconds(shape: tuple[int, int], rank: int) -> float:
    """Make a matrix narrow as torch's hook does, without exchanging anything."""
    matrix, left_over = torch.randn(shape), torch.randn(shape)
    narrow = torch.randn(shape[1], min(*shape, rank))
    began = time.perf_counter()
    matrix.add_(left_over)
    before = matrix.clone()
    first = torch.linalg.qr(matrix @ torch.linalg.qr(narrow).Q).Q
    torch.mm(first, (matrix.T @ first).T, out=matrix)
    torch.sub(before, matrix, out=left_over)
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


def _seconds(function: Callable[[Tensor, Bits], Tensor], numbers: Tensor, bits: Bits) -> float:
    began = time.perf_counter()
    function(numbers, bits)
    return time.perf_counter() - began
