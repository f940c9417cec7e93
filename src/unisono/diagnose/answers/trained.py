"""Is the model fully trained?"""

import math
from typing import TypeGuard

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.divergence import divergence, onset_of
from unisono.diagnose.evidence.plateau import FEWEST, FLAT_LOSS, RecentGain, recent_gain_of
from unisono.diagnose.evidence.rates import Rates, rates_of
from unisono.diagnose.evidence.scores import best_scored, score_evidence, score_values
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import listing, percent, rounded

HIGH_RATE = 0.3
SPENT_RATE = 0.01
NOTHING = 0.0005
# Of the logarithm of the vocabulary, the loss of a model that knows nothing. One that knows how
# often each piece occurs comes to two thirds of it, and translates no better.
BLIND, NEARLY_BLIND = 0.9, 0.5
NO_BLEU = 1.0


def answer_trained(case: Case) -> Answer:
    """Look at the last third of the validations: still better, flat, or broken down?"""
    broken = divergence(case)
    if broken:
        return _diverged(case, broken)
    curve = loss_curve(case.run.validations)
    if len(curve) < FEWEST:
        return reply(
            "trained",
            "unknown",
            f"It takes at least {FEWEST} validations to see where the loss is going; "
            f"this run has {len(curve)}.",
            values={"validations": len(curve), **score_values(case)},
            evidence=score_evidence(case),
            advice="Train longer, or validate more often (`validation.every_steps`).",
        )
    progress, rates = recent_gain_of(case), rates_of(case)
    if progress.improved:
        return _improving(case, progress, rates)
    if progress.uncertain:
        return _uncertain(case, progress, rates)
    return _flat(case, progress, rates)


def _diverged(case: Case, broken: str) -> Answer:
    curve = loss_curve(case.run.validations)
    best = lowest(curve) if curve else (0, float("nan"))
    keep = f"The best weights are those of step {best[0]:,}. " if curve else ""
    onset = onset_of(case)
    story = f" {onset.sentence}" if onset else ""
    return reply(
        "trained",
        "diverged",
        f"Training broke down: {broken}.{story}",
        values={
            "best_step": best[0],
            "best_loss": rounded(best[1]),
            "began_step": onset.step if onset else None,
        },
        evidence=[broken, *(onset.signs if onset else ())],
        advice=f"{keep}Lower the peak learning rate, warm up longer, or set `train.clip_norm`.",
    )


def _improving(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    advice = "Train longer: raise `train.max_steps` and start the same command again."
    if _spent(rates):
        advice = (
            "Train longer in a new run (`--set run=…`) with a larger `train.max_steps` and a "
            f"schedule to match: this one's rate has come down to {rates.last:.2g}, at which "
            "further updates would learn next to nothing."
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
        f"The last third of the run brought {percent(progress.relative_gain)}, but on so few "
        f"sentences that may be chance.{_expected(progress, rates)}",
        values=_values(case, progress, rates),
        evidence=_evidence(case, progress, rates),
        advice="Validate on more sentences, or train longer and look again.",
    )


def _flat(case: Case, progress: RecentGain, rates: Rates | None) -> Answer:
    values, evidence = _values(case, progress, rates), _evidence(case, progress, rates)
    flat = _level(progress)
    if blind := _learnt_nothing(case):
        return reply(
            "trained",
            "no",
            f"No: it stopped improving without having learnt anything; {blind}.",
            values={**values, "learnt": False},
            evidence=evidence,
            advice="More steps of the same will not help. Check the learning rate (try a tenth "
            "and ten times of it), and whether source and target belong together line by line.",
        )
    if rates and rates.unfinished and rates.share_of_peak > HIGH_RATE:
        return reply(
            "trained",
            "unknown",
            f"The validation loss is flat ({flat}), but the learning rate {rates.unfinished}; "
            "a plateau at a high rate is not the end of learning.",
            values=values,
            evidence=evidence,
            advice="Let the schedule run to its end before judging.",
        )
    if not _is_the_end(progress, rates):
        return _open(flat, progress, values, evidence)
    careful = ""
    if rates and rates.share_of_peak > HIGH_RATE:
        share = percent(rates.share_of_peak)
        careful = f" This holds at a rate that is still {share} of its highest."
    return reply(
        "trained",
        "yes",
        f"Yes: validation has levelled off; {flat}.{_expected(progress, rates)}{careful}",
        values=values,
        evidence=evidence,
        advice="A lower rate at the end may still bring a little." if careful else "",
    )


def _learnt_nothing(case: Case) -> str:
    """Return in a clause why the model knows nothing, or "" if it does or that is not known."""
    pieces, best = case.run.corpus.get("vocabulary"), best_scored(case.run)
    poor = best is not None and best.bleu < NO_BLEU
    score = f"BLEU never came above {best.bleu:.1f}" if best and poor else ""
    if not isinstance(pieces, int) or pieces < 2:
        return score
    loss = min(loss for _, loss in loss_curve(case.run.validations))
    if loss < (NEARLY_BLIND if poor else BLIND) * math.log(pieces):
        return ""
    guessing = f"guessing among {pieces:,} pieces has {math.log(pieces):.2f}"
    known = f"the best validation loss is {loss:.2f}, where {guessing}"
    return f"{known}; {score}" if score else known


def _is_the_end(progress: RecentGain, rates: Rates | None) -> bool:
    """Return whether half as many steps again would surely bring too little to matter."""
    past_best = progress.relative_gain <= -FLAT_LOSS
    return progress.levelling or progress.misfit or past_best or _spent(rates)


def _open(
    flat: str, progress: RecentGain, values: dict[str, object], evidence: list[str]
) -> Answer:
    found = progress.forecast
    why = "there are too few validations to tell what more steps would bring"
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
        advice="Train on with a rate that falls to 0 at the end, or validate more often.",
    )


