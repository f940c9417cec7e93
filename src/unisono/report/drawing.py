"""Draws panels: places in percent, and paths for SVG.

Paths hold the numbers themselves, as steps and values; `transform` puts them on a field of
1000 by 100, and the page stretches the field. So the script of the page reads values where
the browser reads lines, and each number is in the file once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.report.panel import Columns, Curve, Layer, Mark, Panel, Point, Span, labels, ticks

WIDTH, HEIGHT = 1000.0, 100.0
TICKS = {"tall": 5, "middle": 4, "low": 3}


@dataclass(frozen=True)
class Frame:
    """Maps values to heights: percent from the top."""

    span: Span
    low: float
    high: float

    def top(self, value: float) -> float:
        """Return the height of a value in percent from the top, cut at the edges."""
        share = (value - self.low) / (self.high - self.low)
        return 100 * (1 - min(1.0, max(0.0, share)))

    @property
    def transform(self) -> str:
        """Return the SVG transform from steps and values to the field."""
        wide = WIDTH / (self.span.high - self.span.low)
        tall = HEIGHT / (self.high - self.low)
        places = (wide, 0, 0, -tall, -wide * self.span.low, tall * self.high)
        return f"matrix({' '.join(f'{place:.9g}' for place in places)})"


@dataclass(frozen=True)
class Tick:
    """A number beside an axis and its place in percent."""

    label: str
    place: float


@dataclass(frozen=True)
class Label:
    """The text of a mark, its position in percent, and its side of the point."""

    words: str
    left: float
    top: float
    side: str
    below: bool


@dataclass(frozen=True)
class DrawnLine:
    """What is drawn of a curve or a layer, and what is written beside its name."""

    name: str
    style: str
    path: str
    shown: str
    digits: int
    unit: str
    band: str = ""
    dots: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Drawing:
    """Everything the page needs of a panel."""

    panel: Panel
    transform: str
    ticks: tuple[Tick, ...]
    curves: tuple[DrawnLine, ...]
    layers: tuple[DrawnLine, ...]
    rings: str
    ring_style: str
    labels: tuple[Label, ...]
    spoken: str

    @property
    def named(self) -> tuple[DrawnLine, ...]:
        """Return the curves and layers in the order of the legend."""
        return self.layers + self.curves


def draw(panel: Panel, span: Span) -> Drawing:
    """Draw a panel that is not empty."""
    frame = _frame(panel, span)
    values = ticks(frame.low, frame.high, TICKS[panel.height])
    marks = [mark for mark in panel.marks if span.holds(mark.point[0])]
    return Drawing(
        panel=panel,
        transform=frame.transform,
        ticks=tuple(
            Tick(label, frame.top(value))
            for value, label in zip(values, labels(values), strict=True)
        ),
        curves=tuple(_curve(curve) for curve in panel.curves if curve.points),
        layers=_layers(panel.columns) if panel.columns else (),
        rings="".join(_dot(mark.point) for mark in marks),
        ring_style=marks[0].style if marks else "",
        labels=tuple(_label(mark, frame) for mark in marks),
        spoken=_spoken(panel),
    )


def _frame(panel: Panel, span: Span) -> Frame:
    if panel.bounds:
        low, high = panel.bounds
    elif panel.columns:
        low, high = 0.0, 1.05 * max(map(sum, zip(*_heights(panel.columns), strict=True)))
    else:
        low, high = min(y for _, y in panel.points), max(y for _, y in panel.points)
        low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
    if not high > low:
        low, high = low - abs(low or 1) * 0.1, high + abs(high or 1) * 0.1
    return Frame(span, low, high)


def _heights(columns: Columns) -> list[tuple[float, ...]]:
    return [layer.heights for layer in columns.layers]


def _number(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.9g}"


def _place(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def path(points: Sequence[Point]) -> str:
    """Return the SVG path through some points."""
    return "M" + "L".join(map(_place, points))


def _dot(point: Point) -> str:
    # A line of length 0 with round caps stays round however the field is stretched.
    return f"M{_place(point)}h0"


def _curve(curve: Curve) -> DrawnLine:
    there = [(x, high) for x, _, high in curve.band]
    back = [(x, low) for x, low, _ in reversed(curve.band)]
    dots = curve.points if curve.dots or len(curve.points) == 1 else ()
    return DrawnLine(
        name=curve.name,
        style=curve.style,
        path=path(curve.points),
        shown=curve.last,
        digits=curve.digits,
        unit=curve.unit,
        band=path(there + back) + "Z" if curve.band else "",
        dots="".join(map(_dot, dots)),
        dashed=curve.dashed,
    )


def _layers(columns: Columns) -> tuple[DrawnLine, ...]:
    """Return each layer from the ground up to its top: those above are drawn before it."""
    tops = [0.0] * (len(columns.edges) - 1)
    lines = []
    for layer in columns.layers:
        tops = [top + height for top, height in zip(tops, layer.heights, strict=True)]
        lines.append(_layer(layer, columns.edges, tops))
    return tuple(lines)


def _layer(layer: Layer, edges: Sequence[float], tops: Sequence[float]) -> DrawnLine:
    columns = "".join(
        f"V{_number(top)}H{_number(edge)}" for top, edge in zip(tops, edges[1:], strict=True)
    )
    path = f"M{_number(edges[0])} 0{columns}V0Z"
    return DrawnLine(layer.name, layer.style, path, layer.shown, layer.digits, layer.unit)


def _label(mark: Mark, frame: Frame) -> Label:
    left = frame.span.percent(mark.point[0])
    side = "left" if left > 50 else "right"
    return Label(mark.label, left, frame.top(mark.point[1]), side, mark.below)


def _spoken(panel: Panel) -> str:
    ends = [f"{curve.name} {curve.last} {curve.unit}".strip() for curve in panel.curves]
    if panel.columns:
        ends = [f"{layer.name} {layer.shown} {layer.unit}" for layer in panel.columns.layers]
    told = "; ".join([*ends, *(mark.label for mark in panel.marks)])
    return f"{panel.title}, {panel.when}: {told}"
