"""How fast the links between processes are, measured through the group that trains.

All processes call each function at the same time. The bytes go over the same sockets as the
gradients later; the receiver measures the rate. Pairs of machines take turns round robin, so
that no machine is in two transfers at once.
"""

import math
import time
from collections.abc import Sequence
from statistics import median

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor

from unisono.comm.protocol import Comm
from unisono.comm.strategies.packed_gather import wait_for_device
from unisono.cost_model.probe_results import OneWay, Sum

Pairs = tuple[tuple[int, int], ...]

FIRST_PROBE_BYTES = 1 << 16
MOST_PROBE_BYTES = 1 << 28
PAIR_SECONDS = 0.3  # shorter transfers mostly measure buffers
REPEATED_TRANSFERS = 2
PULSE_SECONDS = 0.25
WARM_UP = 2
PINGS = 15


def round_robin(count: int) -> list[Pairs]:
    """Return rounds of pairs: every two meet once, and nobody is in two pairs of a round."""
    seats: list[int | None] = list(range(count))
    if count % 2:
        seats.append(None)  # a bye: whoever faces it rests
    found = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        pairs = ((a, b) for a, b in facing if a is not None and b is not None)
        found.append(tuple(sorted((min(a, b), max(a, b)) for a, b in pairs)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


def latency(comm: Comm) -> float:
    """Return the seconds that the smallest possible all-reduce takes."""
    if comm.world.size == 1:
        return 0.0
    number = torch.zeros(1, device=comm.world.device)
    seconds = [_timed_sum(comm, number).seconds for _ in range(WARM_UP + PINGS)]
    return median(row[0] for row in comm.gather([median(seconds[WARM_UP:])]))


def sum_of(comm: Comm, count: int) -> Sum:
    """All-reduce `count` numbers over all processes; return how long it took."""
    return _timed_sum(comm, torch.zeros(max(1, count), device=comm.world.device))


def one_way_rates(
    comm: Comm, first_ranks: Sequence[int], seconds: float = math.inf
) -> list[OneWay]:
    """Return the rate from every machine to every other; its first rank stands for a machine.

    Pairs whose turn has not come after `seconds` are left out.
    """
    mine: list[OneWay] = []
    began = time.perf_counter()
    for number, pairs in enumerate(round_robin(len(first_ranks))):
        if number and comm.any(time.perf_counter() - began > seconds):
            break
        for reverse in (False, True):
            comm.barrier()
            for low, high in pairs:
                sender, receiver = (high, low) if reverse else (low, high)
                ends = first_ranks[sender], first_ranks[receiver]
                if comm.world.rank in ends:
                    rate = _transfer(comm, *ends)
                    mine += [OneWay(sender, receiver, rate)] * (comm.world.rank == ends[1])
    rows = comm.gather_bytes(msgspec.json.encode(mine))
    found = [one for row in rows for one in msgspec.json.decode(row, type=list[OneWay])]
    return sorted(found, key=lambda one: (one.sender, one.receiver))


def sustained(
    comm: Comm, first_ranks: Sequence[int], rate: float, seconds: float
) -> list[float]:
    """Return the rates of a steady stream in a ring of all machines, pulse by pulse.

    The slowest machine sets the rate of each pulse, since all wait for it.
    """
    if len(first_ranks) < 2:
        return []
    size = int(min(MOST_PROBE_BYTES, max(FIRST_PROBE_BYTES, rate * PULSE_SECONDS)))
    began, rates = time.perf_counter(), []
    while True:
        took = _pulse(comm, first_ranks, size)
        over = time.perf_counter() - began > seconds
        rows = comm.gather([took, float(over)])
        rates.append(size / max(row[0] for row in rows))
        if any(row[1] for row in rows):
            return rates


def _timed_sum(comm: Comm, numbers: Tensor) -> Sum:
    comm.barrier()
    size = numbers.numel() * numbers.element_size()
    if comm.world.size == 1:
        return Sum(size, 0.0, 0.0)
    busy, began = time.process_time(), time.perf_counter()
    dist.all_reduce(numbers)
    wait_for_device(comm.world.device)
    return Sum(size, time.perf_counter() - began, time.process_time() - busy)


def _transfer(comm: Comm, sender: int, receiver: int) -> float:
    """Send more and more until a transfer takes long enough; return its bytes per second."""
    size = FIRST_PROBE_BYTES
    while True:
        seconds = _once(comm, sender, receiver, size)
        if seconds >= PAIR_SECONDS or size >= MOST_PROBE_BYTES:
            # A sender that is busy for a moment makes one transfer slower. A busy receiver, or
            # the burst a traffic shaper allows after a pause, makes one look faster.
            again = [_once(comm, sender, receiver, size) for _ in range(REPEATED_TRANSFERS)]
            return size / median([seconds, *again])
        # More than seems needed: buffers make short transfers look fast.
        wanted = size * 1.3 * PAIR_SECONDS / max(seconds, 1e-6)
        size = int(min(MOST_PROBE_BYTES, max(2 * size, min(wanted, 16 * size))))


def _once(comm: Comm, sender: int, receiver: int, size: int) -> float:
    """Return, on both sides, the receiver's seconds between the first byte and the last."""
    device = comm.world.device
    first, data = (torch.empty(n, dtype=torch.uint8, device=device) for n in (1, size))
    took = torch.empty(1, dtype=torch.float64, device=device)
    if comm.world.rank == sender:
        dist.send(first, receiver)
        dist.send(data, receiver)
        dist.recv(took, receiver)
    else:
        dist.recv(first, sender)
        wait_for_device(comm.world.device)
        began = time.perf_counter()
        dist.recv(data, sender)
        wait_for_device(comm.world.device)
        took[0] = time.perf_counter() - began
        dist.send(took, sender)
    return float(took)


def _pulse(comm: Comm, first_ranks: Sequence[int], size: int) -> float:
    """Send to the next machine and receive from the one before; return the seconds."""
    comm.barrier()
    if comm.world.rank not in first_ranks:
        return 0.0
    position = first_ranks.index(comm.world.rank)
    after = first_ranks[(position + 1) % len(first_ranks)]
    before = first_ranks[position - 1]
    mine, other = (
        torch.empty(size, dtype=torch.uint8, device=comm.world.device) for _ in range(2)
    )
    began = time.perf_counter()
    # Receive first: "ready to receive" travels over the same connection, and behind our data it
    # would arrive so late that the two directions take turns.
    both = [dist.P2POp(dist.irecv, other, before), dist.P2POp(dist.isend, mine, after)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    wait_for_device(comm.world.device)
    return time.perf_counter() - began
