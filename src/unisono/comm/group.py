"""The two communicators: of a single process, and of one among several.

`Group` works over `torch.distributed`. Nothing is pickled: only numbers travel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from unisono.comm.protocol import World


@dataclass(frozen=True)
class Solo:
    """The communicator of a single process, which always agrees with itself."""

    world: World = field(default_factory=World)

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        return [list(numbers)]

    def gather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

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


@dataclass(frozen=True)
class Group:
    """The communicator of one process among several."""

    world: World

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        mine = torch.tensor(numbers, dtype=torch.float64, device=self.world.device)
        return [row.tolist() for row in self._all_gather(mine)]

    def gather_bytes(self, data: bytes) -> list[bytes]:
        sizes = [int(row[0]) for row in self.gather([len(data)])]
        mine = torch.zeros(max(1, *sizes), dtype=torch.uint8)
        if data:
            mine[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        rows = self._all_gather(mine.to(self.world.device))
        return [
            row[:size].cpu().numpy().tobytes() for row, size in zip(rows, sizes, strict=True)
        ]

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
        dist.destroy_process_group()

    def _all_gather(self, mine: Tensor) -> list[Tensor]:
        rows = [torch.empty_like(mine) for _ in range(self.world.size)]
        dist.all_gather(rows, mine)
        return rows
