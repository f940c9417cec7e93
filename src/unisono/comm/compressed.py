"""Gradients in fewer bits: each bucket is packed and sent while the rest is computed.

Packed numbers cannot be added on the way, so every process gets the bytes of all others, and
each adds them up in order of rank: all come to the same bits. What rounding dropped is added
to the next gradient, so that nothing is lost, only late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket

from unisono.comm.ddp import DdpReplica
from unisono.comm.laned import replica_alone
from unisono.comm.left_overs import LeftOvers
from unisono.comm.packing import Bits, pack, unpack
from unisono.comm.protocol import Comm, Kept, Replica
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


class PackedSum:
    """Sums buckets over all processes by sending them packed; keeps what that dropped."""

    def __init__(self, model: nn.Module, size: int, bits: Bits) -> None:
        weights = {name: w for name, w in model.named_parameters() if w.requires_grad}
        self._size, self._bits, self._scale = size, bits, 1.0
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
        message = self._packed(gradient, bucket.index(), bucket.parameters())
        rows = [torch.empty_like(message) for _ in range(self._size)]
        work = dist.all_gather(rows, message, async_op=True)
        bits, count = self._bits, gradient.numel()
        return work.get_future().then(  # type: ignore[no-any-return]
            lambda _: sum_of_rows(rows, bits)[:count]
        )

    def _packed(self, gradient: Tensor, number: int, weights: Sequence[Tensor]) -> Tensor:
        # Left-overs are those of the gradient itself, whatever this update's scale.
        left = self._left_overs.of(number, weights)
        wanted, count = self._left_overs.spare(number), gradient.numel()
        torch.add(gradient, left[:count], alpha=self._scale, out=wanted[:count])
        wanted[count:] = 0.0
        message = pack(wanted, self._bits)
        wanted -= unpack(message, self._bits)
        if self._scale != 1.0:
            wanted /= self._scale
        self._left_overs.propose(number, wanted)
        return message


def left_overs_in(kept: Kept) -> dict[str, Tensor]:
    """Return the left-overs of gradients among what was kept, by the name of the weight."""
    return {
        name.removesuffix(LEFT_OVER): tensor
        for name, tensor in kept.own.items()
        if name.endswith(LEFT_OVER)
    }


def sum_of_rows(rows: Sequence[Tensor], bits: Bits) -> Tensor:
    """Return the sum of the packed `rows`, added up in their order."""
    # Not multiplied and added in one operation: that rounds once where others round twice,
    # and not every processor has it.
    total = unpack(rows[0], bits)
    for row in rows[1:]:
        total += unpack(row, bits)
    return total
