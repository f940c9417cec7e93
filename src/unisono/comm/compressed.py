"""Gradients in fewer bits: each bucket is packed and sent while the rest is computed.

Packed numbers cannot be added on the way, so every process gets the bytes of all others, and
each adds them up in order of rank: all come to the same bits. What rounding dropped is added
to the next gradient, so that nothing is lost, only late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.ddp import DdpReplica
from unisono.comm.laned import replica_alone
from unisono.comm.left_overs import LeftOvers
from unisono.comm.memory import NeverApart
from unisono.comm.packing import Bits
from unisono.comm.protocol import Comm, Kept, Replica
from unisono.comm.rows import Messenger, Underway
from unisono.stopwatch import Stopwatch

LEFT_OVER = "/gradient_left_over"


@dataclass(frozen=True)
class Compressed:
    """Send every gradient in `bits` bits a number, overlapped with the backward pass."""

    exact: ClassVar[bool] = False

    bits: Bits = 8
    bucket_mb: float = 25.0

    def attach(self, model: nn.Module, comm: Comm) -> Replica:
        if comm.world.size == 1:
            return replica_alone(model, comm)
        packed = PackedSum(model, comm.world.size, self.bits)
        return DdpReplica(model, comm, self.bucket_mb, packed.send, packed)


class PackedSum(NeverApart):
    """Sums buckets over all processes by sending them packed; keeps what that dropped."""

    def __init__(self, model: nn.Module, size: int, bits: Bits) -> None:
        weights = {name: w for name, w in model.named_parameters() if w.requires_grad}
        self._messenger, self._scale = Messenger(size, bits), 1.0
        self._left_overs = LeftOvers(weights)

    def begin(self, step: int, scale: float) -> None:
        self._scale = scale

    def settle(self, step: int, watch: Stopwatch, *, moved: bool) -> None:
        self._left_overs.settle(moved=moved)

    def state(self) -> Kept:
        left = self._left_overs.tensors()
        return Kept(own={name + LEFT_OVER: tensor for name, tensor in left.items()})

    def load(self, kept: Kept) -> None:
        self._left_overs.load(left_overs_in(kept))

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Return the sum to come of `bucket` over all processes."""
        gradient = bucket.buffer()
        underway = self._underway(gradient, bucket.index(), bucket.parameters())
        count = gradient.numel()
        return underway.work.get_future().then(lambda _: underway.sum()[:count])

    def _underway(self, gradient: Tensor, number: int, weights: Sequence[Tensor]) -> Underway:
        # Left-overs are those of the gradient itself, whatever this update's scale.
        left = self._left_overs.of(number, weights)
        wanted, count = self._left_overs.spare(number), gradient.numel()
        torch.add(gradient, left[:count], alpha=self._scale, out=wanted[:count])
        wanted[count:] = 0.0
        underway, dropped = self._messenger.send(wanted)
        if self._scale != 1.0:
            dropped /= self._scale
        self._left_overs.propose(number, dropped)
        return underway


def left_overs_in(kept: Kept) -> dict[str, Tensor]:
    """Return the left-overs of gradients among what was kept, by the name of the weight."""
    return {
        name.removesuffix(LEFT_OVER): tensor
        for name, tensor in kept.own.items()
        if name.endswith(LEFT_OVER)
    }
