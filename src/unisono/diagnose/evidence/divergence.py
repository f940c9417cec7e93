"""When training went wrong: where the loss diverged, and where overfitting began."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from unisono.diagnose.evidence.curve import (
    is_finite,
    loss_curve,
    lowest,
    mean_loss,
    noise_of,
    number,
    rates_of,
    window_losses,
)
from unisono.diagnose.evidence.scores import PairedDifference, compare_steps
from unisono.diagnose.wording import count, percent
from unisono.records.events import StepTaken, Validated
from unisono.records.view import RunView

SMOOTHED_UPDATES = 9  # updates whose median is taken
RISE, DEVIATIONS = 0.05, 6.0  # above the lowest loss that is no longer noise
LOOK_BACK, LOOK_ON = 50, 5  # updates around the beginning
USUAL_UPDATES = 100  # updates before one that say what is usual for it
FEWEST_USUAL = 10
OUTLIER = 10.0


@dataclass(frozen=True)
class DivergenceOnset:
    """The first update of a breakdown, and in clauses what can be seen around it."""

    step: int
    signs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say both in a sentence."""
        return f"It began at step {self.step:,}: {'; '.join(self.signs)}."


def divergence_onset_of(run: RunView) -> DivergenceOnset | None:
    """Find where the loss of a run that broke down left its course; None without updates."""
    steps = run.steps
    if not steps:
        return None
    place = _rose_at(steps)
    if place is None:
        place = _not_finite_from(steps)
    if place is None:
        return None  # only the validation loss broke down
    around = _gradient(steps, place), _not_finite(steps, place), _rate(run, steps[place])
    signs = (_loss(steps, place), *around)
    return DivergenceOnset(steps[place].step, tuple(sign for sign in signs if sign))


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
    if len(losses) < 2 * SMOOTHED_UPDATES:
        return None
    smooth = [
        median(losses[max(0, n - SMOOTHED_UPDATES + 1) : n + 1]) for n in range(len(losses))
    ]
    low = min(smooth)
    limit = low + max(
        RISE * abs(low), DEVIATIONS * noise_of_updates(losses[: smooth.index(low) + 1])
    )
    first = len(smooth)
    while first and smooth[first - 1] > limit:
        first -= 1
    if first in (0, len(smooth)):
        return None
    earliest = max(0, first - SMOOTHED_UPDATES + 1)
    raw = next((n for n in range(earliest, first + 1) if losses[n] > limit), first)
    return places[raw]


def noise_of_updates(losses: Sequence[float]) -> float:
    """Return the scatter of the loss from update to update."""
    # 1.4826 median deviations are a standard deviation, and differences have sqrt(2) of it.
    recent = losses[-USUAL_UPDATES:]
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
        recent = steps[max(0, at - USUAL_UPDATES) : at]
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


def _rate(run: RunView, step: StepTaken) -> str:
    rates = rates_of(run)
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


def divergence_of(run: RunView) -> str:
    """Return in a clause how training broke down, or "" if it did not.

    A validation loss that rises while the training loss falls is overfitting, not divergence;
    so both have to be far above their best. One validation says little: if only the last is
    bad, or none came since, the loss of the last updates has to be further above, and beyond
    its noise.
    """
    return _not_a_number(run) or _far_above_best(run)


def _not_a_number(run: RunView) -> str:
    validations, last = run.validations, run.steps[-LOST_UPDATES:]
    if loss_curve(validations) and not is_finite(validations[-1].loss):
        return f"the validation loss at step {validations[-1].step:,} is not a finite number"
    if len(last) == LOST_UPDATES and not any(is_finite(step.loss) for step in last):
        return f"the training loss is not a finite number since step {last[0].step:,} or before"
    return ""


def _far_above_best(run: RunView) -> str:
    training = window_losses(run.steps)
    if len(training) < 3:
        return ""
    best, last = min(training), training[-1]
    losses = [loss for _, loss in loss_curve(run.validations)]
    if len(losses) < 3:
        if last > FAR_ABOVE_BEST_UNCHECKED * best:
            return f"the training loss rose from {best:.3f} to {last:.3f}"
        return ""
    if last > FAR_ABOVE_BEST * best and min(losses[-2:]) > FAR_ABOVE_BEST * min(losses):
        return (
            f"the validation loss rose from {min(losses):.3f} to {losses[-1]:.3f} and the "
            f"training loss with it, from {best:.3f} to {last:.3f}"
        )
    return _at_the_end(run, best, losses)


