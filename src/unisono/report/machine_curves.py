"""Curves of what was sampled: one for each machine, or one for all where there are many."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt

from unisono.diagnose.evidence.counters import Read
from unisono.diagnose.evidence.machine_load import own_gpus
from unisono.records.sampled import Gpu, Sampled, Traffic
from unisono.records.view import RunView
from unisono.report.machine_bins import SampledMachine, timed_bins
from unisono.report.panel import Curve
from unisono.report.points import Point

STYLES = ("first", "second", "third", "fourth", "fifth", "sixth")
GRID = 150  # points of a curve over many machines

FloatArray = npt.NDArray[np.float64]
Points = Callable[[SampledMachine], list[Point]]


def sampled_machines(run: RunView) -> list[SampledMachine]:
    """Return the machines of the last start whose samples lie within its updates."""
    starts = {start.rank: start for start in run.last_starts}
    found = []
    for rank, log in run.machines.items():
        if rank in starts and log.machines:
            bins = timed_bins(run.ranks.get(rank, ()), log.samples)
            cores = log.machines[-1].cores
            found.append(SampledMachine(starts[rank].host, rank, cores, log.samples, bins))
    return [machine for machine in found if machine.bins]


def over_machines(machines: Sequence[SampledMachine], points: Points) -> list[Curve]:
    """Return a curve for each machine; of many, their mean, the lowest and the highest."""
    curves = [(machine.host, points(machine)) for machine in machines]
    if len(machines) > len(STYLES):
        known = [found for _, found in curves if found]
        return [_mean_of(known)] if known else []
    return [
        Curve(host, found, style)
        for (host, found), style in zip(curves, STYLES, strict=False)
        if found
    ]


def _mean_of(curves: Sequence[list[Point]]) -> Curve:
    low, high = min(c[0][0] for c in curves), max(c[-1][0] for c in curves)
    steps = np.linspace(low, high, min(GRID, max(map(len, curves))))
    rows = np.array([_at(steps, curve) for curve in curves])
    means, lowest, highest = rows.mean(0), rows.min(0), rows.max(0)
    return Curve(
        f"mean of {len(curves)} machines",
        list(zip(steps.tolist(), means.tolist(), strict=True)),
        STYLES[0],
        band=list(zip(steps.tolist(), lowest.tolist(), highest.tolist(), strict=True)),
    )


def _at(steps: FloatArray, curve: Sequence[Point]) -> FloatArray:
    return np.interp(steps, [x for x, _ in curve], [y for _, y in curve])


def carried(interfaces: dict[int, str], way: str) -> Points:
    """Read bytes a second through the interface of each machine, by rank; sent or received."""

    def points(machine: SampledMachine) -> list[Point]:
        name = interfaces.get(machine.rank, "")
        if not any(name in sample.interfaces for sample in machine.samples):
            return []

        def read(sample: Sampled) -> float:
            return float(getattr(sample.interfaces.get(name, Traffic()), way))

        return machine.rate(read)

    return points


def busy_cores(machine: SampledMachine) -> list[Point]:
    """Read the share of all cores that was busy, in percent."""
    return machine.level(lambda s: 100 * fmean(s.cores) if s.cores else None)


def own_cores(machine: SampledMachine) -> list[Point]:
    """Read the share of all cores that the run itself used, in percent."""
    used = machine.rate(lambda s: s.own_cpu)
    return [(step, 100 * seconds / max(1, machine.cores)) for step, seconds in used]


def stolen(machine: SampledMachine) -> list[Point]:
    """Read the share of the time that other guests of the host had, in percent."""
    return machine.level(lambda s: 100 * s.steal)


def memory(machine: SampledMachine) -> list[Point]:
    """Read the memory in use, in GB."""
    return machine.level(lambda s: s.memory_used / 1e9 if s.memory_used else None)


def disk(machine: SampledMachine) -> list[Point]:
    """Read what was read from and written to all disks, in MB a second."""
    return _megabytes(machine.rate(lambda s: s.disk_read + s.disk_written))


def own_disk(machine: SampledMachine) -> list[Point]:
    """Read what of that was the run's, in MB a second; nothing where it is not known."""
    return _megabytes(machine.rate(_own_bytes))


def _own_bytes(sample: Sampled) -> float | None:
    if sample.own_read is None or sample.own_written is None:
        return None
    return sample.own_read + sample.own_written


def _megabytes(points: Sequence[Point]) -> list[Point]:
    return [(step, rate / 1e6) for step, rate in points]


def of_gpus(run: RunView, read: Callable[[Gpu], float | None]) -> Points:
    """Read the mean of something over those GPUs of a machine that the run uses."""

    def points(machine: SampledMachine) -> list[Point]:
        return machine.level(_mean_over(own_gpus(run, machine.rank), read))

    return points


def _mean_over(wanted: set[int], read: Callable[[Gpu], float | None]) -> Read:
    def value(sample: Sampled) -> float | None:
        found = [read(gpu) for gpu in sample.gpus if gpu.index in wanted]
        known = [one for one in found if one is not None]
        return fmean(known) if known else None

    return value
