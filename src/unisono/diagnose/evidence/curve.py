"""Curves of a run: loss, BLEU and learning rate; what is noise and what is progress."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import correlation, median
from typing import Any

import msgspec

from unisono.records.events import StepTaken, Validated
from unisono.records.view import RunView
from unisono.schedules import Cosine, LinearDecay, Schedule

# Of values scattered with deviation s around a smooth curve, second differences scatter with
# sqrt(6) s, and the median of their absolute values is 0.6745 times that.
_DEVIATION_PER_SECOND_DIFFERENCE = 1 / (0.6745 * math.sqrt(6))


FEWEST_TO_JUDGE = 4
FAST = 0.03  # of the loss, within the last third of a run


@dataclass(frozen=True)
class Tail:
    """How much better the last third of a curve is than everything before it.

    `before` and `within` are the lowest values, found at their steps. `gain` is the one minus
    the other: positive is better.
    """

    points: int
    first_step: int
    last_step: int
    before: float
    before_step: int
    within: float
    within_step: int

    @property
    def gain(self) -> float:
        """Return how much lower the curve came in its last third."""
        return self.before - self.within


def number(value: float | None) -> float:
    """Return a recorded number; null in an event file means NaN."""
    return math.nan if value is None else value


def is_finite(value: float | None) -> bool:
    """Return whether a recorded value is a finite number."""
    return math.isfinite(number(value))


def loss_curve(validations: Sequence[Validated]) -> list[tuple[int, float]]:
    """Return step and loss of the validations that have a finite loss."""
    return [(e.step, number(e.loss)) for e in validations if is_finite(e.loss)]


def lowest(curve: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """Return step and loss of the best of the validations, of which there is at least one."""
    return min(curve, key=lambda point: point[1])


def bleu_curve(validations: Sequence[Validated]) -> list[tuple[int, float]]:
    """Return step and BLEU of the validations that were scored."""
    return [(event.step, event.bleu) for event in validations if event.bleu >= 0]


def noise_of(values: Sequence[float]) -> float:
    """Return the scatter of a curve around its course, from second differences.

    Looks at the second half, where the course is nearly straight; 0 for fewer than 3 values.
    """
    half = values[-max(4, math.ceil(len(values) / 2)) :]
    bends = [abs(a - 2 * b + c) for a, b, c in zip(half, half[1:], half[2:], strict=False)]
    return median(bends) * _DEVIATION_PER_SECOND_DIFFERENCE if bends else 0.0


def tail_of(curve: Sequence[tuple[int, float]]) -> Tail:
    """Compare the last third of a curve (two points at least) with what came before."""
    points = max(2, math.ceil(len(curve) / 3))
    before, within = curve[:-points], curve[-points:]
    best_before, best_within = (min(part, key=lambda p: p[1]) for part in (before, within))
    return Tail(
        points=points,
        first_step=within[0][0],
        last_step=within[-1][0],
        before=best_before[1],
        before_step=best_before[0],
        within=best_within[1],
        within_step=best_within[0],
    )


def is_young(validations: Sequence[Validated]) -> bool:
    """Return whether a model is still at the beginning, where odd translations are normal.

    It is with fewer than four validations, and as long as the loss falls fast.
    """
    curve = loss_curve(validations)
    if len(curve) < FEWEST_TO_JUDGE:
        return True
    tail = tail_of(curve)
    return tail.gain > FAST * tail.before


def mean_loss(steps: Sequence[StepTaken]) -> float:
    """Return the training loss per target token over `steps`; NaN if there is none.

    If no tokens were counted, as in a run that was imported, all updates weigh the same.
    """
    known = [step for step in steps if is_finite(step.loss) and step.target_tokens > 0]
    if not any(step.target_tokens > 0 for step in steps):
        losses = [number(step.loss) for step in steps if is_finite(step.loss)]
        return sum(losses) / len(losses) if losses else math.nan
    tokens = sum(step.target_tokens for step in known)
    total = sum(number(step.loss) * step.target_tokens for step in known)
    return total / tokens if tokens else math.nan


def window_losses(steps: Sequence[StepTaken]) -> list[float]:
    """Return the mean training loss of some twenty stretches of the run, in order."""
    width = max(20, len(steps) // 20)
    # Counted from the end, so that the last stretch is a whole one.
    starts = range(len(steps) % width, len(steps), width)
    losses = [mean_loss(steps[start : start + width]) for start in starts]
    return [loss for loss in losses if is_finite(loss)]


def correlated(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the correlation of two series, or None where there is nothing to correlate."""
    if len(first) < 10 or max(first) == min(first) or max(second) == min(second):
        return None
    return correlation(first, second)


@dataclass(frozen=True)
class Rates:
    """What was recorded: the highest rate and where, the last one, and what is still to come.

    `unfinished` says in words that the schedule has not ended, or is "".
    """

    peak: float
    peak_step: int
    last: float
    last_step: int
    unfinished: str

    @property
    def share_of_peak(self) -> float:
        """Return the last rate as a share of the highest."""
        return self.last / self.peak if self.peak > 0 else 0.0


def schedule_of(config: dict[str, Any]) -> Schedule | None:
    """Rebuild the schedule from the configuration, or None if it does not hold one."""
    table = config.get("schedule")
    if not isinstance(table, dict):
        return None
    if table.get("name") == "transformer" and not table.get("d_model"):
        width = config.get("model", {}).get("width")
        if not isinstance(width, int):
            return None
        table = {**table, "d_model": width}
    try:
        schedule: Schedule = msgspec.convert(table, Schedule)
    except msgspec.ValidationError:
        return None
    return schedule


def rates_of(run: RunView) -> Rates | None:
    """Return what was recorded of the learning rate, or None if nothing was."""
    steps = [step for step in run.steps if is_finite(step.learning_rate)]
    if not steps:
        return None
    highest = max(steps, key=lambda step: step.learning_rate)
    last = steps[-1]
    return Rates(
        peak=highest.learning_rate,
        peak_step=highest.step,
        last=last.learning_rate,
        last_step=last.step,
        unfinished=_unfinished(schedule_of(run.config), last.step),
    )


def computed_rates(run: RunView) -> list[tuple[float, float]]:
    """Return the rates at the recorded steps by the schedule, if no rate was recorded."""
    schedule = schedule_of(run.config)
    if schedule is None or run.imported is None:
        return []
    return [(float(s.step), schedule(s.step)) for s in run.steps if s.step > 0]


def _unfinished(schedule: Schedule | None, step: int) -> str:
    if schedule is None:
        return ""
    if step < schedule.warmup_steps:
        return f"is still rising until step {schedule.warmup_steps:,}"
    if isinstance(schedule, Cosine | LinearDecay) and step < schedule.total_steps:
        return f"has yet to fall until step {schedule.total_steps:,}"
    return ""
