"""Products in bf16 on a CPU for a model that only translates: its weights are packed once.

oneDNN reads a weight fastest in an order of its own, and adds a bias and takes ReLU while it
multiplies. Factors are bf16, sums fp32, a product is rounded to bf16 once. Each row of a
product has the same bits whatever the others are.

oneDNN makes a program for every shape of a product, which takes a quarter of a millisecond. So
rows are rounded up to a multiple of `PACKED_ROWS`.

Shapes: N rows, rounded up; I inputs, O outputs.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

PACKED_ROWS = 32


class PackedWeight:
    """A weight (O, I) and perhaps a bias (O,) as bf16 products need them: a copy."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        half = weight.detach().to(torch.bfloat16)
        self._outputs, self._inputs = half.shape
        self._weight = torch.ops.mkldnn._reorder_linear_weight(half, 16 * PACKED_ROWS)
        self._bias = None if bias is None else bias.detach().clone()

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer of `x` (..., I) as fp32 (..., O)."""
        return self.after(x, x.shape[:-1])

    def rows(self, x: Tensor, activation: str = "none") -> Tensor:
        """Return the layer of `x` (..., I) or of rows as bf16 rows (N, O); relu may follow."""
        product = torch.ops.mkldnn._linear_pointwise
        rows: Tensor = product(
            _rounded_rows(x, self._inputs), self._weight, self._bias, activation, [], ""
        )
        return rows

    def after(self, rows: Tensor, shape: Iterable[int]) -> Tensor:
        """Return the layer of `rows` (N, I), without additional ones, as fp32 (*shape, O)."""
        lead = torch.Size(shape)
        return self.rows(rows)[: lead.numel()].float().view(*lead, self._outputs)


def _rounded_rows(x: Tensor, width: int) -> Tensor:
    """Return `x` (..., I) as bf16 (N, I); additional rows are zero."""
    count = x.numel() // width
    rounded = -(-count // PACKED_ROWS) * PACKED_ROWS
    if rounded == count:
        return x.reshape(-1, width).to(torch.bfloat16)
    rows = torch.empty(rounded, width, dtype=torch.bfloat16)
    rows[:count].copy_(x.reshape(-1, width))
    rows[count:].zero_()
    return rows
