"""Is it overfitting, and since when?"""

from collections.abc import Sequence

from unisono.diagnose.answers.trained import look_longer
from unisono.diagnose.case import FEWEST_TO_SEE_OVERFITTING, Case
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.divergence import CHANCE_OF_RISE, OverfitOnset
from unisono.diagnose.evidence.scores import UNPAIRED, best_scored, bleu_words
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import percent, rounded
from unisono.records.layout import RunDirectory


def answer_overfitting(case: Case) -> Answer:
    """Compare the last validations with the best, and what training did meanwhile."""
    curve, turn = loss_curve(case.run.validations), case.overfit_onset
    if turn is None:
        return _unknown(
            f"It takes at least {FEWEST_TO_SEE_OVERFITTING} validations to show whether the "
            f"loss rises again; this run has {len(curve)}.",
            {"since_step": None, "validations": len(curve), **_best(curve)},
            advice="" if case.divergence else look_longer(case),
        )
    values = _values(turn)
    if not turn.is_known:
        return _unknown(
            "The training loss was not recorded around the best validation.", values
        )
    if case.divergence:
        return _unknown(
            f"Training diverged, which hides overfitting: {case.divergence}.", values
        )
    if case.overfits:
        return _yes(case, turn)
    if turn.worse_in_a_row == 1 and turn.training_fell:
        return _unknown(
            f"The last validation was {percent(turn.rise)} worse than the best, at step "
            f"{turn.best_step:,}; a single one may be chance.",
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
        f"validation loss {turn.best_loss:.4f} at its lowest (step {turn.best_step:,}) and "
        f"{turn.last_loss:.4f} at the end (step {turn.last_step:,}); more than "
        f"{turn.margin:.4f} above the lowest counts as worse",
        *_chance(case, turn),
        _training(turn),
    ]


def _chance(case: Case, turn: OverfitOnset) -> list[str]:
    found = turn.difference
    if found is not None:
        sentences = len(case.run.sentence_losses.tokens)
        return [
            f"the last validation against the best on the same {sentences:,} sentences: "
            f"{found.delta:+.4f} a token (95 % interval {found.low:+.4f} to {found.high:+.4f}, "
            f"p = {found.p:.2g}, paired bootstrap; p below {CHANCE_OF_RISE:g} rules out chance)"
        ]
    if turn.best_step == turn.last_step:
        return []
    return [UNPAIRED]


def _training(turn: OverfitOnset) -> str:
    if turn.clean:
        return (
            f"loss of a fixed sample of the training set at these steps, without dropout and "
            f"label smoothing: {turn.training_at_best:.4f} and {turn.training_at_end:.4f}; the "
            f"validation loss is {turn.last_loss - turn.training_at_end:.4f} higher"
        )
    return (
        f"training loss around these steps: {turn.training_at_best:.4f} and "
        f"{turn.training_at_end:.4f} (with dropout and label smoothing, so compare its trend, "
        "not its value, with the validation loss)"
    )


def _yes(case: Case, turn: OverfitOnset) -> Answer:
    evidence = _evidence(case, turn)
    evidence.append(f"the last {turn.worse_in_a_row} validations were all worse than the best")
    scored = {event.step: event for event in case.run.validations if event.bleu >= 0}
    best, last = scored.get(turn.best_step), scored.get(turn.last_step)
    still = ""
    if best is not None and last is not None and last.bleu > best.bleu:
        if case.should_stop:
            still = " BLEU rose within its 95 % interval, which may be chance."
        else:
            still = " BLEU still rose, so the model is surer of its errors rather than worse."
        evidence.append(
            f"BLEU {bleu_words(best)} at step {turn.best_step:,}, "
            f"{bleu_words(last)} at step {turn.last_step:,}"
        )
    return reply(
        "overfitting",
        "yes",
        f"Yes, since step {turn.best_step:,}: the validation loss rose by {percent(turn.rise)} "
        f"while the training loss kept falling.{still}",
        values=_values(turn, turn.best_step),
        evidence=evidence,
        advice=f"{_keep(case, turn.best_step)} {remedies(case, '(`train.patience`)')}",
    )


def remedies(case: Case, how: str = "") -> str:
    """Advise against overfitting; to stop earlier only if BLEU does not rise any more."""
    if case.should_stop:
        stop = f"stop earlier {how}".rstrip()
        return f"Get more data, raise dropout, take a smaller model, or {stop}."
    return (
        "Get more data, raise dropout or take a smaller model; and choose the best weights by "
        'BLEU (`validation.best = "bleu"`).'
    )


def _keep(case: Case, step: int) -> str:
    """Name the checkpoint to keep: that of the lowest loss, unless BLEU still rises."""
    best = best_scored(case.run)
    if best is not None and not case.should_stop:
        step = best.step
    directory, name = RunDirectory(case.run.path).checkpoints, f"step-{step:07d}"
    keep = f"Keep the checkpoint of step {step:,}"
    if (directory / name).is_dir():
        return f"{keep} (`checkpoints/{name}`)."
    if directory.is_dir():
        return f"{keep}; it is no longer in `checkpoints`, so use the one closest to it."
    return f"{keep} (`checkpoints/best` names the best by `validation.best`)."


def _no(case: Case, turn: OverfitOnset) -> Answer:
    if turn.best_step == turn.last_step:
        why = f"the last validation, at step {turn.last_step:,}, is the best"
    elif turn.worse_in_a_row == 0:
        why = "the last validation is as good as the best, within noise"
    else:
        why = "the validation loss rose, but so did the training loss"
    evidence = _evidence(case, turn)
    return reply("overfitting", "no", f"No: {why}.", values=_values(turn), evidence=evidence)


def _unknown(
    summary: str, values: dict[str, object], evidence: list[str] | None = None, advice: str = ""
) -> Answer:
    return reply(
        "overfitting", "unknown", summary, values=values, evidence=evidence, advice=advice
    )
