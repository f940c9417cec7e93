"""When training broke down, and what happened just before.

Has training broken down?
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_finite, loss_curve, number, window_losses
from unisono.diagnose.evidence.rates import rates_of
from unisono.diagnose.wording import count, percent
from unisono.records.events import StepTaken

SMOOTH = 9  # updates whose median is taken
RISE, DEVIATIONS = 0.05, 6.0  # above the lowest loss that is no longer noise
LOOK_BACK, LOOK_ON = 50, 5  # updates around the beginning
USUAL = 100  # updates before one that say what is usual for it
FEWEST_USUAL = 10
OUTLIER = 10.0


@dataclass(frozen=True)
class Onset:
    """The first update of a breakdown, and in clauses what can be seen around it."""

    step: int
    signs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say both in a sentence."""
        return f"It began at step {self.step:,}: {'; '.join(self.signs)}."


def onset_of(case: Case) -> Onset | None:
    """Find where the loss of a run that broke down left its course; None without updates."""
    steps = case.run.steps
    if not steps:
        return None
    place = _rose_at(steps)
    if place is None:
        place = _not_finite_from(steps)
    if place is None:
        return None  # only the validation loss broke down
    around = _gradient(steps, place), _not_finite(steps, place), _rate(case, steps[place])
    signs = (_loss(steps, place), *around)
    return Onset(steps[place].step, tuple(sign for sign in signs if sign))


def _lost(step: StepTaken) -> bool:
    return step.skipped or not is_finite(step.loss)


def _not_finite_from(steps: Sequence[StepTaken]) -> int | None:
    """Return the place of the first of the lost updates at the end."""
    place = len(steps)
    while place and _lost(steps[place - 1]):
        place -= 1
    return place if place < len(steps) else None


def _rose_at(steps: Sequence[StepTaken]) -> int | None:
    """Return the place from which on the loss never came back to where it had been."""
    places = [place for place, step in enumerate(steps) if not _lost(step)]
    losses = [number(steps[place].loss) for place in places]
    if len(losses) < 2 * SMOOTH:
        return None
    smooth = [median(losses[max(0, n - SMOOTH + 1) : n + 1]) for n in range(len(losses))]
    low = min(smooth)
    limit = low + max(
        RISE * abs(low), DEVIATIONS * noise_of_updates(losses[: smooth.index(low) + 1])
    )
    first = len(smooth)
    while first and smooth[first - 1] > limit:
        first -= 1
    if first in (0, len(smooth)):
        return None
    earliest = max(0, first - SMOOTH + 1)
    raw = next((n for n in range(earliest, first + 1) if losses[n] > limit), first)
    return places[raw]


def noise_of_updates(losses: Sequence[float]) -> float:
    """Return the scatter of the loss from update to update."""
    # 1.4826 median deviations are a standard deviation, and differences have sqrt(2) of it.
    recent = losses[-USUAL:]
    changes = [abs(b - a) for a, b in zip(recent, recent[1:], strict=False)]
    return 1.4826 / math.sqrt(2) * median(changes) if changes else 0.0


def _loss(steps: Sequence[StepTaken], place: int) -> str:
    before = [number(s.loss) for s in steps[max(0, place - LOOK_BACK) : place] if not _lost(s)]
    after = [number(s.loss) for s in steps[place : place + LOOK_BACK] if not _lost(s)]
    if not after:
        return "from then on neither loss nor gradient was a finite number"
    if not before:
        return f"the training loss was {after[0]:.2f}"
    worst = max(range(len(after)), key=after.__getitem__)
    within = count(worst + 1, "update")
    return f"the training loss rose from {median(before):.2f} to {after[worst]:.2f} in {within}"


