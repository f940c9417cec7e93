"""What the decoder remembers while it reads a target.

Shapes: B sentences, R target rows (R = B times the rows of a sentence), S source positions,
T target positions, D model width, H heads, K width of a head.

A sentence may have several target rows, side by side: the beams of a search. They share
what was made of the source, which is therefore neither repeated nor moved with them.
"""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

KeysAndValues = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Memory:
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
