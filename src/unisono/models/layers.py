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
    padded_to,
)
from unisono.models.cpu_linear import CpuLinear, halves_for
from unisono.models.dropout import Dropout, ReluDropout
from unisono.models.half_products import half_feed_forward
from unisono.models.settings import TransformerSettings


class Residual(nn.Module):
    """A residual connection around a sublayer, with the norm before or after it."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.pre_norm = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.width)
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `x` plus `sublayer` of it."""
        if self.pre_norm:
            return self.dropout.add(x, sublayer(self.norm(x)))
        return cast("Tensor", self.norm(self.dropout.add(x, sublayer(x))))


class Gate(nn.Module):
    """SwiGLU: the first half of the numbers gates the second."""

    def forward(self, x: Tensor) -> Tensor:
        """Return half as many numbers as `x` (..., 2 * inner) has."""
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value


class FeedForward(nn.Sequential):
    """Two linear layers and an activation between; the gate is fused with the first layer."""

    def __init__(self, settings: TransformerSettings) -> None:
        rate = settings.activation_dropout
        relu = settings.activation == "relu"
        super().__init__(
            linear(settings.width, settings.inner, 2 if settings.activation == "swiglu" else 1),
            nn.Identity() if relu else _activation(settings),
            ReluDropout(rate) if relu else Dropout(rate),
            linear(settings.inner, settings.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` (..., D) after both layers; in bf16 with ReLU they are one step."""
        halves, dropout = halves_for(x), self[2]
        inner = cast("CpuLinear", self[0])
        packed, packed_output = inner.packed, self.output.packed
        if not isinstance(dropout, ReluDropout):
            return cast("Tensor", super().forward(x))
        if packed is not None and packed_output is not None:
            return packed_output.after(packed.rows(x, "relu"), x.shape[:-1])
        if halves is None:
            return cast("Tensor", super().forward(x))
        layers = inner.weight, inner.bias, self.output.weight, self.output.bias
        return half_feed_forward(x, layers, dropout.dropped, halves)

    @property
    def output(self) -> CpuLinear:
        """Return the output projection."""
        return cast("CpuLinear", self[3])


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.attention, self.feed_forward = SelfAttention(settings), FeedForward(settings)
        self.attention.steps = False
        self.around_attention, self.around_feed_forward = Residual(settings), Residual(settings)

    @property
    def sublayers(self) -> tuple[SelfAttention | CrossAttention | FeedForward, ...]:
        """Return all sublayers with a residual connection."""
        return self.attention, self.feed_forward

    def forward(self, x: Tensor, mask: Tensor | None, rotation: Tensor | None = None) -> Tensor:
        """Return the output of the layer for `x` (B, S, D)."""

        def attend(y: Tensor) -> Tensor:
            query, (keys, values) = self.attention.split(y, rotation)
            memory = padded_to(mask, keys, 2), padded_to(mask, values, 2)
            return self.attention.attend(query, memory, mask)

        x = self.around_attention(x, attend)
        return cast("Tensor", self.around_feed_forward(x, self.feed_forward))


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.cross_attention = CrossAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.around_self, self.around_cross = Residual(settings), Residual(settings)
        self.around_feed_forward = Residual(settings)

    @property
    def sublayers(self) -> tuple[SelfAttention | CrossAttention | FeedForward, ...]:
        """Return all sublayers with a residual connection."""
        return self.self_attention, self.cross_attention, self.feed_forward

    def forward(
        self, x: Tensor, cache: LayerCache, mask: Tensor | None, rotation: Tensor | None = None
    ) -> tuple[Tensor, LayerCache]:
        """Return the output of the layer for `x` (R, T, D), and the cache with `x` added."""
        grown: list[KeysAndValues] = []

        def attend_to_target(y: Tensor) -> Tensor:
            query, new = self.self_attention.split(y, rotation)
            grown.append(cache.longer_target(new))
            return self.self_attention.attend_causally(query, grown[0])

        def attend_to_source(y: Tensor) -> Tensor:
            return cast("Tensor", self.cross_attention(y, cache.source, mask))

        x = self.around_self(x, attend_to_target)
        x = self.around_cross(x, attend_to_source)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerCache(cache.source, grown[0])


@torch.no_grad()
def scale_residual_branches(layers: Iterable[EncoderLayer | DecoderLayer]) -> None:
    """Scale the output of n sublayers by 1/sqrt(n), so that together they add as much as one.

    With post-norm, every norm divides the gradient by the size of the residual stream after
    the addition: by about 1.4, as long as a sublayer adds as much as was there. After 36
    sublayers the gradient vanishes; scaled like this, more than half of it arrives.
    """
    sublayers = [sublayer for layer in layers for sublayer in layer.sublayers]
    for sublayer in sublayers:
        sublayer.output.weight.mul_(len(sublayers) ** -0.5)


def _activation(settings: TransformerSettings) -> nn.Module:
    kinds: dict[str, type[nn.Module]] = {"swiglu": Gate, "silu": nn.SiLU, "gelu": nn.GELU}
    return kinds[settings.activation]()
