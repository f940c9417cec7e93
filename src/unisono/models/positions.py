"""Where a word stands: a signal added to its embedding, or a turn of its queries and keys.

Shapes: B sentences, T positions, D model width, H heads, K width of a head.
"""

import math

import torch
from torch import Tensor, nn

from unisono.errors import DataError
from unisono.models.settings import TransformerSettings


def sinusoids(length: int, width: int) -> Tensor:
    """Return the signal (T, D) of positions 0 to `length` - 1: sines, then cosines."""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


class Sinusoids:
    """The table of sines and cosines.

    It is computed once, and again only when a longer sentence or another device comes. It is
    no weight and no buffer: it is not saved, and processes that have met other sentences may
    hold tables of other lengths, which nobody must exchange.
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


class Positions(nn.Module):
    """Where words stand, in the way the settings choose.

    Learned positions begin as the sinusoids, which are a signal that can be told apart from
    the first step on; source and target learn one table each.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.kind = settings.positions
        turning = self.kind == "rotary"
        width = settings.width
        self.sinusoids = Sinusoids(width // settings.heads if turning else width)
        if self.kind == "learned":
            for side in ("source", "target"):
                rows = sinusoids(settings.max_positions, width)
                self.register_parameter(side, nn.Parameter(rows))

    def signal(self, side: str, start: int, like: Tensor) -> Tensor | None:
        """Return what is added (T, D) to the words `like` (B, T, D), the first at `start`."""
        if self.kind == "rotary":
            return None
        if self.kind == "sinusoid":
            return self.sinusoids(start, like)
        table, end = self.get_parameter(side), start + like.size(1)
        if end > table.size(0):
            raise DataError(
                f"a {side} sentence reaches position {end}, but the model has learnt only "
                f"{table.size(0)}",
                where="model.max_positions",
                fix="translate shorter lines, or train with more `max_positions`, or with "
                'positions that know no end: "sinusoid", "rotary"',
            )
        return table[start:end]

    def turn(self, start: int, like: Tensor) -> Tensor | None:
        """Return the sines and cosines (T, K) by which `turned` turns the words `like`."""
        return self.sinusoids(start, like) if self.kind == "rotary" else None


def turned(x: Tensor, turn: Tensor) -> Tensor:
    """Return `x` (B, H, T, K), each pair of numbers turned by an angle that grows with T.

    The product of a query and a key then depends on how far apart they stand, not on where.
    A pair is a number of the first half and the one at the same place in the second.
    """
    sine, cosine = turn.chunk(2, dim=1)
    one, other = x.chunk(2, dim=3)
    both = torch.cat([one * cosine - other * sine, one * sine + other * cosine], dim=3)
    return both.to(x.dtype)
