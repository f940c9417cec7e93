"""Attention with dropout for training on a CPU, where torch has no fast kernel for it.

The numbers come from our own generator, and the backward pass needs no more than queries,
keys, values, the weights of attention and what dropout kept. Attention is computed in fp32 also
if its inputs are bf16: its products are small, their shapes are as many as there are pairs of
lengths, and oneDNN, which multiplies in bf16, would make a program for each.

Shapes: B sentences, H heads, T target positions, S source positions, K width of a head,
P = B * H.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unisono.models.dropout import scaled_mask


def dropped_attention(
    query: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None, dropped: int
) -> Tensor:
    """Attend from `query` (B, H, T, K) to `memory`; return (B, H, T, K) in fp32.

    `mask` is added to the scores; `dropped` of `LEVELS` weights of attention are dropped.
    """
    context: Tensor = _DroppedAttention.apply(query, *memory, mask, dropped)
    return context


class _DroppedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropped: int
    ) -> Tensor:
        queries, keys, values = _pages(query), _pages(key), _pages(value)
        scores = queries.new_empty(len(queries), queries.size(1), keys.size(1))  # (P, T, S)
        if mask is not None:
            scores.view(*query.shape[:3], keys.size(1)).copy_(mask)
        scale = query.size(3) ** -0.5
        scores.baddbmm_(queries, keys.mT, beta=int(mask is not None), alpha=scale)
        weights = torch.softmax(scores, 2, out=scores)
        kept = scaled_mask(weights, dropped) if dropped else None
        context = torch.bmm(weights if kept is None else weights * kept, values)
        in_half = query.dtype == torch.bfloat16  # then the inputs take half the memory of pages
        inputs = (query, key, value) if in_half else (queries, keys, values)
        ctx.save_for_backward(*inputs, weights, kept)
        ctx.shapes, ctx.dtype = (query.shape, key.shape), query.dtype
        return context.view(query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, weights, kept = ctx.saved_tensors
        queries, keys, values = map(_pages, inputs)
        of_context, (shape, source_shape) = _pages(grad), ctx.shapes
        used = weights if kept is None else weights * kept
        of_values = torch.bmm(used.mT, of_context)
        of_weights = torch.bmm(of_context, values.mT)
        if kept is not None:
            of_weights.mul_(kept)
        of_scores = torch.ops.aten._softmax_backward_data(of_weights, weights, 2, weights.dtype)
        of_scores.mul_(shape[3] ** -0.5)
        of_queries, of_keys = torch.bmm(of_scores, keys), torch.bmm(of_scores.mT, queries)
        of_memory = (one.view(source_shape).to(ctx.dtype) for one in (of_keys, of_values))
        return of_queries.view(shape).to(ctx.dtype), *of_memory, None, None


def _pages(x: Tensor) -> Tensor:
    """Return `x` (B, H, T, K) or (P, T, K) as fp32 (P, T, K) in one piece."""
    return x.to(torch.float32, memory_format=torch.contiguous_format).flatten(0, -3)
