"""The last step, from states to words, and the loss there.

Shapes: N target positions, D model width, V vocabulary, C positions of a chunk.

Logits are by far the largest tensors of a model. In training on a CPU they are therefore
made, used and forgotten chunk by chunk, and the gradients with them. With 8000 words that is a
fifth faster than to keep them for the backward pass, and takes a fraction of the memory.

The loss, always as a sum: whoever knows all tokens of the step divides, once.

Shapes: B sentences, S source positions, T target positions, D model width, V vocabulary.

Label smoothing spreads its share evenly over the V entries of the vocabulary, padding and
the other special ones included. The rows by which the model rounds its matrix up get none
of it, because the model gives out no logits for them: rounding changes no loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unisono.models.cpu_linear import multiply
from unisono.text.tokenizer import PADDING_ID

CHUNK_LOGITS = 4_000_000  # 16 MB


@dataclass(frozen=True, eq=False)
class Output:
    """The matrix that scores words. Rows beyond the vocabulary only round its size up."""

    matrix: Tensor  # (V or more, D)
    vocabulary: int

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits (..., V) of `states` (..., D)."""
        return F.linear(states, self.matrix)[..., : self.vocabulary]

    def loss_sum(self, states: Tensor, words: Tensor, smoothing: float, ignore: int) -> Tensor:
        """Return the smoothed cross-entropy of `words` (N,) given `states` (N, D), summed.

        Words that are `ignore` count nothing.
        """
        if states.device.type == "cpu" and torch.is_grad_enabled() and not _autocast():
            kept = (words != ignore).nonzero().flatten()
            if kept.numel() < words.numel():
                states, words = states.index_select(0, kept), words.index_select(0, kept)
            matrix = self.matrix[: self.vocabulary]
            return _chunked_loss(states, matrix, words, smoothing)
        return F.cross_entropy(
            self.logits(states),
            words,
            ignore_index=ignore,
            reduction="sum",
            label_smoothing=smoothing,
        )


class _ChunkedLoss(torch.autograd.Function):
    """The loss with gradients that are ready before anyone asks for them."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, matrix: Tensor, words: Tensor, smoothing: float
    ) -> Tensor:
        loss = states.new_zeros(())
        for_states, for_matrix = torch.empty_like(states), torch.zeros_like(matrix)
        size = max(1, CHUNK_LOGITS // matrix.size(0))
        # One place for the logits of all chunks: new memory costs more than what is done in it.
        place = states.new_empty(min(size, len(states)), matrix.size(0))
        chunks = zip(states.split(size), words.split(size), for_states.split(size), strict=True)
        for some, some_words, for_some in chunks:
            logits = multiply(some, matrix.t(), out=place[: len(some)])  # (C, V)
            loss += _loss_to_slope(logits, some_words, smoothing)
            multiply(logits, matrix, out=for_some)
            for_matrix.addmm_(logits.t(), some)
        ctx.save_for_backward(for_states, for_matrix)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        for_states, for_matrix = ctx.saved_tensors
        return for_states * scale, for_matrix * scale, None, None


def _chunked_loss(states: Tensor, matrix: Tensor, words: Tensor, smoothing: float) -> Tensor:
    loss: Tensor = _ChunkedLoss.apply(states, matrix, words, smoothing)
    return loss


def _loss_to_slope(logits: Tensor, words: Tensor, smoothing: float) -> Tensor:
    """Return the loss, and turn `logits` (C, V) into its gradient, in their place."""
    right = logits.gather(1, words[:, None]).sum()
    everything = logits.mean(1).sum() if smoothing else 0.0
    highest = logits.amax(1)
    chances = torch.softmax(logits, 1, out=logits)
    # The highest logit minus the log of its own probability: what the softmax divided by.
    norms = (highest - chances.amax(1).log()).sum()
    if smoothing:
        chances.sub_(smoothing / logits.size(1))
    less = torch.full((len(words), 1), smoothing - 1, dtype=logits.dtype, device=logits.device)
    chances.scatter_add_(1, words[:, None], less)
    return norms - right * (1 - smoothing) - everything * smoothing


def _autocast() -> bool:
    return torch.is_autocast_enabled("cpu")


class Predictor(Protocol):
    """A translation model, bare or wrapped for an exchange of gradients."""

    def __call__(
        self, source: Tensor, target: Tensor, finish: Callable[[Tensor, Output], Tensor]
    ) -> Tensor:
        """Return what `finish` makes of the states (B, T, D) and the output layer."""
        ...


def loss_sums(
    model: Predictor,
    source: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    label_smoothing: float,
) -> Tensor:
    """Return the sum of smoothed cross-entropies over all words of `target_out` (B, T).

    Targets of nothing but padding give exactly 0, and gradients of exactly 0.
    """

    def finish(states: Tensor, output: Output) -> Tensor:
        words = target_out.flatten()
        return output.loss_sum(states.flatten(0, 1), words, label_smoothing, PADDING_ID)

    return model(source, target_in, finish)


@torch.no_grad()
def token_losses(
    model: Predictor, source: Tensor, target_in: Tensor, target_out: Tensor
) -> Tensor:
    """Return, for each sentence, the sum of -log p over its words (B,), not smoothed."""

    def finish(states: Tensor, output: Output) -> Tensor:
        logits = output.logits(states.flatten(0, 1))
        words = target_out.flatten()
        return F.cross_entropy(logits, words, ignore_index=PADDING_ID, reduction="none")

    return model(source, target_in, finish).view(target_out.shape).sum(1)
