"""Marian and Pegasus models of Hugging Face as ours: the same sums in other names.

Marian has its norms after each sublayer, Pegasus before. Only safetensors are read: the older
`pytorch_model.bin` is pickled, and can run code.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unisono.bundle.huggingface_pieces import ForeignPieces, read_pieces
from unisono.bundle.writer import write_bundle
from unisono.errors import ConfigError, DataError
from unisono.models.settings import TransformerSettings, rounded_vocabulary
from unisono.models.transformer import TransformerModel, load_model, weight_shapes
from unisono.small_files import json_table, read_parsed
from unisono.translate.settings import Decoding

WEIGHTS_FILE, PICKLED = "model.safetensors", "pytorch_model.bin"
SEARCH_FILE = "generation_config.json"
# What transformers does if nothing is said, but for the beam, which is ours.
THEIR_SEARCH = {"length_penalty": 1.0, "length_penalty_form": "power"}
ACTIVATIONS_OF = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
NO_PROBABILITY = -100.0  # the bias of our padding, where theirs has no such row
USUAL_LENGTH = 512


def foreign_settings(pieces: ForeignPieces, path: Path) -> TransformerSettings:
    """Return the settings of the model at `path`; raise an error for what ours cannot do."""
    config = pieces.config
    where = str(path / "config.json")
    for name in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{name}") != config.get(f"decoder_{name}"):
            raise _unsupported(f"encoder and decoder differ in {name}", where)
    if not config.get("tie_word_embeddings", True):
        raise _unsupported("its output layer is not the matrix of its embeddings", where)
    if not config.get("share_encoder_decoder_embeddings", True):
        raise _unsupported("source and target have separate embeddings", where)
    activation = ACTIVATIONS_OF.get(str(config.get("activation_function")))
    if activation is None:
        raise _unsupported(f"activation {config.get('activation_function')!r}", where)
    try:
        return msgspec.convert(
            {
                "width": config.get("d_model"),
                "heads": config.get("encoder_attention_heads"),
                "inner": config.get("encoder_ffn_dim"),
                "encoder_layers": config.get("encoder_layers"),
                "decoder_layers": config.get("decoder_layers"),
                "norm": "pre" if config["model_type"] == "pegasus" else "post",
                "tied_embeddings": bool(config.get("scale_embedding", False)),
                "activation": activation,
                "output_bias": True,
            },
            TransformerSettings,
        )
    except msgspec.ValidationError as error:
        raise DataError(f"config.json makes no model: {error}", where=where) from error


def read_model(path: Path, pieces: ForeignPieces) -> TransformerModel:
    """Return the model at `path` with our order of pieces, ready to translate."""
    settings, vocabulary = foreign_settings(pieces, path), len(pieces.rows)
    theirs = _weights(path)
    try:
        expected = weight_shapes(settings, vocabulary)
        ours = dict(_converted(theirs, settings, pieces.rows))
    except (KeyError, IndexError, RuntimeError, ConfigError) as error:
        raise DataError(
            f"the weights do not fit config.json: {error}",
            where=str(path / WEIGHTS_FILE),
            fix="name a directory that `save_pretrained` wrote",
        ) from error
    for name, shape in expected.items():
        if tuple(ours[name].shape) != shape:
            raise DataError(
                f"`{name}` is {tuple(ours[name].shape)} where config.json implies {shape}",
                where=str(path / WEIGHTS_FILE),
            )
    return load_model(settings, vocabulary, ours).train(False)


def import_model(path: Path, to: Path, languages: tuple[str, str] = ("", "")) -> None:
    """Write the Marian or Pegasus model at `path` as a bundle to `to`.

    `languages` count where the directory does not say which ones it translates.
    """
    pieces = read_pieces(path)
    source, target = (a or b for a, b in zip(languages, pieces.languages, strict=True))
    if not (source and target):
        raise ConfigError(
            "the directory does not say which languages the model translates",
            where=str(path),
            fix="give them with --source-language and --target-language",
        )
    longest = pieces.config.get("max_position_embeddings", USUAL_LENGTH)
    write_bundle(
        to,
        model=read_model(path, pieces),
        tokenizers=pieces.tokenizers,
        normalisation=pieces.normalisation,
        source_language=source,
        target_language=target,
        decoding=_decoding(path, pieces),
        max_pieces=longest - 1 if isinstance(longest, int) and longest > 1 else USUAL_LENGTH,
        step=0,
        scores={},
    )


def _decoding(path: Path, pieces: ForeignPieces) -> Decoding:
    """Return how transformers searches with this model, as far as its files say so."""
    file = path / SEARCH_FILE
    settings = {**pieces.config, **(read_parsed(file, json_table) if file.is_file() else {})}
    found = {
        "beam": settings.get("num_beams"),
        "length_penalty": settings.get("length_penalty"),
    }
    given = {name: value for name, value in found.items() if value is not None}
    usual = {"length_penalty": 1.0, "length_penalty_form": "power"}
    try:
        return msgspec.convert({**usual, **given}, Decoding)
    except msgspec.ValidationError as error:
        raise DataError(
            f"its search is none that ours can follow: {error}",
            where=str(file if file.is_file() else path / "config.json"),
            fix="correct `num_beams` or `length_penalty` there",
        ) from error


def _weights(path: Path) -> dict[str, Tensor]:
    file = path / WEIGHTS_FILE
    if not file.is_file():
        pickled = (path / PICKLED).is_file()
        what = f"its weights are pickled ({PICKLED}), which can run code" if pickled else ""
        raise DataError(
            what or f"there is no {WEIGHTS_FILE}",
            where=str(path),
            fix="where you trust it, load it with transformers and save it again: "
            "model.save_pretrained(directory)"
            if pickled
            else "name a directory with the weights in one file of safetensors",
        )
    try:
        return {name: weight.float() for name, weight in load_file(file).items()}
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(
            f"{WEIGHTS_FILE} is damaged: {error}", where=str(file), fix="fetch it again"
        ) from error


def _converted(
    theirs: Mapping[str, Tensor], settings: TransformerSettings, rows: tuple[int, ...]
) -> Iterator[tuple[str, Tensor]]:
    matrix = theirs["model.shared.weight"]
    known = torch.tensor([row if row >= 0 else 0 for row in rows])
    new = torch.tensor([row < 0 for row in rows])
    ours = matrix.new_zeros(rounded_vocabulary(len(rows)), matrix.size(1))
    ours[: len(rows)] = matrix[known].masked_fill(new[:, None], 0.0)
    if settings.tied_embeddings:
        yield "embeddings.shared", ours
    else:  # we scale embeddings by the root of the width, and they do not
        for side in ("source", "target"):
            yield f"embeddings.{side}", ours / math.sqrt(settings.width)
        yield "embeddings.output", ours
    bias = theirs.get("final_logits_bias", matrix.new_zeros(1, matrix.size(0)))[0]
    yield "output_bias", bias[known].masked_fill(new, NO_PROBABILITY)
    for number in range(settings.encoder_layers):
        yield from _layer(theirs, f"model.encoder.layers.{number}", f"encoder.{number}")
    for number in range(settings.decoder_layers):
        yield from _layer(
            theirs, f"model.decoder.layers.{number}", f"decoder.{number}", "self_"
        )
    for side in ("encoder", "decoder") if settings.norm == "pre" else ():
        yield from _both(theirs, [f"model.{side}.layer_norm"], f"{side}_norm")


def _layer(
    theirs: Mapping[str, Tensor], there: str, here: str, self_: str = ""
) -> Iterator[tuple[str, Tensor]]:
    own = f"{there}.self_attn"
    names = [f"{own}.{part}_proj" for part in "qkv"]
    yield from _both(theirs, names, f"{here}.{self_}attention.query_key_value")
    yield from _both(theirs, [f"{own}.out_proj"], f"{here}.{self_}attention.output")
    around = "around_self" if self_ else "around_attention"
    yield from _both(theirs, [f"{there}.self_attn_layer_norm"], f"{here}.{around}.norm")
    if self_:
        cross, ours = f"{there}.encoder_attn", f"{here}.cross_attention"
        yield from _both(theirs, [f"{cross}.q_proj"], f"{ours}.query")
        yield from _both(theirs, [f"{cross}.{p}_proj" for p in "kv"], f"{ours}.key_value")
        yield from _both(theirs, [f"{cross}.out_proj"], f"{ours}.output")
        yield from _both(theirs, [f"{cross}_layer_norm"], f"{here}.around_cross.norm")
    yield from _both(theirs, [f"{there}.fc1"], f"{here}.feed_forward.0")
    yield from _both(theirs, [f"{there}.fc2"], f"{here}.feed_forward.3")
    yield from _both(theirs, [f"{there}.final_layer_norm"], f"{here}.around_feed_forward.norm")


def _both(
    theirs: Mapping[str, Tensor], names: list[str], here: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield weight and bias of layers that are one layer here, one below the other."""
    for kind in ("weight", "bias"):
        yield f"{here}.{kind}", torch.cat([theirs[f"{name}.{kind}"] for name in names])


def _unsupported(what: str, where: str) -> DataError:
    return DataError(
        f"this model cannot be imported: {what}", where=where, fix="name another model"
    )
