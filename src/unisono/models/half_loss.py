"""The loss in chunks with products in bf16 on a CPU; softmax and all sums are fp32.

Shapes: N positions, C positions of a chunk, D model width, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unisono.models.half_products import ROWS, half_rows
from unisono.models.half_weights import HalfWeights

CHUNK_LOGITS = 4_000_000  # 16 MB, and half of that in bf16


def half_loss_sum(
    states: Tensor, matrix: Tensor, ids: Tensor, smoothing: float, halves: HalfWeights
) -> Tensor:
    """Return the sum of the smoothed cross-entropy of `ids` (N,) given `states` (N, D)."""
    loss: Tensor = _HalfChunkedLoss.apply(states, matrix, ids, smoothing, halves)
    return loss


class _HalfChunkedLoss(torch.autograd.Function):
    """The loss; the forward pass computes its gradients, too."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        matrix: Tensor,
        ids: Tensor,
        smoothing: float,
        halves: HalfWeights,
    ) -> Tensor:
        count, loss = len(ids), torch.zeros(())
        rows, half = half_rows(states, matrix.size(1)), halves.of(matrix)
        # Rows that only round the number up have no loss and no gradient.
        counts = torch.ones(len(rows))
        counts[count:] = 0
        ids = torch.cat([ids, ids.new_zeros(len(rows) - count)])
        moves = ctx.needs_input_grad[1]  # not if the matrix is frozen
        rows_grad = torch.empty_like(rows)
        matrix_grad = torch.zeros_like(matrix) if moves else None
        size = max(1, CHUNK_LOGITS // matrix.size(0) // ROWS) * ROWS
        buffer = torch.empty(min(size, len(rows)), matrix.size(0))
        half_buffer = torch.empty_like(buffer, dtype=torch.bfloat16)
        split = (tensor.split(size) for tensor in (rows, ids, counts, rows_grad))
        for some, some_ids, some_counts, some_grad in zip(*split, strict=True):
            gradient = torch.mm(some, half.t(), out=half_buffer[: len(some)])  # (C, V)
            logits = buffer[: len(some)].copy_(gradient)
            loss += counted_loss_and_gradient(logits, some_ids, some_counts, smoothing)
            torch.mm(gradient.copy_(logits), half, out=some_grad)
            if matrix_grad is not None:
                matrix_grad += torch.mm(gradient.t(), some)
        ctx.save_for_backward(rows_grad[:count], matrix_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *scaled(ctx.saved_tensors, scale), None, None, None


def scaled(gradients: Sequence[Tensor | None], scale: Tensor) -> tuple[Tensor | None, ...]:
    """Return all gradients times `scale`; a frozen weight has none."""
    return tuple(None if gradient is None else gradient * scale for gradient in gradients)


def counted_loss_and_gradient(
    logits: Tensor, ids: Tensor, counts: Tensor, smoothing: float
) -> Tensor:
    """Return the loss of the rows that count; replace `logits` (C, V) by its gradient."""
    correct = logits.gather(1, ids[:, None]).squeeze(1)
    highest, mean = logits.amax(1), logits.mean(1) if smoothing else 0.0
    probabilities = torch.softmax(logits, 1, out=logits)
    # The highest logit minus its log-probability is the log of the softmax denominator.
    norms = highest - probabilities.amax(1).log()
    if smoothing:
        probabilities.sub_(smoothing / logits.size(1))
    less = torch.full_like(correct, smoothing - 1)[:, None]
    probabilities.scatter_add_(1, ids[:, None], less).mul_(counts[:, None])
    return ((norms - correct * (1 - smoothing) - mean * smoothing) * counts).sum()
