"""PowerSGD: each matrix of the gradient as a product of two narrow ones, by torch's hook.

torch's hook takes the mean where we sum, counts exchanges where we count updates, and keeps
residuals by bucket. Here it gets the number of the update and the residuals anew each time, so
that a skipped update leaves no trace and a checkpoint holds all of its state.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)

from unisono.comm.protocol import Comm, Replica, StrategyTensors
from unisono.comm.settings import Sync
from unisono.comm.strategies.compressed import RESIDUAL_SUFFIX, residuals_in
from unisono.comm.strategies.ddp import DdpReplica, completed, sum_bucket
from unisono.comm.strategies.strategy_state import Residuals, SameWeights
from unisono.comm.strategies.threaded_replica import replica_alone
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch

FIRST_COMPRESSED = 2  # torch's hook does not compress below this number of exchanges


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
        sums = LowRankSum(model, comm.world.size, self.low_rank, self.warmup_steps)
        return DdpReplica(model, comm, self.bucket_mb, sums.send, sums)


class LowRankSum(SameWeights):
    """Sums buckets over all processes as matrices of low rank; keeps the residuals."""

    def __init__(self, model: nn.Module, size: int, low_rank: int, warmup_steps: int) -> None:
        weights = {name: w for name, w in model.named_parameters() if w.requires_grad}
        self._residuals = Residuals(weights)
        self._size, self._warmup_steps = size, warmup_steps
        self._torch = PowerSGDState(
            None, matrix_approximation_rank=low_rank, start_powerSGD_iter=FIRST_COMPRESSED
        )
        self._is_low_rank, self._scale = False, 1.0
        self._before: dict[int, Tensor] = {}

    def begin(self, step: int, scale: float) -> None:
        self._residuals.settle(moved=False)  # of an exchange that was never settled
        self._is_low_rank, self._scale = step > self._warmup_steps, scale
        self._torch.iter = FIRST_COMPRESSED
        self._before = {n: q.clone() for n, q in self._torch.q_memory_dict.items()}

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        self._residuals.settle(moved=moved)
        if not moved:
            self._remember(self._torch.p_memory_dict, self._before)

    def state(self) -> StrategyTensors:
        left, shared = self._residuals.tensors(), {}
        for name, narrow in (
            ("p", self._torch.p_memory_dict),
            ("q", self._torch.q_memory_dict),
        ):
            shared.update({f"powersgd/{name}/{n}": tensor for n, tensor in narrow.items()})
        return StrategyTensors(
            own={name + RESIDUAL_SUFFIX: tensor for name, tensor in left.items()}, shared=shared
        )

    def load(self, kept: StrategyTensors) -> None:
        self._residuals.load(residuals_in(kept))
        self._remember(*(_numbered(kept, f"powersgd/{name}/") for name in "pq"))

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum of `bucket` over all processes."""
        if not self._is_low_rank:
            return sum_bucket(bucket)
        number, gradient = bucket.index(), bucket.buffer()
        count, kept = gradient.numel(), self._torch
        left = self._residuals.of(number, bucket.parameters())[:count]
        self._forget_other_buckets(bucket)
        kept.error_dict[number] = left * self._scale
        future = powerSGD_hook(kept, bucket)
        # Its messages follow each other, from threads of their own. Those of two buckets at
        # once would come in a different order on each process.
        total = future.wait().mul_(self._size)
        dropped = self._residuals.spare(number)
        torch.div(kept.error_dict.pop(number), self._scale, out=dropped[:count])
        self._residuals.propose(number, dropped)
        return completed(total)

    def _remember(self, p: dict[int, Tensor], q: dict[int, Tensor]) -> None:
        both = p.keys() & q.keys()
        self._torch.p_memory_dict = {number: p[number] for number in both}
        self._torch.q_memory_dict = {number: q[number] for number in both}

    def _forget_other_buckets(self, bucket: GradBucket) -> None:
        """Start with random matrices if the remembered ones belong to other buckets."""
        number, kept = bucket.index(), self._torch
        if number in kept.p_memory_dict:
            p, q = _factor_sizes(bucket.gradients(), kept)
            found = kept.p_memory_dict[number].numel(), kept.q_memory_dict[number].numel()
            if found != (p, q):
                del kept.p_memory_dict[number], kept.q_memory_dict[number]


def _factor_sizes(gradients: list[Tensor], state: PowerSGDState) -> tuple[int, int]:
    rows = columns = 0
    for gradient in gradients:
        n, m = gradient.view(gradient.shape[0], -1).shape
        rank = min(n, m, state.matrix_approximation_rank)
        if (n + m) * rank * state.min_compression_rate < n * m:
            rows, columns = rows + n * rank, columns + m * rank
    return rows, columns


def _numbered(kept: StrategyTensors, prefix: str) -> dict[int, Tensor]:
    return {
        int(name.removeprefix(prefix)): tensor.clone()
        for name, tensor in kept.shared.items()
        if name.startswith(prefix)
    }
