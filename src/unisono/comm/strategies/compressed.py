"""Gradient compression: each bucket is quantized and sent while the rest is computed.

Quantized numbers cannot be added on the way, so machines exchange theirs and add them up in one
phase or in two (`packed_gather.py`, `two_phase_sum.py`): all come to the same bits. What
rounding dropped, the residual, is added to the next gradient (error feedback): nothing is lost,
it only arrives later. The
processes of a machine first make their exact sum; one of them quantizes it, sends it and keeps
the residual.

Where one matrix both embeds words and scores them, its gradient is the largest of a model, and
final only when the backward pass reaches the first layer: no computing is left to hide its
exchange. But most of it comes from scoring, where the backward pass begins. So during a pass
scoring has a weight of its own, in the same memory, whose gradient is ready first. What
embedding adds to it is delayed: it is sent with the next update, like a residual.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState, StrategyTensors
from unisono.comm.settings import Sync
from unisono.comm.strategies.ddp import DdpReplica
from unisono.comm.strategies.packed_gather import (
    CommThread,
    Subgroups,
    make_subgroups,
)
from unisono.comm.strategies.quantize import Bits, padded
from unisono.comm.strategies.strategy_state import Residuals, SameWeights
from unisono.comm.strategies.threaded_replica import replica_alone
from unisono.comm.strategies.two_phase_sum import PendingSum, exchange_in, shares_of
from unisono.cost_model.exchange import FEW_MACHINES
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch
from unisono.units import seconds_of


@runtime_checkable
class TiedModel(Protocol):
    """A model that may embed and score words with one matrix."""

    @property
    def tied_matrix(self) -> nn.Parameter | None:
        """Return that matrix, if there is one."""
        ...

    def scoring_with(self, matrix: nn.Parameter) -> AbstractContextManager[None]:
        """Score words with `matrix` while the block runs."""
        ...


class DelayedEmbeddingGrad:
    """The tied matrix of a model as two weights in the same memory, each with a gradient."""

    def __init__(self, model: TiedModel, matrix: nn.Parameter) -> None:
        self._model, self.embeds = model, matrix
        self.scores = nn.Parameter(matrix.detach())

    @contextmanager
    def only_scores(self) -> Iterator[None]:
        """Let only the weight that scores require a gradient while the block runs."""
        self.embeds.requires_grad_(False)
        try:
            with self._model.scoring_with(self.scores):
                yield
        finally:
            self.embeds.requires_grad_(True)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Compute the gradients of embedding and of scoring apart while the block runs."""
        self.scores.data = self.embeds.data  # loading a checkpoint may have replaced it
        self.scores.grad = self.embeds.grad = None
        with self._model.scoring_with(self.scores):
            yield

    def take(self) -> Tensor | None:
        """Return the delayed part, and leave the part that was in time in the matrix's `.grad`.

        If the delayed part is not finite, make `.grad` so too: the update must be skipped.
        """
        delayed = self.embeds.grad
        self.embeds.grad, self.scores.grad = self.scores.grad, None
        if delayed is not None and self.embeds.grad is not None:
            # NaN if any number is not finite, and else 0. To ask would wait for a GPU.
            self.embeds.grad.view(-1)[:1] += delayed.sum() * 0.0
        return delayed


def delayed_embedding_grad_of(model: nn.Module) -> DelayedEmbeddingGrad | None:
    """Return the tied matrix of a model that has one, or None."""
    tied: object = model
    if not isinstance(tied, TiedModel):
        return None
    matrix = tied.tied_matrix
    if matrix is None or not matrix.requires_grad:
        return None
    return DelayedEmbeddingGrad(tied, matrix)


RESIDUAL_SUFFIX = "/gradient_left_over"  # of a tensor's name in a checkpoint


@dataclass(frozen=True)
class Compressed:
    """Send every gradient in `bits` bits a number, overlapped with the backward pass.

    Machines sum in so many `phases`; 0 means in as many as send less.
    """

    bits: Bits = 8
    bucket_mb: float = USUAL_BUCKET_MB
    timeout_seconds: float = 300.0
    phases: int = 0

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        bucket_mb = sync.bucket_mb or USUAL_BUCKET_MB
        return cls(sync.bits, bucket_mb, seconds_of(sync.timeout), sync.phases)

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            return replica_alone(model, comm)
        subgroups, weights = make_subgroups(comm, self.timeout_seconds), trained_weights(model)
        embedding = delayed_embedding_grad_of(model)
        if embedding is not None:
            weights = {
                n: embedding.scores if w is embedding.embeds else w for n, w in weights.items()
            }
        device = comm.world.device
        packed = QuantizedSum(weights, subgroups, self.bits, device, self.phases)
        if embedding is not None:
            return DelayedEmbeddingReplica(model, embedding, packed, comm, self.bucket_mb)
        return DdpReplica(model, comm, self.bucket_mb, packed.send, packed)


