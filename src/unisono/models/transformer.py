"""The Transformer: training and translating take the same path.

Shapes: B sentences, R target rows, S source positions, T target positions, D model
width, V vocabulary.

Padding (id 0) stands at the end of a row. Source padding is masked. Target padding needs no
mask, because no word looks at a later one; what is computed at it is for nobody.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.models.attention import DecoderCache, EncodedSource, LayerCache, hiding
from unisono.models.dropout import Dropout, WordDropout
from unisono.models.layers import DecoderLayer, EncoderLayer, shrink_additions
from unisono.models.output import Output
from unisono.models.positions import Positions
from unisono.models.settings import TransformerSettings, check_choices, embedding_rows
from unisono.text.tokenizer import PADDING_ID


class TransformerModel(nn.Module):
    """Encoder, decoder, and one embedding matrix for source, target and output, or three.

    With a `source_vocabulary` of its own the source has a matrix of its own. The rows of a
    matrix are its vocabulary rounded up to a multiple of 8, because matrix products like
    such sizes. No logit of the additional rows is ever given out: they get
    no probability, no label smoothing and no gradient.
    """

    def __init__(
        self, settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
    ) -> None:
        super().__init__()
        self.settings = settings
        self.vocabulary, self.source_vocabulary = vocabulary, source_vocabulary
        rows = embedding_rows(settings, vocabulary, source_vocabulary)
        self.embeddings = nn.ParameterDict({n: self._new_matrix(rows[n]) for n in rows})
        self.positions = Positions(settings)
        self.word_dropout = WordDropout(settings.word_dropout)
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(settings) for _ in range(settings.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(settings) for _ in range(settings.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = _last_norm(settings), _last_norm(settings)
        if settings.initialisation == "depth_scaled":
            shrink_additions(cast("Iterable[EncoderLayer]", self.encoder))
            shrink_additions(cast("Iterable[DecoderLayer]", self.decoder))

    @property
    def device(self) -> torch.device:
        """Return where the weights are."""
        return self._matrix("source").device

    @property
    def output(self) -> Output:
        """Return the last step, from states to logits."""
        return Output(self._matrix("output"), self.vocabulary)

    @property
    def words(self) -> list[nn.Parameter]:
        """Return the matrices that have a row for each word."""
        return list(self.embeddings.parameters())

    @property
    def tied_matrix(self) -> nn.Parameter | None:
        """Return the matrix that both reads words and scores them, if there is one."""
        return cast("nn.Parameter | None", self.embeddings.get("shared", None))

    @contextmanager
    def scoring_with(self, matrix: nn.Parameter) -> Iterator[None]:
        """Let `matrix` score words for the time of a block, in place of the tied one."""
        self.embeddings["output"] = matrix
        try:
            yield
        finally:
            del self.embeddings["output"]

    def encode(self, source: Tensor) -> EncodedSource:
        """Read `source` (B, S)."""
        x = self._embed("source", source, start=0)
        mask, turn = _mask(source, x.dtype), self.positions.turn(0, x)
        for layer in self.encoder:
            x = layer(x, mask, turn)
        return EncodedSource(self.encoder_norm(x), mask)

    def start(self, memory: EncodedSource) -> DecoderCache:
        """Return the cache of targets with no words yet."""
        layers = (cast("DecoderLayer", layer).cross_attention for layer in self.decoder)
        caches = tuple(LayerCache(layer.keys_and_values(memory.states)) for layer in layers)
        return DecoderCache(caches, memory.mask)

    def decode(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Read the next words `target` (R, T); return logits (R, T, V) and the new cache."""
        states, cache = self.read(target, cache)
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
        states, _ = self.read(target, self.start(self.encode(source)))
        return self.output.logits(states) if finish is None else finish(states, self.output)

    def read(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Read the next words `target` (R, T); return their states (R, T, D) and the cache."""
        x = self._embed("target", target, start=cache.length)
        turn = self.positions.turn(cache.length, x)
        caches = []
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            x, grown = layer(x, layer_cache, cache.mask, turn)
            caches.append(grown)
        return self.decoder_norm(x), DecoderCache(tuple(caches), cache.mask)

    def _embed(self, side: str, words: Tensor, start: int) -> Tensor:
        embedded = self.word_dropout(F.embedding(words, self._matrix(side)))
        signal = self.positions.signal(side, start, embedded)
        scale = math.sqrt(self.settings.width)
        if signal is None:
            return cast("Tensor", self.dropout(embedded * scale))
        return cast("Tensor", self.dropout(torch.add(signal, embedded, alpha=scale)))

    def _matrix(self, use: str) -> Tensor:
        name = use if use in self.embeddings else "shared"
        return cast("Tensor", self.embeddings[name])

    def _new_matrix(self, rows: int) -> nn.Parameter:
        # As the output layer, too, this scale is right: logits start near unit size.
        width = self.settings.width
        matrix = torch.empty(rows, width)
        # Where there is no memory to fill, torch would load its compiler to find that out.
        return nn.Parameter(matrix if matrix.is_meta else matrix.normal_().mul_(width**-0.5))


def build_model(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> TransformerModel:
    """Return a fresh model; its weights follow from torch's random numbers alone.

    A `source_vocabulary` of 0 says that source and target share `vocabulary`.
    """
    check_choices(settings, where="model")
    return TransformerModel(settings, vocabulary, source_vocabulary)


def load_model(
    settings: TransformerSettings,
    vocabulary: int,
    weights: Mapping[str, Tensor],
    source_vocabulary: int = 0,
) -> TransformerModel:
    """Return the model with these `weights`, where they are, without drawing any first."""
    model = _without_weights(settings, vocabulary, source_vocabulary)
    model.load_state_dict(weights, assign=True)
    return model


def weight_shapes(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the weights such a model has."""
    weights = _without_weights(settings, vocabulary, source_vocabulary).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _without_weights(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int
) -> TransformerModel:
    with torch.device("meta"):
        return build_model(settings, vocabulary, source_vocabulary)


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
