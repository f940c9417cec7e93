"""The four plots of a run."""

import math
from collections.abc import Sequence

from unisono.diagnose.curve import bleu_curve, loss_curve
from unisono.diagnose.rates import computed_rates, schedule_of
from unisono.records.view import RunView
from unisono.report.plot import Mark, Plot, Series
from unisono.report.points import Point, finite, smoothed, thinned
from unisono.units import duration

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figures(run: RunView) -> list[Plot]:
    """Return loss, BLEU, learning rate and step time over the steps."""
    return [loss_plot(run), bleu_plot(run), rate_plot(run), time_plot(run)]


def loss_plot(run: RunView) -> Plot:
    """Draw training and validation loss, the clean sample, and the best validation."""
    training = finite([(step.step, step.loss) for step in run.steps])
    validation: list[Point] = [(step, loss) for step, loss in loss_curve(run.validations)]
    marks = []
    if validation:
        best = min(validation, key=lambda point: point[1])
        label = f"best {best[1]:.3f} at {best[0]:,.0f}"
        marks.append(Mark(best, label, "second", below=True))
    return Plot(
        title="Loss",
        unit="nats per target token, lower is better",
        series=[
            *_noisy("training", training, "{:.3f}"),
            Series(
                "validation",
                thinned(validation),
                "second",
                f"{validation[-1][1]:.3f}" if validation else "",
                dots=len(validation) <= 60,
            ),
            *_clean_sample(run),
        ],
        marks=marks,
        last_step=_last_step(run),
        lines=_restarts(run),
        bounds=_room([*training, *validation], below=0.14, above=0.04),
    )


def _clean_sample(run: RunView) -> list[Series]:
    measured = [(v.step, v.clean_training_loss) for v in run.validations]
    points = [point for point in finite(measured) if point[1] >= 0]
    if not points:
        return []
    name = "training sample as in validation"
    return [Series(name, thinned(points), "third", f"{points[-1][1]:.3f}")]


def bleu_plot(run: RunView) -> Plot:
    """Draw BLEU on the validation set, and the best."""
    scores: list[Point] = [(step, score) for step, score in bleu_curve(run.validations)]
    if not scores:
        return Plot("BLEU", "BLEU", (), note="BLEU was not measured in this run.")
    best = max(scores, key=lambda point: point[1])
    return Plot(
        title="BLEU on the validation set",
        unit="0 to 100, higher is better",
        series=[Series("BLEU", thinned(scores), "second", f"{scores[-1][1]:.1f}", dots=True)],
        marks=[Mark(best, f"best {best[1]:.1f} at {best[0]:,.0f}", "second")],
        last_step=_last_step(run),
        lines=_restarts(run),
        bounds=_room(scores, below=0.04, above=0.16),
    )


def rate_plot(run: RunView) -> Plot:
    """Draw the learning rate and its peak."""
    recorded = finite([(step.step, step.learning_rate) for step in run.steps])
    rates = recorded or computed_rates(run)
    if not rates:
        return Plot("Learning rate", "rate", (), note="No rate was recorded.")
    peak = max(rates, key=lambda point: point[1])
    exponent = math.floor(math.log10(peak[1])) if peak[1] > 0 else 0
    scaled: list[Point] = [(step, rate / 10.0**exponent) for step, rate in rates]
    top = max(scaled, key=lambda point: point[1])
    return Plot(
        title="Learning rate" if recorded else "Learning rate, computed from the settings",
        unit=f"in units of 10{str(exponent).translate(SUPERSCRIPTS)}",
        series=[Series("rate", thinned(scaled), "third", f"{scaled[-1][1]:.3g}")],
        marks=_rate_marks(run, scaled, top, f"highest {peak[1]:.3g} at {peak[0]:,.0f}"),
        last_step=_last_step(run),
        lines=_restarts(run),
        bounds=(0.0, 1.18 * top[1] or 1.0),
    )


def _rate_marks(run: RunView, scaled: list[Point], top: Point, label: str) -> list[Mark]:
    """Mark the highest rate and the end of the warm-up, which may be the same."""
    schedule = schedule_of(run.config)
    warmup = schedule.warmup_steps if schedule else 0
    if warmup and top[0] == warmup:
        return [Mark(top, f"warm-up ends, {label}", "third")]
    end = [Mark(p, f"warm-up ends at {warmup:,}", "third") for p in scaled if p[0] == warmup]
    return [Mark(top, label, "third"), *end]


def time_plot(run: RunView) -> Plot:
    """Draw the seconds of each step; a few very slow ones may lie above the paper."""
    times = finite([(step.step, step.seconds) for step in run.steps])
    if not times:
        return Plot("Step time", "seconds", (), note="No time of an update was recorded.")
    ordered = sorted(seconds for _, seconds in times)
    usual, most = ordered[int(0.98 * (len(ordered) - 1))], ordered[-1]
    top = 1.15 * (most if most < 2 * usual else 1.3 * usual)
    cut = [point for point in times if point[1] > top]
    note = ""
    if cut:
        slowest = max(cut, key=lambda point: point[1])
        note = (
            f"{len(cut)} above the edge; the slowest is step {slowest[0]:,.0f} "
            f"with {duration(slowest[1])}"
        )
    return Plot(
        title="Step time",
        unit="seconds",
        series=_noisy("step time", times, "{:.3g} s"),
        last_step=_last_step(run),
        lines=_restarts(run),
        bounds=(0.0, top or 1.0),
        note=note,
    )


def _noisy(name: str, points: Sequence[Point], form: str) -> list[Series]:
    """Draw every update faintly and their running mean on top, which is labelled."""
    smooth = smoothed(points)
    if not smooth:
        end = form.format(points[-1][1]) if points else ""
        return [Series(name, thinned(points), "first", end)]
    mean = Series(f"{name}, mean", smooth, "first", form.format(smooth[-1][1]))
    return [Series(name, thinned(points), "first faint"), mean]


def _room(points: Sequence[Point], *, below: float, above: float) -> tuple[float, float] | None:
    """Return bounds that leave room for a label, as shares of the height of the curve."""
    if not points:
        return None
    low, high = min(y for _, y in points), max(y for _, y in points)
    height = (high - low) or abs(high) or 1.0
    return low - below * height, high + above * height


def _last_step(run: RunView) -> float:
    return float(run.steps[-1].step) if run.steps else 0.0


def _restarts(run: RunView) -> list[float]:
    return sorted({float(s.step) for s in run.starts if s.rank == 0 and s.step > 0})
