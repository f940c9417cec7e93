"""Speed and hours over the number of machines: one picture in SVG that needs nothing else.

Both axes are in powers of two, so that twice the speed for twice the machines is a straight
line. The right axis shows hours: those of one machine divided by the speed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from unisono.cost_model.scenarios import Scenario, Scenarios
from unisono.report.drawing import Frame, path
from unisono.report.panel import Point, Span

WIDTH, HEIGHT = 760.0, 460.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 80.0, 96.0, 52.0
MOST_GRID_LINES = 13  # across the chart
COLUMN = 112.0  # width of a name in the legend
NEAREST = 22.0  # smallest distance of two numbers below the axis
PLOT_HUES = ("first", "second", "third", "fourth", "fifth")
STYLE = """
svg { --paper: #fbfaf7; --ink: #20242b; --soft: #5b6470; --grid: #e3e0d9;
  --first: #3a6291; --second: #b9561f; --third: #3f7d62; --fourth: #7a5ea8; --fifth: #8a6f14; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #15181d; --ink: #e4e5e7; --soft: #9aa3ae; --grid: #2c323b;
    --first: #7fabdc; --second: #e79a63; --third: #7dbf9d; --fourth: #b39fdd;
    --fifth: #d2b75a; }
}
.paper { fill: var(--paper); }
text { font: 13px system-ui, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  fill: var(--soft); }
.title { font-size: 16px; font-weight: 600; fill: var(--ink); }
.name { fill: var(--ink); }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--grid); } .one { stroke: var(--soft); }
.ideal { stroke: var(--soft); stroke-dasharray: 2 5; }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.ring { fill: var(--paper); stroke-width: 2.2; }
""" + "\n".join(f".{hue} {{ stroke: var(--{hue}); }}" for hue in PLOT_HUES)
DOTS = "\n".join(f".dot.{hue} {{ fill: var(--{hue}); }}" for hue in PLOT_HUES)


@dataclass(frozen=True)
class _Paper:
    """The frame of a panel over powers of two, placed between the margins of this picture."""

    frame: Frame

    def x(self, machines: float) -> float:
        """Return the place of a number of machines; a single one stands in the middle."""
        share = self.frame.span.percent(math.log2(machines)) / 100
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, speed: float) -> float:
        """Return the place of a speed."""
        return TOP + self.frame.top(math.log2(speed)) / 100 * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[Point]) -> str:
        """Return the line through points of machines and speed."""
        return path([(self.x(machines), self.y(speed)) for machines, speed in points])


def plot_of(found: Sequence[Scenarios], title: str) -> str:
    """Return the picture of some numbers of machines, the smallest of which is one."""
    speeds = [line.speedup for outlook in found for line in outlook.ways]
    most = found[-1].machines
    low, high = math.floor(math.log2(min(speeds))), math.ceil(math.log2(max(*speeds, most)))
    last = math.log2(most)
    span = Span(0.0, last) if last else Span(-0.5, 0.5)
    paper = _Paper(Frame(span, min(low, -1), max(high, 1)))
    hours = found[0].exact.hours
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'width="{WIDTH:g}" height="{HEIGHT:g}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title><style>{STYLE}\n{DOTS}</style>",
        f'<rect class="paper" width="{WIDTH:g}" height="{HEIGHT:g}"/>',
        _text(16, 28, title, "title"),
        *_grid(paper, hours, [outlook.machines for outlook in found]),
        *_curves(paper, found),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _grid(paper: _Paper, hours: float, machines: Sequence[int]) -> list[str]:
    right, ground = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    every = 1 + int(paper.frame.high - paper.frame.low) // MOST_GRID_LINES
    for power in range(int(paper.frame.low), int(paper.frame.high) + 1):
        if power % every:
            continue
        y, kind = paper.y(2.0**power), "grid" if power else "one"
        parts += [
            f'<path class="{kind}" d="M{LEFT:g} {y:.1f}H{right:g}"/>',
            _text(LEFT - 10, y + 4, _times(power), "end"),
            _text(right + 10, y + 4, _hours(hours / 2.0**power)),
        ]
    last = -NEAREST
    for count in machines:
        if (x := paper.x(count)) - last >= NEAREST:
            parts.append(_text(x, ground + 20, str(count), "middle"))
            last = x
    parts += [
        _text(LEFT, TOP - 14, "speed, one machine = 1"),
        _text(right + RIGHT - 16, TOP - 14, "hours of the run", "end"),
        _text((LEFT + right) / 2, ground + 40, "machines", "middle"),
    ]
    if len(machines) > 1:
        ends = [(1.0, 1.0), (float(machines[-1]), float(machines[-1]))]
        parts.append(f'<path class="ideal" d="{paper.path(ends)}"/>')
    return parts


def _curves(paper: _Paper, found: Sequence[Scenarios]) -> list[str]:
    """Draw each exchange, from one machine on; the one that is advised has a ring."""
    lines = {line.kind: line for outlook in found for line in outlook.ways}
    parts: list[str] = []
    for number, (kind, last) in enumerate(lines.items()):
        hue, left = PLOT_HUES[number % len(PLOT_HUES)], 16 + number * COLUMN
        points = [(1.0, 1.0)] + [
            (float(outlook.machines), line.speedup)
            for outlook in found[1:]
            for line in outlook.ways
            if line.kind == kind
        ]
        parts += [
            f'<path class="curve {hue}" d="M{left:g} 50h22"/>',
            _text(left + 28, 54, _name(last), "name"),
            f'<path class="curve {hue}" d="{paper.path(points)}"/>',
            *(_dot(paper, point, f"dot {hue}", 3.2) for point in points),
        ]
        parts += [
            _dot(paper, (outlook.machines, outlook.best.speedup), f"ring {hue}", 5.5)
            for outlook in found[1:]
            if outlook.best.kind == kind
        ]
    if len(found) > 1:
        left = 16 + len(lines) * COLUMN
        parts.append(_text(left, 54, "○ advised   ··· ideal"))
    return parts


def _times(power: int) -> str:
    return f"{2**power:,} ×" if power >= 0 else f"1/{2**-power} ×"


def _hours(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 100 else f"{hours:.3g} h"


def _name(line: Scenario) -> str:
    return line.exchange.strategy if line.exchange.local else line.exchange.name


def _dot(paper: _Paper, point: Point, kind: str, radius: float) -> str:
    x, y = paper.x(point[0]), paper.y(point[1])
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{marked}>{escape(words)}</text>'