def _level(progress: RecentGain) -> str:
    tail = progress.tail
    if progress.relative_gain <= -FLAT_LOSS:
        return f"it was best at step {tail.before_step:,}, and the last third was worse"
    gain = percent(progress.relative_gain) if progress.relative_gain > 0 else "nothing"
    return f"the last third of the run brought {gain}"


def _spent(rates: Rates | None) -> TypeGuard[Rates]:
    return rates is not None and rates.share_of_peak < SPENT_RATE


def _expected(progress: RecentGain, rates: Rates | None) -> str:
    """Say what half as many steps again would bring, if the curve goes on as it did."""
    found = progress.forecast
    if _spent(rates):
        return " 50 % more steps would bring nothing: the learning rate has run out."
    if found is None:
        return ""
    if found.high < NOTHING:
        return " 50 % more steps would bring next to nothing."
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
        **score_values(case),
    }


def _evidence(case: Case, progress: RecentGain, rates: Rates | None) -> list[str]:
    tail = progress.tail
    lines = [
        f"best validation loss up to the last third {tail.before:.4f}, within it "
        f"(steps {tail.first_step:,} to {tail.last_step:,}, {tail.points} validations) "
        f"{tail.within:.4f}; less than {progress.flat_below:.4f} counts as flat",
        _chance(case, progress),
    ]
    if progress.bleu:
        lines.append(
            f"best BLEU before {-progress.bleu.before:.1f}, within it "
            f"{-progress.bleu.within:.1f}; less than {progress.bleu_flat_below:.1f} counts "
            "as flat"
        )
    lines += [*_fit(progress, rates), *score_evidence(case)]
    if rates:
        lines.append(
            f"learning rate at the end {rates.last:.3g}: {percent(rates.share_of_peak)} of "
            "its highest"
        )
    if _by_patience(case):
        lines.append("the run stopped itself because validation no longer became better")
    return lines


def _chance(case: Case, progress: RecentGain) -> str:
    found, tail = progress.difference, progress.tail
    if found is None:
        return (
            "the losses of single sentences were not kept, so what is chance was judged by the "
            "scatter of the curve"
        )
    sentences = len(case.run.sentence_losses.tokens)
    return (
        f"step {tail.within_step:,} against step {tail.before_step:,}, the same {sentences:,} "
        f"sentences: {found.delta:+.4f} a token (95 % interval {found.low:+.4f} to "
        f"{found.high:+.4f}, p = {found.p:.2g}, paired bootstrap)"
    )


def _fit(progress: RecentGain, rates: Rates | None) -> list[str]:
    found = progress.forecast
    if found is None:
        return []
    course = f"falls as step^-{found.exponent:.2g} towards {found.limit:.3f}"
    if not found.gain:
        course = "no longer falls"
    elif not found.limit:
        course = "has not begun to level off, so that a straight line is the upper end"
    since = f"from step {found.first_step:,} on ({found.points} validations)"
    line = f"the curve {since} {course}"
    if rates and rates.unfinished:
        line += f"; this does not know that the learning rate {rates.unfinished}"
    return [line]


def _by_patience(case: Case) -> bool:
    return bool(case.sessions) and case.sessions[-1].reason == "patience"
