"""DiLoCo: machines make local updates, and agree on one fragment of the weights at a time.

Each machine makes `local_steps` updates with the exact sum of its own processes' gradients.
Meanwhile the machines agree on one fragment of the weights after the other: each sends,
quantized, how far it has moved from the weights that all had in common, and goes on computing.
The mean of that is the gradient of an outer Nesterov optimizer, which moves the common weights.
What a machine has moved in the meantime is kept.
In the first and the last updates of a run all gradients are exchanged, in as many bits.
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
from unisono.comm.strategies.compressed import QuantizedSum, trained_weights
from unisono.comm.strategies.ddp import DdpReplica, completed, sum_bucket
from unisono.comm.strategies.diloco_outer import OuterOptimizer, check_finite
from unisono.comm.strategies.packed_gather import CommThread, make_subgroups
from unisono.comm.strategies.quantize import Bits
from unisono.comm.strategies.strategy_state import alone_error
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch
from unisono.units import seconds_of

MOMENTUM = "/outer_momentum"


@dataclass(frozen=True)
class Diloco:
    """Agree on all weights once in `local_steps` updates, in at most so many `fragments`.

    Machines make the updates up to `warmup_steps` and after `last_local_step` (0 is none)
    together. Local updates take `local_rate` times the schedule's rate; 0 means `usual_rate`.
    With `waits`, nothing is computed while a fragment is being exchanged. Machines sum in so
    many `phases`; 0 means in as many as send less.
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
    phases: int = 0

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
            phases=sync.phases,
        )

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            raise alone_error("diloco")
        return LocalReplica(model, comm, self)

    def is_local(self, step: int) -> bool:
        """Whether machines make update `step` each by itself."""
        over = bool(self.last_local_step) and step > self.last_local_step
        return step > self.warmup_steps and not over


def usual_rate(machines: int, *, words: bool) -> float:
    """Return how many times the schedule's rate local updates take.

    A rare word appears on one machine at a time. Adam moves its embedding there as far as all
    machines together would have, whatever the size of the gradient, and the mean over all
    machines is a fraction of that. So embeddings (`words`) take as many times the rate as there
    are machines; beyond four, which has not been tried, the factor grows more slowly. All
    machines have gradients for the other weights in every update.
    """
    return min(float(machines), 2 * sqrt(machines)) if words else 1.0


class LocalReplica:
    """A replica whose gradients are the sum over its machine, or over all processes."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self.module = model
        self._rounds = rounds = Rounds(model, comm, settings)
        self._together = DdpReplica(model, comm, settings.bucket_mb, rounds.send, rounds)
        self._alone: Replica = self._together
        # DDP rebuilds its buckets once, with all processes: all of them use it, or none.
        if not rounds.subgroups.tiered:
            self._alone = SummedReplica(model, Solo(World(device=comm.world.device)))

    @property
    def memory(self) -> StrategyState:
        """Return the rounds in which machines agree on weights."""
        return self._rounds

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        if not self._rounds.local:
            return self._together.gradients(batches, loss_of, stopwatch)
        # The mean of all local updates must be the update they would make together: each
        # machine scales its share of the loss to the whole.
        subgroups = self._rounds.subgroups
        times = subgroups.size / subgroups.members
        whole = self._alone.gradients(batches, lambda m, b: loss_of(m, b) * times, stopwatch)
        return whole / times


class Rounds:
    """Decides when to send which fragment, and when to make all weights the same."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self._weights = trained_weights(model)
        self._settings = settings
        # In the default group, the small messages of each step would wait for fragments.
        self.subgroups = make_subgroups(comm, settings.timeout_seconds, own=True)
        device = comm.world.device
        self._packed = QuantizedSum(
            self._weights, self.subgroups, settings.bits, device, settings.phases
        )
        self._thread = CommThread(device)
        self._momenta: dict[str, Tensor] = {}
        self._outer: OuterOptimizer | None = None
        self.local = False

    def rate_factor(self, *, words: bool) -> float:
        if not self.local:
            return 1.0
        return self._settings.local_rate or usual_rate(self.subgroups.senders, words=words)

    @property
    def agreed(self) -> bool:
        """Return whether no process has moved by itself since all had the same weights."""
        return self._outer is None

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the pending sum of `bucket`: over this machine, or quantized over all."""
        if not self.local:
            return self._packed.send(bucket)
        if self.subgroups.inside is None:
            return completed(bucket.buffer())
        return sum_bucket(bucket, self.subgroups.inside)

    def begin(self, step: int, scale: float) -> None:
        self.local = self._settings.is_local(step)
        self._packed.begin(step, scale)
        if self.local and self._outer is None:
            self._packed.forget()  # it would be out of date when the closing updates come
            self._outer = OuterOptimizer(
                self._weights, self._momenta, self.subgroups, self._settings, self._thread
            )

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        if not self.local:
            self._packed.settle(step, stopwatch, moved=moved)
        if self._outer is None:
            return
        with stopwatch.time("exchange"):
            self._outer.take_turn(step - self._settings.warmup_steps)

    def agree(self, others: Sequence[Tensor], rough: Sequence[Tensor] = ()) -> None:
        """Replace all weights, and the `others` that depend on them, by their means."""
        if self._outer is None:
            return
        self._outer.close()
        self._momenta = self._outer.momenta()
        self._outer = None
        check_finite([weight.data for weight in self._weights.values()], "the mean of weights")
        take_means(self.subgroups.sum, self.subgroups.size, others)
        take_means(partial(self.subgroups.sum, rough=True), self.subgroups.size, rough)

    def is_last_apart(self, step: int) -> bool:
        return self.local and not self._settings.is_local(step + 1)

    def before_save(self) -> None:
        if not self.local:
            self._packed.before_save()

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
