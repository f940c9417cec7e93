"""The layers of the encoder and of the decoder.

Shapes: B sentences, R target rows, S source positions, T target positions, D model width.
"""

from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.models.attention import (
    CrossAttention,
    KeysAndValues,
    LayerCache,
    SelfAttention,
    linear,
)
from unisono.models.cpu_linear import CpuLinear
from unisono.models.dropout import Dropout, ReluDropout
from unisono.models.settings import TransformerSettings


class Residual(nn.Module):
    """Adds what a part of a layer makes of `x` to `x`, and normalises before or after."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.first = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.width)
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `x` plus `part` of it."""
        if self.first:
            return self.dropout.add(x, part(self.norm(x)))
        return cast("Tensor", self.norm(self.dropout.add(x, part(x))))


class Gate(nn.Module):
    """Lets the second half of the numbers through as far as the first half says (SwiGLU)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return half as many numbers as `x` (..., 2 * inner) has."""
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value


class FeedForward(nn.Sequential):
    """Two linear layers with an activation between; a gate is a third, fused with the first."""

    def __init__(self, settings: TransformerSettings) -> None:
        share = settings.activation_dropout
        relu = settings.activation == "relu"
        super().__init__(
            linear(settings.width, settings.inner, 2 if settings.activation == "swiglu" else 1),
            nn.Identity() if relu else _activation(settings),
            ReluDropout(share) if relu else Dropout(share),
            linear(settings.inner, settings.width),
        )

    @property
    def output(self) -> CpuLinear:
        """Return the layer that writes the result."""
        return cast("CpuLinear", self[3])


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.attention, self.feed_forward = SelfAttention(settings), FeedForward(settings)
        self.around_attention, self.around_feed_forward = Residual(settings), Residual(settings)

    @property
    def parts(self) -> tuple[SelfAttention | CrossAttention | FeedForward, ...]:
        """Return all that adds something to a word."""
        return self.attention, self.feed_forward

    def forward(self, x: Tensor, mask: Tensor | None, turn: Tensor | None = None) -> Tensor:
        """Return `x` (B, S, D) one layer on."""

        def attend(y: Tensor) -> Tensor:
            return self.attention.look(*self.attention.split(y, turn), mask)

        x = self.around_attention(x, attend)
        return cast("Tensor", self.around_feed_forward(x, self.feed_forward))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.cross_attention = CrossAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.around_self, self.around_cross = Residual(settings), Residual(settings)
        self.around_feed_forward = Residual(settings)

    @property
    def parts(self) -> tuple[SelfAttention | CrossAttention | FeedForward, ...]:
        """Return all that adds something to a word."""
        return self.self_attention, self.cross_attention, self.feed_forward

    def forward(
        self, x: Tensor, cache: LayerCache, mask: Tensor | None, turn: Tensor | None = None
    ) -> tuple[Tensor, LayerCache]:
        """Return `x` (R, T, D) one layer on, and the cache with `x` added."""
        grown: list[KeysAndValues] = []

        def attend_to_target(y: Tensor) -> Tensor:
            query, new = self.self_attention.split(y, turn)
            grown.append(_append(cache.target, new))
            return self.self_attention.look_back(query, grown[0])

        def attend_to_source(y: Tensor) -> Tensor:
            return cast("Tensor", self.cross_attention(y, cache.source, mask))

        x = self.around_self(x, attend_to_target)
        x = self.around_cross(x, attend_to_source)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerCache(cache.source, grown[0])


@torch.no_grad()
def shrink_additions(layers: Iterable[EncoderLayer | DecoderLayer]) -> None:
    """Shrink what each part adds, so that all parts together add as much as one did.

    With norms after each part, every norm divides the way back by the size of a word after
    the addition: by about 1.4, as long as a part adds as much as was there. Through 36 parts
    nothing comes back. With a share of 1/n for each of n parts, more than half of it does.
    """
    parts = [part for layer in layers for part in layer.parts]
    for part in parts:
        part.output.weight.mul_(len(parts) ** -0.5)


def _activation(settings: TransformerSettings) -> nn.Module:
    return Gate() if settings.activation == "swiglu" else nn.GELU()


def _append(past: KeysAndValues | None, new: KeysAndValues) -> KeysAndValues:
    if past is None:
        return new
    return torch.cat([past[0], new[0]], dim=2), torch.cat([past[1], new[1]], dim=2)
