"""What the decoder remembers while it reads a target.

Shapes: B sentences, R target rows (R = B times the rows of a sentence), S source positions,
T target positions, D model width, H heads, K width of a head.

A sentence may have several target rows, side by side: the beams of a search. They share
what was made of the source, which is therefore neither repeated nor moved with them.

Scaled dot-product attention with several heads.

Shapes: B sentences, R target rows, S source positions, T positions, D model width,
H heads, K width of a head.
"""

from dataclasses import dataclass, replace
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.models.cpu_linear import CpuLinear
from unisono.models.dropout import Dropout
from unisono.models.positions import turned
from unisono.models.settings import TransformerSettings

KeysAndValues = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """What the encoder made of the source."""

    states: Tensor  # (B, S, D)
    mask: Tensor | None  # (B, 1, 1, S), added to attention; none if no word is padding


@dataclass(frozen=True, eq=False)
class LayerCache:
    """Keys and values of one decoder layer: of the source, and of the target so far."""

    source: KeysAndValues  # 2 x (B, H, S, K)
    target: KeysAndValues | None = None  # 2 x (R, H, T, K); none before the first word

    def select(self, rows: Tensor, sentences: Tensor | None) -> Self:
        """Return the cache of these target rows and of these sentences (none: of all)."""
        source = self.source if sentences is None else _select(self.source, sentences)
        target = None if self.target is None else _select(self.target, rows)
        return replace(self, source=source, target=target)


@dataclass(frozen=True, eq=False)
class DecoderCache:
    """The caches of all layers, and the mask of the source."""

    layers: tuple[LayerCache, ...]
    mask: Tensor | None  # (B, 1, 1, S)

    @property
    def length(self) -> int:
        """Return the number of target words read so far."""
        target = self.layers[0].target
        return 0 if target is None else target[0].size(2)

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Self:
        """Return the cache of these target rows, in this order; a row may occur twice.

        The rows of each sentence stay side by side, in the order of the sentences. Name
        `sentences` only if some are to be left out: to leave the source alone is cheaper.
        """
        layers = tuple(layer.select(rows, sentences) for layer in self.layers)
        if sentences is None or self.mask is None:
            return replace(self, layers=layers)
        return replace(self, layers=layers, mask=self.mask.index_select(0, sentences))


def _select(pair: KeysAndValues, rows: Tensor) -> KeysAndValues:
    return pair[0].index_select(0, rows), pair[1].index_select(0, rows)


class Attention(nn.Module):
    """What both kinds of attention share: looking, and the projection of what was seen."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = Dropout(settings.attention_dropout)
        self.output = linear(settings.width, settings.width)

    def look(
        self,
        query: Tensor,
        memory: KeysAndValues,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Look from `query` (B, H, T, K) at `memory`; return what was seen (B, T, D).

        `mask` is added to the attention scores. If `causal`, each word sees itself and the
        words before it.
        """
        share = self.dropout.share if self.training else 0.0
        if share and query.device.type == "cpu":
            if causal:
                mask = causal_mask(query, past=0)
            seen = self._look_with_dropout(query, memory, mask)
        else:
            seen = F.scaled_dot_product_attention(query, *memory, mask, share, causal)
        return cast("Tensor", self.output(seen.transpose(1, 2).flatten(2)))

    def _look_with_dropout(
        self, query: Tensor, memory: KeysAndValues, mask: Tensor | None
    ) -> Tensor:
        """Do what torch does, which on a CPU has no fast kernel with dropout.

        With our own random numbers it is faster, the more so the longer the sentences.
        """
        scores = (query * query.size(3) ** -0.5) @ memory[0].transpose(2, 3)  # (B, H, T, S)
        if mask is not None:
            scores = scores + mask
        return cast("Tensor", self.dropout(scores.softmax(-1)) @ memory[1])

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        batch, length, width = x.shape
        split = x.view(batch, length, parts, self.heads, width // parts // self.heads)
        return split.permute(2, 0, 3, 1, 4).unbind(0)  # parts x (B, H, T, K)


class SelfAttention(Attention):
    """Words look at the words of their own sentence. One product makes all three parts."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        self.query_key_value = linear(settings.width, settings.width, parts=3)

    def split(self, x: Tensor, turn: Tensor | None = None) -> tuple[Tensor, KeysAndValues]:
        """Return the queries of `x` (B, T, D), and what others see of it.

        With rotary positions, `turn` (T, K) tells where the words stand.
        """
        query, key, value = self._split(self.query_key_value(x), 3)
        if turn is not None:
            query, key = turned(query, turn), turned(key, turn)
        return query, (key, value)

    def look_back(self, query: Tensor, memory: KeysAndValues) -> Tensor:
        """Look from each of the last words in `memory` at itself and at those before it."""
        new = query.size(2)
        past = memory[0].size(2) - new
        if new == 1:
            return self.look(query, memory)
        if past == 0:
            return self.look(query, memory, causal=True)
        return self.look(query, memory, causal_mask(query, past))


class CrossAttention(Attention):
    """Target words look at the source. Its keys and values are made once a sentence."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        self.query = linear(settings.width, settings.width)
        self.key_value = linear(settings.width, settings.width, parts=2)

    def keys_and_values(self, states: Tensor) -> KeysAndValues:
        """Return what target words see of the source `states` (B, S, D)."""
        key, value = self._split(self.key_value(states), 2)
        return key, value

    def forward(self, x: Tensor, source: KeysAndValues, mask: Tensor | None) -> Tensor:
        """Look from `x` (R, T, D) at the source of its sentence."""
        # All rows of a sentence see the same source: together they are one longer query.
        together = self.query(x).view(source[0].size(0), -1, x.size(2))
        (query,) = self._split(together, 1)
        return self.look(query, source, mask).view_as(x)


def linear(inputs: int, outputs: int, parts: int = 1) -> CpuLinear:
    """Return `parts` linear layers in one, each initialised as if it stood alone."""
    layer = CpuLinear(inputs, outputs * parts)
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(layer.bias)
    return layer


def causal_mask(query: Tensor, past: int) -> Tensor:
    """Return what hides later words (T, past + T), if `past` words stand before the query."""
    new = query.size(2)
    hidden = torch.full((new, past + new), hiding(query.dtype), device=query.device)
    return hidden.triu_(past + 1).to(query.dtype)


def hiding(dtype: torch.dtype) -> float:
    """Return the score that hides a word.

    It is finite: a word that sees nothing at all, in a batch of padding, stays a number.
    """
    return torch.finfo(dtype).min
