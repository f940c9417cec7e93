"""PowerSGD (Vogels et al., 2019): each matrix of the gradient as a product of two narrow ones.

Of a matrix M [n, m], each process sends M Q, with a Q [m, r] that all have. All make the
columns of the sum orthogonal, which gives P, and send Mᵀ P. The sum of those is the next Q, and
P Qᵀ is what all use. Matrices that would gain too little, and vectors, travel as they are. The
residual of a process is its gradient minus the mean that all used (error feedback).

Matrices of one shape make a batch [k, n, m]. On a GPU all this happens in a stream of its own,
and the host waits for nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.protocol import Comm, Replica, StrategyTensors
from unisono.comm.settings import Sync
from unisono.comm.strategies.compressed import RESIDUAL_SUFFIX, residuals_in, trained_weights
from unisono.comm.strategies.ddp import DdpReplica, completed, sum_bucket
from unisono.comm.strategies.packed_gather import CommThread
from unisono.comm.strategies.strategy_state import Residuals, SameWeights
from unisono.comm.strategies.threaded_replica import replica_alone
from unisono.cost_model.exchange import low_rank_numbers
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch

Q_PREFIX = "powersgd/q/"  # of a tensor's name in a checkpoint; its bucket's number follows


@dataclass(frozen=True)
class PowerSgd:
    """Send matrices as products of `low_rank`, after `warmup_steps` exact updates."""

    low_rank: int = 4
    warmup_steps: int = 1000
    bucket_mb: float = USUAL_BUCKET_MB

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        return cls(sync.low_rank, sync.warmup_steps, sync.bucket_mb or USUAL_BUCKET_MB)

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            return replica_alone(model, comm)
        sums = LowRankSum(model, comm, self.low_rank, self.warmup_steps)
        return DdpReplica(model, comm, self.bucket_mb, sums.send, sums)


class LowRankSum(SameWeights):
    """Sums buckets over all processes as matrices of low rank; keeps residuals and each Q."""

    def __init__(self, model: nn.Module, comm: Comm, low_rank: int, warmup_steps: int) -> None:
        self._residuals = Residuals(trained_weights(model))
        self._size, self._device = comm.world.size, comm.world.device
        self._low_rank, self._warmup_steps = low_rank, warmup_steps
        self._stream = CommThread(self._device) if self._device.startswith("cuda") else None
        self._is_low_rank, self._scale = False, 1.0
        self._kept: dict[int, Tensor] = {}
        self._proposed: dict[int, Tensor] = {}

    def begin(self, step: int, scale: float) -> None:
        self._residuals.settle(moved=False)  # of an exchange that was never settled
        self._is_low_rank, self._scale = step > self._warmup_steps, scale
        self._proposed = {}

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        self._residuals.settle(moved=moved)
        if moved and self._proposed:
            self._kept = self._proposed

    def state(self) -> StrategyTensors:
        left = self._residuals.tensors()
        return StrategyTensors(
            own={name + RESIDUAL_SUFFIX: tensor for name, tensor in left.items()},
            shared={f"{Q_PREFIX}{number}": q for number, q in self._kept.items()},
        )

    def load(self, kept: StrategyTensors) -> None:
        self._residuals.load(residuals_in(kept))
        self._kept = {
            int(name.removeprefix(Q_PREFIX)): tensor.to(self._device)
            for name, tensor in kept.shared.items()
            if name.startswith(Q_PREFIX)
        }

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum of `bucket` over all processes."""
        if not self._is_low_rank:
            return sum_bucket(bucket)
        number, gradient = bucket.index(), bucket.buffer()
        left = self._residuals.of(number, bucket.parameters())
        wanted, count = self._residuals.spare(number), gradient.numel()
        torch.add(gradient, left[:count], alpha=self._scale, out=wanted[:count])
        self._residuals.propose(number, wanted)
        shapes = [weight.shape for weight in bucket.parameters()]
        job = partial(self._sum, number, wanted[:count], shapes)
        return completed(job()) if self._stream is None else self._stream.do(job)

    def _sum(self, number: int, wanted: Tensor, shapes: Sequence[torch.Size]) -> Tensor:
        """Return the sum of all processes' `wanted`, and leave the residual in `wanted`."""
        total = torch.empty_like(wanted)
        own, sums = (_parts(flat, shapes, self._low_rank) for flat in (wanted, total))
        if own.rest:
            sent = torch.cat([part.view(-1) for part in own.rest])
            dist.all_reduce(sent)
            torch._foreach_copy_(sums.rest, _split_like(sent, own.rest))
        if own.matrices:
            self._sum_matrices(number, own.matrices, sums.matrices)
        wanted.sub_(total, alpha=1 / self._size)
        if own.rest:
            torch._foreach_zero_(own.rest)  # these were sent as they are
        if self._scale != 1.0:
            wanted /= self._scale
        return total

    def _sum_matrices(
        self,
        number: int,
        own: Mapping[torch.Size, list[Tensor]],
        sums: Mapping[torch.Size, list[Tensor]],
    ) -> None:
        batches = [torch.stack(matrices) for matrices in own.values()]
        start = self._start(number, batches)
        p = [
            _orthogonal(p)
            for p in _summed([m @ q for m, q in zip(batches, start, strict=True)])
        ]
        q = _summed([m.mT @ p for m, p in zip(batches, p, strict=True)])
        self._proposed[number] = torch.cat([one.reshape(-1) for one in q])
        for places, one, other in zip(sums.values(), p, q, strict=True):
            torch._foreach_copy_(places, list((one @ other.mT).unbind()))

    def _start(self, number: int, batches: Sequence[Tensor]) -> list[Tensor]:
        """Return Q with orthogonal columns for each batch: the last update's, or random."""
        empty = [
            batch.new_empty(len(batch), batch.size(2), _rank(batch, self._low_rank))
            for batch in batches
        ]
        kept, count = self._kept.get(number), sum(q.numel() for q in empty)
        if kept is None or kept.numel() != count:  # these are not the buckets it came from
            generator = torch.Generator().manual_seed(number)
            kept = torch.randn(count, generator=generator).to(self._device)
        return [_orthogonal(q) for q in _split_like(kept, empty)]


@dataclass(frozen=True, eq=False)
class _Parts:
    """Views of a bucket: matrices that gain by being narrow, by shape, and all else."""

    matrices: dict[torch.Size, list[Tensor]]
    rest: list[Tensor]


def _parts(flat: Tensor, shapes: Sequence[torch.Size], low_rank: int) -> _Parts:
    found = _Parts({}, [])
    pieces = flat.split([math.prod(shape) for shape in shapes])
    for piece, shape in zip(pieces, shapes, strict=True):
        view = piece.view(shape)
        if len(shape) == 2 and low_rank_numbers(*shape, low_rank) < piece.numel():
            found.matrices.setdefault(shape, []).append(view)
        else:
            found.rest.append(view)
    return found


def _rank(batch: Tensor, low_rank: int) -> int:
    return min(batch.size(1), batch.size(2), low_rank)


def _summed(batches: Sequence[Tensor]) -> list[Tensor]:
    """Return the sums of `batches` over all processes, sent as one message."""
    flat = torch.cat([batch.reshape(-1) for batch in batches])
    dist.all_reduce(flat)
    return _split_like(flat, batches)


def _split_like(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    pieces = flat.split([tensor.numel() for tensor in tensors])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]


def _orthogonal(batch: Tensor) -> Tensor:
    """Return orthonormal columns that span those of `batch` [k, n, r]."""
    found: Tensor = torch.linalg.qr(batch)[0]
    return found
