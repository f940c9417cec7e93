"""Devices that are still at work when a call returns.

Exchanges of several messages each, one after the other, beside the computing.

Processes must send the messages of one bucket before those of the next, in the same order
everywhere. Whoever sent each message when the one before it has arrived would mix up those of
two buckets; so there is one line, and each exchange has it for itself.

Packed numbers of all processes, added up in order of rank: all come to the same bits.

gloo sends nothing before the receiver has said that it is ready, and says so over the same
connection, behind whatever is being sent on it. In its all-gather a process begins by sending:
whoever comes second hears of the other's readiness when half of its message has passed, so
that for half of the time only one direction is in use. So here each process first says that it
is ready, and then sends.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from unisono.comm.strategies.quantize import Bits, add_dequantized, dequantize, padded, quantize
from unisono.comm.strategies.subgroups import Subgroups


def wait_for_device(device: str) -> None:
    """Wait until a GPU has done what it was given; a CPU always has.

    Otherwise the next thing that needs a number would wait, under the name of another part.
    """
    if device.startswith("cuda"):
        torch.cuda.current_stream().synchronize()


Job = tuple[Callable[[], Tensor], Future[Tensor]]


class CommThread:
    """Does jobs in the order in which they come: in a thread, or in a stream of a GPU."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device) if device.startswith("cuda") else None
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        if self._stream is None:
            # The thread knows the queue only: what it knew would never be freed.
            threading.Thread(
                target=_work, args=(self._jobs,), name="exchange", daemon=True
            ).start()
            weakref.finalize(self, self._jobs.put, None)

    def do(self, job: Callable[[], Tensor]) -> Future[Tensor]:
        """Return what `job` will return."""
        if self._stream is not None:
            return _in_stream(self._stream, job)
        future: Future[Tensor] = Future()
        self._jobs.put((job, future))
        return future


def _in_stream(stream: torch.cuda.Stream, job: Callable[[], Tensor]) -> Future[Tensor]:
    # Nothing waits here: messages and products are only asked for, in this order.
    stream.wait_stream(torch.cuda.current_stream())
    future: Future[Tensor] = Future(devices=[stream.device])
    with torch.cuda.stream(stream):
        future.set_result(job())
    return future


def _work(jobs: "SimpleQueue[Job | None]") -> None:
    while (item := jobs.get()) is not None:
        job, future = item
        try:
            result = job()
        except Exception as error:  # noqa: BLE001  whoever waits for it is to have it
            future.set_exception(error)  # type: ignore[arg-type]
        else:
            future.set_result(result)
            del result
        del item, job, future  # until the next one comes, nothing is kept


def sum_gathered(rows: Sequence[Tensor], bits: Bits) -> Tensor:
    """Return the sum of the packed `rows`, added up in their order."""
    total = dequantize(rows[0], bits)
    for row in rows[1:]:
        add_dequantized(total, row, bits)
    return total


@dataclass(frozen=True, eq=False)
class PendingGather:
    """A sum that is being made."""

    works: Sequence[dist.Work]
    rows: Sequence[Tensor]
    bits: Bits

    def total(self) -> Tensor:
        """Wait for the sum, and return it; or raise what happened on its way."""
        for work in self.works:
            work.wait()
        return sum_gathered(self.rows, self.bits)


@dataclass(frozen=True, eq=False)
class PackedGather:
    """Sends packed numbers to `size` processes."""

    size: int
    bits: Bits
    group: dist.ProcessGroup | None = None

    def send(self, values: Tensor) -> tuple[PendingGather, Tensor]:
        """Return the sum to come of all processes' `values`, and what rounding dropped here.

        `values` are whole blocks; what was dropped takes their place.
        """
        message = quantize(values, self.bits)
        add_dequantized(values, message, self.bits, sign=-1)
        rows = [torch.empty_like(message) for _ in range(self.size)]
        return PendingGather(self._exchange(rows, message), rows, self.bits), values

    def _exchange(self, rows: list[Tensor], message: Tensor) -> list[dist.Work]:
        """Let `rows` become the messages of all, in order of rank."""
        if message.is_cuda:  # NCCL has no turns to take
            return [dist.all_gather(rows, message, group=self.group, async_op=True)]
        mine = dist.get_rank(self.group)
        rows[mine] = message
        others = [rank for rank in range(self.size) if rank != mine]
        receiving = [dist.irecv(rows[r], group=self.group, group_src=r) for r in others]
        sending = [dist.isend(message, group=self.group, group_dst=r) for r in others]
        return [work for work in (*receiving, *sending) if work is not None]


def packed_sum(lines: Subgroups, numbers: Tensor, bits: Bits) -> Tensor:
    """Return the sum over all processes, of which each party sends its own packed in `bits`."""
    total = numbers.new_zeros(padded(len(numbers)))
    total[: len(numbers)] = numbers
    lines.to_first(total)
    if lines.leads:
        total = PackedGather(lines.parties, bits, lines.between).send(total)[0].total()
    lines.from_first(total)
    return total[: len(numbers)]
