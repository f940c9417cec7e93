"""Panels of loss, BLEU and learning rate, and of the time that updates took."""

import math
from collections.abc import Sequence

from unisono.diagnose.evidence.curve import bleu_curve, computed_rates, loss_curve, schedule_of
from unisono.diagnose.evidence.ledger import Ledger
from unisono.records.view import RunView
from unisono.report.panel import (
    MOST_BINS,
    Bin,
    Columns,
    Curve,
    Layer,
    Mark,
    Panel,
    Point,
    bin_width,
    binned,
    digits_for,
    finite,
    mean_curve,
    room,
    thinned,
)
from unisono.report.step_bars import BAR_PARTS, parts_of_row
from unisono.units import duration

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_DOTS = 60


def learning_panels(run: RunView) -> list[Panel]:
    """Return the panels of loss, BLEU and learning rate; some may be empty."""
    return [loss_panel(run), bleu_panel(run), rate_panel(run)]


def loss_panel(
    run: RunView, training: Sequence[Bin] | None = None, expected: Curve | None = None
) -> Panel:
    """Show training and validation loss, the clean sample, and the best validation.

    `training` is the training loss where `run` does not hold all updates; `expected` goes on
    with the validation loss.
    """
    bins = training
    if bins is None:
        bins = binned(finite([(step.step, step.loss) for step in run.steps]))
    validation: list[Point] = [(step, loss) for step, loss in loss_curve(run.validations)]
    curves = [mean_curve("training", bins, "first")] if bins else []
    marks = []
    if validation:
        best = min(validation, key=lambda point: point[1])
        label = f"best {best[1]:.3f} at {best[0]:,.0f}"
        marks.append(Mark(best, label, "second", below=True))
        dots = len(validation) <= MOST_DOTS
        curves.append(Curve("validation", thinned(validation), "second", dots=dots))
    curves += [expected] if expected else []
    curves += _clean_sample(run)
    points = [point for curve in curves for point in curve.points]
    return Panel(
        title="Loss",
        unit="nats per target token, lower is better",
        curves=curves,
        marks=marks,
        bounds=room(points, below=0.16, above=0.04),
        height="tall",
    )


def _clean_sample(run: RunView) -> list[Curve]:
    measured = [(v.step, v.clean_training_loss) for v in run.validations]
    points = [point for point in finite(measured) if point[1] >= 0]
    name = "training sample as in validation"
    return [Curve(name, thinned(points), "third")] if points else []


def bleu_panel(run: RunView) -> Panel:
    """Show BLEU on the validation set with its interval, and the best."""
    scores: list[Point] = [(step, score) for step, score in bleu_curve(run.validations)]
    if not scores:
        return Panel("BLEU on the validation set", "")
    best = max(scores, key=lambda point: point[1])
    band = [
        (float(v.step), v.bleu_low, v.bleu_high)
        for v in run.validations
        if 0 <= v.bleu_low <= v.bleu <= v.bleu_high
    ]
    shown = band if 1 < len(band) <= MOST_BINS else []
    curve = Curve("", thinned(scores), "second", 1, band=shown, dots=True)
    edges = [(x, y) for x, low, high in shown for y in (low, high)]
    return Panel(
        title="BLEU on the validation set",
        unit="0 to 100, higher is better" + ("; shade: 95 % interval" if shown else ""),
        curves=[curve],
        marks=[Mark(best, f"best {best[1]:.1f} at {best[0]:,.0f}", "second", below=True)],
        bounds=room([*scores, *edges], below=0.12, above=0.06),
    )


def rate_panel(run: RunView, known: list[Point] | None = None) -> Panel:
    """Show the learning rate, its peak and the end of the warm-up.

    `known` are the rates where `run` does not hold all updates.
    """
    recorded = known or finite([(step.step, step.learning_rate) for step in run.steps])
    rates = recorded or computed_rates(run)
    if not rates:
        return Panel("Learning rate", "")
    peak = max(rates, key=lambda point: point[1])
    exponent = math.floor(math.log10(peak[1])) if peak[1] > 0 else 0
    scaled: list[Point] = [(step, rate / 10.0**exponent) for step, rate in rates]
    top = max(scaled, key=lambda point: point[1])
    unit = f"10{str(exponent).translate(SUPERSCRIPTS)}"
    return Panel(
        title="Learning rate" if recorded else "Learning rate, computed from the settings",
        unit=f"in units of {unit}",
        curves=[Curve("", thinned(scaled), "third", unit=f"· {unit}")],
        marks=_rate_marks(run, scaled, top, f"highest {peak[1]:.3g} at {peak[0]:,.0f}"),
        bounds=(0.0, 1.3 * top[1] or 1.0),
        height="low",
    )


def _rate_marks(run: RunView, scaled: list[Point], top: Point, label: str) -> list[Mark]:
    """Mark the highest rate and the end of the warm-up, which may be the same."""
    schedule = schedule_of(run.config)
    warmup = schedule.warmup_steps if schedule else 0
    if warmup and top[0] == warmup:
        return [Mark(top, f"warm-up ends, {label}", "third")]
    end = [Mark(p, f"warm-up ends at {warmup:,}", "third") for p in scaled if p[0] == warmup]
    return [Mark(top, label, "third"), *end]


USUAL_SHARE_SHOWN = 0.98  # of the updates or columns fit on the chart, at least


def time_panel(run: RunView) -> Panel:
    """Show the seconds of each update; a few very slow ones may lie above the chart."""
    times = finite([(step.step, step.seconds) for step in run.steps])
    if not times:
        return Panel("Step time", "")
    top = ceiling([seconds for _, seconds in times])
    return step_time_panel(binned(times), top, _above(times, top))


def step_time_panel(bins: Sequence[Bin], top: float, note: str = "") -> Panel:
    """Show the seconds of updates up to `top`."""
    unit, factor = _unit(top)
    scaled = [Bin(b.x, factor * b.mean, factor * b.low, factor * b.high) for b in bins]
    curve = mean_curve("", scaled, "first", digits_for(factor * top), unit)
    return Panel(
        title="Step time",
        unit="seconds" if unit == "s" else "milliseconds",
        curves=[curve],
        bounds=(0.0, factor * top or 1.0),
        note=note,
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
    for name, words in BAR_PARTS.items():
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
    """Return the top of the chart: above all values, or above all but a few outliers."""
    ordered = sorted(values)
    usual, most = ordered[int(USUAL_SHARE_SHOWN * (len(ordered) - 1))], ordered[-1]
    return 1.1 * (most if most < 2 * usual else 1.3 * usual)


def _unit(top: float) -> tuple[str, float]:
    return ("s", 1.0) if top >= 1 else ("ms", 1000.0)


def _above(times: Sequence[Point], top: float) -> str:
    cut = [point for point in times if point[1] > top]
    if not cut:
        return ""
    slowest = max(cut, key=lambda point: point[1])
    return (
        f"{len(cut):,} beyond the chart; the slowest is step {slowest[0]:,.0f} "
        f"with {duration(slowest[1])}"
    )
