"""Packed numbers of all processes, added up in order of rank: all come to the same bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from unisono.comm.lines import Lines
from unisono.comm.packing import Bits, add_unpacked, pack, padded, unpack


def sum_of_rows(rows: Sequence[Tensor], bits: Bits) -> Tensor:
    """Return the sum of the packed `rows`, added up in their order."""
    total = unpack(rows[0], bits)
    for row in rows[1:]:
        add_unpacked(total, row, bits)
    return total


@dataclass(frozen=True, eq=False)
class Underway:
    """A sum that is being made."""

    work: dist.Work
    rows: Sequence[Tensor]
    bits: Bits

    def sum(self) -> Tensor:
        """Return the sum of what has arrived."""
        return sum_of_rows(self.rows, self.bits)

    def total(self) -> Tensor:
        """Wait for the sum, and return it."""
        self.work.wait()
        return self.sum()


@dataclass(frozen=True, eq=False)
class Messenger:
    """Sends packed numbers to `size` processes."""

    size: int
    bits: Bits
    group: dist.ProcessGroup | None = None

    def send(self, values: Tensor) -> tuple[Underway, Tensor]:
        """Return the sum to come of all processes' `values`, and what rounding dropped here.

        `values` are whole blocks; what was dropped takes their place.
        """
        message = pack(values, self.bits)
        add_unpacked(values, message, self.bits, sign=-1)
        rows = [torch.empty_like(message) for _ in range(self.size)]
        work = dist.all_gather(rows, message, group=self.group, async_op=True)
        return Underway(work, rows, self.bits), values


def packed_sum(lines: Lines, numbers: Tensor, bits: Bits) -> Tensor:
    """Return the sum over all processes, of which each party sends its own packed in `bits`."""
    total = numbers.new_zeros(padded(len(numbers)))
    total[: len(numbers)] = numbers
    lines.to_first(total)
    if lines.leads:
        total = Messenger(lines.parties, bits, lines.between).send(total)[0].total()
    lines.from_first(total)
    return total[: len(numbers)]
