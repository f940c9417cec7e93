"""What the last third of a run brought, whether that was chance, and what is to be expected."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import Tail, bleu_curve, loss_curve, noise_of, tail_of
from unisono.diagnose.evidence.extrapolation import LossForecast, forecast
from unisono.diagnose.evidence.rates import schedule_of
from unisono.diagnose.evidence.scores import PairedDifference, compare_steps, half_interval
from unisono.diagnose.wording import percent
from unisono.records.events import Validated

FEWEST = 4
FLAT_LOSS = 0.005
MOST_NOISE = 0.01
FLAT_BLEU = 0.2
MOST_BLEU_NOISE = 1.0
CHANCE = 0.05


@dataclass(frozen=True)
class RecentGain:
    """The last third of the validation curve against all before, and what counts as flat.

    `difference` compares the best evaluations of both sentence by sentence, if their losses
    were kept. `misfit` says that the curve is not one that can be forecast: it fell, and was
    flat then.
    """

    tail: Tail
    flat_below: float
    difference: PairedDifference | None
    bleu: Tail | None
    bleu_flat_below: float
    forecast: LossForecast | None
    misfit: bool = False

    @property
    def relative_gain(self) -> float:
        """Return the gain in loss as a share of the loss before."""
        return self.tail.gain / self.tail.before if self.tail.before > 0 else 0.0

    @property
    def levelling(self) -> bool:
        """Return whether half as many steps again will surely bring too little to matter."""
        return self.forecast is not None and self.forecast.high < FLAT_LOSS

    @property
    def uncertain(self) -> bool:
        """Return whether the loss fell by enough to matter, which may yet be chance."""
        chance = self.difference is not None and self.difference.p >= CHANCE
        return self.tail.gain >= self.flat_below and chance and not self.levelling

    @property
    def improved(self) -> list[str]:
        """Return in words what still became better, and is worth going on for."""
        words = []
        fell = self.tail.gain >= self.flat_below and not self.uncertain
        if fell and not self.levelling:
            words.append(f"the validation loss still fell by {percent(self.relative_gain)}")
        if self.bleu is not None and self.bleu.gain >= self.bleu_flat_below:
            words.append(f"BLEU still rose by {self.bleu.gain:.1f}")
        return words


def recent_gain_of(case: Case) -> RecentGain:
    """Measure the last third of the curves; there must be `FEWEST` validations."""
    losses = loss_curve(case.run.validations)
    tail = tail_of(losses)
    known = compare_steps(case.run.sentence_losses, [tail.within_step], tail.before_step)
    difference = known.get(tail.within_step)
    flat_below = FLAT_LOSS * tail.before
    if difference is None:
        noise = noise_of([loss for _, loss in losses])
        flat_below = max(flat_below, min(noise, MOST_NOISE * tail.before))
    bleu, bleu_flat_below = _bleu(case.run.validations)
    expected = forecast(losses, _warmup(case))
    # What the fit still sees falling was already flat.
    misfit = bool(expected and tail.gain < flat_below and expected.low >= FLAT_LOSS)
    expected = None if misfit else expected
    return RecentGain(tail, flat_below, difference, bleu, bleu_flat_below, expected, misfit)


def _bleu(validations: Sequence[Validated]) -> tuple[Tail | None, float]:
    """Return the last third of BLEU, and how much of a rise may be chance."""
    scores = bleu_curve(validations)
    if len(scores) < FEWEST:
        return None, FLAT_BLEU
    noise = min(MOST_BLEU_NOISE, noise_of([score for _, score in scores]))
    tail = tail_of([(step, -score) for step, score in scores])
    best = [v for v in validations if v.step in (tail.before_step, tail.within_step)]
    return tail, max(FLAT_BLEU, noise, *(half_interval(event) or 0.0 for event in best))


def _warmup(case: Case) -> int:
    schedule = schedule_of(case.run.config)
    return schedule.warmup_steps if schedule else 0
