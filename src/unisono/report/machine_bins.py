"""What was sampled on a machine, joined to the steps that were made meanwhile.

Samples are taken by the clock and updates are counted; a bin is some updates in a row and the
time they took. Time between updates, for validations and checkpoints, is in no bin.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unisono.diagnose.counted import Read, Stretch, counter_of, during, stretches_of
from unisono.records.events import StepTaken
from unisono.records.sampled import Sampled
from unisono.report.points import Point

MOST_BINS = 150
SAMPLES_PER_BIN = 2  # at least, on average


@dataclass(frozen=True)
class TimedBin:
    """Some updates in a row: the step in their midst, and when they were made."""

    step: float
    stretches: tuple[Stretch, ...]

    @property
    def seconds(self) -> float:
        """Return how long they took."""
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
        """Return the mean of what `read` finds in the samples of each bin that has some."""
        points = []
        for one in self.bins:
            found = [
                (sample.seconds, value)
                for sample in during(self.samples, one.stretches)
                if sample.seconds > 0 and (value := read(sample)) is not None
            ]
            total = sum(seconds for seconds, _ in found)
            if total > 0:
                mean = sum(seconds * value for seconds, value in found) / total
                points.append((one.step, mean))
        return points

    def rate(self, read: Callable[[Sampled], float | None]) -> list[Point]:
        """Return by how much a second the counter that `read` finds rose in each bin."""
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
    most = max(1, min(MOST_BINS, looks // SAMPLES_PER_BIN))
    width = max(1, -(-updates // most))
    times = [step.time for step in steps]
    bins: list[TimedBin] = []
    held: list[tuple[int, int]] = []  # places of the updates before and at the end of a piece
    for stretch in stretches:
        at = bisect_left(times, stretch.began)
        end = at + stretch.updates
        while at < end:
            take = min(end - at, width - sum(b - a for a, b in held))
            held.append((at, at + take))
            at += take
            if sum(b - a for a, b in held) == width:
                bins.append(_bin(steps, held))
                held = []
    return (*bins, _bin(steps, held)) if held else tuple(bins)


def _bin(steps: Sequence[StepTaken], pieces: Sequence[tuple[int, int]]) -> TimedBin:
    first, last = steps[pieces[0][0]].step, steps[pieces[-1][1]].step
    return TimedBin(
        step=(first + last) / 2,
        stretches=tuple(Stretch(steps[a].time, steps[b].time, b - a) for a, b in pieces),
    )
