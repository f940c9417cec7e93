"""Which process of a machine starts its sampler, and for whom."""

import os

import msgspec

from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.monitor.orders import Orders
from unisono.monitor.worker import Sampling
from unisono.physics.machines import machines_of
from unisono.units import seconds_of


class _Place(msgspec.Struct, frozen=True):
    """Where a process is."""

    host: str
    pid: int
    local_rank: int


def sampling(comm: Comm, settings: Settings) -> Sampling:
    """Return the sampling of this machine. All processes call this together."""
    if not settings.monitor.on:
        return Sampling(None)
    me = _Place(os.uname().nodename, os.getpid(), comm.world.local_rank)
    places = [
        msgspec.json.decode(row, type=_Place)
        for row in comm.gather_bytes(msgspec.json.encode(me))
    ]
    if comm.world.local_rank != 0:
        return Sampling(None)
    machines = machines_of([p.host for p in places], [p.local_rank for p in places])
    mine = next(ranks for ranks in machines if comm.world.rank in ranks)
    here = tuple(places[rank].pid for rank in mine)
    every = seconds_of(settings.monitor.every)
    return Sampling(Orders(run=settings.run, rank=comm.world.rank, pids=here, every=every))
