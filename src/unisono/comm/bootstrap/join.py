"""Join the processes that a launcher started, or run alone if none did."""

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
    leader_endpoint,
)
from unisono.comm.bootstrap.network import GLOO, NCCL, backend_variables
from unisono.comm.group import Group, Solo
from unisono.comm.protocol import Comm, World
from unisono.comm.waiting import Notify, no_notice, wait_with_progress
from unisono.errors import ConfigError, RunError

PR_SET_PDEATHSIG = 1
DEFAULT_START_SECONDS = 300.0


def join(
    device: str,
    timeout_seconds: float,
    *,
    start_seconds: float = DEFAULT_START_SECONDS,
    interface: str = "",
    notify: Notify = no_notice,
) -> Comm:
    """Return the communicator of this process; `device` is "auto", "cpu" or "cuda".

    While processes are missing, call `notify` with which ones and what to check; after
    `start_seconds`, raise an error. `interface` overrides the network on the route to the
    others.
    """
    env = launcher_env_from(os.environ)
    world = world_of(env, pick_device(device))
    check_nodes(os.environ)
    use_device(world)
    if world.size == 1 and not env.address:
        return Solo(world)
    die_with_parent()
    found = find_others(env, interface, start_seconds, notify)
    os.environ.update(backend_variables(found.network, os.environ))
    _start_group(world, found, timeout_seconds)
    return Group(
        replace(
            world,
            interface=os.environ.get(NCCL if world.device != "cpu" else GLOO, ""),
            address=found.network.address,
            warnings=found.warnings,
        )
    )


def find_others(
    env: LauncherEnv, interface: str, seconds: float, notify: Notify
) -> FoundLeader:
    """Return when all processes of the run have found each other."""
    address, port = leader_endpoint(env, first_slurm_host)
    has_agent_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    search = LeaderSearch(env, address, port, interface, has_agent_store)
    what = f"process {env.rank} is looking for the others at {address} port {port}"
    try:
        return wait_with_progress(search.find, what, seconds, notify)
    except RuntimeError as error:
        raise RunError(
            f"process {env.rank} lost contact with process 0 while it waited for the others: "
            f"{_first_line(error)}",
            fix="check whether process 0 has ended, and what it reported",
        ) from error


def _start_group(world: World, found: FoundLeader, timeout_seconds: float) -> None:
    backend = "nccl" if world.device.startswith("cuda") else "gloo"
    timeout = timedelta(seconds=timeout_seconds)
    found.store.set_timeout(timeout)
    try:
        # Never by an address (tcp://): under torchrun nobody would host the store then.
        dist.init_process_group(
            backend, store=found.store, rank=world.rank, world_size=world.size, timeout=timeout
        )
    except RuntimeError as error:
        raise RunError(
            f"all processes found each other, but {backend} cannot connect them over "
            f"{found.network}: {_first_line(error)}",
            where=f"process {world.rank}",
            fix="open all ports between the machines, or set `sync.interface` to the "
            "interface of a network that they share",
        ) from error


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


def world_of(env: LauncherEnv, device: str) -> World:
    """Return the world of this process, with its own device."""
    # Slurm may show each process only its own GPU, which is then number 0 for all of them.
    number = 0 if torch.cuda.device_count() == 1 else env.local_rank
    mine = f"cuda:{number}" if device == "cuda" else device
    return World(env.rank, env.size, env.local_rank, env.local_size, mine)


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

    Otherwise the workers of a killed torchrun keep training as orphans and write into the
    run directory that its successor uses.
    """
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask
        os.kill(os.getpid(), signal.SIGKILL)
