"""Is the model fully trained?"""

import math
from typing import TypeGuard

from unisono.diagnose.case import Case
from unisono.diagnose.evidence import scores
from unisono.diagnose.evidence.curve import Rates, loss_curve, lowest, rates_of
from unisono.diagnose.evidence.divergence import divergence_onset_of
from unisono.diagnose.evidence.plateau import FEWEST_VALIDATIONS, FLAT_LOSS, RecentGain
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import listing, percent, rounded

HIGH_RATE = 0.3
SPENT_RATE = 0.01
NEGLIGIBLE_GAIN = 0.0005
# Shares of the logarithm of the vocabulary, which is the loss of a model that guesses. One that
# knows how frequent each piece is reaches two thirds of it, and translates no better.
BLIND, NEARLY_BLIND = 0.9, 0.5
NO_BLEU = 1.0


def answer_trained(case: Case) -> Answer:
    """Judge the last third of the validations: still better, flat, overfitted or diverged?"""
    if case.divergence:
        return _diverged(case)
    curve = loss_curve(case.run.validations)
    progress, rates = case.recent_gain, rates_of(case.run)
    if case.should_stop and progress is not None:
        return _overfitted(case, progress, rates)
    if progress is None or len(curve) < FEWEST_VALIDATIONS:
        return reply(
            "trained",
            "unknown",
            f"It takes at least {FEWEST_VALIDATIONS} validations to show where the loss is "
            f"going; this run has {len(curve)}.",
            values={"validations": len(curve), **scores.score_values(case.run)},
            evidence=scores.score_evidence(case.run),
            advice=look_longer(case),
        )
    if progress.improved:
        return _improving(case, progress, rates)
    if progress.uncertain:
        return _uncertain(case, progress, rates)
    return _flat(case, progress, rates)


def look_longer(case: Case) -> str:
    """Advise how to get more validations; to make them more frequent only if they are cheap."""
    if case.evaluation_is_costly:
        return "Train longer, and look again after more validations."
    return "Train longer, or validate more often (`validation.every_steps`)."


def steadier(case: Case) -> str:
    """Advise what makes updates smaller; to clip gradients only if they are not clipped yet."""
    if case.setting("train", "clip_norm", 0.0) > 0:
        return "Lower the peak learning rate or warm up longer."
    return "Lower the peak learning rate, warm up longer, or set `train.clip_norm`."


def _diverged(case: Case) -> Answer:
    curve = loss_curve(case.run.validations)
    best = lowest(curve) if curve else (0, float("nan"))
    keep = f"Step {best[0]:,} has the best weights. " if curve else ""
    onset = divergence_onset_of(case.run)
    story = f" {onset.sentence}" if onset else ""
    return reply(
        "trained",
        "diverged",
        f"Training diverged: {case.divergence}.{story}",
        values={
            "best_step": best[0],
            "best_loss": rounded(best[1]),
            "began_step": onset.step if onset else None,
        },
        evidence=[case.divergence, *(onset.signs if onset else ())],
        advice=f"{keep}{steadier(case)}",
    )


