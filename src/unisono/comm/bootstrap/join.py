"""Join the processes that a launcher started, or stand alone if none did."""

import ctypes
import os
import signal
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono.comm.bootstrap.find_leader import FoundLeader, LeaderSearch
from unisono.comm.bootstrap.launcher_env import (
    LauncherEnv,
    check_nodes,
    first_slurm_host,
    launcher_env_from,
    meeting_point,
)
from unisono.comm.bootstrap.network import GLOO, NCCL, variables_for
from unisono.comm.group import Group
from unisono.comm.protocol import Comm, World
from unisono.comm.solo import Solo
from unisono.comm.waiting import Tell, say_nothing, wait_aloud
from unisono.errors import ConfigError, RunError

PR_SET_PDEATHSIG = 1
START_SECONDS = 300.0


def join(
    device: str,
    timeout_seconds: float,
    *,
    start_seconds: float = START_SECONDS,
    interface: str = "",
    tell: Tell = say_nothing,
) -> Comm:
    """Return the communicator of this process; `device` is "auto", "cpu" or "cuda".

    While processes are missing, `tell` is told who and what to check, and after
    `start_seconds` it is an error. `interface` is the network to use if it is not the one
    that leads to the others.
    """
    place = launcher_env_from(os.environ)
    world = world_at(place, pick_device(device))
    check_nodes(os.environ)
    use_device(world)
    if world.size == 1 and not place.address:
        return Solo(world)
    die_with_parent()
    met = meet(place, interface, start_seconds, tell)
    os.environ.update(variables_for(met.network, os.environ))
    _start_group(world, met, timeout_seconds)
    return Group(
        replace(
            world,
            interface=os.environ.get(NCCL if world.device != "cpu" else GLOO, ""),
            address=met.network.address,
            warnings=met.warnings,
        )
    )


def meet(place: LauncherEnv, interface: str, seconds: float, tell: Tell) -> FoundLeader:
    """Return when all processes of the run have found each other."""
    address, port = meeting_point(place, first_slurm_host)
    meeting = LeaderSearch(
        place,
        address,
        port,
        interface,
        shared=os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )
    what = f"process {place.rank} is looking for the others at {address} port {port}"
    try:
        return wait_aloud(meeting.attend, what, seconds, tell)
    except RuntimeError as error:
        raise RunError(
            f"process {place.rank} lost contact with process 0 while the processes met: "
            f"{_first_line(error)}",
            fix="see whether process 0 has ended, and what it said",
        ) from error


def _start_group(world: World, met: FoundLeader, timeout_seconds: float) -> None:
    backend = "nccl" if world.device.startswith("cuda") else "gloo"
    timeout = timedelta(seconds=timeout_seconds)
    met.store.set_timeout(timeout)
    try:
        # Never by an address (tcp://): under torchrun nobody would hold the store then.
        dist.init_process_group(
            backend, store=met.store, rank=world.rank, world_size=world.size, timeout=timeout
        )
    except RuntimeError as error:
        raise RunError(
            f"all processes have met, but {backend} cannot connect them over "
            f"{met.network}: {_first_line(error)}",
            where=f"process {world.rank}",
            fix="let all ports pass between the machines, or set `sync.interface` to the "
            "interface of a network that they share",
        ) from error


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


def world_at(place: LauncherEnv, device: str) -> World:
    """Return the world as `place` says, on this process's own device."""
    # Slurm may show each process but its own GPU, which is then number 0 for all of them.
    number = 0 if torch.cuda.device_count() == 1 else place.local_rank
    mine = f"cuda:{number}" if device == "cuda" else device
    return World(place.rank, place.size, place.local_rank, place.local_size, mine)


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
