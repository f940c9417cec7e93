"""Join the processes that torchrun started, or stand alone if it started none."""

import ctypes
import os
import signal
from collections.abc import Mapping
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono.comm.group import Group
from unisono.comm.protocol import Comm, World
from unisono.comm.solo import Solo
from unisono.errors import ConfigError

VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
PR_SET_PDEATHSIG = 1


def join(device: str, timeout_seconds: float) -> Comm:
    """Return the communicator of this process; `device` is "auto", "cpu" or "cuda"."""
    world = world_from(os.environ, pick_device(device))
    use_device(world)
    if world.size == 1 and "MASTER_ADDR" not in os.environ:
        return Solo(world)
    die_with_parent()
    backend = "nccl" if world.device.startswith("cuda") else "gloo"
    dist.init_process_group(
        backend, init_method="env://", timeout=timedelta(seconds=timeout_seconds)
    )
    return Group(world)


def world_from(variables: Mapping[str, str], device: str) -> World:
    """Read this process's place from torchrun's environment variables."""
    present = [name for name in VARIABLES if name in variables]
    if "RANK" not in present and "WORLD_SIZE" not in present:
        return World(device=f"{device}:0" if device == "cuda" else device)
    missing = [name for name in VARIABLES if name not in variables]
    if missing:
        raise ConfigError(
            f"{', '.join(present)} set, but not {', '.join(missing)}",
            where="environment variables",
            fix="start with torchrun or `unisono launch`, or unset them to run alone",
        )
    rank, size, local_rank, local_size = (int(variables[name]) for name in VARIABLES[:4])
    place = f"cuda:{local_rank}" if device == "cuda" else device
    return World(rank, size, local_rank, local_size, place)


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