class DelayedEmbeddingReplica:
    """A replica that sends the embedding's part of the tied gradient one update later."""

    def __init__(
        self,
        model: nn.Module,
        embedding: DelayedEmbeddingGrad,
        packed: "QuantizedSum",
        comm: Comm,
        bucket_mb: float,
    ) -> None:
        self.module, self._embedding, self._packed = model, embedding, packed
        with embedding.only_scores():
            self._replica = DdpReplica(model, comm, bucket_mb, packed.send, packed)
        self._replica.ends_with(embedding.embeds)

    @property
    def memory(self) -> StrategyState:
        """Return the residuals, and the delayed gradient."""
        return self._packed

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        with self._embedding.apart():
            loss = self._replica.gradients(batches, loss_of, stopwatch)
        delayed = self._embedding.take()
        if delayed is not None:
            self._packed.delay(self._embedding.scores, delayed)
        return loss


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that have a gradient, by name."""
    return {name: w for name, w in model.named_parameters() if w.requires_grad}


class QuantizedSum(SameWeights):
    """Sums buckets over all processes by sending them quantized; keeps the residuals."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        subgroups: Subgroups,
        bits: Bits,
        device: str,
        phases: int = 0,
    ) -> None:
        self._delayed: dict[Tensor, Tensor] = {}
        self._scale = 1.0
        self._exchange = exchange_in(phases, subgroups, bits)
        self._shares = shares_of(phases, subgroups)
        self._residuals, self._subgroups = Residuals(weights, self._shares), subgroups
        self._thread = CommThread(device)
        self._buffers: dict[int, Tensor] = {}

    def begin(self, step: int, scale: float) -> None:
        self._residuals.settle(moved=False)  # of an exchange that was never settled
        self._delayed, self._scale = {}, scale

    def delay(self, weight: Tensor, gradient: Tensor) -> None:
        """Add `gradient` to the one of `weight` in the next update, if this one is made."""
        self._delayed[weight] = gradient if self._scale == 1.0 else gradient / self._scale

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        if moved and not self._subgroups.leads:
            self._residuals.load({})  # the first process of the machine has it now
        self._residuals.settle(moved=moved)
        for weight, gradient in self._delayed.items() if moved else ():
            self._residuals.add(weight, gradient)
        self._delayed = {}

    def before_save(self) -> None:
        if self._subgroups.senders > FEW_MACHINES:
            self._residuals.pool(self._subgroups.sum, keep=self._subgroups.is_leader)

    def state(self) -> StrategyTensors:
        left = self._residuals.tensors()
        return StrategyTensors(
            own={name + RESIDUAL_SUFFIX: tensor for name, tensor in left.items()}
        )

    def load(self, kept: StrategyTensors) -> None:
        self._residuals.load(residuals_in(kept))

    def forget(self) -> None:
        """Drop the residuals, and the memory for them."""
        self._residuals.load({})
        self._buffers = {}

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum to come of `bucket` over all processes."""
        gradient, number = bucket.buffer(), bucket.index()
        count = gradient.numel()
        wanted = self._with_residual(gradient, number, bucket.parameters())
        if self._subgroups.inside is not None or gradient.is_cuda:
            return self._thread.do(partial(self._sum_by_machines, number, wanted, count))
        pending = self._send(number, wanted)
        return self._thread.do(partial(_arrived, pending, wanted, self._scale, count))

    def _with_residual(
        self, gradient: Tensor, number: int, weights: Sequence[Tensor]
    ) -> Tensor:
        """Return the gradient plus the residual, padded to whole blocks."""
        count = gradient.numel()
        if not self._subgroups.leads and not self._residuals.has(weights):
            wanted = self._buffer(number, gradient)
            wanted[:count] = gradient
        else:
            # Residuals are kept without the loss scale, which may differ in each update.
            left = self._residuals.of(number, weights)
            wanted = self._residuals.spare(number)
            torch.add(gradient, left[:count], alpha=self._scale, out=wanted[:count])
        wanted[count:] = 0.0
        return wanted

    def _buffer(self, number: int, gradient: Tensor) -> Tensor:
        size = padded(gradient.numel(), self._shares)
        buffer = self._buffers.get(number)
        if buffer is None or buffer.numel() != size:
            buffer = self._buffers[number] = gradient.new_empty(size)
        return buffer

    def _sum_by_machines(self, number: int, wanted: Tensor, count: int) -> Tensor:
        """Reduce within the machine, sum between machines, broadcast within the machine."""
        self._subgroups.reduce_to_first(wanted)
        total = wanted
        if self._subgroups.leads:
            pending = self._send(number, wanted)
            total = _arrived(pending, wanted, self._scale, len(wanted))
        self._subgroups.broadcast_from_first(total)
        return total[:count]

    def _send(self, number: int, wanted: Tensor) -> PendingSum:
        pending, dropped = self._exchange.send(wanted)
        self._residuals.propose(number, dropped)
        return pending


def _arrived(pending: PendingSum, dropped: Tensor, scale: float, count: int) -> Tensor:
    """Return the sum; of what it `dropped`, which is complete with it, take off the scale."""
    total = pending.total()
    if scale != 1.0:
        dropped /= scale
    return total[:count]


def residuals_in(kept: StrategyTensors) -> dict[str, Tensor]:
    """Return the residuals among what was kept, by the name of the weight."""
    return {
        name.removesuffix(RESIDUAL_SUFFIX): tensor
        for name, tensor in kept.own.items()
        if name.endswith(RESIDUAL_SUFFIX)
    }
