"""Panels of time: how long updates took, and where each second of them went."""

from collections.abc import Sequence

from unisono.diagnose.evidence.ledger import Ledger
from unisono.records.view import RunView
from unisono.report.panel import Columns, Layer, Panel, digits_for, mean_curve
from unisono.report.parts import PARTS, parts_of_row
from unisono.report.points import Bin, Point, bin_width, binned, finite
from unisono.units import duration

USUAL = 0.98  # of the updates or columns lie on the paper, at least


def time_panel(run: RunView) -> Panel:
    """Show the seconds of each update; a few very slow ones may lie above the paper."""
    times = finite([(step.step, step.seconds) for step in run.steps])
    if not times:
        return Panel("Step time", "")
    bins, top = binned(times), ceiling([seconds for _, seconds in times])
    unit, factor = _unit(top)
    scaled = [Bin(b.x, factor * b.mean, factor * b.low, factor * b.high) for b in bins]
    curve = mean_curve("", scaled, "first", digits_for(factor * top), unit)
    return Panel(
        title="Step time",
        unit="seconds" if unit == "s" else "milliseconds",
        curves=[curve],
        bounds=(0.0, factor * top or 1.0),
        note=_above(times, top),
        height="low",
    )


def parts_panel(ledger: Ledger) -> Panel:
    """Show the parts of an update over the run; the first of each start is left out."""
    rows = ledger.usual
    if not rows:
        return Panel("Over the run", "")
    parts = [parts_of_row(row) for row in rows]
    width = bin_width(len(rows))
    starts = range(0, len(rows), width)
    edges = [rows[0].step - 1.0, *(float(rows[s : s + width][-1].step) for s in starts)]
    totals = [sum(part.values()) for part in parts]
    mean = [sum(totals[s : s + width]) / len(totals[s : s + width]) for s in starts]
    top = ceiling(mean)
    unit, factor = _unit(top)
    digits = digits_for(factor * top, 4)
    layers = []
    for name, words in PARTS.items():
        seconds = [part[name] for part in parts]
        heights = tuple(
            factor * sum(seconds[s : s + width]) / len(seconds[s : s + width]) for s in starts
        )
        shown = f"{factor * sum(seconds) / len(seconds):,.{digits}f}"
        layers.append(Layer(words, name, heights, shown, digits, unit))
    return Panel(
        title="Over the run",
        unit=("seconds" if unit == "s" else "milliseconds") + " of an update",
        columns=Columns(tuple(edges), tuple(layer for layer in layers if any(layer.heights))),
        bounds=(0.0, factor * top or 1.0),
        height="tall",
        when="on average",
    )


def ceiling(values: Sequence[float]) -> float:
    """Return where the paper ends: above all values, or above all but a few far out."""
    ordered = sorted(values)
    usual, most = ordered[int(USUAL * (len(ordered) - 1))], ordered[-1]
    return 1.1 * (most if most < 2 * usual else 1.3 * usual)


def _unit(top: float) -> tuple[str, float]:
    return ("s", 1.0) if top >= 1 else ("ms", 1000.0)


def _above(times: Sequence[Point], top: float) -> str:
    cut = [point for point in times if point[1] > top]
    if not cut:
        return ""
    slowest = max(cut, key=lambda point: point[1])
    return (
        f"{len(cut):,} above the edge; the slowest is step {slowest[0]:,.0f} "
        f"with {duration(slowest[1])}"
    )
