"""Points of a curve, made few enough to draw without losing what stands out."""

import math
from collections.abc import Sequence

Point = tuple[float, float]

MOST_POINTS = 600


def finite(points: Sequence[tuple[float, float | None]]) -> list[Point]:
    """Return the points whose value is a number."""
    return [(x, y) for x, y in points if y is not None and math.isfinite(y)]


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


def smoothed(points: Sequence[Point], stretches: int = 120) -> list[Point]:
    """Return the mean of each of `stretches` parts; nothing if there is little to smooth."""
    width = len(points) // stretches
    if width < 3:
        return []
    means = []
    for start in range(0, len(points), width):
        part = points[start : start + width]
        means.append((sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)))
    return means
