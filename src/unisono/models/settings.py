"""The settings of a Transformer, and its size and work that follow from them. No torch here."""

from typing import Annotated, Any, Literal

import msgspec

from unisono.errors import ConfigError

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class TransformerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and choices of a Transformer. The defaults are the "base" model of 2017.

    `max_positions` is for learned positions alone: the others have no longest sentence.
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
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    positions: Literal["sinusoid", "learned", "rotary"] = "sinusoid"
    max_positions: Count = 0
    initialisation: Literal["xavier", "depth_scaled"] = "xavier"
    output_bias: bool = False


def _sizes(width: int, heads: int, inner: int, encoder: int, decoder: int) -> dict[str, Any]:
    layers = {"encoder_layers": encoder, "decoder_layers": decoder}
    return {"width": width, "heads": heads, "inner": inner, **layers}


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _sizes(128, 4, 512, encoder=2, decoder=2),
    "small": _sizes(256, 4, 1024, encoder=3, decoder=3),
    "base": _sizes(512, 8, 2048, encoder=6, decoder=6),
    "deep": _sizes(512, 8, 2048, encoder=12, decoder=2),
    "big": _sizes(1024, 16, 4096, encoder=6, decoder=6) | {"dropout": 0.3},
}


def check_choices(settings: TransformerSettings, *, where: str) -> None:
    """Raise a ConfigError for the first choices that do not go together."""
    width, heads = settings.width, settings.heads
    if width % heads:
        raise ConfigError(
            f"width {width} cannot be split over {heads} heads",
            where=where,
            fix=f"make `width` a multiple of {heads}, or change `heads`",
        )
    if settings.positions == "rotary" and width // heads % 2:
        raise ConfigError(
            f"rotary positions rotate pairs of numbers, but a head is {width // heads} wide "
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
            "learned positions need a largest position",
            where=f"{where} max_positions",
            fix="set `max_positions` to the pieces of the longest sentence, or choose "
            "other `positions`",
        )


def rounded_vocabulary(vocabulary: int) -> int:
    """Return the rows of an embedding matrix: the next multiple of 8."""
    return -(-vocabulary // 8) * 8


def embedding_rows(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> dict[str, int]:
    """Return the rows of each embedding matrix, by what it is for.

    "shared" serves all of source, target and output that have no matrix of their own. A
    source with its own vocabulary never shares; 0 means that it has none.
    """
    target, source = (
        rounded_vocabulary(vocabulary),
        rounded_vocabulary(source_vocabulary or vocabulary),
    )
    if not settings.tied_embeddings:
        return {"source": source, "target": target, "output": target}
    return {"source": source, "shared": target} if source_vocabulary else {"shared": target}


def position_rows(settings: TransformerSettings) -> int:
    """Return the rows of the tables of learned positions, source and target together."""
    return 2 * settings.max_positions if settings.positions == "learned" else 0


def parameter_count(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> int:
    """Return the number of trainable weights of such a model."""
    width, inner = settings.width, settings.inner
    norm = 2 * width
    attention = 4 * (width * width + width)
    into = _inner_products(settings)
    feed_forward = into * (width * inner + inner) + inner * width + width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    rows = sum(embedding_rows(settings, vocabulary, source_vocabulary).values())
    last_norms = 2 if settings.norm == "pre" else 0
    return (
        settings.encoder_layers * encoder_layer
        + settings.decoder_layers * decoder_layer
        + (rows + position_rows(settings)) * width
        + last_norms * norm
        + settings.output_bias * vocabulary
    )


def matrix_shapes(
    settings: TransformerSettings, vocabulary: int, source_vocabulary: int = 0
) -> list[tuple[int, int]]:
    """Return rows and columns of every trainable matrix of such a model.

    All other weights are vectors: biases and norms.
    """
    width, into = settings.width, _inner_products(settings) * settings.inner
    self_attention = [(3 * width, width), (width, width)]
    cross_attention = [(width, width), (2 * width, width), (width, width)]
    feed_forward = [(into, width), (width, settings.inner)]
    rows = embedding_rows(settings, vocabulary, source_vocabulary).values()
    positions = [settings.max_positions] * 2 if settings.positions == "learned" else []
    return [
        *((count, width) for count in (*rows, *positions)),
        *settings.encoder_layers * [*self_attention, *feed_forward],
        *settings.decoder_layers * [*self_attention, *cross_attention, *feed_forward],
    ]


def training_flops(
    settings: TransformerSettings,
    vocabulary: int,
    sentences: int,
    source_length: float,
    target_length: float,
) -> float:
    """Return the floating-point operations of one update, matrix products only.

    `vocabulary` is the target's: an embedding lookup is not a product. Lengths are positions
    per sentence, padding included. The backward pass costs twice the forward pass. Attention
    counts in full although half of the decoder's self-attention is masked.
    """
    width, inner = settings.width, settings.inner
    source, target = source_length, target_length
    square, feed_forward = width * width, (_inner_products(settings) + 1) * width * inner
    encoder_layer = source * (4 * square + feed_forward) + 2 * source * source * width
    decoder_layer = (
        target * (6 * square + feed_forward)
        + source * 2 * square
        + 2 * target * (target + source) * width
    )
    products = (
        settings.encoder_layers * encoder_layer
        + settings.decoder_layers * decoder_layer
        + target * width * rounded_vocabulary(vocabulary)
    )
    return 3 * 2 * sentences * products


def _inner_products(settings: TransformerSettings) -> int:
    """Return how many matrices lead into the feed-forward layer: a gate is one more."""
    return 2 if settings.activation == "swiglu" else 1
