"""The output layer and the loss, always as a sum: the caller who knows all tokens divides.

Shapes: B sentences, S source positions, T target positions, N = B * T positions, C positions
of a chunk, D model width, V vocabulary.

Logits are by far the largest tensors of a model. In training they are therefore computed, used
and discarded chunk by chunk, together with the gradients. On a CPU, with a vocabulary of 8000,
this is a fifth faster than keeping them for the backward pass, and takes a fraction of the
memory. On a GPU it halves the memory of a base model (docs/explanations/gpu-rehearsal.md).

Label smoothing spreads its share evenly over the V entries of the vocabulary, padding and
the other special ones included. The rows that round the matrix up get none of it, because the
model returns no logits for them: rounding does not change the loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from unisono.models.cpu_linear import halves_for, multiply
from unisono.models.half_loss import counted_loss_and_gradient, half_loss_sum, scaled
from unisono.models.packed_products import PackedWeight
from unisono.text.tokenizer import PADDING_ID

CHUNK_LOGITS = 4_000_000  # 16 MB
GPU_CHUNK_LOGITS = 2**25  # 64 MB in half precision: fewer, larger kernels


@dataclass(frozen=True, eq=False)
class Output:
    """The output matrix, and perhaps a bias. Rows beyond the vocabulary only round its size up.

    With a bias, which only models of other programs have, the loss takes torch's way. A model
    that multiplies in bf16 has the matrix `packed`, too.
    """

    matrix: Tensor  # (V or more, D)
    vocabulary: int
    bias: Tensor | None = None  # (V,)
    packed: PackedWeight | None = None

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits (..., V) of `states` (..., D)."""
        logits = F.linear(states, self.matrix)[..., : self.vocabulary]
        return logits if self.bias is None else logits + self.bias

    def loss_sum(self, states: Tensor, ids: Tensor, smoothing: float, ignore: int) -> Tensor:
        """Return the sum of the smoothed cross-entropy of `ids` (N,) given `states` (N, D).

        The id `ignore` does not count.
        """
        chunked = torch.is_grad_enabled() and self.bias is None
        if states.device.type == "cpu" and chunked and not _autocast():
            kept = (ids != ignore).nonzero().flatten()
            if kept.numel() < ids.numel():
                states, ids = states.index_select(0, kept), ids.index_select(0, kept)
            matrix = self.matrix[: self.vocabulary]
            halves = halves_for(states)
            if halves is not None:
                return half_loss_sum(states, matrix, ids, smoothing, halves)
            return _chunked_loss(states, matrix, ids, smoothing)
        if states.is_cuda and chunked:
            return self._gpu_loss_sum(states, ids, smoothing, ignore)
        return F.cross_entropy(
            self.logits(states),
            ids,
            ignore_index=ignore,
            reduction="sum",
            label_smoothing=smoothing,
        )

    def _gpu_loss_sum(
        self, states: Tensor, ids: Tensor, smoothing: float, ignore: int
    ) -> Tensor:
        device = states.device.type
        autocasts = torch.is_autocast_enabled(device)
        kind = torch.get_autocast_dtype(device) if autocasts else states.dtype
        whole = self.vocabulary == self.matrix.size(0)
        matrix = self.matrix if whole else self.matrix[: self.vocabulary]
        # Which ids do not count is not looked at here: that would wait for the GPU.
        counts = (ids != ignore).float()
        with torch.autocast(device, enabled=False):
            loss: Tensor = _GpuChunkedLoss.apply(states, matrix, ids, counts, smoothing, kind)
        return loss


