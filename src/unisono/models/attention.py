"""Multi-head scaled dot-product attention, and the decoder's cache of keys and values.

Shapes: B sentences, R target rows (R = B times the rows of a sentence), S source positions,
T target positions, D model width, H heads, K width of a head.

A sentence may have several adjacent target rows: the beams of a search. They share the keys
and values of the source, which are therefore neither repeated nor moved with the beams.
"""

from dataclasses import dataclass, replace
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.models.cpu_linear import CpuLinear, halves_for
from unisono.models.dropout import Dropout, draws_here
from unisono.models.dropped_attention import dropped_attention
from unisono.models.positions import rotated
from unisono.models.settings import TransformerSettings
from unisono.models.step_attention import attends_here, step_attention

KeysAndValues = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """The output of the encoder."""

    states: Tensor  # (B, S, D)
    # (B, 1, 1, S or more), added to the scores of keys padded to as many; None without padding
    mask: Tensor | None


@dataclass(frozen=True, eq=False)
class LayerCache:
    """Keys and values of one decoder layer, for the source and for the target so far.

    Rows that were selected are copied when the next token comes: once for both.
    """

    source: KeysAndValues  # 2 x (B, H, S, K)
    target: KeysAndValues | None = None  # 2 x (R, H, T, K); None before the first token
    rows: Tensor | None = None  # (R,), those of `target` that count, in order; None: all

    def select(self, rows: Tensor, sentences: Tensor | None) -> Self:
        """Return the cache of these target rows and of these sentences (None: all)."""
        source = self.source if sentences is None else _select(self.source, sentences)
        if self.target is None:
            return replace(self, source=source)
        rows = rows if self.rows is None else self.rows.index_select(0, rows)
        return replace(self, source=source, rows=rows)

    def longer_target(self, new: KeysAndValues) -> KeysAndValues:
        """Return keys and values of the target with `new` ones, 2 x (R, H, T, K), behind."""
        if self.target is None:
            return new
        keys, values = self.target
        return _longer(keys, self.rows, new[0]), _longer(values, self.rows, new[1])


@dataclass(frozen=True, eq=False)
class DecoderCache:
    """The caches of all layers, and the mask of the source."""

    layers: tuple[LayerCache, ...]
    mask: Tensor | None  # (B, 1, 1, S)

    @property
    def length(self) -> int:
        """Return the number of target tokens decoded so far."""
        target = self.layers[0].target
        return 0 if target is None else target[0].size(2)

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Self:
        """Return the cache of these target rows, in this order; a row may occur twice.

        The rows of each sentence stay adjacent, in the order of the sentences. Pass
        `sentences` only to drop some of them: leaving the source as it is costs less.
        """
        layers = tuple(layer.select(rows, sentences) for layer in self.layers)
        if sentences is None or self.mask is None:
            return replace(self, layers=layers)
        return replace(self, layers=layers, mask=self.mask.index_select(0, sentences))


@dataclass(frozen=True, eq=False)
class JointCache:
    """The caches of several groups of sentences; the targets of a group have one length."""

    groups: tuple[DecoderCache, ...]
    rows: list[int]  # how many target rows each group has; they follow each other


def _select(pair: KeysAndValues, rows: Tensor) -> KeysAndValues:
    return pair[0].index_select(0, rows), pair[1].index_select(0, rows)


def _longer(past: Tensor, rows: Tensor | None, new: Tensor) -> Tensor:
    if rows is None:
        return torch.cat([past, new], dim=2)
    if torch.is_grad_enabled():
        return torch.cat([past.index_select(0, rows), new], dim=2)
    count, heads, length, width = past.shape
    longer = past.new_empty(rows.size(0), heads, length + new.size(2), width)
    torch.index_select(past, 0, rows, out=longer[:, :, :length])
    longer[:, :, length:] = new
    return longer