def _gradient(steps: Sequence[StepTaken], place: int) -> str:
    """Name the first update around `place` whose gradient is far longer than usual."""
    for at in range(max(0, place - LOOK_BACK), min(len(steps), place + LOOK_ON + 1)):
        recent = steps[max(0, at - USUAL) : at]
        norms = [number(s.gradient_norm) for s in recent if is_finite(s.gradient_norm)]
        norm, usual = number(steps[at].gradient_norm), median(norms) if norms else 0.0
        if len(norms) < FEWEST_USUAL or usual <= 0 or not is_finite(norm):
            continue
        if norm > OUTLIER * usual:
            return (
                f"the gradient norm was {norm:.3g} at step {steps[at].step:,}, "
                f"{norm / usual:.0f} times its median of {usual:.2g}"
            )
    return "the gradient norm had shown nothing"


def _not_finite(steps: Sequence[StepTaken], place: int) -> str:
    lost = sum(map(_lost, steps[max(0, place - LOOK_BACK) : place]))
    if not lost:
        return ""
    return f"of the {LOOK_BACK} updates before, {lost} had no finite loss or gradient"


def _rate(case: Case, step: StepTaken) -> str:
    rates = rates_of(case)
    if rates is None or not is_finite(step.learning_rate):
        return ""
    rate = f"the learning rate was {step.learning_rate:.3g}"
    if step.step < rates.peak_step:
        return f"{rate} and still rising"
    if step.step == rates.peak_step:
        return f"{rate}, its highest"
    return f"{rate}, {percent(step.learning_rate / rates.peak)} of its highest"


FAR_ABOVE_BEST = 1.10
FAR_ABOVE_BEST_UNCHECKED = 1.25
LOST_UPDATES = 3
LAST_UPDATES = 20


def divergence(case: Case) -> str:
    """Return in a clause how training broke down, or "" if it did not.

    A validation loss that rises while the training loss falls is overfitting, not divergence;
    so both have to be far above their best. One validation says little: if only the last is
    bad, or none came since, the loss of the last updates has to be further above, and beyond
    its noise.
    """
    return _not_a_number(case) or _far_above_best(case)


def _not_a_number(case: Case) -> str:
    validations, last = case.run.validations, case.run.steps[-LOST_UPDATES:]
    if loss_curve(validations) and not is_finite(validations[-1].loss):
        return f"the validation loss at step {validations[-1].step:,} is not a finite number"
    if len(last) == LOST_UPDATES and not any(is_finite(step.loss) for step in last):
        return f"the training loss is not a finite number since step {last[0].step:,} or before"
    return ""


def _far_above_best(case: Case) -> str:
    training = window_losses(case.run.steps)
    if len(training) < 3:
        return ""
    best, last = min(training), training[-1]
    losses = [loss for _, loss in loss_curve(case.run.validations)]
    if len(losses) < 3:
        if last > FAR_ABOVE_BEST_UNCHECKED * best:
            return f"the training loss rose from {best:.3f} to {last:.3f}"
        return ""
    if last > FAR_ABOVE_BEST * best and min(losses[-2:]) > FAR_ABOVE_BEST * min(losses):
        return (
            f"the validation loss rose from {min(losses):.3f} to {losses[-1]:.3f} and the "
            f"training loss with it, from {best:.3f} to {last:.3f}"
        )
    return _at_the_end(case, best, losses)


def _at_the_end(case: Case, best: float, losses: list[float]) -> str:
    """Return how training broke down after the last validation, or shortly before it."""
    known = [number(step.loss) for step in case.run.steps if is_finite(step.loss)]
    recent, before = known[-LAST_UPDATES:], known[:-LAST_UPDATES]
    above = max((FAR_ABOVE_BEST_UNCHECKED - 1) * best, DEVIATIONS * noise_of_updates(before))
    if median(recent) <= best + above:
        return ""
    rise = f"the training loss rose from {best:.3f} to {median(recent):.3f} in the last updates"
    if losses[-1] > FAR_ABOVE_BEST_UNCHECKED * min(losses):
        return f"{rise}, and the validation loss from {min(losses):.3f} to {losses[-1]:.3f}"
    seen = case.run.validations[-1].step > case.run.steps[-LAST_UPDATES].step
    return "" if seen else f"{rise}, after the last validation"
