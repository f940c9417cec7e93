"""The charts of a run that goes on: the report's panels, from bins instead of all updates."""

from dataclasses import dataclass

from unisono.live_page.followed_run import FollowedRun
from unisono.report.charts import drawn, how_binned
from unisono.report.drawing import Drawing
from unisono.report.machine_panels import machine_panels, network_panel
from unisono.report.panel import Panel, Span, step_ticks
from unisono.report.panels import bleu_panel, loss_panel, rate_panel, step_time_panel
from unisono.report.timeline import Happening, TimelineLane, lanes_while_running, lines_of


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
        loss_panel(view, course.losses),
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


def _step_times(run: FollowedRun) -> Panel:
    bins = run.course.seconds
    return step_time_panel(bins, run.updates.top) if bins else Panel("Step time", "")
