"""Samples this machine: what to read, how often, and what to keep between two samples."""

import os
import platform
import time
from collections.abc import Sequence

from unisono.monitor import counters
from unisono.monitor.connections import Connections
from unisono.monitor.counters import ControlGroup, CoreTimes, Processes
from unisono.monitor.fabric import fabric_links, fabric_traffic
from unisono.monitor.gpus import Gpus
from unisono.records.monitor_events import Machine, Sampled

HOUR, DAY = 3600.0, 86400.0
# A long run needs fewer samples: its pattern is known after an hour.
SELDOM, RARELY = 5.0, 30.0
# A file that is as large as this is full: about three months of a machine with 64 cores.
MOST_SAMPLE_BYTES = 256 * 2**20


def pause(every: float, elapsed: float) -> float:
    """Return the seconds between samples, `elapsed` seconds after the first."""
    if elapsed < HOUR:
        return every
    return every * (SELDOM if elapsed < DAY else RARELY)


def next_look(last: float, every: float, began: float, now: float) -> float:
    """Return the time of the next sample after one at `last`; skip those that were missed."""
    step = pause(every, last - began)
    return max(last + step, now)


DIGITS = 3


class Sampler:
    """The sampler's readings of its machine, and what it keeps between them."""

    def __init__(
        self, rank: int, pids: Sequence[int], every: float, gpus: Sequence[str] = ()
    ) -> None:
        self._rank, self._pids, self._every = rank, list(pids), every
        self._processes, self._group = Processes(pids), ControlGroup()
        self._gpus, self._ours = Gpus(visible=",".join(gpus) or None), bool(gpus)
        self._connections = Connections(self._pids)
        self._cores: list[CoreTimes] = []
        self._last = 0.0

    def introduce(self) -> Machine:
        """Return what does not change while the run goes on."""
        return Machine(
            time=time.time(),
            rank=self._rank,
            host=platform.node(),
            pids=self._pids,
            cores=os.cpu_count() or 1,
            memory=counters.memory()[1],
            every=self._every,
            interfaces={**counters.links(), **fabric_links()},
            gpus=self._gpus.names(),
            used=self._gpus.numbers if self._ours else [],
        )

    def look(self) -> Sampled:
        """Return a sample of the machine."""
        now, cores = time.monotonic(), counters.core_times()
        seconds = now - self._last if self._last else 0.0
        before, self._cores, self._last = self._cores, cores, now
        pairs = list(zip(before, cores, strict=False))
        used, total = counters.memory()
        limits = self._group.look()
        if 0 < limits.memory < total:
            used, total = limits.memory_used, limits.memory
        read, written = counters.disk()
        own = self._processes.look()
        return Sampled(
            time=time.time(),
            seconds=round(seconds, DIGITS),
            interfaces={**counters.traffic(), **fabric_traffic()},
            peers=self._connections.look(),
            cores=[_share(a.busy, b.busy, a, b) for a, b in pairs],
            steal=_mean([_share(a.steal, b.steal, a, b) for a, b in pairs]),
            disk_wait=_mean([_share(a.disk_wait, b.disk_wait, a, b) for a, b in pairs]),
            memory_used=used,
            memory_limit=total,
            disk_read=read,
            disk_written=written,
            own_cpu=round(own.seconds, DIGITS),
            own_memory=own.resident,
            own_read=own.read,
            own_written=own.written,
            held_back=round(limits.held_back, DIGITS),
            sampler_cpu=round(time.process_time(), DIGITS),
            gpus=self._gpus.look(self._pids),
        )


def _share(before: float, after: float, first: CoreTimes, second: CoreTimes) -> float:
    passed = second.total - first.total
    return round(min(1.0, max(0.0, (after - before) / passed)), DIGITS) if passed > 0 else 0.0


def _mean(shares: list[float]) -> float:
    return round(sum(shares) / len(shares), DIGITS) if shares else 0.0
