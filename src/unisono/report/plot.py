"""Line plots as SVG. Colours and fonts come from the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unisono.report.axis import labels, ticks
from unisono.report.points import Point

WIDTH, HEIGHT = 480.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 58.0, 26.0, 42.0


@dataclass(frozen=True)
class Series:
    """One curve. `style` is a class of the style sheet; `end` is written where it ends."""

    name: str
    points: Sequence[Point]
    style: str
    end: str = ""
    dots: bool = False


@dataclass(frozen=True)
class Mark:
    """A point that deserves a ring and a word."""

    point: Point
    label: str
    style: str
    below: bool = False


@dataclass(frozen=True)
class Plot:
    """What to draw over the steps from 0 to `last_step`.

    `bounds` cuts the vertical axis; by default it fits the points. `lines` are steps at which
    the run was started again. `note` is written under the title.
    """

    title: str
    unit: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    last_step: float = 0.0
    lines: Sequence[float] = ()
    bounds: tuple[float, float] | None = None
    note: str = ""

    @property
    def points(self) -> list[Point]:
        """Return all points of all curves."""
        return [point for series in self.series for point in series.points]


@dataclass(frozen=True)
class Frame:
    """From values to places on the paper."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """Return the place of a step from the left."""
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a value from the top, cut at the edges."""
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM)


def draw(plot: Plot) -> Markup:
    """Draw a plot; one without points says so."""
    if not plot.points:
        return Markup('<p class="nothing">{}</p>').format(plot.note or "Nothing was recorded.")
    frame = _frame(plot)
    parts = [
        *_grid(plot, frame),
        *(_line(frame, step) for step in plot.lines if frame.x_low < step < frame.x_high),
        *(_curve(series, frame) for series in plot.series if series.points),
        *(_mark(mark, frame) for mark in plot.marks),
        *_ends(plot, frame),
        *_legend(plot),
    ]
    size = f"0 0 {WIDTH:g} {HEIGHT:g}"
    opening = Markup('<svg class="plot" viewBox="{}" role="img" aria-label="{}">')
    return opening.format(size, _spoken(plot)) + Markup("").join(parts) + Markup("</svg>")


def _spoken(plot: Plot) -> str:
    ends = [f"{series.name} ends at {series.end}" for series in plot.series if series.end]
    return f"{plot.title}: {'; '.join(ends + [mark.label for mark in plot.marks])}"


def _frame(plot: Plot) -> Frame:
    x_high = max(plot.last_step, *(x for x, _ in plot.points), 1.0)
    if plot.bounds:
        y_low, y_high = plot.bounds
    else:
        y_low, y_high = min(y for _, y in plot.points), max(y for _, y in plot.points)
        y_low, y_high = y_low - 0.04 * (y_high - y_low), y_high + 0.04 * (y_high - y_low)
    if not y_high > y_low:
        y_low, y_high = y_low - abs(y_low or 1) * 0.1, y_high + abs(y_high or 1) * 0.1
    return Frame(0.0, x_high, y_low, y_high)


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, style, text)


def _rule(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    form = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>'
    return Markup(form).format(x1, y1, x2, y2, style)


def _grid(plot: Plot, frame: Frame) -> list[Markup]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    values = ticks(frame.y_low, frame.y_high, 5)
    for value, label in zip(values, labels(values), strict=True):
        parts.append(_rule(LEFT, frame.y(value), right, frame.y(value), "grid"))
        parts.append(_text(LEFT - 7, frame.y(value) + 3.8, label, "tick end"))
    steps = [step for step in ticks(frame.x_low, frame.x_high, 4) if step == int(step)]
    for step in steps:
        parts.append(_rule(frame.x(step), bottom, frame.x(step), bottom + 4, "axis"))
        parts.append(_text(frame.x(step), bottom + 17, f"{int(step):,}", "tick middle"))
    parts.append(_rule(LEFT, bottom, right, bottom, "axis"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 6, "step", "tick middle"))
    return parts


def _line(frame: Frame, step: float) -> Markup:
    x = frame.x(step)
    return _rule(x, TOP, x, HEIGHT - BOTTOM, "restart")


def _curve(series: Series, frame: Frame) -> Markup:
    places = [(frame.x(x), frame.y(y)) for x, y in series.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    drawn = Markup('<path d="{}" class="curve {}"/>').format(path, series.style)
    if series.dots or len(places) == 1:
        dot = Markup(
            '<circle cx="{:.1f}" cy="{:.1f}" r="2.4" class="dot {}"><title>{}</title></circle>'
        )
        for (x, y), (step, value) in zip(places, series.points, strict=True):
            drawn += dot.format(x, y, series.style, f"step {step:,.0f}: {value:.4g}")
    return drawn


def _mark(mark: Mark, frame: Frame) -> Markup:
    x, y = frame.x(mark.point[0]), frame.y(mark.point[1])
    ring = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" class="ring {}"/>')
    side = "end" if x > (LEFT + WIDTH - RIGHT) / 2 else "start"
    place = (x + (7 if side == "start" else 5), y + 19 if mark.below else y - 10)
    return ring.format(x, y, mark.style) + _text(*place, mark.label, f"mark {side}")


def _ends(plot: Plot, frame: Frame) -> list[Markup]:
    """Write each curve's last value to its right, moved apart where they would touch."""
    ends = [(frame.y(s.points[-1][1]), s) for s in plot.series if s.end and s.points]
    parts, lowest = [], 0.0
    for y, series in sorted(ends, key=lambda end: end[0]):
        lowest = max(y + 3.8, lowest + 13)
        parts.append(_text(WIDTH - RIGHT + 9, lowest, series.end, f"last {series.style}"))
    return parts


def _legend(plot: Plot) -> list[Markup]:
    named = [series for series in plot.series if series.name]
    if len(named) < 2:
        return []
    parts, left = [], LEFT
    for series in named:
        parts.append(_rule(left, 8, left + 14, 8, f"key {series.style}"))
        parts.append(_text(left + 19, 12, series.name, "tick"))
        left += 19 + 6.2 * len(series.name) + 16
    return parts
