"""What passes through a network card in an update, on more and more machines?

    python benchmarks/machines.py [--nodes 2,4,6,8] [--workers 1] [--updates 16]
                                  [--ways ddp "compressed bits=4 phases=1" …]

Machines of a laboratory exchange the gradients, or the movements, of a small model in each way,
which is a strategy and settings of `[sync]`. Each reads the counters of its own card before and
after a number of updates; printed is the most that any card sent or received in one, beside
what the cost model foretells. Bytes do not depend on how busy the processors are.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch
from measure import machine
from torch import Tensor, nn

from unisono.comm.bootstrap.join import join
from unisono.comm.protocol import Comm, Replica
from unisono.comm.settings import Sync
from unisono.comm.strategies.build import strategy_of
from unisono.cost_model.cluster import Cluster, exchange_by
from unisono.cost_model.exchange import Link
from unisono.cost_model.strategies import STRATEGIES
from unisono.lab.lab import Lab
from unisono.lab.plan import INTERFACE, LabPlan
from unisono.stopwatch import Stopwatch

WAYS = (
    "ddp",
    "compressed bits=8",
    "compressed bits=4 phases=1",
    "compressed bits=4",
    "diloco bits=4 phases=1",
    "diloco bits=4",
)
LAYERS, WIDTH = 4, 1024
FEWEST_UPDATES = 3  # DDP makes its buckets anew, fragments are on their way
COUNTERS = Path("/sys/class/net") / INTERFACE / "statistics"
QUIET_SECONDS = 1.0
TIMEOUT = 600.0
PORT = 29400


class Count(msgspec.Struct, frozen=True):
    """The most bytes an update that a card carried, and what the cost model says."""

    way: str
    sent: float
    received: float
    foretold: float


def main() -> None:
    """Measure every way on every number of machines; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="2,4,6,8")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--machine", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.machine:
        exchange_here(options.ways, options.updates)
        return
    weights = sum(weight.numel() for weight in new_model().parameters())
    print(f"{machine()}; {weights:,} weights, {options.workers} processes a machine\n")
    print("| machines | way | sent, MB | received, MB | foretold, MB | most over foretold |")
    print("|---|---|---|---|---|---|")
    for nodes in map(int, options.nodes.split(",")):
        for count in counted(nodes, options):
            most = max(count.sent, count.received)
            cells = [f"{n / 1e6:.3f}" for n in (count.sent, count.received, count.foretold)]
            row = [str(nodes), f"`{count.way}`", *cells, f"{most / count.foretold - 1:+.1%}"]
            print(f"| {' | '.join(row)} |", flush=True)


def counted(nodes: int, options: argparse.Namespace) -> list[Count]:
    """Exchange in every way on so many machines; return what passed."""
    command = [sys.executable, __file__, "--machine", "--updates", str(options.updates)]
    command += ["--ways", *options.ways]
    workers, size = options.workers, nodes * options.workers
    with Lab(LabPlan(nodes=nodes, workers_per_node=workers)) as lab:
        leader, *others = (
            lab.start(
                rank // workers,
                command,
                variables=place(rank, size, workers, lab.address(0)),
                stdout=subprocess.PIPE if rank == 0 else None,
            )
            for rank in range(size)
        )
        said = leader.communicate()[0]
        if leader.returncode or any(other.wait() for other in others):
            raise SystemExit(f"an exchange among {nodes} machines failed")
    return msgspec.json.decode(said, type=list[Count])


def place(rank: int, size: int, workers: int, leader: str) -> dict[str, str]:
    """Return the environment of one process, as torchrun makes it."""
    names = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank % workers,
        "LOCAL_WORLD_SIZE": workers,
        "GROUP_RANK": rank // workers,
        "MASTER_ADDR": leader,
        "MASTER_PORT": PORT,
    }
    return {name: str(value) for name, value in names.items()}


def exchange_here(ways: Sequence[str], updates: int) -> None:
    """Exchange in every way, as one of the processes; the first prints the counts."""
    torch.set_num_threads(1)
    comm = join("cpu", timeout_seconds=TIMEOUT, interface=INTERFACE)
    counts = []
    for way in ways:
        counts.append(count_of(way, comm, updates))
        if comm.world.leads:
            print(f"    {comm.world.size} processes: {counts[-1]}", file=sys.stderr, flush=True)
    if comm.world.leads:
        print(msgspec.json.encode(counts).decode())
    comm.close()


def count_of(way: str, comm: Comm, updates: int) -> Count:
    """Make so many updates; return what passed through the cards of all machines."""
    strategy, *settings = way.split()
    values = dict(setting.split("=", 1) for setting in settings)
    fixed = {"strategy": strategy, "warmup_steps": 0, "timeout": f"{TIMEOUT:.0f} s"}
    sync = msgspec.convert(fixed | values, Sync, strict=False)
    replica = strategy_of(sync).attach(new_model(), comm)
    first = max(FEWEST_UPDATES, sync.local_steps)
    make_updates(replica, comm, range(1, first + 1))
    before = carried(comm)
    make_updates(replica, comm, range(first + 1, first + updates + 1))
    passed = [(after - b) / updates for after, b in zip(carried(comm), before, strict=True)]
    sent, received = (max(row[i] for row in comm.gather(passed)) for i in (0, 1))
    return Count(way, sent, received, foretold(sync, comm))


def foretold(sync: Sync, comm: Comm) -> float:
    """Return what the cost model says of an update."""
    hosts = set(comm.gather_bytes(socket.gethostname().encode()))
    workers = int(os.environ["LOCAL_WORLD_SIZE"])
    exchange = exchange_by(
        STRATEGIES[sync.strategy],
        sum(weight.numel() for weight in new_model().parameters()),
        Cluster(len(hosts), workers, Link(1.0)),
        bits=sync.bits,
        every=sync.local_steps,
        phases=sync.phases,
    )
    return exchange.card_bytes / exchange.every


def make_updates(replica: Replica, comm: Comm, steps: Sequence[int]) -> None:
    """Exchange what batches of this process give."""
    for step in steps:
        replica.memory.begin(step, 1.0)
        generator = torch.Generator().manual_seed(1000 * step + comm.world.rank)
        batch = torch.randn(4, WIDTH, generator=generator)
        replica.gradients([batch], loss_of, Stopwatch())
        replica.memory.settle(step, Stopwatch(), moved=True)


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    """Return a loss that every weight takes part in."""
    loss: Tensor = model(batch).square().mean()
    return loss


def new_model() -> nn.Module:
    """Return the same small model on all processes."""
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def carried(comm: Comm) -> list[int]:
    """Return the bytes sent and received so far, once nothing more is on its way."""
    comm.barrier()
    before, now = [-1], read_counters()
    while now != before:
        time.sleep(QUIET_SECONDS)
        before, now = now, read_counters()
    comm.barrier()
    return now


def read_counters() -> list[int]:
    """Return the bytes that this machine's card has sent and received."""
    return [int((COUNTERS / name).read_text()) for name in ("tx_bytes", "rx_bytes")]


if __name__ == "__main__":
    main()
