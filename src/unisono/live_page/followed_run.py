"""One run on the live page: what is read of it, and how often that may be drawn anew."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unisono.cost_model.prices import prices_of
from unisono.diagnose.case import Case, open_without_ledger
from unisono.diagnose.evidence.plateau import MORE, LossForecast
from unisono.diagnose.evidence.spending import spent_in
from unisono.live.run_history import RunHistory
from unisono.live.window import OVER, RunProgress, progress_of
from unisono.live_page.course import Course
from unisono.live_page.machine_course import MachineCourse
from unisono.records.events import AnyEvent, Validated
from unisono.records.follow import Follower
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import Sampled
from unisono.records.sentence_losses import read_losses
from unisono.report.comparison import Updates
from unisono.report.machine_curves import SampledMachine
from unisono.report.panel import Span, span_over
from unisono.report.panels import ceiling

MOST_COMPARED_VALIDATIONS = 20  # validations of each kind


class Courses(Course):
    """The course of a run and of its machines, and what the answers need of its past."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[int, MachineCourse] = {}
        self.history = RunHistory()

    def forget(self, rank: int) -> None:
        super().forget(rank)
        self.history.forget(rank)

    def hear(self, rank: int, event: AnyEvent) -> None:
        super().hear(rank, event)
        self.history.hear(rank, event)

    def forget_samples(self, rank: int) -> None:
        """Begin with a machine anew."""
        self.machines[rank] = MachineCourse()
        self.history.forget_samples(rank)

    def hear_sample(self, rank: int, sample: Sampled) -> None:
        """Take note of a sample of a machine."""
        self.history.hear_sample(rank, sample)
        self.machines[rank].add(sample)
        self.machines[rank].settle(self)

    def settle(self) -> None:
        """Join the samples to the updates that are known by now."""
        for machine in self.machines.values():
            machine.settle(self)

    def undo(self, step: int) -> None:
        super().undo(step)
        for machine in self.machines.values():
            machine.undo(step)


class FollowedRun:
    """A run that is read again and again, also when another one begins in its directory.

    The first look at a long run is `sparse`: quick, but without what is highest and lowest.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._config = _identity(path)
        self._follow(sparse=True)

    def _follow(self, *, sparse: bool) -> None:
        self.course = Courses()
        self._forecast: LossForecast | None = None
        self._forecast_of: tuple[int, float] | None = None
        self._follower = Follower(self.path, recent=True, listener=self.course, sparse=sparse)
        self.course.history.least = self._follower.stride
        self.is_sparse = sparse and self._follower.stride > 1

    def complete(self) -> bool:
        """Read everything of a run whose first look was sparse; return whether it was."""
        if not self.is_sparse:
            return False
        self._follow(sparse=False)
        self.look()
        return True

    def look(self) -> None:
        """Read what is new."""
        config = _identity(self.path)
        if any(config) and config != self._config:
            self._config = config
            self._follow(sparse=False)
        self.view = self._follower.look()
        self.course.settle()
        self.now = time.time()
        self.case: Case = open_without_ledger(self.view, self.now)
        self.progress: RunProgress = progress_of(self.case)

    @property
    def is_over(self) -> bool:
        """Return whether the run makes no more updates, as far as is known."""
        return self.progress.state in OVER

    @property
    def forecast(self) -> LossForecast | None:
        """Return where the validation loss is going, if the run goes on and it falls."""
        told = (len(self.view.validations), self._last_validation)
        if told != self._forecast_of:
            self._forecast_of, gain = told, self.case.recent_gain
            self._forecast = gain.forecast if gain is not None else None
        falls = self._forecast is not None and self._forecast.height > 0
        return self._forecast if falls and not self.is_over else None

    @property
    def forecast_end(self) -> int:
        """Return the step up to which there is a forecast; 0 if there is none."""
        if self.forecast is None:
            return 0
        furthest = int(MORE * self.forecast.last_step)
        end = min(furthest, self.progress.updates or furthest)
        return end if end > self.forecast.last_step else 0

    @property
    def _last_validation(self) -> float:
        return self.view.validations[-1].time if self.view.validations else 0.0

    @property
    def machines(self) -> list[SampledMachine]:
        """Return the machines of the last start as the report draws them."""
        found = []
        for start in self.view.last_starts:
            course, log = self.course.machines.get(start.rank), self.view.machines
            if course is not None and start.rank in log and log[start.rank].machines:
                cores = log[start.rank].machines[-1].cores
                found.append(course.machine(start.host, start.rank, cores))
        return [machine for machine in found if machine.bins]

    @property
    def span(self) -> Span:
        """Return the axis of steps."""
        told = [event.step for event in self.view.validations]
        if self.forecast_end:
            told.append(self.forecast_end)
        return span_over([*self.course.ends, *told])

    @property
    def updates(self) -> Updates:
        """Return training loss and seconds of all updates in bins."""
        seconds = self.course.seconds
        top = ceiling([one.mean for one in seconds]) if seconds else 0.0
        return Updates(self.course.losses, seconds, top)

    @property
    def spent(self) -> tuple[float, str, float] | None:
        """Return the money so far, its currency, and that of an hour; None without a price."""
        prices = prices_of(self.view.config)
        spent = spent_in(self.case, prices)
        return (spent.money, prices.currency, spent.per_hour) if spent.money else None

    @property
    def joules(self) -> float | None:
        """Return what the GPUs have used; None where that was not measured, or not all read."""
        return None if self.is_sparse else self.course.history.joules(self.view)

    def whole(self) -> Case:
        """Open a case on the whole run."""
        losses = read_losses(self.path, compared(self.view.validations))
        view = replace(self.view, sentence_losses=losses)
        return replace(self.course.history.case(view, self.now), joules=self.joules)

    @property
    def computes_here(self) -> bool:
        """Return whether time that is spent on looking may be missing in the run."""
        here = os.uname().nodename
        return not self.is_over and here in {host.partition(" ")[0] for host in self.view.hosts}


def compared(validations: Sequence[Validated]) -> dict[int, float]:
    """Return the validations that answers compare sentence by sentence: lows, and the latest.

    Each has a file, so of many only some are worth reading.
    """
    last = len(validations) * 2 // 3
    chosen = [*validations[-MOST_COMPARED_VALIDATIONS:]]
    for part in (validations[:last], validations[last:]):
        chosen += sorted(part, key=lambda event: event.loss)[:MOST_COMPARED_VALIDATIONS]
    return {event.step: event.loss for event in chosen if math.isfinite(event.loss)}


def _identity(path: Path) -> tuple[int, int]:
    """Return what changes when another run begins; (0, 0) if there is none right now."""
    try:
        found = RunDirectory(path).config.stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns
