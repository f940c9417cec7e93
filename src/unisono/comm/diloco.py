"""DiLoCo: processes make updates of their own, and agree on the weights a piece at a time.

Each process takes `local_steps` updates with its own gradients. Meanwhile one fragment of the
weights after the other is agreed on: every process sends how far it has moved from the weights
that all had, packed, while it goes on computing; the mean of it is the gradient of an outer
Nesterov optimizer, which moves the common weights. Whoever moved on in the meantime keeps that.
The first and the last updates of a run are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import torch.distributed as dist
from torch import Tensor, nn

from unisono.comm.all_reduce import SummedReplica
from unisono.comm.ddp import DdpReplica
from unisono.comm.outer import Outer
from unisono.comm.packing import Bits
from unisono.comm.protocol import Comm, Kept, LossOf, Memory, Replica, World
from unisono.comm.rows import Messenger
from unisono.comm.solo import Solo
from unisono.comm.together import take_means
from unisono.errors import ConfigError
from unisono.stopwatch import Stopwatch


@dataclass(frozen=True)
class Diloco:
    """Agree on all weights once in `local_steps` updates, in at most so many `fragments`.

    Updates up to `warmup_steps` and after `last_local_step` (0 is none) are exact. With
    `waits`, nothing is computed while a fragment is on its way.
    """

    exact: ClassVar[bool] = False

    local_steps: int = 8
    fragments: int = 8
    warmup_steps: int = 1000
    last_local_step: int = 0
    outer_rate: float = 1.0
    outer_momentum: float = 0.0
    bits: Bits = 8
    bucket_mb: float = 25.0
    timeout_seconds: float = 300.0
    waits: bool = False

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        check_company(comm.world.size)
        return LocalReplica(model, comm, self)

    def is_local(self, step: int) -> bool:
        """Whether processes make update `step` each for itself."""
        over = bool(self.last_local_step) and step > self.last_local_step
        return step > self.warmup_steps and not over


def check_company(size: int) -> None:
    """Raise an error if there is only one process."""
    if size == 1:
        raise ConfigError(
            "diloco with one process is a no-op: there is nobody to agree with",
            where="sync.strategy",
            fix='set `strategy = "ddp"`, or start more processes',
        )


class LocalReplica:
    """A replica that has gradients of its own, or the sum over all, by the update's number."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self.module, self._size = model, comm.world.size
        self._together = DdpReplica(model, comm, settings.bucket_mb)
        self._alone = SummedReplica(model, Solo(World(device=comm.world.device)))
        self._rounds = Rounds(model, comm, settings)

    @property
    def memory(self) -> Memory:
        """Return the rounds in which weights are agreed on."""
        return self._rounds

    def gradients(self, batches: Sequence[Any], loss_of: LossOf, watch: Stopwatch) -> Tensor:
        if not self._rounds.local:
            return self._together.gradients(batches, loss_of, watch)
        # The mean of what processes do is to be what they would do together: each takes its
        # share of the loss for the whole.
        size = self._size
        whole = self._alone.gradients(batches, lambda m, b: loss_of(m, b) * size, watch)
        return whole / size


class Rounds:
    """When which fragment is sent, and when all weights are made the same."""

    def __init__(self, model: nn.Module, comm: Comm, settings: Diloco) -> None:
        self._weights = {n: w for n, w in model.named_parameters() if w.requires_grad}
        self._comm, self._settings = comm, settings
        # A group has one line to each process, on which messages pass one after the other:
        # on that of the others, each step's small ones would wait for the fragments.
        group = dist.new_group(timeout=timedelta(seconds=settings.timeout_seconds))
        self._messenger = Messenger(comm.world.size, settings.bits, group)
        self._momenta: dict[str, Tensor] = {}
        self._outer: Outer | None = None
        self.local = False

    @property
    def agreed(self) -> bool:
        """Return whether no process has moved by itself since all had the same weights."""
        return self._outer is None

    def begin(self, step: int, scale: float) -> None:
        self.local = self._settings.is_local(step)
        if self.local and self._outer is None:
            self._outer = Outer(self._weights, self._momenta, self._messenger, self._settings)

    def settle(self, step: int, watch: Stopwatch, *, moved: bool) -> None:
        if self._outer is None:
            return
        with watch.time("exchange"):
            self._outer.take_turn(step - self._settings.warmup_steps)

    def agree(self, others: Sequence[Tensor]) -> None:
        """Take the mean of all weights, and of the `others` that follow from them."""
        if self._outer is None:
            return
        self._outer.close()
        self._momenta = self._outer.momenta()
        self._outer = None
        weights = [weight.data for weight in self._weights.values()]
        take_means(self._comm, [*weights, *others])

    def is_last_apart(self, step: int) -> bool:
        return self.local and not self._settings.is_local(step + 1)

    def state(self) -> Kept:
        return Kept(
            shared={f"{n}/outer_momentum": tensor for n, tensor in self._momenta.items()}
        )

    def load(self, kept: Kept) -> None:
        if self._outer is not None:
            self._outer.abandon()
        self._outer, self.local = None, False
        suffix = "/outer_momentum"
        self._momenta = {
            name.removesuffix(suffix): tensor.to(self._weights[name.removesuffix(suffix)])
            for name, tensor in kept.shared.items()
            if name.endswith(suffix)
        }
