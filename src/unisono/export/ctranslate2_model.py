"""Write a model by CTranslate2's own specification, layer by layer.

CTranslate2 computes what ours does: scaled embeddings, norms before or after, ReLU, GELU or a
gated SiLU, rotary positions. Positions that are added come along as a table, because the
sinusoids that CTranslate2 would make are others.
"""

from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from numpy.typing import NDArray
from torch import Tensor, nn

from unisono.models.positions import sinusoids
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import TransformerModel

ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "swiglu": Activation.SWISH,
    "silu": Activation.SWISH,
}


def write_ctranslate2(
    directory: Path,
    model: TransformerModel,
    vocabularies: tuple[list[str], list[str]],
    positions: int,
    quantization: str,
) -> None:
    """Write `model` with the tokens of source and target; "" quantizes nothing.

    It can encode and decode up to `positions` pieces, if its positions are added.
    """
    spec = _spec(model, positions)
    spec.config.add_source_eos = True
    for register, tokens in zip(
        (spec.register_source_vocabulary, spec.register_target_vocabulary),
        vocabularies,
        strict=True,
    ):
        register(tokens)
    spec.validate()
    spec.optimize(quantization=quantization or None)
    spec.save(str(directory))


def _spec(model: TransformerModel, positions: int) -> TransformerSpec:
    settings = model.settings
    rotary = settings.positions == "rotary"
    choices: dict[str, Any] = {
        "num_heads": settings.heads,
        "pre_norm": settings.norm == "pre",
        "activation": ACTIVATIONS[settings.activation],
        "ffn_glu": settings.activation == "swiglu",
        "rotary_dim": settings.width // settings.heads if rotary else None,
        "rotary_interleave": False,
    }
    encoder = TransformerEncoderSpec(settings.encoder_layers, **choices)
    decoder = TransformerDecoderSpec(settings.decoder_layers, **choices)
    embeddings = {
        "source": (encoder.embeddings[0], model.source_vocabulary or model.vocabulary),
        "target": (decoder.embeddings, model.vocabulary),
        "output": (decoder.projection, model.vocabulary),
    }
    for use, (place, rows) in embeddings.items():
        place.weight = _array(_matrix(model, use)[:rows])
    if model.output.bias is not None:
        decoder.projection.bias = _array(model.output.bias)
    for side, part in (("source", encoder), ("target", decoder)):
        if not rotary:
            part.position_encodings.encodings = _positions(model, side, positions)
    _fill_layers(encoder, model.encoder, settings)
    _fill_layers(decoder, model.decoder, settings)
    if settings.norm == "pre":
        _norm(encoder.layer_norm, model.encoder_norm)
        _norm(decoder.layer_norm, model.decoder_norm)
    return TransformerSpec(encoder, decoder)


def _matrix(model: TransformerModel, use: str) -> Tensor:
    found: Tensor = model.embeddings[use if use in model.embeddings else "shared"]
    return found


def _positions(model: TransformerModel, side: str, rows: int) -> NDArray[np.float32]:
    if model.settings.positions == "learned":
        return _array(model.positions.get_parameter(side))
    return _array(sinusoids(rows, model.settings.width))


def _fill_layers(part: Any, layers: Any, settings: TransformerSettings) -> None:
    for spec, layer in zip(part.layer, layers, strict=True):
        inner = layer.self_attention if hasattr(layer, "self_attention") else layer.attention
        around = layer.around_self if hasattr(layer, "around_self") else layer.around_attention
        _attention(spec.self_attention, [inner.query_key_value, inner.output], around)
        if hasattr(layer, "cross_attention"):
            cross = layer.cross_attention
            steps = [cross.query, cross.key_value, cross.output]
            _attention(spec.attention, steps, layer.around_cross)
        _norm(spec.ffn.layer_norm, layer.around_feed_forward.norm)
        _feed_forward(spec.ffn, layer.feed_forward, settings)


def _attention(spec: Any, linears: list[nn.Linear], around: Any) -> None:
    _norm(spec.layer_norm, around.norm)
    for place, linear in zip(spec.linear, linears, strict=True):
        _linear(place, linear.weight, linear.bias)


def _feed_forward(spec: Any, layers: Any, settings: TransformerSettings) -> None:
    first, last = layers[0], layers.output
    if settings.activation == "swiglu":
        gates, values = zip(first.weight.chunk(2), first.bias.chunk(2), strict=True)
        _linear(spec.linear_0, *gates)
        _linear(spec.linear_0_noact, *values)
    else:
        _linear(spec.linear_0, first.weight, first.bias)
    _linear(spec.linear_1, last.weight, last.bias)


def _linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(weight: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = weight.detach().cpu().float().contiguous().numpy()
    return found
