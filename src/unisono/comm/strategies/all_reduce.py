"""The reference strategy: run the micro-batches, then sum every gradient once.

It overlaps nothing and is therefore slower than DDP, but it is short enough to check by eye,
and the other strategies are tested against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState
from unisono.comm.settings import Sync
from unisono.comm.strategies.strategy_state import NoState
from unisono.stopwatch import Stopwatch


@dataclass(frozen=True)
class AllReduce:
    """Sum gradients after the last micro-batch, all parameters in one message."""

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        return cls()

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        return SummedReplica(model, comm)


@dataclass(frozen=True)
class SummedReplica:
    """A replica whose gradients are summed explicitly."""

    module: nn.Module
    comm: Comm
    memory: StrategyState = field(default_factory=NoState)

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        total = torch.zeros((), device=self.comm.world.device)
        for batch in batches:
            with stopwatch.time("forward"):
                loss = loss_of(self.module, batch)
            with stopwatch.time("backward"):
                loss.backward()
            total += loss.detach()
        if self.comm.world.size > 1:
            with stopwatch.time("exchange"):
                self._sum_gradients()
        return total

    def _sum_gradients(self) -> None:
        # A parameter without a gradient takes part as zeros: the message must have the same
        # layout on every rank.
        wanted = [p for p in self.module.parameters() if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in wanted]
        summed = self.comm.sum(torch.cat([g.flatten() for g in grads]))
        sizes = [p.numel() for p in wanted]
        for p, part in zip(wanted, summed.split(sizes), strict=True):
            p.grad = part.view_as(p)
