"""Dropout with random numbers that are cheap on a CPU, and the generator of this thread.

torch draws one number for every element, which on a CPU takes about a tenth of a training
step. Here one 64-bit number serves four elements, 16 bits each. The rate is therefore a
multiple of 1/65536; the kept elements are scaled by exactly that rate, so that the mean is
unchanged. The numbers depend on a torch generator alone: it draws the seed from which numpy
draws the others, twice as fast. Numbers in bf16 are dropped by their bits and scaled in fp32:
the scale itself, rounded to bf16, would be up to 0.4 % off.

torch's default generator belongs to the whole process. Parallel threads would draw from it in
an order that cannot be reproduced, so each lane has a generator of its own; the same seed
gives the same numbers in either.
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


def seed_rng(seed: int) -> None:
    """Seed the generator of this lane, or else all generators of torch.

    `torch.manual_seed` takes up to a millisecond without a GPU: for three kinds of them it
    records, each with a traceback, what to do once there is one.
    """
    rng().manual_seed(seed)
    if not in_lane() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def rng() -> torch.Generator:
    """Return the generator of this thread."""
    if not in_lane():
        return torch.default_generator
    if not hasattr(_here, "generator"):
        _here.generator = torch.Generator()
    own: torch.Generator = _here.generator
    return own


LEVELS = 65536


class Dropout(nn.Module):
    """Zero elements with the probability `rate` in training, and scale the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape, with dropout."""
        if not self.active:
            return x
        if not draws_here(x):
            return F.dropout(x, self.rate)
        if x.dtype == torch.bfloat16:
            return cast("Tensor", _HalfDropout.apply(x, self.dropped))
        return x * scaled_mask(x, self.dropped)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x` plus `y`, with dropout of `y`."""
        if not self.active or not draws_here(y) or y.dtype == torch.bfloat16:
            return x + cast("Tensor", self(y))
        return torch.addcmul(x, y, scaled_mask(y, self.dropped))

    @property
    def active(self) -> bool:
        """Return whether dropout is on."""
        return self.training and bool(self.rate)

    @property
    def dropped(self) -> int:
        """Return how many of `LEVELS` elements are dropped; 0 if dropout is off."""
        if not self.active:
            return 0
        return min(round(self.rate * LEVELS), LEVELS - 1)


class ReluDropout(Dropout):
    """ReLU and dropout in one.

    On a CPU both happen in place. The backward pass needs the result alone, so that only one
    of the three largest tensors of a layer stays in memory.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` after ReLU and dropout; it is overwritten."""
        if not self.active or not draws_here(x):
            return super().forward(F.relu_(x))
        return cast("Tensor", _ReluDropout.apply(x, self.dropped))


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        ctx.mark_dirty(x)
        x.clamp_min_(0).mul_(scaled_mask(x, dropped))
        ctx.save_for_backward(x)
        ctx.scale = scale_of(dropped)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, kept, 0).mul_(ctx.scale), None


class _HalfDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        kept = _kept_bits(x.numel(), dropped).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = scale_of(dropped)
        return _select_bits(x, kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _select_bits(grad, kept).mul_(ctx.scale), None


def drop_half_(x: Tensor, dropped: int) -> None:
    """Apply dropout in place to `x` in bf16, outside autograd."""
    bits = x.view(torch.int16)
    bits.bitwise_and_(_kept_bits(x.numel(), dropped).view(x.shape))
    x.mul_(scale_of(dropped))


def _kept_bits(count: int, dropped: int) -> Tensor:
    """Return -1, which has all bits, for elements to keep, and 0 for the others."""
    return _levels(count).ge_(dropped - LEVELS // 2).neg_()


def _select_bits(x: Tensor, kept: Tensor) -> Tensor:
    return (x.view(torch.int16) & kept).view(torch.bfloat16)


class WordDropout(nn.Module):
    """Zero whole embeddings with the probability `rate` in training; scale the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropout = Dropout(rate)

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings `x` (..., D), with dropout."""
        if not self.dropout.active:
            return x
        return x * cast("Tensor", self.dropout(x.new_ones(*x.shape[:-1], 1)))


def draws_here(x: Tensor) -> bool:
    """Return whether we draw the random numbers for `x`; the compiler draws its own."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def scaled_mask(like: Tensor, dropped: int) -> Tensor:
    """Return 0 for `dropped` of `LEVELS` elements on average, and the scale for the others."""
    # In place, because torch converts booleans to numbers slowly.
    levels = _levels(like.numel()).view(like.shape).ge_(dropped - LEVELS // 2)
    return levels.to(like.dtype).mul_(scale_of(dropped))


def scale_of(dropped: int) -> float:
    """Return by how much the elements that are kept grow."""
    return LEVELS / (LEVELS - dropped)


def _levels(count: int) -> Tensor:
    """Return `count` random 16-bit numbers."""
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=rng()))
    bits = np.random.SFC64(seed).random_raw(-(-count // 4)).view(np.int16)
    return torch.from_numpy(bits)[:count]
