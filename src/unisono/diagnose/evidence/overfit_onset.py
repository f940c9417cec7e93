"""Where the validation loss turned, and what the training loss did from there on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_finite, lowest, mean_loss, noise_of
from unisono.diagnose.evidence.scores import PairedDifference, compare_steps
from unisono.records.events import Validated

CHANCE = 0.01
WORSE = 0.005
WORSE_IF_PROVED = 0.001
# The best of many evaluations is the lucky one: on a plateau, two noises above it are common.
WOBBLES, MOST_NOISE = 4.0, 0.02


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
    def training_fell(self) -> bool:
        """Return whether the training loss went on falling after the best validation."""
        return self.training_at_end < self.training_at_best


def overfit_onset_of(case: Case, curve: Sequence[tuple[int, float]]) -> OverfitOnset:
    """Find the best validation and measure what came after it."""
    best_step, best_loss = lowest(curve)
    later = [(step, loss) for step, loss in curve if step > best_step]
    known = compare_steps(case.run.sentence_losses, [step for step, _ in later], best_step)
    proved = bool(later) and all(step in known for step, _ in later)
    least = (WORSE_IF_PROVED if proved else WORSE) * best_loss
    noise = noise_of([loss for _, loss in curve])
    margin = max(least, min(WOBBLES * noise, MOST_NOISE * best_loss))
    at_best, at_end, clean = _training(case, best_step)
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
        if loss <= limit or (step in known and known[step].p >= CHANCE):
            break
        worse += 1
    return worse


def _training(case: Case, best_step: int) -> tuple[float, float, bool]:
    validations = [event for event in case.run.validations if is_finite(event.loss)]
    best = next(event for event in validations if event.step == best_step)
    last = validations[-1]
    if _is_clean(best) and _is_clean(last):
        return best.clean_training_loss, last.clean_training_loss, True
    steps = case.run.steps
    width = max(10, len(steps) // 20)
    until = [step for step in steps if step.step <= best_step]
    return mean_loss(until[-width:]), mean_loss(steps[-width:]), False


def _is_clean(event: Validated) -> bool:
    return is_finite(event.clean_training_loss) and event.clean_training_loss >= 0
