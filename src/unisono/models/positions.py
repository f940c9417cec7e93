"""Position encodings: a signal added to embeddings, or a rotation of queries and keys.

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

    It is computed once, and again only for a longer sentence or another device. It is neither
    a weight nor a buffer: it is not saved, and processes that have seen other sentences may
    have tables of other lengths, which must not be exchanged.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.table = torch.empty(0, width)

    def __call__(self, start: int, like: Tensor) -> Tensor:
        """Return the signal (T, D) for embeddings `like` (B, T, D), the first at `start`."""
        end = start + like.size(1)
        if end > self.table.size(0) or self.table.device != like.device:
            # Autograd could not use a table made in inference mode.
            with torch.inference_mode(False):
                self.table = sinusoids(max(512, 2 * end), self.width).to(like.device)
        return self.table[start:end]


class Positions(nn.Module):
    """The position encoding that the settings choose.

    Learned positions start as the sinusoids, so that positions differ from the first step on;
    source and target learn one table each.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.kind = settings.positions
        rotary = self.kind == "rotary"
        width = settings.width
        self.sinusoids = Sinusoids(width // settings.heads if rotary else width)
        if self.kind == "learned":
            for side in ("source", "target"):
                rows = sinusoids(settings.max_positions, width)
                self.register_parameter(side, nn.Parameter(rows))

    def signal(self, side: str, start: int, like: Tensor) -> Tensor | None:
        """Return the signal (T, D) to add to `like` (B, T, D), which begins at `start`."""
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
                'positions without a limit: "sinusoid", "rotary"',
            )
        return table[start:end]

    def rotation(self, start: int, like: Tensor) -> Tensor | None:
        """Return the sines and cosines (T, K) with which `rotated` rotates `like`, or None."""
        return self.sinusoids(start, like) if self.kind == "rotary" else None


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """Return `x` (B, H, T, K), each pair of numbers rotated by an angle that grows with T.

    The product of a query and a key then depends on their distance alone. A pair is a number
    of the first half and the one at the same place in the second.
    """
    sine, cosine = rotation.chunk(2, dim=1)
    one, other = x.chunk(2, dim=3)
    both = torch.cat([one * cosine - other * sine, one * sine + other * cosine], dim=3)
    return both.to(x.dtype)
