"""Where a learning curve is going: a + b · step^-c, fitted to its later part.

The three numbers are found by least squares: for each of many exponents c the best a and b
follow from one formula. The curve may come down to a limit (a), but never below 0, and never
go up again (b): whatever rises is fitted by a flat line, from which nothing is to be expected.
How sure the forecast is comes from the scatter around the fit: it is added to the fitted curve
anew, in another order, many times, and every such curve is fitted again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 5
FROM = 0.25  # of the last step: what comes before follows another law
REPLICATES = 400
SEED = 1
MORE = 1.5
EXPONENTS = np.geomspace(0.05, 4.0, 80)


@dataclass(frozen=True)
class Forecast:
    """What half as many steps again would bring, as a share of the loss: above 0 is better.

    `low` and `high` are the 90 % interval, `limit` is where the curve ends if it goes on for
    ever, and `points` how many evaluations it was fitted to.
    """

    gain: float
    low: float
    high: float
    limit: float
    exponent: float
    points: int


def forecast(curve: Sequence[tuple[int, float]], warmup_steps: int = 0) -> Forecast | None:
    """Fit the curve after the warm-up and its first quarter; None if that is too little."""
    points = _usable(curve, warmup_steps)
    if len(points) < FEWEST:
        return None
    last = points[-1][0]
    times = np.array([step / last for step, _ in points])
    losses = np.array([loss for _, loss in points])
    limit, height, exponent = (row[0] for row in _fitted(times, losses[None]))
    smooth = limit + height * times**-exponent
    # Three numbers were chosen to make the residuals small: they are this much too small.
    spread = math.sqrt(len(points) / max(1, len(points) - 3))
    residuals = spread * (losses - smooth)
    drawn = np.random.default_rng(SEED).choice(residuals, size=(REPLICATES, len(points)))
    gains = np.sort(_gain(*_fitted(times, smooth + drawn)))
    out = REPLICATES // 20
    gain = float(_gain(*_fitted(times, losses[None]))[0])
    low, high = float(gains[out]), float(gains[-out - 1])
    return Forecast(
        gain, min(low, gain), max(high, gain), float(limit), float(exponent), len(points)
    )


def _usable(curve: Sequence[tuple[int, float]], warmup: int) -> list[tuple[int, float]]:
    finite = [(step, loss) for step, loss in curve if math.isfinite(loss) and step > 0]
    if not finite:
        return []
    first = max(FROM * finite[-1][0], warmup)
    later = [point for point in finite if point[0] >= first]
    return later if later[-1][0] > later[0][0] else []


def _fitted(
    times: NDArray[np.float64], losses: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return limit, height and exponent of each row of `losses` (replicates, points)."""
    errors, limits, heights = [], [], []
    for exponent in EXPONENTS:
        shape = times**-exponent
        centred = shape - shape.mean()
        height = np.maximum(0.0, losses @ centred / (centred @ centred))
        limit = losses.mean(axis=1) - height * shape.mean()
        below = limit < 0
        height = np.where(below, losses @ shape / (shape @ shape), height)
        limit = np.where(below, 0.0, limit)
        missed = losses - limit[:, None] - height[:, None] * shape
        errors.append((missed**2).sum(axis=1))
        limits.append(limit)
        heights.append(height)
    best, rows = np.argmin(errors, axis=0), np.arange(len(losses))
    return np.array(limits)[best, rows], np.array(heights)[best, rows], EXPONENTS[best]


def _gain(
    limit: NDArray[np.float64], height: NDArray[np.float64], exponent: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what the steps from 1 to `MORE` bring, as a share of the loss at 1."""
    now = np.maximum(limit + height, 1e-12)
    gained: NDArray[np.float64] = height * (1.0 - MORE**-exponent) / now
    return gained
