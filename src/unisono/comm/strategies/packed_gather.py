"""Exchanges of quantized numbers: within a machine, between machines, beside the computing.

One process of each machine sends for all of its machine (`Subgroups`). It sends what is
quantized to all other machines (`PackedGather`), and each adds up what it receives in order of
rank: all come to the same bits. An exchange of several messages runs in one thread
(`CommThread`): all processes must send the messages of one bucket before those of the next.

gloo sends nothing before the receiver has said that it is ready, and says so over the same
connection, behind whatever is being sent on it. In its all-gather a process begins by sending:
whoever comes second learns that the other is ready when half of its message has passed, so
that half of the time only one direction is in use. So here each process first says that it is
ready, and then sends.
"""

import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from queue import SimpleQueue
from types import ModuleType
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from unisono.comm.protocol import Comm
from unisono.comm.strategies.quantize import Bits, add_dequantized, dequantize, padded, quantize
from unisono.cost_model.exchange import machines_of

KERNELS = "unisono.comm.strategies.quantize_kernels"
OLDEST_FOR_TRITON = (7, 0)
EXACT_BITS = 32


@dataclass(frozen=True, eq=False)
class Subgroups:
    """The process groups of one process: `inside` its machine, and `between` machines.

    The `first` process of a machine sends for all its `members`. If all processes are on one
    machine, each sends for itself, so that a trial there shows what happens over a network.
    `inside` is None for a process without others on its machine.
    """

    size: int
    senders: int
    members: int
    first: int
    leads: bool
    inside: dist.ProcessGroup | None = None
    between: dist.ProcessGroup | None = None

    @property
    def tiered(self) -> bool:
        """Whether any machine, not only this one, has several processes."""
        return self.senders < self.size

    @property
    def is_leader(self) -> bool:
        """Whether this is the process that leads the run."""
        return self.leads and self.first == 0

    def reduce_to_first(self, numbers: Tensor) -> None:
        """Sum on the first process of the machine; on the others `numbers` become undefined."""
        if self.inside is not None:
            dist.reduce(numbers, self.first, group=self.inside)

    def broadcast_from_first(self, numbers: Tensor) -> None:
        """Give all processes of the machine the `numbers` of its first."""
        if self.inside is not None:
            dist.broadcast(numbers, self.first, group=self.inside)

    def sum(self, numbers: Tensor, *, rough: bool = False) -> Tensor:
        """Return the sum over all processes; each machine sends its own sum once.

        A `rough` one travels between machines with three digits, in half the bytes.
        """
        total = numbers.clone()
        self.reduce_to_first(total)
        if self.leads:
            sent = total.bfloat16() if rough else total
            dist.all_reduce(sent, group=self.between)
            total.copy_(sent)
        self.broadcast_from_first(total)
        return total


def make_subgroups(comm: Comm, timeout_seconds: float, *, own: bool = False) -> Subgroups:
    """Return the subgroups of this process; with `own`, never the default group.

    A group has one connection to each process, on which messages pass one after the other.
    """
    rank, size = comm.world.rank, comm.world.size
    hosts = [name.decode() for name in comm.gather_bytes(socket.gethostname().encode())]
    local_ranks = [int(row[0]) for row in comm.gather([comm.world.local_rank])]
    machines = machines_of(hosts, local_ranks)
    timeout = timedelta(seconds=timeout_seconds)
    if len(machines) in (1, size):
        group = dist.new_group(timeout=timeout) if own else None
        return Subgroups(size, size, 1, rank, leads=True, between=group)
    # Every process has to take part in making every group, its own or not.
    between = dist.new_group([ranks[0] for ranks in machines], timeout=timeout)
    inside = None
    for ranks in machines:
        group = dist.new_group(ranks, timeout=timeout) if len(ranks) > 1 else None
        inside = group if rank in ranks else inside
    mine = next(ranks for ranks in machines if rank in ranks)
    leads = rank == mine[0]
    return Subgroups(
        size,
        len(machines),
        len(mine),
        mine[0],
        leads=leads,
        inside=inside,
        between=between if leads else None,
    )


def wait_for_device(device: str) -> None:
    """Wait until a GPU has finished what it was given; a CPU always has.

    Otherwise the next operation that needs a number would wait, and its timer would count that.
    """
    if device.startswith("cuda"):
        torch.cuda.current_stream().synchronize()


