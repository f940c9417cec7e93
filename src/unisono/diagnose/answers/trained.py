"""Is the model fully trained?"""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.curve import Tail, bleu_curve, loss_curve, noise_of, tail_of
from unisono.diagnose.divergence import divergence
from unisono.diagnose.questions import reply
from unisono.diagnose.rates import Rates, rates_of
from unisono.diagnose.report import Answer
from unisono.diagnose.words import listing, percent, rounded

FEWEST = 4
FLAT_LOSS = 0.005
MOST_NOISE = 0.01
FLAT_BLEU = 0.2
MOST_BLEU_NOISE = 1.0
HIGH_RATE = 0.3
SPENT_RATE = 0.01


@dataclass(frozen=True)
class Progress:
    """The last third of the validation curve against all before, and what counts as flat."""

    tail: Tail
    flat_below: float
    bleu: Tail | None
    bleu_flat_below: float

    @property
    def relative_gain(self) -> float:
        """Return the gain in loss as a share of the loss before."""
        return self.tail.gain / self.tail.before if self.tail.before > 0 else 0.0

    @property
    def improved(self) -> list[str]:
        """Return in words what still became better by more than noise."""
        words = []
        if self.tail.gain >= self.flat_below:
            words.append(f"the validation loss still fell by {percent(self.relative_gain)}")
        if self.bleu is not None and self.bleu.gain >= self.bleu_flat_below:
            words.append(f"BLEU still rose by {self.bleu.gain:.1f}")
        return words


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
            values={"validations": len(curve)},
            advice="Train longer, or validate more often (`validation.every_steps`).",
        )
    progress = progress_of(curve, bleu_curve(case.run.validations))
    rates = rates_of(case)
    if progress.improved:
        return _improving(case, progress, rates)
    return _flat(case, progress, rates)


def progress_of(
    losses: Sequence[tuple[int, float]], scores: Sequence[tuple[int, float]]
) -> Progress:
    """Measure the last third of the curves against what is noise."""
    tail = tail_of(losses)
    noise = noise_of([loss for _, loss in losses])
    flat_below = max(FLAT_LOSS * tail.before, min(noise, MOST_NOISE * tail.before))
    if len(scores) < FEWEST:
        return Progress(tail, flat_below, None, FLAT_BLEU)
    bleu_noise = min(MOST_BLEU_NOISE, noise_of([score for _, score in scores]))
    lower_is_better = [(step, -score) for step, score in scores]
    return Progress(tail, flat_below, tail_of(lower_is_better), max(FLAT_BLEU, bleu_noise))


def _diverged(case: Case, broken: str) -> Answer:
    curve = loss_curve(case.run.validations)
    best = min(curve, key=lambda point: point[1], default=(0, float("nan")))
    keep = f"The best weights are those of step {best[0]:,}. " if curve else ""
    return reply(
        "trained",
        "diverged",
        f"Training broke down: {broken}.",
        values={"best_step": best[0], "best_loss": rounded(best[1])},
        evidence=[f"{broken}"],
        advice=f"{keep}Lower the peak learning rate, warm up longer, or set `train.clip_norm`.",
    )


def _improving(case: Case, progress: Progress, rates: Rates | None) -> Answer:
    advice = "Train longer: raise `train.max_steps` and start the same command again."
    if rates and rates.share_of_peak < SPENT_RATE:
        advice = (
            "Train longer in a new run (`--set run=…`) with a larger `train.max_steps` and a "
            f"schedule to match: this one's rate has come down to {rates.last:.2g}, at which "
            "further updates would learn next to nothing."
        )
    return reply(
        "trained",
        "no",
        f"No: over the last third of the run {listing(progress.improved)}.",
        values=_values(case, progress, rates.share_of_peak if rates else None),
        evidence=_evidence(case, progress),
        advice=advice,
    )


def _flat(case: Case, progress: Progress, rates: Rates | None) -> Answer:
    share = rates.share_of_peak if rates else None
    values, evidence = _values(case, progress, share), _evidence(case, progress)
    if rates:
        evidence.append(
            f"learning rate at the end {rates.last:.3g}: {percent(rates.share_of_peak)} of "
            "its highest"
        )
    gain = percent(progress.relative_gain) if progress.relative_gain > 0 else "nothing"
    flat = f"the last third of the run brought {gain}"
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
    careful = ""
    if share is not None and share > HIGH_RATE:
        careful = f" This holds at a rate that is still {percent(share)} of its highest."
    return reply(
        "trained",
        "yes",
        f"Yes: validation has levelled off; {flat}.{careful}",
        values=values,
        evidence=evidence,
        advice="A lower rate at the end may still bring a little." if careful else "",
    )


def _values(case: Case, progress: Progress, share: float | None) -> dict[str, object]:
    best = min(loss_curve(case.run.validations), key=lambda point: point[1])
    return {
        "validations": len(case.run.validations),
        "best_step": best[0],
        "best_loss": rounded(best[1]),
        "last_loss": rounded(case.run.validations[-1].loss),
        "gain_of_last_third": rounded(progress.relative_gain, 5),
        "bleu_gain_of_last_third": rounded(progress.bleu.gain, 2) if progress.bleu else None,
        "learning_rate_share_of_peak": rounded(share),
        "stopped_by_patience": _by_patience(case),
    }


def _evidence(case: Case, progress: Progress) -> list[str]:
    tail = progress.tail
    lines = [
        f"best validation loss up to the last third {tail.before:.4f}, within it "
        f"(steps {tail.first_step:,} to {tail.last_step:,}, {tail.points} validations) "
        f"{tail.within:.4f}; less than {progress.flat_below:.4f} counts as flat"
    ]
    if progress.bleu:
        lines.append(
            f"best BLEU before {-progress.bleu.before:.1f}, within it "
            f"{-progress.bleu.within:.1f}; less than {progress.bleu_flat_below:.1f} counts "
            "as flat"
        )
    if _by_patience(case):
        lines.append("the run stopped itself because validation no longer became better")
    return lines


def _by_patience(case: Case) -> bool:
    return bool(case.sessions) and case.sessions[-1].reason == "patience"
