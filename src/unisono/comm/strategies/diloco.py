"""DiLoCo: machines make updates of their own, and agree on the weights a piece at a time.

Each takes `local_steps` updates with the gradients of its own processes, summed exactly.
Meanwhile one fragment of the weights after the other is agreed on: every machine sends how far
it has moved from the weights that all had, packed, while it goes on computing; the mean of it
is the gradient of an outer Nesterov optimizer, which moves the common weights. Whoever moved on
in the meantime keeps that.
In the first and the last updates of a run all gradients are exchanged, packed in as many bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.collectives import take_means
from unisono.comm.group import Solo
from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState, StrategyTensors, World
from unisono.comm.settings import Sync
from unisono.comm.strategies.all_reduce import SummedReplica
from unisono.comm.strategies.compressed import PackedSum, trained_weights
from unisono.comm.strategies.ddp import DdpReplica, already, sum_bucket
from unisono.comm.strategies.diloco_outer import OuterOptimizer, check_finite
from unisono.comm.strategies.quantize import Bits
from unisono.comm.strategies.subgroups import make_subgroups
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch
from unisono.units import seconds_of

MOMENTUM = "/outer_momentum"


@dataclass(frozen=True)
class Diloco:
    """Agree on all weights once in `local_steps` updates, in at most so many `fragments`.

    Updates up to `warmup_steps` and after `last_local_step` (0 is none) are made together.
    Updates that a machine makes by itself take `local_rate` times the usual rate; 0 is what
    `usual_rate` says of words and of all other weights. With `waits`, nothing is computed
    while a fragment is on its way.
    """

    local_steps: int = 8
    fragments: int = 64
    warmup_steps: int = 1000
    last_local_step: int = 0
    local_rate: float = 1.0
    outer_rate: float = 1.0
    outer_momentum: float = 0.0
    bits: Bits = 8
    bucket_mb: float = USUAL_BUCKET_MB
    timeout_seconds: float = 300.0
    waits: bool = False

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        return cls(
            local_steps=sync.local_steps,
            warmup_steps=sync.warmup_steps,
            last_local_step=max(0, max_steps - sync.closing_steps),
            local_rate=sync.local_rate if adaptive else sync.local_rate or 1.0,
            outer_rate=sync.outer_rate,
            outer_momentum=sync.outer_momentum,
            bits=sync.bits,
            bucket_mb=sync.bucket_mb or USUAL_BUCKET_MB,
            timeout_seconds=seconds_of(sync.timeout),
        )

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        return LocalReplica(model, comm, self)

    def is_local(self, step: int) -> bool:
        """Whether processes make update `step` each for itself."""
        over = bool(self.last_local_step) and step > self.last_local_step
        return step > self.warmup_steps and not over


def usual_rate(machines: int, *, words: bool) -> float:
    """Return how many times the usual rate updates take that machines make by themselves.

    A rare word is met by one machine at a time. Adam moves it as far there as all together
    would have moved it, whatever the size of the gradient, and the mean over all machines is
    a share of that. So words go as many times as far as there are machines; beyond four, what
    has not been tried grows more slowly. Other weights are met by all in every update.
    """
    return min(float(machines), 2 * sqrt(machines)) if words else 1.0


class LocalReplica:
    """A replica that has the gradients of its machine, or the sum over all, by the update."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self.module = model
        self._rounds = rounds = Rounds(model, comm, settings)
        self._together = DdpReplica(model, comm, settings.bucket_mb, rounds.send, rounds)
        self._alone: Replica = self._together
        # DDP makes its buckets anew once, and all have to take part: all use it, or nobody.
        if not rounds.lines.tiered:
            self._alone = SummedReplica(model, Solo(World(device=comm.world.device)))

    @property
    def memory(self) -> StrategyState:
        """Return the rounds in which weights are agreed on."""
        return self._rounds

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        if not self._rounds.local:
            return self._together.gradients(batches, loss_of, stopwatch)
        # The mean of what processes do is to be what they would do together: each machine
        # takes its share of the loss for the whole.
        lines = self._rounds.lines
        times = lines.size / lines.members
        whole = self._alone.gradients(batches, lambda m, b: loss_of(m, b) * times, stopwatch)
        return whole / times


class Rounds:
    """When which fragment is sent, and when all weights are made the same."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self._weights = trained_weights(model)
        self._settings = settings
        # On the lines that are there, each step's small messages would wait for fragments.
        self.lines = make_subgroups(comm, settings.timeout_seconds, own=True)
        self._packed = PackedSum(self._weights, self.lines, settings.bits, comm.world.device)
        self._momenta: dict[str, Tensor] = {}
        self._outer: OuterOptimizer | None = None
        self.local = False

    def rate_factor(self, *, words: bool) -> float:
        if not self.local:
            return 1.0
        return self._settings.local_rate or usual_rate(self.lines.parties, words=words)

    @property
    def agreed(self) -> bool:
        """Return whether no process has moved by itself since all had the same weights."""
        return self._outer is None

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum to come of `bucket`: of this machine's, or packed of all processes."""
        if not self.local:
            return self._packed.send(bucket)
        if self.lines.inside is None:
            return already(bucket.buffer())
        return sum_bucket(bucket, self.lines.inside)

    def begin(self, step: int, scale: float) -> None:
        self.local = self._settings.is_local(step)
        self._packed.begin(step, scale)
        if self.local and self._outer is None:
            self._packed.forget()  # it would be out of date when the closing updates come
            self._outer = OuterOptimizer(
                self._weights, self._momenta, self.lines, self._settings
            )

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        if not self.local:
            self._packed.settle(step, stopwatch, moved=moved)
        if self._outer is None:
            return
        with stopwatch.time("exchange"):
            self._outer.take_turn(step - self._settings.warmup_steps)

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        """Take the mean of all weights, and of the `others` that follow from them."""
        if self._outer is None:
            return
        self._outer.close()
        self._momenta = self._outer.momenta()
        self._outer = None
        check_finite([weight.data for weight in self._weights.values()], "the mean of weights")
        take_means(self.lines.sum, self.lines.size, others)
        take_means(partial(self.lines.sum, rough=True), self.lines.size, rough)

    def is_last_apart(self, step: int) -> bool:
        return self.local and not self._settings.is_local(step + 1)

    def state(self) -> StrategyTensors:
        shared = {f"{n}{MOMENTUM}": tensor for n, tensor in self._momenta.items()}
        packed = StrategyTensors() if self.local else self._packed.state()
        return StrategyTensors(own=packed.own, shared=shared)

    def load(self, kept: StrategyTensors) -> None:
        if self._outer is not None:
            self._outer.abandon()
        self._outer, self.local = None, False
        self._packed.load(kept)
        self._momenta = {
            name.removesuffix(MOMENTUM): tensor.to(self._weights[name.removesuffix(MOMENTUM)])
            for name, tensor in kept.shared.items()
            if name.endswith(MOMENTUM)
        }
