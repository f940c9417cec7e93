"""What a panel shows: curves or columns over the steps, in numbers; drawing comes later."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.report.axis import Bin, Point

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
    """A point that deserves a ring and a word."""

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
        """Return all points of all curves."""
        return [point for curve in self.curves for point in curve.points]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to draw."""
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
