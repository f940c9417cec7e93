"""Where random numbers come from: torch's default generator, or a lane's own.

A generator belongs to the whole process. Threads that compute side by side would take numbers
from each other in an order that no one can repeat; so each lane has one, and the same start
gives the same numbers in either.

Dropout whose random numbers cost little on a CPU.

torch draws a number of its own for every element, which on a CPU takes about a tenth of the
time of a training step. Here one 64-bit number serves four elements, 16 bits each. So the
share is a multiple of 1/65536; what is kept is scaled by exactly that share, and the mean
stays what it was. Like torch's own, the numbers follow from a generator of torch: it draws one
number, from which numpy draws the others, twice as fast.
"""

import threading
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unisono.thread_lanes import in_lane

_here = threading.local()


def start_numbers(seed: int) -> None:
    """Start the numbers from `seed`: those of this lane, or else all of torch's.

    `torch.manual_seed` takes up to a millisecond where there is no GPU: it notes down for
    three kinds of them, each with a traceback, what to do once there is one.
    """
    numbers().manual_seed(seed)
    if not in_lane() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def numbers() -> torch.Generator:
    """Return the generator that this thread takes its numbers from."""
    if not in_lane():
        return torch.default_generator
    if not hasattr(_here, "generator"):
        _here.generator = torch.Generator()
    own: torch.Generator = _here.generator
    return own


LEVELS = 65536


class Dropout(nn.Module):
    """Sets a share of the elements to zero in training, and scales the others up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape, or some of it."""
        if not self.active:
            return x
        if not _draws(x):
            return F.dropout(x, self.share)
        return x * _survivors(x, self.dropped)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x` plus `y`, or some of `y`."""
        if not self.active or not _draws(y):
            return x + cast("Tensor", self(y))
        return torch.addcmul(x, y, _survivors(y, self.dropped))

    @property
    def active(self) -> bool:
        """Return whether anything is ever dropped now."""
        return self.training and bool(self.share)

    @property
    def dropped(self) -> int:
        """Return how many of `LEVELS` elements are dropped."""
        return min(round(self.share * LEVELS), LEVELS - 1)


class ReluDropout(Dropout):
    """Dropout of what is above zero; the rest is zero anyway.

    On a CPU both are one step in the place of `x`. The way back needs its result alone, so
    that of the three largest tensors of a layer only one is kept.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return some of `x`, which is used up."""
        if not self.active or not _draws(x):
            return super().forward(F.relu_(x))
        return cast("Tensor", _ReluDropout.apply(x, self.dropped))


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        ctx.mark_dirty(x)
        x.clamp_min_(0).mul_(_survivors(x, dropped))
        ctx.save_for_backward(x)
        ctx.scale = _scale(dropped)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, kept, 0).mul_(ctx.scale), None


class WordDropout(nn.Module):
    """Sets a share of the words to zero in training, each whole, and scales the others up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.dropout = Dropout(share)

    def forward(self, x: Tensor) -> Tensor:
        """Return the words `x` (..., D), or some of them."""
        if not self.dropout.active:
            return x
        return x * cast("Tensor", self.dropout(x.new_ones(*x.shape[:-1], 1)))


def _draws(x: Tensor) -> bool:
    """Return whether the random numbers for `x` are drawn here; the compiler draws its own."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _survivors(like: Tensor, dropped: int) -> Tensor:
    """Return zeros for `dropped` of `LEVELS` elements on average, and the scale elsewhere."""
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=numbers()))
    bits = np.random.SFC64(seed).random_raw(-(-like.numel() // 4)).view(np.int16)
    levels = torch.from_numpy(bits)[: like.numel()].view(like.shape)
    # In place, because torch turns truth values into numbers only slowly.
    survivors = levels.ge_(dropped - LEVELS // 2).to(like.dtype)
    return survivors.mul_(_scale(dropped))


def _scale(dropped: int) -> float:
    return LEVELS / (LEVELS - dropped)
