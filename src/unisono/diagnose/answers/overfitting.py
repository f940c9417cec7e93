"""Is it overfitting, and since when?"""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import bleu_curve, is_finite, loss_curve, mean_loss, noise_of
from unisono.diagnose.divergence import divergence
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.words import percent, rounded

FEWEST = 3
WORSE = 0.005
MOST_NOISE = 0.01


@dataclass(frozen=True)
class Turn:
    """The best validation, what came after it, and the training loss at both ends."""

    best_step: int
    best_loss: float
    last_step: int
    last_loss: float
    margin: float
    worse_in_a_row: int
    training_at_best: float
    training_at_end: float

    @property
    def rise(self) -> float:
        """Return how much worse the last validation is, as a share of the best loss."""
        return self.last_loss / self.best_loss - 1.0

    @property
    def training_fell(self) -> bool:
        """Return whether the training loss went on falling after the best validation."""
        return self.training_at_end < self.training_at_best


def answer_overfitting(case: Case) -> Answer:
    """Compare the last validations with the best, and what training did meanwhile."""
    curve = loss_curve(case.run.validations)
    if len(curve) < FEWEST:
        return _unknown(
            f"It takes at least {FEWEST} validations to see the loss turn; "
            f"this run has {len(curve)}.",
            {"since_step": None, "validations": len(curve)},
            "Train longer, or validate more often (`validation.every_steps`).",
        )
    turn = turn_of(case, curve)
    values = _values(turn)
    if not is_finite(turn.training_at_best) or not is_finite(turn.training_at_end):
        return _unknown(
            "The training loss was not recorded around the best validation.", values
        )
    broken = divergence(case)
    if broken:
        return _unknown(f"Training broke down, which hides overfitting: {broken}.", values)
    if turn.worse_in_a_row >= 2 and turn.training_fell:
        return _yes(case, turn)
    if turn.worse_in_a_row == 1 and turn.training_fell:
        return _unknown(
            f"The last validation was {percent(turn.rise)} worse than the best, at step "
            f"{turn.best_step:,}; one alone may be chance.",
            values,
            "Look again after the next validation.",
        )
    return _no(turn)


def turn_of(case: Case, curve: list[tuple[int, float]]) -> Turn:
    """Find the best validation and measure what came after it."""
    best_step, best_loss = min(curve, key=lambda point: point[1])
    noise = noise_of([loss for _, loss in curve])
    margin = max(WORSE * best_loss, min(2 * noise, MOST_NOISE * best_loss))
    worse = 0
    for step, loss in reversed(curve):
        if step <= best_step or loss <= best_loss + margin:
            break
        worse += 1
    steps = case.run.steps
    width = max(10, len(steps) // 20)
    return Turn(
        best_step=best_step,
        best_loss=best_loss,
        last_step=curve[-1][0],
        last_loss=curve[-1][1],
        margin=margin,
        worse_in_a_row=worse,
        training_at_best=mean_loss([s for s in steps if s.step <= best_step][-width:]),
        training_at_end=mean_loss(steps[-width:]),
    )


def _values(turn: Turn, since: int | None = None) -> dict[str, object]:
    return {
        "since_step": since,
        "best_step": turn.best_step,
        "best_loss": rounded(turn.best_loss),
        "last_step": turn.last_step,
        "last_loss": rounded(turn.last_loss),
        "rise": rounded(turn.rise, 5),
        "training_loss_at_best": rounded(turn.training_at_best),
        "training_loss_at_end": rounded(turn.training_at_end),
    }


def _evidence(turn: Turn) -> list[str]:
    return [
        f"validation loss {turn.best_loss:.4f} at its best (step {turn.best_step:,}), "
        f"{turn.last_loss:.4f} at the last (step {turn.last_step:,}); more than "
        f"{turn.margin:.4f} above the best counts as worse",
        f"training loss around these steps {turn.training_at_best:.4f} and "
        f"{turn.training_at_end:.4f} (with dropout and label smoothing, so only its course "
        "counts, not the distance to the validation loss)",
    ]


def _yes(case: Case, turn: Turn) -> Answer:
    evidence = _evidence(turn)
    evidence.append(f"the last {turn.worse_in_a_row} validations were all worse than the best")
    scores = dict(bleu_curve(case.run.validations))
    still = ""
    if scores.get(turn.last_step, 0.0) > scores.get(turn.best_step, float("inf")):
        still = " BLEU still rose, so the model is surer of its errors rather than worse."
        evidence.append(
            f"BLEU {scores[turn.best_step]:.1f} at step {turn.best_step:,}, "
            f"{scores[turn.last_step]:.1f} at step {turn.last_step:,}"
        )
    return reply(
        "overfitting",
        "yes",
        f"Yes, since step {turn.best_step:,}: validation became {percent(turn.rise)} worse "
        f"while the training loss went on falling.{still}",
        values=_values(turn, turn.best_step),
        evidence=evidence,
        advice=f"Keep the checkpoint of step {turn.best_step:,} (checkpoints/best points to "
        "the best by `validation.best`). More data, more dropout or a smaller model help; so "
        "does stopping earlier (`train.patience`).",
    )


def _no(turn: Turn) -> Answer:
    if turn.best_step == turn.last_step:
        why = f"the last validation, at step {turn.last_step:,}, is the best one"
    elif turn.worse_in_a_row == 0:
        why = "the last validation is as good as the best, within noise"
    else:
        why = "validation became worse, but so did the training loss"
    return reply(
        "overfitting", "no", f"No: {why}.", values=_values(turn), evidence=_evidence(turn)
    )


def _unknown(summary: str, values: dict[str, object], advice: str = "") -> Answer:
    return reply("overfitting", "unknown", summary, values=values, advice=advice)
