"""The sizes of a Transformer, as a user writes them. No torch here."""

from typing import Annotated, Any, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class TransformerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and choices of a Transformer. The defaults are the "base" model of 2017."""

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
    "big": {
        "width": 1024,
        "heads": 16,
        "inner": 4096,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "dropout": 0.3,
    },
}
