"""Where a word stands, as a signal added to its embedding.

Shapes: T positions, D model width.
"""

import math

import torch
from torch import Tensor, nn


def sinusoids(length: int, width: int) -> Tensor:
    """Return the signal (T, D) of positions 0 to `length` - 1: sines, then cosines."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


class Positions(nn.Module):
    """The signal, computed once and again only when a longer sentence comes.

    It is no weight: it is not saved, and processes that have met other sentences may hold
    tables of other lengths. Whoever wraps the model must not exchange its buffers.
    """

    table: Tensor

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the signal (T, D) of `length` positions from `start`."""
        if start + length > self.table.size(0):
            # A table made during inference would be of no use to training afterwards.
            with torch.inference_mode(False):
                self.table = sinusoids(2 * (start + length), self.width).to(self.table)
        return self.table[start : start + length]
