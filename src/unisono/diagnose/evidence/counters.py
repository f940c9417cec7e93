"""Counters of a machine joined to the updates of the run, and drops of a rate. Pure.

Samples and updates of one machine carry times of the same clock. Counters count as rising
evenly between two samples; over many updates that makes no difference.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from unisono.records.events import StepTaken
from unisono.records.monitor_events import Sampled

MOST_DROP_POINTS = 240


def find_drop(values: Sequence[float], *, factor: float, fewest: int) -> int | None:
    """Return the index from which on all but a few values are lower by `factor`, or None.

    There must be `fewest` values on either side, and nearly all before exceed all after.
    """
    stride = max(1, len(values) // MOST_DROP_POINTS)
    thin = [median(values[i : i + stride]) for i in range(0, len(values), stride)]
    least = max(2, -(-fewest // stride))
    if len(thin) < 2 * least:
        return None
    place = min(range(least, len(thin) - least + 1), key=lambda p: _misfit(thin, p))
    before, after = thin[:place], thin[place:]
    high, low = median(before), median(after)
    clear = quantiles(before, n=10)[0] > quantiles(after, n=10)[-1]
    if low * factor > high or not clear:
        return None
    return place * stride


def _misfit(values: Sequence[float], place: int) -> float:
    """Return how badly two levels, one before and one after `place`, describe the values."""
    return _spread(values[:place]) + _spread(values[place:])


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)


# Longer pauses between two updates are validations or checkpoints.
PAUSE_SECONDS, PAUSE_SHARE = 0.05, 0.25

Read = Callable[[Sampled], float | None]


@dataclass(frozen=True)
class Stretch:
    """Updates made one after the other, from the end of one to the end of the last."""

    began: float
    ended: float
    updates: int

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True)
class Counter:
    """A number that only rises, and when it was read."""

    times: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, time: float) -> float:
        """Return the number at `time`, which lies between the first and the last reading."""
        right = min(max(1, bisect_left(self.times, time)), len(self.times) - 1)
        t0, t1 = self.times[right - 1 : right + 1]
        v0, v1 = self.values[right - 1 : right + 1]
        share = (time - t0) / (t1 - t0) if t1 > t0 else 0.0
        return v0 + (v1 - v0) * min(1.0, max(0.0, share))

    def over(self, stretches: Sequence[Stretch]) -> float:
        """Return by how much the number rose during the stretches."""
        return sum(self.at(s.ended) - self.at(s.began) for s in stretches)


def counter_of(samples: Sequence[Sampled], read: Read) -> Counter | None:
    """Return the counter that `read` finds in the samples; None if fewer than two have it.

    A counter that was reset, as by a restart of the machine, goes on from where it was.
    """
    times, values, offset, last = [], [], 0.0, 0.0
    for sample in samples:
        value = read(sample)
        if value is None:
            continue
        if value < last:
            offset += last
        last = value
        times.append(sample.time)
        values.append(value + offset)
    return Counter(tuple(times), tuple(values)) if len(times) > 1 else None


def stretches_of(steps: Sequence[StepTaken], samples: Sequence[Sampled]) -> list[Stretch]:
    """Return the stretches of training that lie within the samples."""
    if len(samples) < 2:
        return []
    times = [step.time for step in steps]
    first = bisect_left(times, samples[0].time)
    last = bisect_right(times, samples[-1].time)
    kept, found = steps[first:last], []
    began, updates = 0, 0
    for number in range(1, len(kept) + 1):
        if number < len(kept) and follows(kept[number - 1], kept[number]):
            updates += 1
            continue
        if updates:
            found.append(Stretch(kept[began].time, kept[number - 1].time, updates))
        began, updates = number, 0
    return found


def during(samples: Sequence[Sampled], stretches: Sequence[Stretch]) -> list[Sampled]:
    """Return the samples taken during the stretches, which are in the order of time."""
    times = [sample.time for sample in samples]
    ends = [(bisect_left(times, s.began), bisect_right(times, s.ended)) for s in stretches]
    return [sample for first, last in ends for sample in samples[first:last]]


def follows(before: StepTaken, after: StepTaken) -> bool:
    """Return whether two updates were made one after the other, without a pause between."""
    pause = after.time - before.time - after.seconds
    return after.time - before.time > 0 and pause < PAUSE_SECONDS + PAUSE_SHARE * after.seconds
