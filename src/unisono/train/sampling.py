"""Which process of a machine starts its sampler, and for whom."""

import os

import msgspec

from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.cost_model.exchange import machines_of
from unisono.monitor.settings import SamplerConfig
from unisono.monitor.worker import Sampling
from unisono.units import seconds_of


class _Place(msgspec.Struct, frozen=True):
    """Where a process is."""

    host: str
    pid: int
    local_rank: int
    gpu: str = ""


def sampling(comm: Comm, settings: Settings) -> Sampling:
    """Return the sampling of this machine. All processes call this together."""
    if not settings.monitor.on:
        return Sampling(None)
    gpu = gpu_name(comm.world.device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    me = _Place(os.uname().nodename, os.getpid(), comm.world.local_rank, gpu)
    places = [
        msgspec.json.decode(row, type=_Place)
        for row in comm.gather_bytes(msgspec.json.encode(me))
    ]
    if comm.world.local_rank != 0:
        return Sampling(None)
    machines = machines_of([p.host for p in places], [p.local_rank for p in places])
    mine = next(ranks for ranks in machines if comm.world.rank in ranks)
    here = tuple(places[rank].pid for rank in mine)
    named = [places[rank].gpu for rank in mine]
    gpus = tuple(dict.fromkeys(named)) if all(named) else ()
    every = seconds_of(settings.monitor.every)
    return Sampling(
        SamplerConfig(run=settings.run, rank=comm.world.rank, pids=here, every=every, gpus=gpus)
    )


def gpu_name(device: str, visible: str | None) -> str:
    """Return what `CUDA_VISIBLE_DEVICES` calls the GPU of a process; "" if it has none.

    Each process may see others, or but its own, such as under Slurm.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return ""
    place = int(number) if number.isdecimal() else 0
    if visible is None:
        return str(place)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return names[place] if place < len(names) else ""
