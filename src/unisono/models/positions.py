"""Where a word stands, as a signal added to its embedding.

Shapes: T positions, D model width.
"""

import math

import torch
from torch import Tensor


def sinusoids(length: int, width: int) -> Tensor:
    """Return the signal (T, D) of positions 0 to `length` - 1: sines, then cosines."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


class Positions:
    """The signal, computed once and again only when a longer sentence or another device comes.

    It is no weight and no buffer: it is not saved, and processes that have met other sentences
    may hold tables of other lengths, which nobody must exchange.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.table = torch.empty(0, width)

    def __call__(self, start: int, like: Tensor) -> Tensor:
        """Return the signal (T, D) for the words `like` (B, T, D), the first at `start`."""
        end = start + like.size(1)
        if end > self.table.size(0) or self.table.device != like.device:
            # A table made during inference would be of no use to training afterwards.
            with torch.inference_mode(False):
                self.table = sinusoids(max(512, 2 * end), self.width).to(like.device)
        return self.table[start:end]