class _ChunkedLoss(torch.autograd.Function):
    """The loss; the forward pass computes its gradients, too."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, matrix: Tensor, ids: Tensor, smoothing: float
    ) -> Tensor:
        loss = states.new_zeros(())
        moves = ctx.needs_input_grad[1]  # not if the matrix is frozen
        states_grad = torch.empty_like(states)
        matrix_grad = torch.zeros_like(matrix) if moves else None
        size = max(1, CHUNK_LOGITS // matrix.size(0))
        # One buffer for the logits of all chunks: allocating costs more than the computation.
        buffer = states.new_empty(min(size, len(states)), matrix.size(0))
        chunks = zip(states.split(size), ids.split(size), states_grad.split(size), strict=True)
        for some, some_ids, some_grad in chunks:
            logits = multiply(some, matrix.t(), out=buffer[: len(some)])  # (C, V)
            loss += _loss_and_gradient(logits, some_ids, smoothing)
            multiply(logits, matrix, out=some_grad)
            if matrix_grad is not None:
                matrix_grad.addmm_(logits.t(), some)
        ctx.save_for_backward(states_grad, matrix_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *scaled(ctx.saved_tensors, scale), None, None


class _GpuChunkedLoss(torch.autograd.Function):
    """The loss with products in the number type `kind`; all sums are made in float32.

    Rows of `states` whose `counts` are 0 have no loss and no gradient. The gradient of a logit
    is at most 1 here: the loss scale comes later, so that it cannot overflow.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        matrix: Tensor,
        ids: Tensor,
        counts: Tensor,
        smoothing: float,
        kind: torch.dtype,
    ) -> Tensor:
        loss = torch.zeros((), device=states.device)
        states_grad = torch.empty_like(states)
        moves = ctx.needs_input_grad[1]
        matrix_grad = torch.zeros_like(matrix, dtype=torch.float32) if moves else None
        rows, columns = states.to(kind), matrix.to(kind)
        size = max(1, GPU_CHUNK_LOGITS // matrix.size(0))
        split = (tensor.split(size) for tensor in (rows, ids, counts, states_grad))
        for some, some_ids, some_counts, some_grad in zip(*split, strict=True):
            logits = (some @ columns.t()).float()  # (C, V)
            loss += counted_loss_and_gradient(logits, some_ids, some_counts, smoothing)
            gradient = logits.to(kind)
            del logits
            some_grad.copy_(gradient @ columns)
            if matrix_grad is not None:
                matrix_grad += gradient.t() @ some
        ctx.save_for_backward(states_grad, matrix_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *scaled(ctx.saved_tensors, scale), None, None, None, None


def _chunked_loss(states: Tensor, matrix: Tensor, ids: Tensor, smoothing: float) -> Tensor:
    loss: Tensor = _ChunkedLoss.apply(states, matrix, ids, smoothing)
    return loss


def _loss_and_gradient(logits: Tensor, ids: Tensor, smoothing: float) -> Tensor:
    """Return the loss, and replace `logits` (C, V) by its gradient in place."""
    correct = logits.gather(1, ids[:, None]).sum()
    mean = logits.mean(1).sum() if smoothing else 0.0
    highest = logits.amax(1)
    probabilities = torch.softmax(logits, 1, out=logits)
    # The highest logit minus its log-probability is the log of the softmax denominator.
    norms = (highest - probabilities.amax(1).log()).sum()
    if smoothing:
        probabilities.sub_(smoothing / logits.size(1))
    less = torch.full((len(ids), 1), smoothing - 1, dtype=logits.dtype, device=logits.device)
    probabilities.scatter_add_(1, ids[:, None], less)
    return norms - correct * (1 - smoothing) - mean * smoothing


def _autocast() -> bool:
    return torch.is_autocast_enabled("cpu")


class Predictor(Protocol):
    """A translation model, bare or wrapped by a strategy."""

    def __call__(
        self, source: Tensor, target: Tensor, finish: Callable[[Tensor, Output], Tensor]
    ) -> Tensor:
        """Return `finish` of the states (B, T, D) and the output layer."""
        ...


def loss_sums(
    model: Predictor,
    source: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    label_smoothing: float,
) -> Tensor:
    """Return the sum of the smoothed cross-entropy over all tokens of `target_out` (B, T).

    If all targets are padding, the loss and the gradients are exactly 0.
    """

    def finish(states: Tensor, output: Output) -> Tensor:
        ids = target_out.flatten()
        return output.loss_sum(states.flatten(0, 1), ids, label_smoothing, PADDING_ID)

    return model(source, target_in, finish)


@torch.no_grad()
def token_losses(
    model: Predictor, source: Tensor, target_in: Tensor, target_out: Tensor
) -> Tensor:
    """Return the sum of -log p over the tokens of each sentence (B,), not smoothed."""

    def finish(states: Tensor, output: Output) -> Tensor:
        logits = output.logits(states.flatten(0, 1))
        ids = target_out.flatten()
        return F.cross_entropy(logits, ids, ignore_index=PADDING_ID, reduction="none")

    return model(source, target_in, finish).view(target_out.shape).sum(1)