def _at_the_end(run: RunView, best: float, losses: list[float]) -> str:
    """Return how training broke down after the last validation, or shortly before it."""
    known = [number(step.loss) for step in run.steps if is_finite(step.loss)]
    recent, before = known[-LAST_UPDATES:], known[:-LAST_UPDATES]
    above = max((FAR_ABOVE_BEST_UNCHECKED - 1) * best, DEVIATIONS * noise_of_updates(before))
    if median(recent) <= best + above:
        return ""
    rise = f"the training loss rose from {best:.3f} to {median(recent):.3f} in the last updates"
    if losses[-1] > FAR_ABOVE_BEST_UNCHECKED * min(losses):
        return f"{rise}, and the validation loss from {min(losses):.3f} to {losses[-1]:.3f}"
    seen = run.validations[-1].step > run.steps[-LAST_UPDATES].step
    return "" if seen else f"{rise}, after the last validation"


CHANCE_OF_RISE = 0.01
WORSE = 0.005
WORSE_IF_PROVED = 0.001
# The best of many evaluations is the lucky one: on a plateau, two noises above it are common.
WOBBLES, MOST_NOISE_OF_BEST = 4.0, 0.02


@dataclass(frozen=True)
class OverfitOnset:
    """The best validation, what came after it, and the training loss at both ends.

    `difference` is that of the last validation to the best, sentence by sentence, or None if
    their losses were not kept. The training loss is `clean` if it was measured on a sample as
    validation measures it; otherwise it is that of the updates around.
    """

    best_step: int
    best_loss: float
    last_step: int
    last_loss: float
    margin: float
    worse_in_a_row: int
    difference: PairedDifference | None
    training_at_best: float
    training_at_end: float
    clean: bool

    @property
    def rise(self) -> float:
        """Return how much worse the last validation is, as a share of the best loss."""
        return self.last_loss / self.best_loss - 1.0 if self.best_loss > 0 else 0.0

    @property
    def is_known(self) -> bool:
        """Return whether the training loss was recorded at both ends."""
        return is_finite(self.training_at_best) and is_finite(self.training_at_end)

    @property
    def is_overfitting(self) -> bool:
        """Return whether two validations or more were worse while training went on falling."""
        return self.is_known and self.worse_in_a_row >= 2 and self.training_fell

    @property
    def training_fell(self) -> bool:
        """Return whether the training loss went on falling after the best validation."""
        return self.training_at_end < self.training_at_best


def overfit_onset_of(run: RunView, curve: Sequence[tuple[int, float]]) -> OverfitOnset:
    """Find the best validation and measure what came after it."""
    best_step, best_loss = lowest(curve)
    later = [(step, loss) for step, loss in curve if step > best_step]
    known = compare_steps(run.sentence_losses, [step for step, _ in later], best_step)
    proved = bool(later) and all(step in known for step, _ in later)
    least = (WORSE_IF_PROVED if proved else WORSE) * best_loss
    noise = noise_of([loss for _, loss in curve])
    margin = max(least, min(WOBBLES * noise, MOST_NOISE_OF_BEST * best_loss))
    at_best, at_end, clean = _training(run, best_step)
    return OverfitOnset(
        best_step=best_step,
        best_loss=best_loss,
        last_step=curve[-1][0],
        last_loss=curve[-1][1],
        margin=margin,
        worse_in_a_row=_worse(later, best_loss + margin, known if proved else {}),
        difference=known.get(curve[-1][0]) if proved else None,
        training_at_best=at_best,
        training_at_end=at_end,
        clean=clean,
    )


def _worse(
    later: Sequence[tuple[int, float]], limit: float, known: Mapping[int, PairedDifference]
) -> int:
    """Count how many validations at the end are worse, by more than chance if that is known."""
    worse = 0
    for step, loss in reversed(later):
        if loss <= limit or (step in known and known[step].p >= CHANCE_OF_RISE):
            break
        worse += 1
    return worse


def _training(run: RunView, best_step: int) -> tuple[float, float, bool]:
    validations = [event for event in run.validations if is_finite(event.loss)]
    best = next(event for event in validations if event.step == best_step)
    last = validations[-1]
    if _is_clean(best) and _is_clean(last):
        return best.clean_training_loss, last.clean_training_loss, True
    steps = run.steps
    width = max(10, len(steps) // 20)
    until = [step for step in steps if step.step <= best_step]
    return mean_loss(until[-width:]), mean_loss(steps[-width:]), False


def _is_clean(event: Validated) -> bool:
    return is_finite(event.clean_training_loss) and event.clean_training_loss >= 0
