"""What was sampled on a machine, joined to the steps that were made meanwhile.

Samples are taken by the clock and updates are counted; a bin is some updates in a row and the
time they took. Time between updates, for validations and checkpoints, is in no bin.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unisono.diagnose.evidence.counters import Read, Stretch, counter_of, during, stretches_of
from unisono.records.events import StepTaken
from unisono.records.sampled import Sampled
from unisono.report.points import Point

MOST_BINS = 150
SAMPLES_PER_BIN = 2  # at least, on average


@dataclass(frozen=True)
class TimedBin:
    """Some updates in a row: the step in their midst, when they were made, what was sampled."""

    step: float
    stretches: tuple[Stretch, ...]
    samples: tuple[Sampled, ...] = ()

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
                for sample in one.samples
                if sample.seconds > 0 and (value := read(sample)) is not None
            ]
            total = sum(seconds for seconds, _ in found)
            if total > 0:
                mean = sum(seconds * value for seconds, value in found) / total
                points.append((one.step, mean))
        return points

    def rate(self, read: Read) -> list[Point]:
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
    """Yield bins of `width` updates: pieces, as places of the updates before and at the end."""
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
