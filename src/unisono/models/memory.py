"""The memory that training takes on a GPU, by the tensors that a backward pass needs. No torch.

A weight takes 16 bytes: itself, its gradient and two moments of Adam; in half precision 2 more
for its copy. Every position keeps, in each layer, what the backward pass reads again: inputs
and outputs of products in the precision of the forward pass, residuals in fp32, dropout's masks
in one byte. The logits are computed and forgotten in portions.
"""

from unisono.models.settings import TransformerSettings, parameter_count

BYTES_PER_WEIGHT = 16
COPY_BYTES_PER_WEIGHT = 12  # in host memory, while a checkpoint is written: no gradient
# Of a number in the forward pass; the residual stream stays fp32.
FORWARD_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
RESIDUAL_BYTES, MASK_BYTES = 4, 1
LOGIT_BYTES = 12  # the logits, their softmax and their gradient
LOGIT_POSITIONS = 256  # of one portion, as far as they add to the peak
CONTEXT_BYTES = 1.2e9  # of CUDA and NCCL
KEPT_BYTES_PER_WEIGHT = 16  # at most, by an exchange: `diloco` with its momentum
FILLED_SHARE = 0.85  # of a GPU's memory
MOST_TOKENS_AT_ONCE = 24_576  # beyond that a GPU is no faster: its kernels fill it


def training_bytes(
    model: TransformerSettings, vocabulary: int, tokens: int, precision: str
) -> float:
    """Return the peak that torch allocates for micro-batches of `tokens` on each side."""
    number = FORWARD_BYTES[precision]
    weights = parameter_count(model, vocabulary)
    fixed = weights * (BYTES_PER_WEIGHT + (number if number < RESIDUAL_BYTES else 0))
    logits = min(tokens, LOGIT_POSITIONS) * vocabulary * LOGIT_BYTES
    return fixed + logits + tokens * bytes_per_token(model, number)


def checkpoint_copy_bytes(model: TransformerSettings, vocabulary: int) -> int:
    """Return the host memory from which the leading process writes checkpoints."""
    return parameter_count(model, vocabulary) * COPY_BYTES_PER_WEIGHT


def bytes_per_token(model: TransformerSettings, number: int) -> float:
    """Return what a source and a target position keep in all layers."""
    # Norm's output, query, key, value, context and projection; residual and mask.
    attention = model.width * (6 * number + RESIDUAL_BYTES + MASK_BYTES)
    # Norm's output and the layer's; residual and mask; before and after the activation.
    inner = 2 * number * model.inner
    feed_forward = model.width * (2 * number + RESIDUAL_BYTES + MASK_BYTES) + inner
    encoder = model.encoder_layers * (attention + feed_forward)
    return encoder + model.decoder_layers * (2 * attention + feed_forward)


def largest_tokens(
    model: TransformerSettings, vocabulary: int, precision: str, memory: float
) -> int:
    """Return the largest micro-batch for a GPU of so many bytes; 0 if none fits."""
    number = FORWARD_BYTES[precision]
    room = memory - CONTEXT_BYTES - training_bytes(model, vocabulary, 0, precision)
    room -= LOGIT_POSITIONS * vocabulary * LOGIT_BYTES
    return max(0, int(room / bytes_per_token(model, number)) // 256 * 256)


def tokens_for(
    model: TransformerSettings,
    vocabulary: int,
    precision: str,
    memory: float,
    processes: int,
) -> int:
    """Return how many tokens to take at once on a GPU of so many bytes.

    Fewer than fit: the allocator leaves gaps, and an exchange keeps residuals or other weights.
    """
    kept = KEPT_BYTES_PER_WEIGHT * parameter_count(model, vocabulary) if processes > 1 else 0
    return largest_tokens(model, vocabulary, precision, FILLED_SHARE * memory - kept)


def even_tokens(fit: int, tokens_per_update: int, processes: int, longest: int) -> int:
    """Return micro-batches of at most `fit` tokens that give all processes equal shares.

    A micro-batch holds a sentence of `longest` tokens in any case.
    """
    share = max(1, tokens_per_update // processes)
    most = min(max(fit, longest), MOST_TOKENS_AT_ONCE)
    tokens = share // -(-share // most)
    return min(max(tokens, longest), tokens_per_update)
