"""The two communicators: of a single process, and of one among several.

`Group` works over `torch.distributed`. Nothing is pickled: only numbers travel.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from unisono.comm.protocol import Comm, World

# Groups that are closed, kept until the process ends. A thread of gloo needs Python's lock to
# let go of the last tensors it sent; DDP, which may be the last to hold the group, would wait
# for that thread with the lock in its hands, forever.
_ENDED: list[dist.ProcessGroup | None] = []


def _row_of(numbers: Sequence[float | Tensor], device: str) -> Tensor:
    if device == "cpu":
        return torch.tensor([float(number) for number in numbers], dtype=torch.float64)
    # A GPU gets a number as the argument of a kernel: a copy from the host would wait.
    row = torch.empty(len(numbers), dtype=torch.float64, device=device)
    for place, number in zip(row.unbind(), numbers, strict=True):
        place.copy_(number) if isinstance(number, Tensor) else place.fill_(number)
    return row


@dataclass(frozen=True)
class Solo:
    """The communicator of a single process, which always agrees with itself."""

    world: World = field(default_factory=World)

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, numbers: Sequence[float | Tensor]) -> list[list[float]]:
        return [_row_of(numbers, self.world.device).tolist()]

    def gather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        return [tensor]

    def from_leader(self, tensor: Tensor) -> Tensor:
        return tensor

    def to_leader(self, tensor: Tensor) -> list[Tensor]:
        return [tensor]

    def deal(self, shares: Sequence[Tensor], like: Tensor) -> Tensor:
        return shares[0]

    def any(self, flag: bool) -> bool:
        return flag

    def barrier(self) -> None:
        """Return at once: there is nobody to wait for."""

    def close(self) -> None:
        """Do nothing: there is no group to leave."""


MOST_PATIENCE = timedelta(days=7)


@contextmanager
def patience(comm: Comm, seconds: float, usually: float) -> Iterator[None]:
    """Let processes wait `seconds` for each other in the block, if that is more than usual.

    One process may write a checkpoint for longer than an exchange may take.
    """
    if not isinstance(comm, Group) or seconds <= usually:
        yield
        return
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device(comm.world.device))
    longer = timedelta(seconds=min(seconds, MOST_PATIENCE.total_seconds()))
    backend._set_default_timeout(longer)
    try:
        yield
    finally:
        backend._set_default_timeout(timedelta(seconds=usually))


@dataclass(frozen=True)
class Group:
    """The communicator of one process among several."""

    world: World

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def gather(self, numbers: Sequence[float | Tensor]) -> list[list[float]]:
        mine = _row_of(numbers, self.world.device)
        if not mine.is_cuda:
            return [row.tolist() for row in self._all_gather(mine)]
        rows = mine.new_empty(self.world.size, len(mine))
        dist.all_gather_into_tensor(rows, mine)
        received: list[list[float]] = rows.tolist()  # waits for the GPU, once
        return received

    def gather_bytes(self, data: bytes) -> list[bytes]:
        sizes = [int(row[0]) for row in self.gather([len(data)])]
        mine = torch.zeros(max(1, *sizes), dtype=torch.uint8)
        if data:
            mine[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        rows = self._all_gather(mine.to(self.world.device))
        return [
            row[:size].cpu().numpy().tobytes() for row, size in zip(rows, sizes, strict=True)
        ]

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        return self._all_gather(tensor.contiguous())

    def from_leader(self, tensor: Tensor) -> Tensor:
        received = tensor.detach().to(self.world.device, copy=True).contiguous()
        dist.broadcast(received, src=0)
        return received.to(tensor.device)

    def to_leader(self, tensor: Tensor) -> list[Tensor]:
        mine = tensor.detach().to(self.world.device).contiguous()
        rows = [torch.empty_like(mine) for _ in range(self.world.size * self.world.leads)]
        dist.gather(mine, rows or None, dst=0)
        return rows

    def deal(self, shares: Sequence[Tensor], like: Tensor) -> Tensor:
        mine = torch.empty_like(like, device=self.world.device)
        rows = [share.to(self.world.device) for share in shares] if self.world.leads else None
        dist.scatter(mine, rows, src=0)
        return mine.to(like.device)

    def any(self, flag: bool) -> bool:
        return any(row[0] for row in self.gather([float(flag)]))

    def barrier(self) -> None:
        self.gather([0.0])

    def close(self) -> None:
        _ENDED.append(dist.group.WORLD)
        dist.destroy_process_group()

    def _all_gather(self, mine: Tensor) -> list[Tensor]:
        rows = [torch.empty_like(mine) for _ in range(self.world.size)]
        dist.all_gather(rows, mine)
        return rows
