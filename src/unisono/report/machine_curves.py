"""Curves of what was sampled on the machines, joined to the steps of the run.

Samples follow the clock, and updates are counted: a bin is some updates in a row and the time
they took. Time between updates, for validations and checkpoints, is in no bin.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from unisono.diagnose.evidence.counters import Read, Stretch, counter_of, during, stretches_of
from unisono.diagnose.evidence.machine_load import own_gpus
from unisono.records.events import StepTaken
from unisono.records.monitor_events import Gpu, Sampled, Traffic
from unisono.records.view import RunView
from unisono.report.panel import Curve, Point

MOST_TIMED_BINS = 150
SAMPLES_PER_BIN = 2  # at least, on average


@dataclass(frozen=True)
class TimedBin:
    """Consecutive updates: their middle step, when they were made, and their samples."""

    step: float
    stretches: tuple[Stretch, ...]
    samples: tuple[Sampled, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(stretch.seconds for stretch in self.stretches)


@dataclass(frozen=True)
class SampledMachine:
    """One machine: its samples and the bins of its updates."""

    host: str
    rank: int
    cores: int
    samples: tuple[Sampled, ...]
    bins: tuple[TimedBin, ...]

    def level(self, read: Read) -> list[Point]:
        """Return the mean of what `read` finds in the samples of each bin, where it has any."""
        points = []
        for one in self.bins:
            found = [
                (sample.seconds, value)
                for sample in one.samples
                if sample.seconds > 0 and (value := read(sample)) is not None
            ]
            total = sum(seconds for seconds, _ in found)
            if total > 0:
                mean = sum(seconds * value for seconds, value in found) / total
                points.append((one.step, mean))
        return points

    def rate(self, read: Read) -> list[Point]:
        """Return by how much per second the counter that `read` finds rose in each bin."""
        counter = counter_of(self.samples, read)
        if counter is None:
            return []
        return [
            (one.step, counter.over(one.stretches) / one.seconds)
            for one in self.bins
            if one.seconds > 0
        ]


def timed_bins(steps: Sequence[StepTaken], samples: Sequence[Sampled]) -> tuple[TimedBin, ...]:
    """Cut the training into bins, each long enough to hold samples."""
    stretches = stretches_of(steps, samples)
    updates = sum(stretch.updates for stretch in stretches)
    looks = len(during(samples, stretches))
    most = max(1, min(MOST_TIMED_BINS, looks // SAMPLES_PER_BIN))
    width = max(1, -(-updates // most))
    times = [step.time for step in steps]
    sampled_at = [sample.time for sample in samples]
    bins: list[TimedBin] = []
    for pieces in _pieces(times, stretches, width):
        found = [Stretch(times[a], times[b], b - a) for a, b in pieces]
        ends = [
            (bisect_left(sampled_at, s.began), bisect_right(sampled_at, s.ended)) for s in found
        ]
        inside = tuple(sample for first, last in ends for sample in samples[first:last])
        middle = (steps[pieces[0][0]].step + steps[pieces[-1][1]].step) / 2
        bins.append(TimedBin(middle, tuple(found), inside))
    return tuple(bins)


def _pieces(
    times: Sequence[float], stretches: Sequence[Stretch], width: int
) -> Iterator[list[tuple[int, int]]]:
    """Yield bins of `width` updates, as indices: the update before the first, and the last."""
    held: list[tuple[int, int]] = []
    for stretch in stretches:
        at = bisect_left(times, stretch.began)
        end = at + stretch.updates
        while at < end:
            take = min(end - at, width - sum(b - a for a, b in held))
            held.append((at, at + take))
            at += take
            if sum(b - a for a, b in held) == width:
                yield held
                held = []
    if held:
        yield held


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
    """Return a curve for each machine; for many, their mean with lowest and highest."""
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
    """Read the bytes a second that each machine's interface sent or received, by rank."""

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
    """Read the share of the time that the host gave to other guests, in percent."""
    return machine.level(lambda s: 100 * s.steal)


def memory(machine: SampledMachine) -> list[Point]:
    """Read the memory in use, in GB."""
    return machine.level(lambda s: s.memory_used / 1e9 if s.memory_used else None)


def disk(machine: SampledMachine) -> list[Point]:
    """Read the bytes read from and written to all disks, in MB a second."""
    return _megabytes(machine.rate(lambda s: s.disk_read + s.disk_written))


def own_disk(machine: SampledMachine) -> list[Point]:
    """Read the run's share of those bytes, in MB a second; nothing where it is unknown."""
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
