"""Who speaks for a machine, and to whom: within it, and between machines."""

import socket
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch import Tensor

from unisono.comm.protocol import Comm
from unisono.cost_model.exchange import machines_of


@dataclass(frozen=True, eq=False)
class Subgroups:
    """The lines of one process: to the others of its party, and to the other parties.

    A party is the processes of a machine; its `first` speaks for it. If all processes are on
    one machine there is no network to spare: each is a party of its own, and what is tried
    there shows what it would do over one. `inside` is None for whoever is alone in its party.
    """

    size: int
    parties: int
    members: int
    first: int
    leads: bool
    inside: dist.ProcessGroup | None = None
    between: dist.ProcessGroup | None = None

    @property
    def tiered(self) -> bool:
        """Whether any party, not only this one, has several processes."""
        return self.parties < self.size

    def to_first(self, numbers: Tensor) -> None:
        """Let the first of the party have the sum; what the others have then is undefined."""
        if self.inside is not None:
            dist.reduce(numbers, self.first, group=self.inside)

    def from_first(self, numbers: Tensor) -> None:
        """Let all of the party have the first one's `numbers`."""
        if self.inside is not None:
            dist.broadcast(numbers, self.first, group=self.inside)

    def sum(self, numbers: Tensor, *, rough: bool = False) -> Tensor:
        """Return the sum over all processes; each party sends its own sum once.

        A `rough` one travels between parties with three digits, in half the bytes.
        """
        total = numbers.clone()
        self.to_first(total)
        if self.leads:
            sent = total.bfloat16() if rough else total
            dist.all_reduce(sent, group=self.between)
            total.copy_(sent)
        self.from_first(total)
        return total


def make_subgroups(comm: Comm, timeout_seconds: float, *, own: bool = False) -> Subgroups:
    """Lay the lines of all processes; with `own` ones, even where those that are there do.

    A group has one line to each process, on which messages pass one after the other.
    """
    rank, size = comm.world.rank, comm.world.size
    hosts = [name.decode() for name in comm.gather_bytes(socket.gethostname().encode())]
    local_ranks = [int(row[0]) for row in comm.gather([comm.world.local_rank])]
    machines = machines_of(hosts, local_ranks)
    timeout = timedelta(seconds=timeout_seconds)
    if len(machines) in (1, size):
        group = dist.new_group(timeout=timeout) if own else None
        return Subgroups(size, size, 1, rank, leads=True, between=group)
    # Every process has to take part in the making of every group, its own or not.
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
