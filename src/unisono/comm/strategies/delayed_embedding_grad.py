"""The gradient of words in two parts: one is ready first, the other goes with the next update.

Where one matrix both reads words and scores them, its gradient is the largest of a model, and
final only when the backward pass has come to the very first layer: nothing is left behind which
to send it. But most of it comes from scoring, where the backward pass begins. So for the time
of a pass scoring has a weight of its own, in the same memory, whose gradient is ready first.
What reading adds is late, and is sent an update later, as what rounding drops is.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class TiedModel(Protocol):
    """A model that may read and score words with one matrix."""

    @property
    def tied_matrix(self) -> nn.Parameter | None:
        """Return that matrix, if there is one."""
        ...

    def scoring_with(self, matrix: nn.Parameter) -> AbstractContextManager[None]:
        """Let `matrix` score words for the time of a block."""
        ...


class DelayedEmbeddingGrad:
    """The tied matrix of a model as two weights, which have a gradient each."""

    def __init__(self, model: TiedModel, matrix: nn.Parameter) -> None:
        self._model, self.reads = model, matrix
        self.scores = nn.Parameter(matrix.detach())

    @contextmanager
    def only_scores(self) -> Iterator[None]:
        """Show the model, for the time of a block, with the weight that scores alone."""
        self.reads.requires_grad_(False)
        try:
            with self._model.scoring_with(self.scores):
                yield
        finally:
            self.reads.requires_grad_(True)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let gradients be computed in a block: that of `reads` is then the one of scoring."""
        self.scores.data = self.reads.data  # whoever loads weights may have given it others
        self.scores.grad = self.reads.grad = None
        with self._model.scoring_with(self.scores):
            yield

    def take(self) -> Tensor | None:
        """Return the late part, and leave in `.grad` of the matrix what was in time.

        If the late part is not finite, nothing is to be: this update must not be made.
        """
        late = self.reads.grad
        self.reads.grad, self.scores.grad = self.scores.grad, None
        if late is not None and not bool(late.sum().isfinite()):
            self.reads.grad = torch.full_like(self.reads, torch.nan)
        return late


def delayed_embedding_grad_of(model: nn.Module) -> DelayedEmbeddingGrad | None:
    """Return the words of a model that has one matrix for reading and scoring them."""
    tied: object = model
    if not isinstance(tied, TiedModel):
        return None
    matrix = tied.tied_matrix
    return (
        DelayedEmbeddingGrad(tied, matrix)
        if matrix is not None and matrix.requires_grad
        else None
    )
