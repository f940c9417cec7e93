"""A sum of quantized numbers in two phases, whose bytes do not grow with the machines.

M machines, N blocks. Each machine owns N/M of the blocks. First, everybody sends each owner its
blocks, quantized (all-to-all), and the owner adds them up; its own it adds as they are. Then
the owner quantizes the sum and sends it to everybody (all-gather). Through each network card
pass 2 (M-1)/M times the message; `PackedGather` sends it M-1 times, in one phase.

What rounding drops is the residual of whoever rounded: of a block that another machine owns,
what this one dropped of its numbers; of a block of its own, what it dropped of the sum. So one
row of residuals holds both, and they are added to the next gradient like any other residual.
All machines dequantize the same messages and come to the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from unisono.comm.strategies.packed_gather import (
    CommThread,
    PackedGather,
    Subgroups,
    quantize_with_residual,
    sum_gathered,
)
from unisono.comm.strategies.quantize import (
    Bits,
    join_messages,
    padded,
    split_message,
)
from unisono.cost_model.exchange import usual_phases

# gloo matches messages of one tag in their order. Two threads send: the one of the backward
# pass begins the sum of a bucket while another makes the second phase of the one before.
TO_OWNER, FROM_OWNER = 0, 1


class PendingSum(Protocol):
    """A sum that is being made."""

    def total(self) -> Tensor:
        """Wait for the sum and return it, or raise the error of the exchange."""
        ...


class QuantizedExchange(Protocol):
    """A way to sum quantized numbers over the first processes of all machines."""

    def send(self, values: Tensor) -> tuple[PendingSum, Tensor]:
        """Return the pending sum of all processes' `values`, and the residual of this one.

        `values` are whole blocks, as many for each sender; the residual takes their place, and
        is complete when the sum is.
        """
        ...


@dataclass(frozen=True, eq=False)
class TwoPhaseSum:
    """A sum of quantized numbers among `size` processes, in two phases."""

    size: int
    bits: Bits
    group: dist.ProcessGroup | None = None

    def send(self, values: Tensor) -> tuple["PendingTwoPhaseSum", Tensor]:
        mine = dist.get_rank(self.group)
        owned = values.view(self.size, -1)[mine]
        exact = owned.clone()
        rows = split_message(quantize_with_residual(values, self.bits), self.size, self.bits)
        owned.copy_(exact)
        send = self._send_by_nccl if values.is_cuda else self._send_by_gloo
        return send(rows, owned, mine), values

    def _send_by_nccl(self, rows: Tensor, owned: Tensor, mine: int) -> "PendingTwoPhaseSum":
        rows[mine] = 0  # the message that says nothing but zeros
        received = torch.empty_like(rows)
        work = dist.all_to_all_single(received, rows, group=self.group, async_op=True)
        return PendingTwoPhaseSum(self, owned, [work], received)

    def _send_by_gloo(self, rows: Tensor, owned: Tensor, mine: int) -> "PendingTwoPhaseSum":
        """Say first what this process is ready to receive in both phases, and then send."""
        others = self.others(mine)
        received, sums = rows.new_empty(len(others), rows.size(1)), torch.empty_like(rows)
        first = self._receive(received, others, TO_OWNER)
        second = self._receive([sums[rank] for rank in others], others, FROM_OWNER)
        sending = self.send_each([rows[rank] for rank in others], others, TO_OWNER)
        return PendingTwoPhaseSum(self, owned, first, received, sums, [*second, *sending])

    def others(self, mine: int) -> list[int]:
        return [rank for rank in range(self.size) if rank != mine]

    def _receive(
        self, rows: Sequence[Tensor] | Tensor, others: Sequence[int], tag: int
    ) -> list[dist.Work]:
        pairs = zip(rows, others, strict=True)
        works = [dist.irecv(row, group=self.group, group_src=r, tag=tag) for row, r in pairs]
        return [work for work in works if work is not None]

    def send_each(
        self, messages: Sequence[Tensor], others: Sequence[int], tag: int
    ) -> list[dist.Work]:
        """Begin to send each of `others` its message."""
        pairs = zip(messages, others, strict=True)
        works = [dist.isend(m, group=self.group, group_dst=r, tag=tag) for m, r in pairs]
        return [work for work in works if work is not None]


@dataclass(frozen=True, eq=False)
class PendingTwoPhaseSum:
    """A sum whose first phase is under way.

    `owned` are the numbers of this process in its own blocks, `received` what others say of
    these. gloo fills `sums` with the messages of all owners; `later` is what is under way
    besides the first phase's messages to this process.
    """

    exchange: TwoPhaseSum
    owned: Tensor
    works: Sequence[dist.Work]
    received: Tensor
    sums: Tensor | None = None
    later: Sequence[dist.Work] = ()

    def total(self) -> Tensor:
        for work in self.works:
            work.wait()
        bits = self.exchange.bits
        self.owned.add_(sum_gathered(self.received, bits))
        message = quantize_with_residual(self.owned, bits)
        rows = self._from_owners(message)
        return sum_gathered(join_messages(rows, bits).unsqueeze(0), bits)

    def _from_owners(self, message: Tensor) -> Tensor:
        """Return the quantized sums of all owners, in order of rank."""
        exchange, group = self.exchange, self.exchange.group
        if self.sums is None:
            table = message.new_empty(exchange.size, len(message))
            work = dist.all_gather_into_tensor(table.view(-1), message, group, async_op=True)
            works: Sequence[dist.Work | None] = [work]
        else:
            table, mine = self.sums, dist.get_rank(group)
            table[mine] = message
            others = exchange.others(mine)
            sending = exchange.send_each([message] * len(others), others, FROM_OWNER)
            works = [*self.later, *sending]
        for one in works:
            if one is not None:
                one.wait()
        return table


@dataclass(frozen=True, eq=False)
class _PendingFuture:
    future: Future[Tensor]

    def total(self) -> Tensor:
        return self.future.wait()


@dataclass(frozen=True, eq=False)
class BackgroundSum:
    """Makes both phases while this process computes: the second waits for the first."""

    exchange: QuantizedExchange
    thread: CommThread

    def send(self, values: Tensor) -> tuple[PendingSum, Tensor]:
        return _PendingFuture(self.thread.do(partial(_sum, self.exchange, values))), values


def _sum(exchange: QuantizedExchange, values: Tensor) -> Tensor:
    return exchange.send(values)[0].total()


def phases_of(wanted: int, senders: int) -> int:
    """Return in how many phases so many machines sum, if `sync.phases` is `wanted`."""
    return wanted or usual_phases(senders)


def exchange_in(phases: int, subgroups: Subgroups, bits: Bits) -> QuantizedExchange:
    """Return the sum over machines in so many phases."""
    kind = TwoPhaseSum if phases_of(phases, subgroups.senders) == 2 else PackedGather
    return kind(subgroups.senders, bits, subgroups.between)


def shares_of(phases: int, subgroups: Subgroups) -> int:
    """Return in how many equal shares the blocks of a sum are."""
    return subgroups.senders if phases_of(phases, subgroups.senders) == 2 else 1


def quantized_sum(subgroups: Subgroups, numbers: Tensor, bits: Bits, phases: int = 1) -> Tensor:
    """Return the sum over all processes; each machine sends its own, quantized to `bits`."""
    total = numbers.new_zeros(padded(len(numbers), shares_of(phases, subgroups)))
    total[: len(numbers)] = numbers
    subgroups.reduce_to_first(total)
    if subgroups.leads:
        total = _sum(exchange_in(phases, subgroups, bits), total)
    subgroups.broadcast_from_first(total)
    return total[: len(numbers)]
