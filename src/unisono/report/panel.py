"""What a panel shows, in numbers: points, axes, curves and columns; drawing comes later."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.records.view import RunView

Point = tuple[float, float]

MOST_BINS = 200  # of what is recorded at every update
MOST_CURVE_POINTS = 400  # of what is recorded now and then


@dataclass(frozen=True)
class Bin:
    """Consecutive points: their middle, their mean, the lowest and the highest value."""

    x: float
    mean: float
    low: float
    high: float


def finite(points: Sequence[tuple[float, float | None]]) -> list[Point]:
    """Return the points whose value is a number."""
    return [(x, y) for x, y in points if y is not None and math.isfinite(y)]


def bin_width(count: int, most: int = MOST_BINS) -> int:
    """Return how many of `count` points make a bin if there are at most `most` bins."""
    return max(1, math.ceil(count / most))


def binned(points: Sequence[Point], most: int = MOST_BINS) -> list[Bin]:
    """Return at most `most` bins; all but the last have the same number of points."""
    width = bin_width(len(points), most)
    bins = []
    for start in range(0, len(points), width):
        part = points[start : start + width]
        values = [y for _, y in part]
        middle = sum(x for x, _ in part) / len(part)
        bins.append(Bin(middle, sum(values) / len(part), min(values), max(values)))
    return bins


def thinned(points: Sequence[Point], most: int = MOST_CURVE_POINTS) -> list[Point]:
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


FROM_ZERO = 0.3  # of the axis may be empty before the first record
EDGE = 4  # percent


@dataclass(frozen=True)
class Span:
    """The steps from the left edge of every panel to the right, or another `unit` of time."""

    low: float
    high: float
    unit: str = "step"

    def percent(self, step: float) -> float:
        """Return the place of a step from the left, in percent of the width."""
        return 100 * (step - self.low) / (self.high - self.low)

    def holds(self, step: float) -> bool:
        """Return whether a step lies on the axis."""
        return self.low <= step <= self.high


def span_of(run: RunView) -> Span:
    """Return the steps of a run, from 0 unless that would leave much of the axis empty."""
    return span_over(
        [step.step for step in run.steps] + [event.step for event in run.validations]
    )


def span_over(told: Sequence[float]) -> Span:
    """Return the steps that hold all those, from 0 unless that would leave much empty."""
    if not told:
        return Span(0.0, 1.0)
    first, last = float(min(told)), float(max(told))
    low = 0.0 if first <= FROM_ZERO * last else first
    return Span(low, max(last, low + 1.0))


def step_ticks(span: Span, about: int = 6) -> list[float]:
    """Return round steps along the axis, but none at its left end, which shows the unit."""
    whole = [step for step in ticks(span.low, span.high, about) if step == int(step)]
    return [step for step in whole if step == 0 or span.percent(step) > EDGE]


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers, about `about` of them, that lie within `low` and `high`."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= 0.8 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def labels(values: list[float]) -> list[str]:
    """Write all ticks with the same number of digits, enough to tell them apart."""
    if not values:
        return []
    largest = max(abs(value) for value in values)
    step = min((b - a for a, b in zip(values, values[1:], strict=False)), default=largest)
    if 0 < largest < 0.0001:
        return [_scientific(value) for value in values]
    digits = max(0, min(6, -math.floor(math.log10(step) + 1e-9))) if step > 0 else 0
    if step > 0 and abs(step * 10**digits - round(step * 10**digits)) > 1e-6:
        digits += 1
    return [f"{value:,.{digits}f}" for value in values]


def _scientific(value: float) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


BandPoint = tuple[float, float, float]


@dataclass(frozen=True)
class Curve:
    """One curve, with a name unless the title of its panel says it all.

    `style` is a class of the style sheet. Values are written with `digits` decimals and `unit`.
    `band` holds step, lowest and highest value, where a point stands for many.
    """

    name: str
    points: Sequence[Point]
    style: str
    digits: int = 3
    unit: str = ""
    band: Sequence[BandPoint] = ()
    dots: bool = False
    dashed: bool = False

    @property
    def last(self) -> str:
        """Return the value at the end, as it is written."""
        return f"{self.points[-1][1]:,.{self.digits}f}" if self.points else ""


@dataclass(frozen=True)
class Layer:
    """One part of stacked columns: its height in each, and what is written beside its name."""

    name: str
    style: str
    heights: tuple[float, ...]
    shown: str
    digits: int = 3
    unit: str = ""


@dataclass(frozen=True)
class Columns:
    """Stacked columns between `edges`, one more than columns; the first layer is lowest."""

    edges: tuple[float, ...]
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Mark:
    """A point to mark with a ring and a few words."""

    point: Point
    label: str
    style: str
    below: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves, or columns, over the steps. `when` says what the values beside the names are.

    `bounds` cuts the vertical axis; by default it fits the points. `height` is a class of the
    style sheet: tall, middle or low. `note` is written under the title.
    """

    title: str
    unit: str
    curves: Sequence[Curve] = ()
    columns: Columns | None = None
    marks: Sequence[Mark] = ()
    bounds: tuple[float, float] | None = None
    note: str = ""
    height: str = "middle"
    when: str = "at the end"

    @property
    def points(self) -> list[Point]:
        return [point for curve in self.curves for point in curve.points]

    @property
    def is_empty(self) -> bool:
        return not self.points and (self.columns is None or len(self.columns.edges) < 2)


def mean_curve(
    name: str, bins: Sequence[Bin], style: str, digits: int = 3, unit: str = ""
) -> Curve:
    """Return the means of the bins, and how far their points lie apart."""
    points = [(b.x, b.mean) for b in bins]
    wide = any(b.high > b.low for b in bins)
    band = [(b.x, b.low, b.high) for b in bins] if wide else []
    return Curve(name, points, style, digits, unit, band)


def room(points: Sequence[Point], *, below: float, above: float) -> tuple[float, float] | None:
    """Return bounds that leave room for a label, as shares of the height of the curve."""
    if not points:
        return None
    low, high = min(y for _, y in points), max(y for _, y in points)
    height = (high - low) or abs(high) or 1.0
    return low - below * height, high + above * height


def digits_for(largest: float, wanted: int = 3) -> int:
    """Return the decimals that show `wanted` digits of numbers up to `largest`."""
    digits, size = wanted - 1, abs(largest)
    while digits and size >= 10:
        digits, size = digits - 1, size / 10
    while 0 < size < 1 and digits < 6:
        digits, size = digits + 1, size * 10
    return digits
