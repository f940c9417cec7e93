"""The course of a run in bins: after a million updates it takes as much memory as after few.

A bin stands for consecutive updates. When there are too many bins, each two become one, so
what is drawn always has enough points for a screen, with the lowest and the highest value.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unisono.diagnose.evidence.counters import follows
from unisono.records.events import AnyEvent, RolledBack, Started, StepTaken
from unisono.report.panel import Bin, Point

COURSE_BINS = 400
MOST_PAUSES = 20_000
MOST_PAUSED = 0.5  # of the time between two samples that count


@dataclass(frozen=True, slots=True)
class Extent:
    """The finite ones among some values: how many, their sum, the lowest and the highest."""

    count: int
    total: float
    low: float
    high: float

    def joined(self, other: "Extent") -> "Extent":
        return Extent(
            self.count + other.count,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def extent_of(values: Sequence[float]) -> Extent:
    """Return the extent of the finite values."""
    known = values if math.isfinite(sum(values)) else [v for v in values if math.isfinite(v)]
    if not known:
        return Extent(0, 0.0, math.inf, -math.inf)
    return Extent(len(known), math.fsum(known), min(known), max(known))


@dataclass(frozen=True, slots=True)
class UpdateBin:
    """Consecutive updates: how many, the sum of their steps, both ends, and their values.

    `began` and `ended` are times of the leading process.
    """

    count: int
    steps: int
    first: int
    last: int
    began: float
    ended: float
    loss: Extent
    rate: Extent
    seconds: Extent

    def joined(self, later: "UpdateBin") -> "UpdateBin":
        return UpdateBin(
            self.count + later.count,
            self.steps + later.steps,
            self.first,
            later.last,
            self.began,
            later.ended,
            self.loss.joined(later.loss),
            self.rate.joined(later.rate),
            self.seconds.joined(later.seconds),
        )


def bin_of(updates: Sequence[StepTaken]) -> UpdateBin:
    """Put some updates, at least one, into a bin."""
    return UpdateBin(
        len(updates),
        sum(update.step for update in updates),
        updates[0].step,
        updates[-1].step,
        updates[0].time - updates[0].seconds,
        updates[-1].time,
        extent_of([update.loss for update in updates]),
        extent_of([update.learning_rate for update in updates]),
        extent_of([update.seconds for update in updates]),
    )


def _paused(before: StepTaken, after: StepTaken) -> bool:
    """Return whether time passed between two updates, not counting updates left out."""
    return after.step <= before.step + 1 and not follows(before, after)


@dataclass
class Course:
    """All updates of a run that stand, in bins. It hears every event of a `Follower`."""

    _bins: list[UpdateBin] = field(default_factory=list)
    _open: list[StepTaken] = field(default_factory=list)
    _width: int = 1
    _pauses: deque[Point] = field(default_factory=lambda: deque(maxlen=MOST_PAUSES))
    _before: StepTaken | None = None

    def forget(self, rank: int) -> None:
        """Begin anew: another run has begun in the directory."""
        if rank == 0:
            self._bins, self._open, self._width = [], [], 1
            self._before = None
            self._pauses.clear()

    def hear(self, rank: int, event: AnyEvent) -> None:
        """Take note of what the leading process records."""
        if rank != 0:
            return
        if isinstance(event, StepTaken):
            if self._before is not None and _paused(self._before, event):
                self._pauses.append((self._before.time, event.time - event.seconds))
            self._before = event
            self._open.append(event)
            if len(self._open) >= self._width:
                self._close()
        elif isinstance(event, Started):
            self.undo(event.step)
        elif isinstance(event, RolledBack):
            self.undo(event.to_step)

    @property
    def losses(self) -> list[Bin]:
        """Return the training loss."""
        return self._of(lambda one: one.loss)

    @property
    def seconds(self) -> list[Bin]:
        """Return what updates took."""
        return self._of(lambda one: one.seconds)

    @property
    def rates(self) -> list[Point]:
        """Return the learning rate."""
        return [(one.x, one.mean) for one in self._of(lambda one: one.rate)]

    @property
    def until(self) -> float:
        """Return the time of the latest update; minus infinity before the first."""
        return self._before.time if self._before is not None else -math.inf

    def step_between(self, began: float, ended: float) -> float | None:
        """Return the step in the middle of some time; None if no update was made in most of it.

        The times must not be later than `until`.
        """
        first = bisect_left(self._pauses, began, key=lambda pause: pause[1])
        paused = 0.0
        for place in range(first, len(self._pauses)):
            pause = self._pauses[place]
            if pause[0] >= ended:
                break
            paused += min(ended, pause[1]) - max(began, pause[0])
        if paused > MOST_PAUSED * (ended - began):
            return None
        return self._step_at((began + ended) / 2)

    def _step_at(self, time: float) -> float | None:
        place = bisect_left(self._bins, time, key=lambda one: one.ended)
        if place < len(self._bins):
            one = self._bins[place]
        elif self._open:
            one = bin_of([self._open[0], self._open[-1]])
        else:
            return None
        if time < one.began:
            return None  # in a pause, or before the first update
        share = (time - one.began) / max(1e-9, one.ended - one.began)
        return one.first - 1 + max(0.0, share) * (one.last - one.first + 1)

    @property
    def ends(self) -> list[int]:
        """Return the first and the last step, if there are any."""
        known = self._all()
        return [known[0].first, known[-1].last] if known else []

    @property
    def updates(self) -> int:
        """Return how many updates stand."""
        return sum(one.count for one in self._all())

    @property
    def width(self) -> int:
        """Return how many updates a bin stands for."""
        return self._width

    def _all(self) -> list[UpdateBin]:
        return [*self._bins, bin_of(self._open)] if self._open else self._bins

    def _of(self, read: Callable[[UpdateBin], Extent]) -> list[Bin]:
        pairs = [(one, read(one)) for one in self._all()]
        return [
            Bin(one.steps / one.count, of.total / of.count, of.low, of.high)
            for one, of in pairs
            if of.count
        ]

    def _close(self) -> None:
        self._bins.append(bin_of(self._open))
        self._open = []
        if len(self._bins) >= COURSE_BINS:
            pairs = zip(self._bins[::2], self._bins[1::2], strict=True)
            self._bins = [earlier.joined(later) for earlier, later in pairs]
            self._width *= 2

    def undo(self, step: int) -> None:
        """Forget the updates after `step`, and those that share a bin with them."""
        while self._bins and self._bins[-1].last > step:
            self._bins.pop()
            self._open = []
        self._open = [update for update in self._open if update.step <= step]
