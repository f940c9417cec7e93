"""The layers of the encoder and of the decoder.

Shapes: B sentences, R target rows, S source positions, T target positions, D model width.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from unisono.models.attention import CrossAttention, SelfAttention, linear
from unisono.models.cache import KeysAndValues, LayerCache
from unisono.models.dropout import Dropout
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
            return x + cast("Tensor", self.dropout(part(self.norm(x))))
        return cast("Tensor", self.norm(x + self.dropout(part(x))))


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU between."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(
            linear(settings.width, settings.inner),
            nn.ReLU(inplace=True),
            Dropout(settings.activation_dropout),
            linear(settings.inner, settings.width),
        )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.attention, self.feed_forward = SelfAttention(settings), FeedForward(settings)
        self.around_attention, self.around_feed_forward = Residual(settings), Residual(settings)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return `x` (B, S, D) one layer on."""

        def attend(y: Tensor) -> Tensor:
            return self.attention.look(*self.attention.split(y), mask)

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

    def forward(
        self, x: Tensor, cache: LayerCache, mask: Tensor | None
    ) -> tuple[Tensor, LayerCache]:
        """Return `x` (R, T, D) one layer on, and the cache with `x` added."""
        grown: list[KeysAndValues] = []

        def attend_to_target(y: Tensor) -> Tensor:
            query, new = self.self_attention.split(y)
            grown.append(_append(cache.target, new))
            return self.self_attention.look_back(query, grown[0])

        def attend_to_source(y: Tensor) -> Tensor:
            return cast("Tensor", self.cross_attention(y, cache.source, mask))

        x = self.around_self(x, attend_to_target)
        x = self.around_cross(x, attend_to_source)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerCache(cache.source, grown[0])


def _append(past: KeysAndValues | None, new: KeysAndValues) -> KeysAndValues:
    if past is None:
        return new
    return torch.cat([past[0], new[0]], dim=2), torch.cat([past[1], new[1]], dim=2)
