"""The charts of a run that goes on: the report's panels, from bins instead of all updates."""

from dataclasses import dataclass, replace

from unisono.live_page.followed_run import FollowedRun
from unisono.report.charts import drawn, how_binned
from unisono.report.drawing import Drawing
from unisono.report.machine_panels import machine_panels, network_panel
from unisono.report.panel import Curve, Panel, Span, step_ticks
from unisono.report.panels import bleu_panel, loss_panel, rate_panel, step_time_panel
from unisono.report.timeline import Happening, TimelineLane, lanes_while_running, lines_of

FORECAST_POINTS = 12


@dataclass(frozen=True)
class LiveCharts:
    """Two stacks of panels over the steps, and what happened. `how` says what a point is."""

    span: Span
    ticks: tuple[float, ...]
    lanes: tuple[TimelineLane, ...]
    lines: tuple[Happening, ...]
    course: tuple[Drawing, ...]
    machines: tuple[Drawing, ...]
    how: str


def live_charts(run: FollowedRun) -> LiveCharts:
    """Draw what the run has recorded so far."""
    view, course, span = run.view, run.course, run.span
    lanes, machines = lanes_while_running(view), run.machines
    panels = [
        _losses(run),
        bleu_panel(view),
        rate_panel(view, course.rates),
        _step_times(run),
        network_panel(view, machines),
    ]
    return LiveCharts(
        span=span,
        ticks=tuple(step_ticks(span)),
        lanes=tuple(lanes),
        lines=tuple(lines_of(lanes)),
        course=drawn(panels, span),
        machines=drawn(machine_panels(view, machines), span),
        how=how_binned(course.updates, course.width),
    )


def _losses(run: FollowedRun) -> Panel:
    """Show the losses, and where the validation loss is going."""
    expected, end = run.forecast, run.forecast_end
    if expected is None or not end:
        return loss_panel(run.view, run.course.losses)
    first = expected.last_step
    steps = [first + (end - first) * n / FORECAST_POINTS for n in range(FORECAST_POINTS + 1)]
    losses = [(step, *expected.loss_at(step)) for step in steps]
    curve = Curve(
        name="forecast",
        points=[(step, loss) for step, loss, _, _ in losses],
        style="fourth",
        band=[(step, low, high) for step, _, low, high in losses],
        dashed=True,
    )
    _, loss, low, high = losses[-1]
    note = f"forecast for step {end:,}: {loss:.3f}, 90 % between {low:.3f} and {high:.3f}"
    return replace(loss_panel(run.view, run.course.losses, curve), note=note)


def _step_times(run: FollowedRun) -> Panel:
    bins = run.course.seconds
    return step_time_panel(bins, run.updates.top) if bins else Panel("Step time", "")