class Attention(nn.Module):
    """What self- and cross-attention share: the attention and its output projection.

    An encoder's does not `step`: which kernel it takes must not depend on a batch's length.
    """

    steps: bool = True

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = Dropout(settings.attention_dropout)
        self.output = linear(settings.width, settings.width)

    def attend(
        self,
        query: Tensor,
        memory: KeysAndValues,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Attend from `query` (B, H, T, K) to `memory`; return (B, T, D).

        `mask` is added to the attention scores. If `causal`, each position sees itself and
        those before it.
        """
        return self.project(self.heads_of(query, memory, mask, causal))

    def project(self, heads: Tensor) -> Tensor:
        """Return the output projection (B, T, D) of all heads (B, T, H, K)."""
        wide = halves_for(heads) is not None
        return cast("Tensor", self.output(heads if wide else heads.flatten(2)))

    def heads_of(
        self,
        query: Tensor,
        memory: KeysAndValues,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Do what `attend` does, without the projection; return (B, T, H, K)."""
        rate = self.dropout.rate if self.training else 0.0
        halves = halves_for(query)
        if halves is None and not (rate and query.device.type == "cpu"):
            if self.steps and attends_here(query) and not causal:
                context = step_attention(query, memory, mask)
            else:
                context = F.scaled_dot_product_attention(query, *memory, mask, rate, causal)
            return context.transpose(1, 2)
        if causal:
            mask = causal_mask(query, past=0)
        if draws_here(query):
            context = dropped_attention(query, memory, mask, self.dropout.dropped)
        else:
            context = self._attend_compiled(query, memory, mask)
        return context.transpose(1, 2)

    def _attend_compiled(
        self, query: Tensor, memory: KeysAndValues, mask: Tensor | None
    ) -> Tensor:
        """Do what `dropped_attention` does with operations that the compiler can trace."""
        scores = (query * query.size(3) ** -0.5) @ memory[0].transpose(2, 3)  # (B, H, T, S)
        if mask is not None:
            scores = scores + mask
        return cast("Tensor", self.dropout(scores.softmax(-1)) @ memory[1])

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        batch, length, width = x.shape
        split = x.view(batch, length, parts, self.heads, width // parts // self.heads)
        return split.permute(2, 0, 3, 1, 4).unbind(0)  # parts x (B, H, T, K)


class SelfAttention(Attention):
    """Attention within a sentence. One product computes queries, keys and values."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        self.query_key_value = linear(settings.width, settings.width, parts=3)

    def split(self, x: Tensor, rotation: Tensor | None = None) -> tuple[Tensor, KeysAndValues]:
        """Return the queries of `x` (B, T, D), and its keys and values.

        With rotary positions, `rotation` (T, K) encodes the positions.
        """
        query, key, value = self._split(self.query_key_value(x), 3)
        if rotation is not None:
            query, key = rotated(query, rotation), rotated(key, rotation)
        return query, (key, value)

    def attend_causally(self, query: Tensor, memory: KeysAndValues) -> Tensor:
        """Attend from each of the last positions in `memory` to itself and those before it."""
        new = query.size(2)
        past = memory[0].size(2) - new
        if new == 1:
            return self.attend(query, memory)
        if past == 0:
            return self.attend(query, memory, causal=True)
        return self.attend(query, memory, causal_mask(query, past))


class CrossAttention(Attention):
    """Attention from target to source, whose keys and values are computed once a sentence."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        self.query = linear(settings.width, settings.width)
        self.key_value = linear(settings.width, settings.width, parts=2)

    def keys_and_values(self, states: Tensor) -> KeysAndValues:
        """Return the keys and values of the source `states` (B, S, D)."""
        key, value = self._split(self.key_value(states), 2)
        if attends_here(states[:, :1, None]):  # each step would copy them
            return key.contiguous(), value.contiguous()
        return key, value

    def forward(self, x: Tensor, source: KeysAndValues, mask: Tensor | None) -> Tensor:
        """Attend from `x` (R, T, D) to the source of its sentence."""
        return self.project(self.heads_for(self.query(x), source, mask)).view_as(x)

    def heads_for(self, query: Tensor, source: KeysAndValues, mask: Tensor | None) -> Tensor:
        """Attend from queries (R, T, D) to the source; return (B, R / B * T, H, K)."""
        # All rows of a sentence attend to the same source: together they are one longer query.
        together = query.view(source[0].size(0), -1, query.size(2))
        return self.heads_of(self._split(together, 1)[0], source, mask)


def linear(inputs: int, outputs: int, parts: int = 1) -> CpuLinear:
    """Return `parts` linear layers in one, each initialised as if it were alone."""
    layer = CpuLinear(inputs, outputs * parts)
    layer.parts = parts
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(layer.bias)
    return layer


def padded_to(mask: Tensor | None, x: Tensor, dim: int) -> Tensor:
    """Return `x` with as many positions in dimension `dim` as `mask` (B, 1, 1, S) has."""
    missing = 0 if mask is None else mask.size(3) - x.size(dim)
    return F.pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, missing)) if missing else x


def causal_mask(query: Tensor, past: int) -> Tensor:
    """Return the mask (T, past + T) of later positions; `past` come before the query."""
    new = query.size(2)
    mask = torch.full((new, past + new), masked_score(query.dtype), device=query.device)
    return mask.triu_(past + 1).to(query.dtype)


def masked_score(dtype: torch.dtype) -> float:
    """Return the attention score that masks a position.

    It is finite, so that a position that sees nothing, in a row of padding, is not NaN.
    """
    return torch.finfo(dtype).min
