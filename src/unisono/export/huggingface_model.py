"""A model in the files of Hugging Face: `Pegasus` with norms first, `Marian` with norms last.

Both compute what ours does: scaled embeddings, added positions, ReLU or GELU.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from unisono import __version__
from unisono.bundle.format import Description
from unisono.models.positions import sinusoids
from unisono.models.transformer import TransformerModel
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID
from unisono.translate.settings import Decoding

DTYPES = {"": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def write_huggingface_model(
    directory: Path,
    model: TransformerModel,
    about: Description,
    positions: int,
    quantization: str,
    length_penalty: float,
) -> None:
    """Write weights, configuration and generation settings to `directory`."""
    dtype = DTYPES[quantization]
    weights = {name: weight.to(dtype) for name, weight in _weights(model, positions).items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    rows = weights["model.encoder.embed_positions.weight"].shape[0]
    _write(directory / "config.json", _configuration(about, rows, str(dtype)))
    search = _generation(about.decoding, about.max_pieces, length_penalty)
    _write(directory / "generation_config.json", search)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _configuration(about: Description, rows: int, dtype: str) -> dict[str, Any]:
    settings = about.model
    name = "pegasus" if settings.norm == "pre" else "marian"
    architectures = {"pegasus": "PegasusForConditionalGeneration", "marian": "MarianMTModel"}
    sides = ("encoder", "decoder")
    layers = dict(zip(sides, (settings.encoder_layers, settings.decoder_layers), strict=True))
    tied = settings.tied_embeddings
    return {
        "architectures": [architectures[name]],
        "model_type": name,
        "vocab_size": about.vocabulary,
        **({"decoder_vocab_size": about.vocabulary} if name == "marian" else {}),
        **({"share_encoder_decoder_embeddings": tied} if name == "marian" else {}),
        "d_model": settings.width,
        **{f"{side}_layers": layers[side] for side in sides},
        **{f"{side}_attention_heads": settings.heads for side in sides},
        **{f"{side}_ffn_dim": settings.inner for side in sides},
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "max_position_embeddings": rows,
        "scale_embedding": True,
        "tie_word_embeddings": tied,
        "is_encoder_decoder": True,
        "dtype": dtype.removeprefix("torch."),
        **_special_ids(),
        "unisono_version": __version__,
    }


def _special_ids() -> dict[str, int]:
    return {
        "pad_token_id": PADDING_ID,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "forced_eos_token_id": END_ID,
        "decoder_start_token_id": BEGIN_ID,
    }


def _generation(decoding: Decoding, max_pieces: int, length_penalty: float) -> dict[str, Any]:
    """Return how to search; their `length_penalty` is another than ours."""
    return {
        **_special_ids(),
        "num_beams": decoding.beam,
        "length_penalty": length_penalty,
        "early_stopping": decoding.beam > 1,
        # The end counts there.
        "max_new_tokens": int(decoding.max_ratio * max_pieces) + decoding.max_extra + 1,
        "suppress_tokens": [PADDING_ID, BEGIN_ID],
        "do_sample": False,
    }


def _weights(model: TransformerModel, positions: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, use in _embeddings(model):
        found[f"{name}.weight"] = model.embeddings[use][: model.vocabulary]
    bias = model.output.bias
    found["final_logits_bias"] = (
        torch.zeros(1, model.vocabulary) if bias is None else bias[None]
    )
    for side, target in (("encoder", "source"), ("decoder", "target")):
        found[f"model.{side}.embed_positions.weight"] = _positions(model, target, positions)
        for number, layer in enumerate(getattr(model, side)):
            found |= _layer(f"model.{side}.layers.{number}", layer)
        if model.settings.norm == "pre":
            found |= _both(f"model.{side}.layer_norm", getattr(model, f"{side}_norm"))
    return {name: weight.detach().contiguous().clone() for name, weight in found.items()}


def _embeddings(model: TransformerModel) -> list[tuple[str, str]]:
    """Return the name of each embedding matrix there, and what it is for here."""
    if model.settings.tied_embeddings:
        return [("model.shared", "shared")]
    sides = [("model.encoder.embed_tokens", "source"), ("model.decoder.embed_tokens", "target")]
    # Pegasus wants a shared matrix even if nothing uses it.
    unused = [("model.shared", "source")] if model.settings.norm == "pre" else []
    return [*sides, ("lm_head", "output"), *unused]


def _positions(model: TransformerModel, side: str, rows: int) -> Tensor:
    if model.settings.positions == "learned":
        return model.positions.get_parameter(side)
    return sinusoids(rows, model.settings.width)


def _layer(name: str, layer: Any) -> dict[str, Tensor]:
    is_decoder = hasattr(layer, "cross_attention")
    own = layer.self_attention if is_decoder else layer.attention
    around = layer.around_self if is_decoder else layer.around_attention
    found = _both(f"{name}.self_attn_layer_norm", around.norm)
    found |= _split(f"{name}.self_attn", own.query_key_value, ["q_proj", "k_proj", "v_proj"])
    found |= _both(f"{name}.self_attn.out_proj", own.output)
    if is_decoder:
        cross = layer.cross_attention
        found |= _both(f"{name}.encoder_attn_layer_norm", layer.around_cross.norm)
        found |= _both(f"{name}.encoder_attn.q_proj", cross.query)
        found |= _split(f"{name}.encoder_attn", cross.key_value, ["k_proj", "v_proj"])
        found |= _both(f"{name}.encoder_attn.out_proj", cross.output)
    found |= _both(f"{name}.fc1", layer.feed_forward[0])
    found |= _both(f"{name}.fc2", layer.feed_forward.output)
    return found | _both(f"{name}.final_layer_norm", layer.around_feed_forward.norm)


def _both(name: str, module: Any) -> dict[str, Tensor]:
    return {f"{name}.weight": module.weight, f"{name}.bias": module.bias}


def _split(name: str, module: Any, parts: list[str]) -> dict[str, Tensor]:
    weights, biases = module.weight.chunk(len(parts)), module.bias.chunk(len(parts))
    found: dict[str, Tensor] = {}
    for part, weight, bias in zip(parts, weights, biases, strict=True):
        found |= {f"{name}.{part}.weight": weight, f"{name}.{part}.bias": bias}
    return found
