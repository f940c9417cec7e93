"""Join the processes that a launcher started, or stand alone if none did."""

import ctypes
import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono.comm.group import Group
from unisono.comm.place import Place, meeting_point, place_from
from unisono.comm.protocol import Comm, World
from unisono.comm.slurm import first_slurm_host
from unisono.comm.solo import Solo
from unisono.errors import ConfigError

PR_SET_PDEATHSIG = 1


def join(device: str, timeout_seconds: float) -> Comm:
    """Return the communicator of this process; `device` is "auto", "cpu" or "cuda"."""
    place = place_from(os.environ)
    world = world_at(place, pick_device(device))
    use_device(world)
    if world.size == 1 and not place.address:
        return Solo(world)
    die_with_parent()
    os.environ.update(variables_of(place, *meeting_point(place, first_slurm_host)))
    if place.local_size == place.size:
        # One machine: gradients need not leave it, whatever its host name resolves to.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    backend = "nccl" if world.device.startswith("cuda") else "gloo"
    dist.init_process_group(
        backend, init_method="env://", timeout=timedelta(seconds=timeout_seconds)
    )
    return Group(world)


def world_at(place: Place, device: str) -> World:
    """Return the world as `place` says, on this process's own device."""
    mine = f"cuda:{place.local_rank}" if device == "cuda" else device
    return World(place.rank, place.size, place.local_rank, place.local_size, mine)


def variables_of(place: Place, address: str, port: int) -> dict[str, str]:
    """Return what torch reads, whoever started this process."""
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def pick_device(wanted: str) -> str:
    """Return "cuda" or "cpu"; asking for a GPU that is not there is an error."""
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise ConfigError(
            "there is no CUDA device here", where="device", fix='set `device = "auto"` or "cpu"'
        )
    return "cpu"


def use_device(world: World) -> None:
    """Let this process compute on its device: its GPU, or its share of the cores."""
    if world.device.startswith("cuda"):
        torch.cuda.set_device(world.device)
        return
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(max(1, cores // world.local_size))


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it dies.

    Otherwise the workers of a killed torchrun go on training as orphans and write into the
    run directory that its successor uses.
    """
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask
        os.kill(os.getpid(), signal.SIGKILL)
