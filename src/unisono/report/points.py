"""Points of a curve, made few enough to draw without losing what stands out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

MOST_BINS = 200  # of what is recorded at every update
MOST_POINTS = 400  # of what is recorded now and then


@dataclass(frozen=True)
class Bin:
    """Some points in a row: where they lie, their mean, the lowest and the highest value."""

    x: float
    mean: float
    low: float
    high: float


def finite(points: Sequence[tuple[float, float | None]]) -> list[Point]:
    """Return the points whose value is a number."""
    return [(x, y) for x, y in points if y is not None and math.isfinite(y)]


def bin_width(count: int, most: int = MOST_BINS) -> int:
    """Return how many of `count` points in a row make a bin if there are at most `most`."""
    return max(1, math.ceil(count / most))


def binned(points: Sequence[Point], most: int = MOST_BINS) -> list[Bin]:
    """Return at most `most` bins, all of as many points but for the last."""
    width = bin_width(len(points), most)
    bins = []
    for start in range(0, len(points), width):
        part = points[start : start + width]
        values = [y for _, y in part]
        middle = sum(x for x, _ in part) / len(part)
        bins.append(Bin(middle, sum(values) / len(part), min(values), max(values)))
    return bins


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most `most` points, in order, with the lowest and highest of each stretch."""
    if len(points) <= most:
        return list(points)
    width = math.ceil(len(points) / (most // 2))
    kept: list[Point] = []
    for start in range(0, len(points), width):
        stretch = points[start : start + width]
        extremes = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept += sorted(extremes)
    return kept