def _overfitted(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    """Answer for a run that is past its best; a rise of BLEU within its interval is chance."""
    values, evidence = _values(case, progress, rates), _evidence(case, progress, rates)
    best, loss = lowest(loss_curve(case.run.validations))
    if blind := _learnt_nothing(case):
        return _nothing_learnt(blind, values, evidence)
    bleu = ""
    if progress.bleu and progress.bleu.gain > 0:
        bleu = f" BLEU rose by {progress.bleu.gain:.1f}, which is within its 95 % interval."
    return reply(
        "trained",
        "yes",
        f"Yes, and beyond its best: the validation loss was lowest ({loss:.3f}) at step "
        f"{best:,}, and the run has overfitted since.{bleu}",
        values=values,
        evidence=evidence,
        advice=f"Use the weights of step {best:,}; more updates of this run do not help.",
    )


def _nothing_learnt(blind: str, values: dict[str, object], evidence: list[str]) -> Answer:
    return reply(
        "trained",
        "no",
        f"No: the validation loss stopped falling before the model had learnt anything; "
        f"{blind}.",
        values={**values, "learnt": False},
        evidence=evidence,
        advice="More steps of the same do not help. Try a tenth and ten times of the learning "
        "rate, and check that each source line stands beside its translation.",
    )


def _improving(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    advice = "Train longer: raise `train.max_steps` and start the same command again."
    if _spent(rates):
        advice = (
            "Train longer in a new run (`--set run=…`) with a larger `train.max_steps` and a "
            f"schedule to match: the learning rate has fallen to {rates.last:.2g}, at which "
            "further updates hardly change the model."
        )
    return reply(
        "trained",
        "no",
        f"No: over the last third of the run {listing(progress.improved)}."
        f"{_expected(progress, rates)}",
        values=_values(case, progress, rates),
        evidence=_evidence(case, progress, rates),
        advice=advice,
    )


def _uncertain(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    return reply(
        "trained",
        "unknown",
        f"The validation loss fell by {percent(progress.relative_gain)} in the last third of "
        f"the run, but on so few sentences that may be chance.{_expected(progress, rates)}",
        values=_values(case, progress, rates),
        evidence=_evidence(case, progress, rates),
        advice="Train longer and look again."
        if case.evaluation_is_costly
        else "Validate on more sentences, or train longer and look again.",
    )


def _flat(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    values, evidence = _values(case, progress, rates), _evidence(case, progress, rates)
    flat = _level(progress)
    if blind := _learnt_nothing(case):
        return _nothing_learnt(blind, values, evidence)
    if rates and rates.unfinished and rates.share_of_peak > HIGH_RATE:
        return reply(
            "trained",
            "unknown",
            f"The validation loss is flat ({flat}), but the learning rate {rates.unfinished}; "
            "the loss often falls again when the rate does.",
            values=values,
            evidence=evidence,
            advice="Let the schedule run to its end before judging.",
        )
    if not _is_the_end(progress, rates):
        return _open(case, flat, progress, values, evidence)
    careful = ""
    if rates and rates.share_of_peak > HIGH_RATE:
        share = percent(rates.share_of_peak)
        careful = f" The learning rate is still at {share} of its peak."
    return reply(
        "trained",
        "yes",
        f"Yes: the validation loss is flat; {flat}.{_expected(progress, rates)}{careful}",
        values=values,
        evidence=evidence,
        advice="Ending with a lower learning rate may still gain a little." if careful else "",
    )


def _learnt_nothing(case: Case) -> str:
    """Return in a clause how it shows that the model knows nothing, or ""."""
    pieces, best = case.run.corpus.get("vocabulary"), scores.best_scored(case.run)
    poor = best is not None and best.bleu < NO_BLEU
    score = f"BLEU never exceeded {best.bleu:.1f}" if best and poor else ""
    if not isinstance(pieces, int) or pieces < 2:
        return score
    loss = min(loss for _, loss in loss_curve(case.run.validations))
    if loss < (NEARLY_BLIND if poor else BLIND) * math.log(pieces):
        return ""
    guessing = f"guessing among {pieces:,} pieces gives {math.log(pieces):.2f}"
    known = f"its best validation loss is {loss:.2f}, and {guessing}"
    return f"{known}; {score}" if score else known


def _is_the_end(progress: RecentGain, rates: Rates | None) -> bool:
    """Return whether half as many steps again would surely bring too little to matter."""
    past_best = progress.relative_gain <= -FLAT_LOSS
    return progress.levelling or progress.misfit or past_best or _spent(rates)


def _open(
    case: Case, flat: str, progress: RecentGain, values: dict[str, object], evidence: list[str]
) -> Answer:
    found = progress.forecast
    why = "there are too few validations to forecast what more steps would gain"
    if found is not None:
        why = (
            f"50 % more steps may still lower it by up to {_share(found.high)} % (upper end of "
            "a 90 % interval)"
        )
    return reply(
        "trained",
        "unknown",
        f"The validation loss is flat ({flat}), but {why}.",
        values=values,
        evidence=evidence,
        advice="Train longer with a learning rate that falls to 0 at the end"
        + ("." if case.evaluation_is_costly else ", or validate more often."),
    )


def _level(progress: RecentGain) -> str:
    tail = progress.tail
    if progress.relative_gain <= -FLAT_LOSS:
        return f"it was lowest at step {tail.before_step:,}, and the last third was worse"
    if progress.relative_gain <= 0:
        return "it did not fall in the last third of the run"
    return f"it fell by {percent(progress.relative_gain)} in the last third of the run"


def _spent(rates: Rates | None) -> TypeGuard[Rates]:
    return rates is not None and rates.share_of_peak < SPENT_RATE


def _expected(progress: RecentGain, rates: Rates | None) -> str:
    """Say what half as many steps again would bring, if the curve goes on as it did."""
    found = progress.forecast
    if _spent(rates):
        return " 50 % more steps would gain nothing: the learning rate is close to 0."
    if found is None:
        return ""
    if found.high < NEGLIGIBLE_GAIN:
        return " 50 % more steps would gain next to nothing."
    interval = f"90 % interval {_share(found.low)} to {_share(found.high)} %"
    return f" 50 % more steps would lower it by about {_share(found.gain)} % ({interval})."


def _share(value: float) -> str:
    return f"{100 * value:.0f}" if value >= 0.0995 else f"{100 * value:.1f}"


def _values(case: Case, progress: RecentGain, rates: Rates | None) -> dict[str, object]:
    best = lowest(loss_curve(case.run.validations))
    expected, chance = progress.forecast, progress.difference
    return {
        "validations": len(case.run.validations),
        "best_step": best[0],
        "best_loss": rounded(best[1]),
        "last_loss": rounded(case.run.validations[-1].loss),
        "gain_of_last_third": rounded(progress.relative_gain, 5),
        "gain_of_last_third_p": rounded(chance.p) if chance else None,
        "bleu_gain_of_last_third": rounded(progress.bleu.gain, 2) if progress.bleu else None,
        "expected_gain_of_half_more": rounded(expected.gain, 5) if expected else None,
        "expected_gain_low": rounded(expected.low, 5) if expected else None,
        "expected_gain_high": rounded(expected.high, 5) if expected else None,
        "learning_rate_share_of_peak": rounded(rates.share_of_peak) if rates else None,
        "stopped_by_patience": _by_patience(case),
        **scores.score_values(case.run),
    }


def _evidence(case: Case, progress: RecentGain, rates: Rates | None) -> list[str]:
    tail = progress.tail
    lines = [
        f"lowest validation loss: {tail.before:.4f} before the last third of the run, "
        f"{tail.within:.4f} within it (steps {tail.first_step:,} to {tail.last_step:,}, "
        f"{tail.points} validations); a gain below {progress.flat_below:.4f} counts as flat",
        _chance(case, progress),
    ]
    if progress.bleu:
        lines.append(
            f"best BLEU: {-progress.bleu.before:.1f} before the last third, "
            f"{-progress.bleu.within:.1f} within it; a rise below "
            f"{progress.bleu_flat_below:.1f} may be chance"
        )
    lines += [*_fit(progress, rates), *scores.score_evidence(case.run)]
    if rates:
        lines.append(
            f"learning rate at the end: {rates.last:.3g}, {percent(rates.share_of_peak)} of "
            "its peak"
        )
    if _by_patience(case):
        lines.append("the run stopped because validation no longer improved")
    return lines


def _chance(case: Case, progress: RecentGain) -> str:
    found, tail = progress.difference, progress.tail
    if found is None:
        return scores.UNPAIRED
    sentences = len(case.run.sentence_losses.tokens)
    return (
        f"step {tail.within_step:,} against step {tail.before_step:,} on the same "
        f"{sentences:,} sentences: {found.delta:+.4f} a token (95 % interval {found.low:+.4f} "
        f"to {found.high:+.4f}, p = {found.p:.2g}, paired bootstrap)"
    )


def _fit(progress: RecentGain, rates: Rates | None) -> list[str]:
    found = progress.forecast
    if found is None:
        return []
    course = f"falls as step^-{found.exponent:.2g} towards {found.limit:.3f}"
    if not found.gain:
        course = "no longer falls"
    elif not found.limit:
        course = "has not begun to level off, so a straight line bounds the forecast"
    since = f"from step {found.first_step:,} on ({found.points} validations)"
    line = f"the fitted curve {since} {course}"
    if rates and rates.unfinished:
        line += f"; the fit ignores that the learning rate {rates.unfinished}"
    return [line]


def _by_patience(case: Case) -> bool:
    return bool(case.sessions) and case.sessions[-1].reason == "patience"
