"""The kernel's counters of this machine, of the run's processes, and of their control group."""

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from unisono.records.monitor_events import NetworkInterface, Traffic

ROOT = Path("/sys/fs/cgroup")
MICROSECONDS = 1e-6


@dataclass(frozen=True)
class CgroupLimits:
    """What a control group allows and has used; 0 means no limit, or unknown."""

    memory: int = 0
    memory_used: int = 0
    held_back: float = 0.0


class ControlGroup:
    """The control group of this process, and its parents as far as they are visible."""

    def __init__(self, root: Path = ROOT, membership: Path = Path("/proc/self/cgroup")) -> None:
        own = root / _own_path(membership).lstrip("/")
        places = [own, *own.parents]
        self._places = [p for p in places if p == root or root in p.parents]

    def look(self) -> CgroupLimits:
        """Return the tightest memory limit, the memory in use, and time lost to a CPU quota."""
        held_back = max((_held_back(place) for place in self._places), default=0.0)
        memory = [(limit, place) for place in self._places if (limit := _memory_limit(place))]
        if not memory:
            return CgroupLimits(held_back=held_back)
        limit, place = min(memory, key=lambda pair: pair[0])
        return CgroupLimits(limit, _memory_used(place), held_back)


def _own_path(membership: Path) -> str:
    lines = _read(membership).splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), "/")


def _memory_limit(place: Path) -> int:
    text = _read(place / "memory.max").strip()
    return int(text) if text.isdecimal() else 0


def _memory_used(place: Path) -> int:
    """Return the memory of the group, without cached files that the kernel can drop at once."""
    text = _read(place / "memory.current").strip()
    cached = _table(place / "memory.stat").get("inactive_file", 0)
    return max(0, int(text) - cached) if text.isdecimal() else 0


def _held_back(place: Path) -> float:
    return _table(place / "cpu.stat").get("throttled_usec", 0) * MICROSECONDS


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""


# A host of containers has hundreds of virtual interfaces; the busiest will do.
MOST_INTERFACES = 32
FAMILIES = socket.AF_INET, socket.AF_INET6


@dataclass(frozen=True)
class CoreTimes:
    """Seconds of one core since the machine was started."""

    busy: float
    steal: float
    disk_wait: float
    total: float


def traffic() -> dict[str, Traffic]:
    """Return the traffic of every interface that has carried any."""
    found = {
        name: Traffic(
            received=io.bytes_recv,
            sent=io.bytes_sent,
            errors=io.errin + io.errout,
            drops=io.dropin + io.dropout,
        )
        for name, io in psutil.net_io_counters(pernic=True).items()
        if io.bytes_recv or io.bytes_sent
    }
    busiest = sorted(found, key=lambda name: -found[name].received - found[name].sent)
    return {name: found[name] for name in busiest[:MOST_INTERFACES]}


def links() -> dict[str, NetworkInterface]:
    """Return the configuration of every interface that is up or has an address."""
    addresses = psutil.net_if_addrs()
    return {
        name: NetworkInterface(
            up=stats.isup,
            mbit_per_s=max(0, stats.speed),
            addresses=[
                _with_prefix(a) for a in addresses.get(name, []) if a.family in FAMILIES
            ],
        )
        for name, stats in psutil.net_if_stats().items()
        if stats.isup
    }


def _with_prefix(entry: Any) -> str:
    """Write an address with the length of its network: 10.0.0.1/24."""
    address = str(entry.address).partition("%")[0]
    if not entry.netmask:
        return address
    return f"{address}/{int(ipaddress.ip_address(entry.netmask)).bit_count()}"


def core_times() -> list[CoreTimes]:
    """Return the seconds of every core."""
    return [_core(times) for times in psutil.cpu_times(percpu=True)]


def _core(times: object) -> CoreTimes:
    # A guest's time is within `user`; not every system has all of these.
    names = ("user", "nice", "system", "irq", "softirq")
    busy = sum(getattr(times, name, 0.0) for name in names)
    steal, disk = getattr(times, "steal", 0.0), getattr(times, "iowait", 0.0)
    return CoreTimes(busy, steal, disk, busy + steal + disk + getattr(times, "idle", 0.0))


def memory() -> tuple[int, int]:
    """Return the bytes of memory in use and in total."""
    found = psutil.virtual_memory()
    return found.total - found.available, found.total


def disk() -> tuple[int, int]:
    """Return the bytes read from and written to all disks; 0 if there are none."""
    found = psutil.disk_io_counters()
    return (found.read_bytes, found.write_bytes) if found is not None else (0, 0)


@dataclass(frozen=True)
class Own:
    """What the processes of the run have used so far: CPU seconds, bytes from and to disks.

    `resident` is the memory they hold now. Bytes are None where the system does not say.
    """

    seconds: float = 0.0
    resident: int = 0
    read: int | None = None
    written: int | None = None


class Processes:
    """The processes of the run on this machine."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._seconds = dict.fromkeys(pids, 0.0)
        self._disk: dict[int, tuple[int, int]] = {}
        self._processes: list[psutil.Process] = []
        for pid in pids:
            with suppress(psutil.Error):
                self._processes.append(psutil.Process(pid))

    def look(self) -> Own:
        """Return what they have used so far.

        A process that ended keeps its counters; `psutil` never takes a later one for it.
        """
        resident = 0
        for process in self._processes:
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                self._seconds[process.pid] = times.user + times.system
                resident += process.memory_info().rss
            # Apart: without permission for the disk counters, the rest can still be read.
            with suppress(psutil.Error, AttributeError, OSError):
                io = process.io_counters()
                self._disk[process.pid] = io.read_bytes, io.write_bytes
        return Own(
            sum(self._seconds.values()),
            resident,
            sum(read for read, _ in self._disk.values()) if self._disk else None,
            sum(written for _, written in self._disk.values()) if self._disk else None,
        )
