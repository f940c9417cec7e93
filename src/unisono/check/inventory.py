"""The resources of a process: its device, memory, cores, disk and network card."""

import os
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from unisono.comm.protocol import Comm
from unisono.config.settings import Settings
from unisono.cost_model.probe_results import Process, Sum, Update
from unisono.monitor.counters import ControlGroup

INTERFACES = Path("/sys/class/net")


def describe_process(
    settings: Settings, comm: Comm, updates: Sequence[Update], sums: Sequence[Sum]
) -> Process:
    """Return where this process runs, its resources, and what it measured."""
    world = comm.world
    memory, peak = _memory(world.device)
    return Process(
        rank=world.rank,
        local_rank=world.local_rank,
        host=os.uname().nodename,
        device=_device_name(world.device),
        threads=torch.get_num_threads(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory,
        peak_bytes=peak,
        free_disk_bytes=shutil.disk_usage(existing_part(Path(settings.run or "."))).free,
        interface=world.interface,
        nominal_mbit=nominal_mbit(world.interface),
        updates=tuple(updates),
        sums=tuple(sums),
    )


def _memory(device: str) -> tuple[int, int]:
    """Return the memory there is, and the most this process has used of it."""
    if device.startswith("cuda"):
        total = torch.cuda.get_device_properties(device).total_memory
        return int(total), int(torch.cuda.max_memory_reserved(device))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    total, allowed = psutil.virtual_memory().total, ControlGroup().look().memory
    return min(total, allowed) if allowed else total, used


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def nominal_mbit(interface: str, interfaces: Path = INTERFACES) -> int:
    """Return the nominal rate of an interface; 0 means unknown.

    A virtual cable (veth) always reports 10,000. It has no device behind it, unlike a physical
    interface, and no device type, unlike a bond, vlan or bridge.
    """
    links = psutil.net_if_stats()
    path = interfaces / interface
    if not interface or interface not in links or not path.is_dir():
        return 0
    made_of_others = "DEVTYPE=" in (path / "uevent").read_text()
    return links[interface].speed if (path / "device").exists() or made_of_others else 0


def existing_part(path: Path) -> Path:
    """Return the directory, or the nearest above it that exists."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path