Job = tuple[Callable[[], Tensor], Future[Tensor]]


class CommThread:
    """Runs jobs in the order in which they come: in a thread, or in a stream of a GPU."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device) if device.startswith("cuda") else None
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        if self._stream is None:
            # The thread holds only the queue: whatever else it held would never be freed.
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
    # Nothing waits here: messages and products are only enqueued, in this order.
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
        except Exception as error:  # noqa: BLE001  handed to whoever waits
            future.set_exception(error)  # type: ignore[arg-type]
        else:
            future.set_result(result)
            del result
        del item, job, future  # nothing is kept until the next one comes


@cache
def kernels_for(device: torch.device) -> ModuleType | None:
    """Return the fused kernels, or None where torch's operations have to do.

    Beside triton and a GPU that it knows, a kernel needs a C compiler the first time. Processes
    may differ in this: both ways come to the same bits.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return None
    if torch.cuda.get_device_capability(device) < OLDEST_FOR_TRITON:
        return None
    try:
        kernels = import_module(KERNELS)
        kernels.quantize_with_residual(torch.zeros(padded(1), device=device), 8)
    except Exception:  # noqa: BLE001  whatever triton lacks, torch's operations do not need
        return None
    return kernels


def quantize_with_residual(values: Tensor, bits: Bits) -> Tensor:
    """Return `values` as bytes, and leave in `values` what these do not say."""
    if bits < EXACT_BITS and (kernels := kernels_for(values.device)) is not None:
        return cast(Tensor, kernels.quantize_with_residual(values, bits))
    message = quantize(values, bits)
    add_dequantized(values, message, bits, sign=-1)
    return message


def sum_gathered(rows: Sequence[Tensor] | Tensor, bits: Bits) -> Tensor:
    """Return the sum of the quantized `rows`, added up in their order.

    Those of a GPU are one tensor.
    """
    if isinstance(rows, Tensor) and bits < EXACT_BITS:
        kernels = kernels_for(rows.device)
        if kernels is not None:
            return cast(Tensor, kernels.sum_messages(rows, bits))
    total = dequantize(rows[0], bits)
    for row in rows[1:]:
        add_dequantized(total, row, bits)
    return total


@dataclass(frozen=True, eq=False)
class PendingGather:
    """A sum that is being made."""

    works: Sequence[dist.Work]
    rows: Sequence[Tensor] | Tensor
    bits: Bits

    def total(self) -> Tensor:
        """Wait for the sum and return it, or raise the error of the exchange."""
        for work in self.works:
            work.wait()
        return sum_gathered(self.rows, self.bits)


@dataclass(frozen=True, eq=False)
class PackedGather:
    """An all-gather of quantized numbers among `size` processes."""

    size: int
    bits: Bits
    group: dist.ProcessGroup | None = None

    def send(self, values: Tensor) -> tuple[PendingGather, Tensor]:
        """Return the pending sum of all processes' `values`, and the residual of this one.

        `values` are whole blocks; the residual takes their place. On a GPU, ask for the sum in
        the stream that was current here: once another one has waited for NCCL, NCCL no longer
        keeps the buffers, and this stream may overwrite them while they are being sent.
        """
        message = quantize_with_residual(values, self.bits)
        if message.is_cuda:  # NCCL sends both ways at once
            table = message.new_empty(self.size, len(message))
            work = dist.all_gather_into_tensor(table, message, self.group, async_op=True)
            return PendingGather([work], table, self.bits), values
        rows = [torch.empty_like(message) for _ in range(self.size)]
        return PendingGather(self._exchange(rows, message), rows, self.bits), values

    def _exchange(self, rows: list[Tensor], message: Tensor) -> list[dist.Work]:
        """Fill `rows` with the messages of all, in order of rank."""
        mine = dist.get_rank(self.group)
        rows[mine] = message
        others = [rank for rank in range(self.size) if rank != mine]
        receiving = [dist.irecv(rows[r], group=self.group, group_src=r) for r in others]
        sending = [dist.isend(message, group=self.group, group_dst=r) for r in others]
        return [work for work in (*receiving, *sending) if work is not None]
