"""Linear layers in bf16 on a CPU: factors and results are bf16, gradients of weights fp32.

oneDNN, which multiplies, makes a program for every shape of a product, keeps up to 1024 of
them, and each takes two thirds of a megabyte: with rows as sentences happen to fill them, that
is more than the model takes. So the rows of all factors are rounded up to a multiple of `ROWS`,
and the additional ones are zero, which changes no sum.

Shapes: N rows, rounded up; I inputs, O outputs, F width between two feed-forward layers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unisono.models.dropout import drop_half_, scale_of
from unisono.models.half_weights import HalfWeights

ROWS = 64


def half_linear(x: Tensor, weight: Tensor, bias: Tensor, halves: HalfWeights) -> Tensor:
    """Return the linear layer of `x` (..., I) as bf16 (..., O).

    `x` may also have its inputs in two dimensions, as heads (B, T, H, K).
    """
    y: Tensor = _HalfLinear.apply(x, weight, bias, halves)
    return y


def half_feed_forward(
    x: Tensor, layers: tuple[Tensor, Tensor, Tensor, Tensor], dropped: int, halves: HalfWeights
) -> Tensor:
    """Return two linear layers of `x` (..., I) with ReLU and dropout between them, as bf16.

    `layers` are their weights and biases.
    """
    y: Tensor = _HalfFeedForward.apply(x, *layers, dropped, halves)
    return y


def half_rows(x: Tensor, width: int) -> Tensor:
    """Return `x` as bf16 (N, `width`)."""
    count = x.numel() // width
    if x.dtype == torch.bfloat16 and x.is_contiguous() and count % ROWS == 0:
        return x.view(-1, width)
    rows = torch.empty(-(-count // ROWS) * ROWS, width, dtype=torch.bfloat16)
    rows[:count].view(x.shape).copy_(x)
    rows[count:].zero_()
    return rows


class _HalfLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, halves: HalfWeights
    ) -> Tensor:
        outputs, inputs = weight.shape
        rows, half = half_rows(x, inputs), halves.of(weight)
        ctx.save_for_backward(rows, half)
        ctx.shape = x.shape
        lead = x.shape[:2] if x.dim() == 4 else x.shape[:-1]
        return _layer(rows, half, halves.of(bias)).resize_(*lead, outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, half = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        grads = half_rows(grad, half.size(0))
        x_grad = torch.mm(grads, half).resize_(ctx.shape) if needs_x else None
        return x_grad, *_layer_gradients(grads, rows, needs_weight), None


class _HalfFeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        weight_2: Tensor,
        bias_2: Tensor,
        dropped: int,
        halves: HalfWeights,
    ) -> Tensor:
        rows, half, half_2 = (
            half_rows(x, weight.size(1)),
            halves.of(weight),
            halves.of(weight_2),
        )
        count = x.numel() // weight.size(1)
        between = _layer(rows, half, halves.of(bias)).clamp_min_(0)  # (N, F)
        between[count:].zero_()
        if dropped:
            drop_half_(between[:count], dropped)
        ctx.save_for_backward(rows, half, between, half_2)
        ctx.shape, ctx.scale = x.shape, scale_of(dropped)
        return _layer(between, half_2, halves.of(bias_2)).resize_(*x.shape[:-1], len(half_2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, half, between, half_2 = ctx.saved_tensors
        needs_x, needs_weight, _, needs_weight_2, _ = ctx.needs_input_grad[:5]
        grads = half_rows(grad, half_2.size(0))
        second = _layer_gradients(grads, between, needs_weight_2)
        grads = torch.ops.aten.threshold_backward(torch.mm(grads, half_2), between, 0)
        grads.mul_(ctx.scale)
        x_grad = torch.mm(grads, half).resize_(ctx.shape) if needs_x else None
        return x_grad, *_layer_gradients(grads, rows, needs_weight), *second, None, None


def _layer(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias, rows, weight.t())


def _layer_gradients(
    grads: Tensor, rows: Tensor, needed: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of weight (O, I) and bias (O,) for those of the result (N, O)."""
    if not needed:
        return None, None
    return torch.mm(grads.t(), rows).float(), grads.sum(0, dtype=torch.float32)
