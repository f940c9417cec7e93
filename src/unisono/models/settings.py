"""The sizes of a Transformer, as a user writes them. No torch here."""

from typing import Annotated, Any, Literal

import msgspec

from unisono.errors import ConfigError

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class TransformerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and choices of a Transformer. The defaults are the "base" model of 2017.

    `max_positions` is for learned positions alone: the others know no longest sentence.
    """

    width: Positive = 512
    heads: Positive = 8
    inner: Positive = 2048
    encoder_layers: Positive = 6
    decoder_layers: Positive = 6
    norm: Literal["pre", "post"] = "pre"
    tied_embeddings: bool = True
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    activation_dropout: Share = 0.1
    word_dropout: Share = 0.0
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    positions: Literal["sinusoid", "learned", "rotary"] = "sinusoid"
    max_positions: Count = 0
    initialisation: Literal["xavier", "depth_scaled"] = "xavier"


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "width": 128,
        "heads": 4,
        "inner": 512,
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "small": {
        "width": 256,
        "heads": 4,
        "inner": 1024,
        "encoder_layers": 3,
        "decoder_layers": 3,
    },
    "base": {
        "width": 512,
        "heads": 8,
        "inner": 2048,
        "encoder_layers": 6,
        "decoder_layers": 6,
    },
    "deep": {
        "width": 512,
        "heads": 8,
        "inner": 2048,
        "encoder_layers": 12,
        "decoder_layers": 2,
    },
    "big": {
        "width": 1024,
        "heads": 16,
        "inner": 4096,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "dropout": 0.3,
    },
}


def check_choices(settings: TransformerSettings, *, where: str) -> None:
    """Raise a ConfigError for the first choices that no model can follow together."""
    width, heads = settings.width, settings.heads
    if width % heads:
        raise ConfigError(
            f"width {width} cannot be split over {heads} heads",
            where=where,
            fix=f"make `width` a multiple of {heads}, or change `heads`",
        )
    if settings.positions == "rotary" and width // heads % 2:
        raise ConfigError(
            f"rotary positions turn pairs of numbers, but a head is {width // heads} wide "
            f"(width {width} over {heads} heads)",
            where=where,
            fix=f"make `width` a multiple of {2 * heads}, or choose other `positions`",
        )
    if width % 2:
        raise ConfigError(
            f"width {width} is odd; positions need sine and cosine",
            where=f"{where} width",
            fix=f"set `width = {width + 1}`",
        )
    if settings.positions == "learned" and not settings.max_positions:
        raise ConfigError(
            "learned positions need to know how many there are",
            where=f"{where} max_positions",
            fix="set `max_positions` to the pieces of the longest sentence, or choose "
            "other `positions`",
        )
