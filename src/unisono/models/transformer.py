"""The Transformer: training and translating take the same path.

Shapes: B sentences, R target rows, S source positions, T target positions, D model
width, V vocabulary.

Padding (id 0) stands at the end of a row. Source padding is masked. Target padding needs no
mask, because no word looks at a later one; what is computed at it is for nobody.
"""

import math
from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.errors import ConfigError
from unisono.models.attention import hiding
from unisono.models.cache import DecoderCache, LayerCache, Memory
from unisono.models.dropout import Dropout
from unisono.models.layers import DecoderLayer, EncoderLayer
from unisono.models.output import Output
from unisono.models.positions import Positions
from unisono.models.settings import TransformerSettings
from unisono.models.size import rounded
from unisono.text.tokenizer import PADDING_ID


class TransformerModel(nn.Module):
    """Encoder, decoder, and one embedding matrix for source, target and output, or three.

    A matrix has `rows` rows, `vocabulary` rounded up to a multiple of 8, because matrix
    products like such sizes. No logit of the additional rows is ever given out: they get
    no probability, no label smoothing and no gradient.
    """

    def __init__(self, settings: TransformerSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.vocabulary, self.rows = settings, vocabulary, rounded(vocabulary)
        names = ("shared",) if settings.tied_embeddings else ("source", "target", "output")
        self.embeddings = nn.ParameterDict({name: self._new_matrix() for name in names})
        self.positions = Positions(settings.width)
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(settings) for _ in range(settings.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(settings) for _ in range(settings.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = _last_norm(settings), _last_norm(settings)

    @property
    def device(self) -> torch.device:
        """Return where the weights are."""
        return self._matrix("source").device

    @property
    def output(self) -> Output:
        """Return the last step, from states to logits."""
        return Output(self._matrix("output"), self.vocabulary)

    def encode(self, source: Tensor) -> Memory:
        """Read `source` (B, S)."""
        x = self._embed("source", source, start=0)
        mask = _mask(source, x.dtype)
        for layer in self.encoder:
            x = layer(x, mask)
        return Memory(self.encoder_norm(x), mask)

    def start(self, memory: Memory) -> DecoderCache:
        """Return the cache of targets with no words yet."""
        layers = (cast("DecoderLayer", layer).cross_attention for layer in self.decoder)
        caches = tuple(LayerCache(layer.keys_and_values(memory.states)) for layer in layers)
        return DecoderCache(caches, memory.mask)

    def decode(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Read the next words `target` (R, T); return logits (R, T, V) and the new cache."""
        states, cache = self._read(target, cache)
        return self.output.logits(states), cache

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        finish: Callable[[Tensor, Output], Tensor] | None = None,
    ) -> Tensor:
        """Return logits (B, T, V): training is decoding with all words at once.

        `finish` makes something else of the last states (B, T, D), such as a loss, so that
        not all logits need to exist at once.
        """
        states, _ = self._read(target, self.start(self.encode(source)))
        return self.output.logits(states) if finish is None else finish(states, self.output)

    def _read(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        x = self._embed("target", target, start=cache.length)
        caches = []
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            x, grown = layer(x, layer_cache, cache.mask)
            caches.append(grown)
        return self.decoder_norm(x), DecoderCache(tuple(caches), cache.mask)

    def _embed(self, side: str, words: Tensor, start: int) -> Tensor:
        embedded = F.embedding(words, self._matrix(side))
        positions = self.positions(start, embedded)
        scale = math.sqrt(self.settings.width)
        return cast("Tensor", self.dropout(torch.add(positions, embedded, alpha=scale)))

    def _matrix(self, use: str) -> Tensor:
        name = "shared" if self.settings.tied_embeddings else use
        return cast("Tensor", self.embeddings[name])

    def _new_matrix(self) -> nn.Parameter:
        # As the output layer, too, this scale is right: logits start near unit size.
        width = self.settings.width
        return nn.Parameter(torch.randn(self.rows, width) * width**-0.5)


def build_model(settings: TransformerSettings, vocabulary: int) -> TransformerModel:
    """Return a fresh model; its weights follow from torch's random numbers alone."""
    if settings.width % settings.heads:
        raise ConfigError(
            f"{settings.heads} heads cannot share a width of {settings.width}",
            where="model.heads",
            fix="choose a number of heads that divides the width",
        )
    return TransformerModel(settings, vocabulary)


def load_model(
    settings: TransformerSettings, vocabulary: int, weights: Mapping[str, Tensor]
) -> TransformerModel:
    """Return the model with these `weights`, where they are, without drawing any first."""
    model = _without_weights(settings, vocabulary)
    model.load_state_dict(weights, assign=True)
    return model


def weight_shapes(settings: TransformerSettings, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the weights such a model has."""
    weights = _without_weights(settings, vocabulary).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _without_weights(settings: TransformerSettings, vocabulary: int) -> TransformerModel:
    with torch.device("meta"):
        return build_model(settings, vocabulary)


def _last_norm(settings: TransformerSettings) -> nn.Module:
    """Return the norm after the last layer; with norms after each part it is there already."""
    return nn.LayerNorm(settings.width) if settings.norm == "pre" else nn.Identity()


def _mask(source: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return what hides padding (B, 1, 1, S).

    Without padding attention is faster without a mask. On a GPU we would have to wait for
    the device to know, and do not ask.
    """
    padding = source == PADDING_ID
    if source.device.type == "cpu" and not bool(padding.any()):
        return None
    mask = torch.zeros(padding.shape, dtype=dtype, device=source.device)
    return mask.masked_fill_(padding, hiding(dtype))[:, None, None, :]
