"""What the last third of a run gained, whether that was chance, and what more steps would gain.

The forecast fits a + b · step^-c to the later part of the curve by least squares: for each
exponent c the best a and b follow from one formula, and a search finds the best c. The curve
may fall to a limit (a), but never below 0, and never rise (b): a flat line stands for whatever
rises, and forecasts no gain. The scatter around the fit says how sure the forecast is: it is
added to the fitted curve in another order, many times, and each such curve is fitted again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from unisono.diagnose.evidence.curve import (
    Tail,
    bleu_curve,
    loss_curve,
    noise_of,
    schedule_of,
    tail_of,
)
from unisono.diagnose.evidence.scores import PairedDifference, compare_steps, half_interval
from unisono.diagnose.wording import percent
from unisono.records.events import Validated
from unisono.records.view import RunView

FEWEST_POINTS = 5
FROM = 0.5, 0.25  # of the last step: what comes before follows another law
ENOUGH = 8  # points in the shorter part, if it is to be the shorter part
REPLICATES = 400
FORECAST_SEED = 1
MORE = 1.5
EXPONENTS = np.geomspace(0.05, 4.0, 25)
MISSED, MISSED_NOISE = 0.001, 3.0  # of the loss, of the noise: the law does not hold so early
HALVINGS = 6  # of the distance between two exponents

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class LossForecast:
    """What half as many steps again would bring, as a share of the loss: above 0 is better.

    `low` and `high` are the 90 % interval, `limit` is where the curve ends if it goes on for
    ever, and `points` how many evaluations it was fitted to, from `first_step` on. A curve that
    has not begun to level off has the limit 0; there a straight line counts for `high`, too.
    `height` is how far the fitted curve lies above the limit at `last_step`.
    """

    gain: float
    low: float
    high: float
    limit: float
    exponent: float
    points: int
    first_step: int
    last_step: int
    height: float

    def loss_at(self, step: float) -> tuple[float, float, float]:
        """Return the loss expected at a later step, and the ends of its 90 % interval."""
        fitted, fallen = self.limit + self.height, 1.0 - self._shape(step)
        share = fallen / (1.0 - self._shape(MORE * self.last_step))
        low, high = (fitted * (1.0 - share * gain) for gain in (self.high, self.low))
        return fitted - self.height * fallen, low, high

    def _shape(self, step: float) -> float:
        return float((step / self.last_step) ** -self.exponent)


def forecast(curve: Sequence[tuple[int, float]], warmup_steps: int = 0) -> LossForecast | None:
    """Fit the later part of the curve, after the warm-up; None if that is too little."""
    half, most = _usable(curve, warmup_steps)
    if len(half) >= ENOUGH or (len(half) >= FEWEST_POINTS and _misses(most)):
        return _forecast(half)
    return _forecast(most) if len(most) >= FEWEST_POINTS else None


def _misses(points: list[tuple[int, float]]) -> bool:
    """Return whether the points lie further from the best curve than they scatter."""
    times = np.array([step / points[-1][0] for step, _ in points])
    losses = np.array([loss for _, loss in points])
    limit, height, exponent = (row[0] for row in _fitted(times, losses[None]))
    missed = float(np.std(losses - limit - height * times**-exponent))
    return missed > max(MISSED_NOISE * noise_of(losses.tolist()), MISSED * points[-1][1])


def _forecast(points: list[tuple[int, float]]) -> LossForecast:
    last = points[-1][0]
    times = np.array([step / last for step, _ in points])
    losses = np.array([loss for _, loss in points])
    limit, height, exponent = (row[0] for row in _fitted(times, losses[None]))
    smooth = limit + height * times**-exponent
    scatter = _scatter(losses - smooth, losses, falls=bool(height > 0))
    gains = np.sort(_gain(*_fitted(times, smooth + _widened(len(points)) * scatter)))
    out = REPLICATES // 20
    gain = float(_gain(*_fitted(times, losses[None]))[0])
    low, high = min(gain, float(gains[out])), max(gain, float(gains[-out - 1]))
    if limit <= 0:
        high = max(high, _gain_of_line(times, losses))
    return LossForecast(
        gain=gain,
        low=low,
        high=high,
        limit=float(limit),
        exponent=float(exponent),
        points=len(points),
        first_step=points[0][0],
        last_step=last,
        height=float(height),
    )


def _gain_of_line(times: Rows, losses: Rows) -> float:
    """Return what the later half of the points would bring if it went on as a straight line.

    No loss falls below 0.
    """
    half = slice(len(times) // 2, None)
    centred = times[half] - times[half].mean()
    slope = losses[half] @ centred / (centred @ centred)
    return min(1.0, float(-slope * (MORE - 1.0) / max(losses[-1], 1e-12)))


def _scatter(residuals: Rows, losses: Rows, *, falls: bool) -> Rows:
    """Return `REPLICATES` rows of scatter like that of the curve around its course.

    Around the flat line that stands for a rising curve, the rise itself would count as scatter;
    there it is normal, and as wide as the second differences say.
    """
    # Python's generator: to load numpy's takes 2 MB in a live page that has 60.
    random, size = Random(FORECAST_SEED), (REPLICATES, len(losses))
    count = math.prod(size)
    if falls:
        drawn: Rows = residuals[random.choices(range(len(residuals)), k=count)]
        return drawn.reshape(size)
    normal: Rows = np.array([random.gauss() for _ in range(count)])
    scaled: Rows = noise_of(losses.tolist()) * normal.reshape(size)
    return scaled


def _widened(points: int) -> float:
    """Return by how much the scatter around a fit of three numbers is to be enlarged.

    The fit has made it small, and of few points it is itself uncertain (Student's t).
    """
    left = points - 3
    return math.sqrt(points / left) * (1.0 + 1.5 / left)


def _usable(
    curve: Sequence[tuple[int, float]], warmup: int
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Return the later half of the curve and its later three quarters, after the warm-up."""
    finite = [(step, loss) for step, loss in curve if math.isfinite(loss) and step > 0]
    half, most = (_since(finite, share, warmup) for share in FROM)
    return half, most


def _since(
    curve: list[tuple[int, float]], share: float, warmup: int
) -> list[tuple[int, float]]:
    first = max(share * curve[-1][0], warmup) if curve else 0
    later = [point for point in curve if point[0] >= first]
    return later if later and later[-1][0] > later[0][0] else []


def _fitted(times: Rows, losses: Rows) -> tuple[Rows, Rows, Rows]:
    """Return limit, height and exponent of each row of `losses` (replicates, points)."""
    exponents = np.full(len(losses), EXPONENTS[0])
    error, limit, height = _fitted_with(times, losses, exponents)

    def try_exponents(tried: Rows) -> None:
        nonlocal exponents, error, limit, height
        found = _fitted_with(times, losses, tried)
        better = found[0] < error
        exponents = np.where(better, tried, exponents)
        error, limit, height = (
            np.where(better, new, old)
            for new, old in zip(found, (error, limit, height), strict=True)
        )

    for exponent in EXPONENTS[1:]:
        try_exponents(np.full(len(losses), exponent))
    distance = EXPONENTS[1] / EXPONENTS[0]
    for _ in range(HALVINGS):
        distance = math.sqrt(distance)
        centre = exponents
        try_exponents(np.minimum(centre * distance, EXPONENTS[-1]))
        try_exponents(np.maximum(centre / distance, EXPONENTS[0]))
    return limit, height, exponents


def _fitted_with(times: Rows, losses: Rows, exponents: Rows) -> tuple[Rows, Rows, Rows]:
    """Return error, limit and height of each row, with the exponent given for it."""
    shape = times ** -exponents[:, None]
    centred = shape - shape.mean(axis=1, keepdims=True)
    height = (losses * centred).sum(axis=1) / (centred**2).sum(axis=1)
    height = np.maximum(0.0, height)
    limit = losses.mean(axis=1) - height * shape.mean(axis=1)
    through_zero = (losses * shape).sum(axis=1) / (shape**2).sum(axis=1)
    height = np.where(limit < 0, through_zero, height)
    limit = np.maximum(0.0, limit)
    missed = losses - limit[:, None] - height[:, None] * shape
    return (missed**2).sum(axis=1), limit, height


def _gain(limit: Rows, height: Rows, exponent: Rows) -> Rows:
    """Return what the steps from 1 to `MORE` bring, as a share of the loss at 1."""
    now = np.maximum(limit + height, 1e-12)
    gained: Rows = height * (1.0 - MORE**-exponent) / now
    return gained


FEWEST_VALIDATIONS = 4
FLAT_LOSS = 0.005
MOST_NOISE_OF_GAIN = 0.01
FLAT_BLEU = 0.2
MOST_BLEU_NOISE = 1.0
CHANCE_OF_GAIN = 0.05


@dataclass(frozen=True)
class RecentGain:
    """The last third of the validation curve against all before, and what counts as flat.

    `difference` compares the best evaluations of both sentence by sentence, if their losses
    were kept. `misfit` says that nothing can forecast this curve: it fell and then stayed flat.
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
        chance = self.difference is not None and self.difference.p >= CHANCE_OF_GAIN
        return self.tail.gain >= self.flat_below and chance and not self.levelling

    @property
    def bleu_rose(self) -> bool:
        """Return whether BLEU rose by more than its 95 % interval allows for chance."""
        return self.bleu is not None and self.bleu.gain >= self.bleu_flat_below

    @property
    def improved(self) -> list[str]:
        """Return in words what still improved by enough to train on."""
        words = []
        fell = self.tail.gain >= self.flat_below and not self.uncertain
        if fell and not self.levelling:
            words.append(f"the validation loss still fell by {percent(self.relative_gain)}")
        if self.bleu is not None and self.bleu_rose:
            words.append(f"BLEU still rose by {self.bleu.gain:.1f}")
        return words


def recent_gain_of(run: RunView) -> RecentGain:
    """Measure the last third of the curves; there must be three validations at least."""
    losses = loss_curve(run.validations)
    tail = tail_of(losses)
    known = compare_steps(run.sentence_losses, [tail.within_step], tail.before_step)
    difference = known.get(tail.within_step)
    flat_below = FLAT_LOSS * tail.before
    if difference is None:
        noise = noise_of([loss for _, loss in losses])
        flat_below = max(flat_below, min(noise, MOST_NOISE_OF_GAIN * tail.before))
    bleu, bleu_flat_below = _bleu(run.validations)
    expected = forecast(losses, _warmup(run))
    # What the fit still sees falling was already flat.
    misfit = bool(expected and tail.gain < flat_below and expected.low >= FLAT_LOSS)
    expected = None if misfit else expected
    return RecentGain(tail, flat_below, difference, bleu, bleu_flat_below, expected, misfit)


def _bleu(validations: Sequence[Validated]) -> tuple[Tail | None, float]:
    """Return the last third of BLEU, and how much of a rise may be chance."""
    scores = bleu_curve(validations)
    if len(scores) < FEWEST_VALIDATIONS:
        return None, FLAT_BLEU
    noise = min(MOST_BLEU_NOISE, noise_of([score for _, score in scores]))
    tail = tail_of([(step, -score) for step, score in scores])
    by_step = {event.step: event for event in validations}
    chance = _bleu_by_chance(by_step[tail.before_step], by_step[tail.within_step])
    return tail, max(FLAT_BLEU, noise, chance)


def _bleu_by_chance(before: Validated, within: Validated) -> float:
    """Return the rise of BLEU that the 95 % intervals of both scores explain as chance."""
    sides = []
    if half_interval(before) is not None:
        sides.append(before.bleu_high - before.bleu)
    if half_interval(within) is not None:
        sides.append(within.bleu - within.bleu_low)
    # Each score has its own error; on the same sentences, adding them up is on the safe side.
    return math.hypot(*sides)


def _warmup(run: RunView) -> int:
    schedule = schedule_of(run.config)
    return schedule.warmup_steps if schedule else 0
