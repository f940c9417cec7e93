"""Gradients in fewer bits: each bucket is packed and sent while the rest is computed.

Packed numbers cannot be added on the way, so every machine gets the bytes of all others, and
each adds them up in the same order: all come to the same bits. What rounding dropped is added
to the next gradient, so that nothing is lost, only late. The processes of a machine first make
their exact sum, of which one packs, sends and keeps what was dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.protocol import Comm, LossOf, Replica, StrategyState, StrategyTensors
from unisono.comm.settings import Sync
from unisono.comm.strategies.ddp import DdpReplica
from unisono.comm.strategies.delayed_embedding_grad import (
    DelayedEmbeddingGrad,
    delayed_embedding_grad_of,
)
from unisono.comm.strategies.packed_gather import CommThread, PackedGather, PendingGather
from unisono.comm.strategies.quantize import Bits, padded
from unisono.comm.strategies.residuals import Residuals
from unisono.comm.strategies.strategy_state import SameWeights
from unisono.comm.strategies.subgroups import Subgroups, make_subgroups
from unisono.comm.strategies.threaded_replica import replica_alone
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.stopwatch import Stopwatch
from unisono.units import seconds_of

LEFT_OVER = "/gradient_left_over"


@dataclass(frozen=True)
class Compressed:
    """Send every gradient in `bits` bits a number, overlapped with the backward pass."""

    bits: Bits = 8
    bucket_mb: float = USUAL_BUCKET_MB
    timeout_seconds: float = 300.0

    @classmethod
    def from_settings(cls, sync: Sync, max_steps: int, *, adaptive: bool) -> Self:
        return cls(sync.bits, sync.bucket_mb or USUAL_BUCKET_MB, seconds_of(sync.timeout))

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            return replica_alone(model, comm)
        lines, weights = make_subgroups(comm, self.timeout_seconds), trained_weights(model)
        words = delayed_embedding_grad_of(model)
        if words is not None:
            weights = {n: words.scores if w is words.reads else w for n, w in weights.items()}
        packed = PackedSum(weights, lines, self.bits, comm.world.device)
        if words is not None:
            return DelayedEmbeddingReplica(model, words, packed, comm, self.bucket_mb)
        return DdpReplica(model, comm, self.bucket_mb, packed.send, packed)


class DelayedEmbeddingReplica:
    """A replica that sends what reading words adds to their gradient an update later."""

    def __init__(
        self,
        model: nn.Module,
        words: DelayedEmbeddingGrad,
        packed: "PackedSum",
        comm: Comm,
        bucket_mb: float,
    ) -> None:
        self.module, self._words, self._packed = model, words, packed
        with words.only_scores():
            self._replica = DdpReplica(model, comm, bucket_mb, packed.send, packed)
        self._replica.ends_with(words.reads)

    @property
    def memory(self) -> StrategyState:
        """Return what was dropped, and what was late."""
        return self._packed

    def gradients(
        self, batches: Sequence[Any], loss_of: LossOf, stopwatch: Stopwatch
    ) -> Tensor:
        with self._words.apart():
            loss = self._replica.gradients(batches, loss_of, stopwatch)
        late = self._words.take()
        if late is not None:
            self._packed.keep_late(self._words.scores, late)
        return loss


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that have a gradient, by name."""
    return {name: w for name, w in model.named_parameters() if w.requires_grad}


class PackedSum(SameWeights):
    """Sums buckets over all processes by sending them packed; keeps what that dropped."""

    def __init__(
        self, weights: Mapping[str, Tensor], lines: Subgroups, bits: Bits, device: str
    ) -> None:
        self._late: dict[Tensor, Tensor] = {}
        self._messenger, self._scale = PackedGather(lines.parties, bits, lines.between), 1.0
        self._left_overs, self._lines = Residuals(weights), lines
        self._beside = CommThread(device)
        self._rooms: dict[int, Tensor] = {}

    def begin(self, step: int, scale: float) -> None:
        self._left_overs.settle(moved=False)  # of an exchange that nobody settled
        self._late, self._scale = {}, scale

    def keep_late(self, weight: Tensor, gradient: Tensor) -> None:
        """Add `gradient` to the one of `weight` in the next update, if this one is made."""
        self._late[weight] = gradient if self._scale == 1.0 else gradient / self._scale

    def settle(self, step: int, stopwatch: Stopwatch, *, moved: bool) -> None:
        if moved and not self._lines.leads:
            self._left_overs.load({})  # whatever it was, the first of the machine has it now
        self._left_overs.settle(moved=moved)
        for weight, gradient in self._late.items() if moved else ():
            self._left_overs.add(weight, gradient)
        self._late = {}

    def state(self) -> StrategyTensors:
        left = self._left_overs.tensors()
        return StrategyTensors(own={name + LEFT_OVER: tensor for name, tensor in left.items()})

    def load(self, kept: StrategyTensors) -> None:
        self._left_overs.load(residuals_in(kept))

    def forget(self) -> None:
        """Drop what is left over, and the memory for it."""
        self._left_overs.load({})
        self._rooms = {}

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum to come of `bucket` over all processes."""
        gradient, number = bucket.buffer(), bucket.index()
        count, wanted = gradient.numel(), self._wanted(gradient, number, bucket.parameters())
        if self._lines.inside is not None:
            return self._beside.do(partial(self._in_turn, number, wanted, count))
        return self._beside.do(partial(_arrived, self._underway(number, wanted), count))

    def _wanted(self, gradient: Tensor, number: int, weights: Sequence[Tensor]) -> Tensor:
        """Return the gradient with what was left over, filled up to whole blocks."""
        count = gradient.numel()
        if not self._lines.leads and not self._left_overs.has(weights):
            wanted = self._room(number, gradient)
            wanted[:count] = gradient
        else:
            # Left-overs are those of the gradient itself, whatever this update's scale.
            left = self._left_overs.of(number, weights)
            wanted = self._left_overs.spare(number)
            torch.add(gradient, left[:count], alpha=self._scale, out=wanted[:count])
        wanted[count:] = 0.0
        return wanted

    def _room(self, number: int, gradient: Tensor) -> Tensor:
        size, room = padded(gradient.numel()), self._rooms.get(number)
        if room is None or room.numel() != size:
            room = self._rooms[number] = gradient.new_empty(size)
        return room

    def _in_turn(self, number: int, wanted: Tensor, count: int) -> Tensor:
        """Sum within the machine, between machines, and hand it out within the machine."""
        self._lines.to_first(wanted)
        total = self._underway(number, wanted).total() if self._lines.leads else wanted
        self._lines.from_first(total)
        return total[:count]

    def _underway(self, number: int, wanted: Tensor) -> PendingGather:
        underway, dropped = self._messenger.send(wanted)
        if self._scale != 1.0:
            dropped /= self._scale
        self._left_overs.propose(number, dropped)
        return underway


def _arrived(underway: PendingGather, count: int) -> Tensor:
    return underway.total()[:count]


def residuals_in(kept: StrategyTensors) -> dict[str, Tensor]:
    """Return the left-overs of gradients among what was kept, by the name of the weight."""
    return {
        name.removesuffix(LEFT_OVER): tensor
        for name, tensor in kept.own.items()
        if name.endswith(LEFT_OVER)
    }
