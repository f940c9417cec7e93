"""Dropout whose random numbers cost little on a CPU.

torch draws a number of its own for every element, which on a CPU takes about a tenth of the
time of a training step. Here one 64-bit number serves four elements, 16 bits each. So the
share is a multiple of 1/65536; what is kept is scaled by exactly that share, and the mean
stays what it was. Like torch's own, the numbers follow from torch's default generator.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 65536


class Dropout(nn.Module):
    """Sets a share of the elements to zero in training, and scales the others up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape, or some of it."""
        if not self.training or not self.share:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.share)
        return x * _survivors(x, min(round(self.share * LEVELS), LEVELS - 1))


class WordDropout(nn.Module):
    """Sets a share of the words to zero in training, each whole, and scales the others up."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.dropout = Dropout(share)

    def forward(self, x: Tensor) -> Tensor:
        """Return the words `x` (..., D), or some of them."""
        if not self.training or not self.dropout.share:
            return x
        return x * cast("Tensor", self.dropout(x.new_ones(*x.shape[:-1], 1)))


def _survivors(like: Tensor, dropped: int) -> Tensor:
    """Return zeros for `dropped` of `LEVELS` elements on average, and the scale elsewhere."""
    numbers = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    levels = numbers.view(torch.int16)[: like.numel()].view(like.shape)
    # In place, because torch turns truth values into numbers only slowly.
    survivors = levels.ge_(dropped - LEVELS // 2).to(like.dtype)
    return survivors.mul_(LEVELS / (LEVELS - dropped))
