"""Is it overfitting, and since when?"""

from collections.abc import Sequence

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import is_finite, loss_curve, lowest
from unisono.diagnose.evidence.divergence import divergence
from unisono.diagnose.evidence.overfit_onset import CHANCE, OverfitOnset, overfit_onset_of
from unisono.diagnose.evidence.scores import bleu_words
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import percent, rounded
from unisono.records.layout import RunDirectory

FEWEST = 3


def answer_overfitting(case: Case) -> Answer:
    """Compare the last validations with the best, and what training did meanwhile."""
    curve = loss_curve(case.run.validations)
    if len(curve) < FEWEST:
        return _unknown(
            f"It takes at least {FEWEST} validations to see the loss turn; "
            f"this run has {len(curve)}.",
            {"since_step": None, "validations": len(curve), **_best(curve)},
            advice="Train longer, or validate more often (`validation.every_steps`).",
        )
    turn = overfit_onset_of(case, curve)
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
            _evidence(case, turn),
            "Look again after the next validation.",
        )
    return _no(case, turn)


def _best(curve: Sequence[tuple[int, float]]) -> dict[str, object]:
    step, loss = lowest(curve) if curve else (None, None)
    return {"best_step": step, "best_loss": rounded(loss)}


def _values(turn: OverfitOnset, since: int | None = None) -> dict[str, object]:
    found = turn.difference
    return {
        "since_step": since,
        "best_step": turn.best_step,
        "best_loss": rounded(turn.best_loss),
        "last_step": turn.last_step,
        "last_loss": rounded(turn.last_loss),
        "rise": rounded(turn.rise, 5),
        "rise_p": rounded(found.p) if found else None,
        "worse_in_a_row": turn.worse_in_a_row,
        "training_loss_at_best": rounded(turn.training_at_best),
        "training_loss_at_end": rounded(turn.training_at_end),
        "training_loss_is_clean": turn.clean,
    }


def _evidence(case: Case, turn: OverfitOnset) -> list[str]:
    return [
        f"validation loss {turn.best_loss:.4f} at its best (step {turn.best_step:,}), "
        f"{turn.last_loss:.4f} at the last (step {turn.last_step:,}); more than "
        f"{turn.margin:.4f} above the best counts as worse",
        *_chance(case, turn),
        _training(turn),
    ]


def _chance(case: Case, turn: OverfitOnset) -> list[str]:
    found = turn.difference
    if found is not None:
        sentences = len(case.run.sentence_losses.tokens)
        return [
            f"the last against the best on the same {sentences:,} sentences: "
            f"{found.delta:+.4f} a token (95 % interval {found.low:+.4f} to "
            f"{found.high:+.4f}, p = {found.p:.2g}, paired bootstrap; below {CHANCE:g} it is "
            "not chance)"
        ]
    if turn.best_step == turn.last_step:
        return []
    return [
        "the losses of single sentences were not kept, so what is chance was judged by the "
        "scatter of the curve"
    ]


def _training(turn: OverfitOnset) -> str:
    if turn.clean:
        return (
            f"loss of a fixed sample of the training set at these steps "
            f"{turn.training_at_best:.4f} and {turn.training_at_end:.4f}, without dropout and "
            f"smoothing: validation lies {turn.last_loss - turn.training_at_end:.4f} above it"
        )
    return (
        f"training loss around these steps {turn.training_at_best:.4f} and "
        f"{turn.training_at_end:.4f} (with dropout and label smoothing, so only its course "
        "counts, not the distance to the validation loss)"
    )


def _yes(case: Case, turn: OverfitOnset) -> Answer:
    evidence = _evidence(case, turn)
    evidence.append(f"the last {turn.worse_in_a_row} validations were all worse than the best")
    scored = {event.step: event for event in case.run.validations if event.bleu >= 0}
    best, last = scored.get(turn.best_step), scored.get(turn.last_step)
    still = ""
    if best is not None and last is not None and last.bleu > best.bleu:
        still = " BLEU still rose, so the model is surer of its errors rather than worse."
        evidence.append(
            f"BLEU {bleu_words(best)} at step {turn.best_step:,}, "
            f"{bleu_words(last)} at step {turn.last_step:,}"
        )
    return reply(
        "overfitting",
        "yes",
        f"Yes, since step {turn.best_step:,}: validation became {percent(turn.rise)} worse "
        f"while the training loss went on falling.{still}",
        values=_values(turn, turn.best_step),
        evidence=evidence,
        advice=f"{_keep(case, turn.best_step)} More data, more dropout or a smaller model "
        "help; so does stopping earlier (`train.patience`).",
    )


def _keep(case: Case, step: int) -> str:
    """Say which checkpoint holds the best weights, as far as it is still there."""
    directory, name = RunDirectory(case.run.path).checkpoints, f"step-{step:07d}"
    keep = f"Keep the checkpoint of step {step:,}"
    if (directory / name).is_dir():
        return f"{keep} (`checkpoints/{name}`)."
    if directory.is_dir():
        return f"{keep}; it is no longer in `checkpoints`, so take the one nearest to it."
    return f"{keep} (checkpoints/best points to the best by `validation.best`)."


def _no(case: Case, turn: OverfitOnset) -> Answer:
    if turn.best_step == turn.last_step:
        why = f"the last validation, at step {turn.last_step:,}, is the best one"
    elif turn.worse_in_a_row == 0:
        why = "the last validation is as good as the best, within noise"
    else:
        why = "validation became worse, but so did the training loss"
    evidence = _evidence(case, turn)
    return reply("overfitting", "no", f"No: {why}.", values=_values(turn), evidence=evidence)


def _unknown(
    summary: str,
    values: dict[str, object],
    evidence: list[str] | None = None,
    advice: str = "",
) -> Answer:
    return reply(
        "overfitting", "unknown", summary, values=values, evidence=evidence, advice=advice
    )
