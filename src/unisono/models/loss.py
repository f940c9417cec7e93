"""The loss, always as a sum: whoever knows all tokens of the step divides, once.

Shapes: B sentences, S source positions, T target positions, D model width, V vocabulary.

Label smoothing spreads its share evenly over the V entries of the vocabulary, padding and
the other special ones included. The rows by which the model rounds its matrix up get none
of it, because the model gives out no logits for them: rounding changes no loss.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from unisono.models.output import Output
from unisono.text.tokenizer import PADDING_ID


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
