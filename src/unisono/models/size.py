"""How large a model is and how much work it makes, from its settings alone. No torch here."""

from unisono.models.settings import TransformerSettings


def rounded(vocabulary: int) -> int:
    """Return the rows of an embedding matrix: the next multiple of 8."""
    return -(-vocabulary // 8) * 8


def parameter_count(settings: TransformerSettings, vocabulary: int) -> int:
    """Return the number of weights a model of these settings trains."""
    width, inner = settings.width, settings.inner
    norm = 2 * width
    attention = 4 * (width * width + width)
    feed_forward = width * inner + inner + inner * width + width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    matrices = 1 if settings.tied_embeddings else 3
    last_norms = 2 if settings.norm == "pre" else 0
    return (
        settings.encoder_layers * encoder_layer
        + settings.decoder_layers * decoder_layer
        + matrices * rounded(vocabulary) * width
        + last_norms * norm
    )


def training_flops(
    settings: TransformerSettings,
    vocabulary: int,
    sentences: int,
    source_length: float,
    target_length: float,
) -> float:
    """Return the floating-point operations of one update, matrix products only.

    Lengths are positions a sentence, as computed: with padding if there is any. The
    backward pass costs twice the forward pass. Attention counts in full although half of
    the decoder's own is masked away.
    """
    width, inner = settings.width, settings.inner
    source, target = source_length, target_length
    square, feed_forward = width * width, 2 * width * inner
    encoder_layer = source * (4 * square + feed_forward) + 2 * source * source * width
    decoder_layer = (
        target * (6 * square + feed_forward)
        + source * 2 * square
        + 2 * target * (target + source) * width
    )
    products = (
        settings.encoder_layers * encoder_layer
        + settings.decoder_layers * decoder_layer
        + target * width * rounded(vocabulary)
    )
    return 3 * 2 * sentences * products
