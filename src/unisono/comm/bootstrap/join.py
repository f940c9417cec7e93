"""Join the processes that a launcher started, or run alone if none did."""

import os
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist

from unisono.comm.bootstrap.device import (
    check_process_count,
    check_shared_memory,
    pick_device,
    seat_of,
    use_device,
)
from unisono.comm.bootstrap.find_leader import FoundLeader, LeaderSearch
from unisono.comm.bootstrap.launcher_env import (
    LauncherEnv,
    check_nodes,
    first_slurm_host,
    launcher_env_from,
    leader_endpoint,
    security_warnings,
)
from unisono.comm.bootstrap.nccl import (
    fabric_of,
    fabric_port,
    interface_in_use,
    watchdog_variables,
)
from unisono.comm.bootstrap.network import backend_variables
from unisono.comm.bootstrap.seats import DeviceSeat
from unisono.comm.group import Group, Solo
from unisono.comm.protocol import Comm, World
from unisono.comm.waiting import Notify, no_notice, wait_with_progress
from unisono.errors import RunError
from unisono.nvidia import keep_gpu_memory_whole, read_driver
from unisono.parent_process import die_with_parent

DEFAULT_START_SECONDS = 300.0
GPU_IS_FULL = "out of memory"  # in NCCL's words, below its first line


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
    keep_gpu_memory_whole(os.environ)  # the last moment for it: CUDA has not started
    env = launcher_env_from(os.environ)
    world = world_of(env, pick_device(device))
    check_nodes(os.environ)
    driver = read_driver()
    check_process_count(world, driver)
    use_device(world)
    if world.size == 1 and not env.address:
        return Solo(world)
    die_with_parent()
    check_shared_memory(world)
    if world.leads:
        for warning in security_warnings(env, os.environ):
            notify(warning)
    found = find_others(env, interface, start_seconds, notify, seat_of(world, driver))
    os.environ.update(backend_variables(found.network, os.environ))
    os.environ.update(watchdog_variables(os.environ))
    _start_group(world, found, timeout_seconds)
    fabric = fabric_of(world, os.environ)
    return Group(
        replace(
            world,
            interface=fabric_port(fabric) or interface_in_use(world.device, os.environ),
            address=found.network.address,
            warnings=found.warnings,
            fabric=fabric,
        )
    )


def find_others(
    env: LauncherEnv,
    interface: str,
    seconds: float,
    notify: Notify,
    seat: DeviceSeat = DeviceSeat(),  # noqa: B008  it is frozen
) -> FoundLeader:
    """Return when all processes of the run have found each other."""
    address, port = leader_endpoint(env, first_slurm_host)
    has_agent_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    search = LeaderSearch(env, address, port, interface, has_agent_store, seat, notify)
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
            backend,
            store=found.store,
            rank=world.rank,
            world_size=world.size,
            timeout=timeout,
            # With a device, NCCL connects now: what fails is then said here, in our words.
            device_id=torch.device(world.device) if backend == "nccl" else None,
        )
    except RuntimeError as error:
        if GPU_IS_FULL in str(error):
            raise RunError(
                f"NCCL finds no memory on {world.device}: {GPU_IS_FULL}",
                where=f"process {world.rank}",
                fix="end the program that fills this GPU (`nvidia-smi` names it), or leave the "
                "GPU out with CUDA_VISIBLE_DEVICES",
            ) from error
        raise RunError(
            f"all processes found each other, but {backend} cannot connect them over "
            f"{found.network}: {_first_line(error)}",
            where=f"process {world.rank}",
            fix="open all ports between the machines, or set `sync.interface` to the "
            "interface of a network that they share"
            + ("; NCCL_DEBUG=INFO makes NCCL say more" if backend == "nccl" else ""),
        ) from error


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


def world_of(env: LauncherEnv, device: str) -> World:
    """Return the world of this process, with its own device."""
    # Slurm may show each process only its own GPU, which is then number 0 for all of them.
    number = 0 if torch.cuda.device_count() == 1 else env.local_rank
    mine = f"cuda:{number}" if device == "cuda" else device
    return World(env.rank, env.size, env.local_rank, env.local_size, mine)
