"""When a rate changed for good. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

MOST_POINTS = 240


@dataclass(frozen=True)
class Change:
    """From `before` to `after` at `place`, an index of what was looked at."""

    place: int
    before: float
    after: float


def find_drop(values: Sequence[float], *, factor: float, fewest: int) -> Change | None:
    """Return the place from which on all but a few values are lower by `factor`, or None.

    `fewest` values have to lie on either side, and nearly all before above nearly all after.
    """
    stride = max(1, len(values) // MOST_POINTS)
    thin = [median(values[i : i + stride]) for i in range(0, len(values), stride)]
    least = max(2, -(-fewest // stride))
    if len(thin) < 2 * least:
        return None
    place = min(range(least, len(thin) - least + 1), key=lambda p: _misfit(thin, p))
    before, after = thin[:place], thin[place:]
    high, low = median(before), median(after)
    clear = quantiles(before, n=10)[0] > quantiles(after, n=10)[-1]
    if low * factor > high or not clear:
        return None
    return Change(place * stride, high, low)


def _misfit(values: Sequence[float], place: int) -> float:
    """Return how badly two levels, one before and one after `place`, describe the values."""
    return _spread(values[:place]) + _spread(values[place:])


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)
