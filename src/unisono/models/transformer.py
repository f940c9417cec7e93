"""The Transformer: training and translation take the same path.

Shapes: B sentences, R target rows, S source positions, T target positions, D model
width, V vocabulary.

Padding (id 0) comes at the end of a row. Source padding is masked. Target padding needs no
mask, because no position attends to a later one; what is computed there is not used.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unisono.models.attention import (
    DecoderCache,
    EncodedSource,
    JointCache,
    LayerCache,
    masked_score,
    padded_to,
)
from unisono.models.cpu_linear import CpuLinear, as_factor
from unisono.models.dropout import Dropout, WordDropout
from unisono.models.joint_decoding import decode_jointly
from unisono.models.layers import DecoderLayer, EncoderLayer, scale_residual_branches
from unisono.models.output import Output
from unisono.models.packed_products import PackedWeight
from unisono.models.positions import Positions
from unisono.models.settings import TransformerSettings, check_choices, embedding_rows
from unisono.models.step_attention import LANES, pads_here
from unisono.text.tokenizer import PADDING_ID


class TransformerModel(nn.Module):
    """Encoder, decoder, and one embedding matrix for source, target and output, or three.

    With a `source_vocabulary` of its own the source has its own matrix. A matrix has as many
    rows as its vocabulary rounded up to a multiple of 8, because such matrix products are
    faster. The model returns no logits for the additional rows: they get no probability, no
    label smoothing and no gradient.
    """

    def __init__(
        self, settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
    ) -> None:
        super().__init__()
        self.settings = settings
        self.vocabulary, self.source_vocabulary = vocabulary, source_vocabulary
        self._packed_output: PackedWeight | None = None
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
        self.output_bias = (
            nn.Parameter(torch.zeros(vocabulary)) if settings.output_bias else None
        )
        if settings.initialisation == "depth_scaled":
            scale_residual_branches(cast("Iterable[EncoderLayer]", self.encoder))
            scale_residual_branches(cast("Iterable[DecoderLayer]", self.decoder))

    @property
    def device(self) -> torch.device:
        return self._matrix("source").device

    @property
    def output(self) -> Output:
        """Return the output layer, from states to logits."""
        return Output(
            self._matrix("output"), self.vocabulary, self.output_bias, self._packed_output
        )

    def pack(self) -> None:
        """Multiply in bf16 from now on, in inference mode on a CPU; weights must not change."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a process that is forked later must not have had several
        for layer in self.modules():
            if isinstance(layer, CpuLinear):
                layer.pack()
        matrix = self._matrix("output")[: self.vocabulary]
        self._packed_output = PackedWeight(matrix, self.output_bias)
        torch.set_num_threads(threads)

    @property
    def embedding_weights(self) -> list[nn.Parameter]:
        """Return the matrices that have a row for each id of a vocabulary."""
        return list(self.embeddings.parameters())

    @property
    def tied_matrix(self) -> nn.Parameter | None:
        """Return the matrix that is both embedding and output layer, if there is one."""
        return cast("nn.Parameter | None", self.embeddings.get("shared", None))

    @contextmanager
    def scoring_with(self, matrix: nn.Parameter) -> Iterator[None]:
        """Use `matrix` as the output layer within a block, in place of the tied one."""
        self.embeddings["output"] = matrix
        try:
            yield
        finally:
            del self.embeddings["output"]

    def encode(self, source: Tensor) -> EncodedSource:
        """Encode `source` (B, S)."""
        x = self._embed("source", source, start=0)
        mask, rotation = _mask(source, x.dtype), self.positions.rotation(0, x)
        for layer in self.encoder:
            x = layer(x, mask, rotation)
        return EncodedSource(self.encoder_norm(x), mask)

    def start(self, memory: EncodedSource) -> DecoderCache:
        """Return the cache of targets without a token yet."""
        layers = (cast("DecoderLayer", layer).cross_attention for layer in self.decoder)
        states = padded_to(memory.mask, as_factor(memory.states), 1)
        caches = tuple(LayerCache(layer.keys_and_values(states)) for layer in layers)
        return DecoderCache(caches, memory.mask)

    def decode(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Decode the next tokens `target` (R, T); return logits (R, T, V) and the new cache."""
        states, cache = self.read(target, cache)
        return self.output.logits(states), cache

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        finish: Callable[[Tensor, Output], Tensor] | None = None,
    ) -> Tensor:
        """Return logits (B, T, V): training is decoding with all tokens at once.

        `finish` computes something else from the last states (B, T, D), such as a loss, so
        that not all logits need to exist at once.
        """
        states, _ = self.read(target, self.start(self.encode(source)))
        return self.output.logits(states) if finish is None else finish(states, self.output)

    def read_jointly(self, target: Tensor, cache: JointCache) -> tuple[Tensor, JointCache]:
        """Do what `read` does for one token (R, 1), in one go for several groups."""
        lengths = [group.length for group in cache.groups]
        parts = zip(target.split(cache.rows), lengths, strict=True)
        x = torch.cat([self._embed("target", part, start=length) for part, length in parts])
        rotations = [self.positions.rotation(length, x) for length in lengths]
        grown = []
        for number, layer in enumerate(self.decoder):
            decoder_layer = cast("DecoderLayer", layer)
            x, layers = decode_jointly(decoder_layer, x, cache, number, rotations)
            grown.append(layers)
        groups = [
            DecoderCache(layers, group.mask)
            for group, layers in zip(cache.groups, zip(*grown, strict=True), strict=True)
        ]
        return self.decoder_norm(x), replace(cache, groups=tuple(groups))

    def read(self, target: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Decode the next tokens `target` (R, T); return states (R, T, D) and the new cache."""
        x = self._embed("target", target, start=cache.length)
        rotation = self.positions.rotation(cache.length, x)
        caches = []
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            x, grown = layer(x, layer_cache, cache.mask, rotation)
            caches.append(grown)
        return self.decoder_norm(x), DecoderCache(tuple(caches), cache.mask)

    def _embed(self, side: str, ids: Tensor, start: int) -> Tensor:
        embedded = self.word_dropout(F.embedding(ids, self._matrix(side)))
        signal = self.positions.signal(side, start, embedded)
        scale = math.sqrt(self.settings.width)
        if signal is None:
            return cast("Tensor", self.dropout(embedded * scale))
        return cast("Tensor", self.dropout(torch.add(signal, embedded, alpha=scale)))

    def _matrix(self, use: str) -> Tensor:
        name = use if use in self.embeddings else "shared"
        return cast("Tensor", self.embeddings[name])

    def _new_matrix(self, rows: int) -> nn.Parameter:
        # This scale suits the output layer, too: logits start near unit size.
        width = self.settings.width
        matrix = torch.empty(rows, width)
        # On the meta device torch would load its compiler only to do nothing.
        return nn.Parameter(matrix if matrix.is_meta else matrix.normal_().mul_(width**-0.5))


def build_model(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> TransformerModel:
    """Return a new model; its weights depend on torch's random numbers alone.

    A `source_vocabulary` of 0 means that source and target share `vocabulary`.
    """
    check_choices(settings, where="model")
    return TransformerModel(settings, vocabulary, source_vocabulary)


def load_model(
    settings: TransformerSettings,
    vocabulary: int,
    weights: Mapping[str, Tensor],
    source_vocabulary: int = 0,
) -> TransformerModel:
    """Return the model with these `weights`, on their device, without initialising others."""
    model = _without_weights(settings, vocabulary, source_vocabulary)
    model.load_state_dict(weights, assign=True)
    return model


def weight_shapes(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the weights of such a model."""
    weights = _without_weights(settings, vocabulary, source_vocabulary).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _without_weights(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int
) -> TransformerModel:
    with torch.device("meta"):
        return build_model(settings, vocabulary, source_vocabulary)


def _last_norm(settings: TransformerSettings) -> nn.Module:
    """Return the norm after the last layer; with post-norm there is one already."""
    return nn.LayerNorm(settings.width) if settings.norm == "pre" else nn.Identity()


def _mask(source: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return the mask of padding (B, 1, 1, S), or None.

    Without padding, attention is faster without a mask. On a GPU the check would wait for the
    device, so there we do not check.
    """
    padding = source == PADDING_ID
    if pads_here(source):
        padding = F.pad(padding, (0, -source.size(1) % LANES), value=True)
    if source.device.type == "cpu" and not bool(padding.any()):
        return None
    mask = torch.zeros(padding.shape, dtype=dtype, device=source.device)
    return mask.masked_fill_(padding, masked_score(dtype))[:, None, None, :]
