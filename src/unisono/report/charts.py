"""All charts of a page: what is drawn, on the one axis of steps that they share."""

from collections.abc import Sequence
from dataclasses import dataclass

from unisono.diagnose.evidence.ledger import Ledger
from unisono.diagnose.report import Report
from unisono.records.view import RunView
from unisono.report.drawing import Drawing, draw
from unisono.report.machine_curves import sampled_machines
from unisono.report.machine_panels import machine_panels, network_panel
from unisono.report.panel import Panel, Span, bin_width, span_of, step_ticks
from unisono.report.panels import learning_panels, parts_panel, time_panel
from unisono.report.step_bars import Bar, node_bars
from unisono.report.timeline import Happening, TimelineLane, lanes_of, lines_of


@dataclass(frozen=True)
class Charts:
    """Bars of an update on each machine, and three stacks of panels over the steps.

    `how` says what a point stands for. Panels without data are left out.
    """

    span: Span
    ticks: tuple[float, ...]
    lanes: tuple[TimelineLane, ...]
    lines: tuple[Happening, ...]
    bars: tuple[Bar, ...]
    parts: tuple[Drawing, ...]
    course: tuple[Drawing, ...]
    machines: tuple[Drawing, ...]
    how: str


def charts_of(report: Report, run: RunView, ledger: Ledger) -> Charts:
    """Draw everything that the run recorded."""
    span, lanes = span_of(run), lanes_of(run, report)
    machines = sampled_machines(run)
    course = [*learning_panels(run), time_panel(run), network_panel(run, machines)]
    bars, parts = _time(run, ledger)
    return Charts(
        span=span,
        ticks=tuple(step_ticks(span)),
        lanes=tuple(lanes),
        lines=tuple(lines_of(lanes)),
        bars=tuple(bars),
        parts=drawn(parts, span),
        course=drawn(course, span),
        machines=drawn(machine_panels(run, machines), span),
        how=how_binned(len(run.steps), bin_width(len(run.steps))),
    )


def _time(run: RunView, ledger: Ledger) -> tuple[list[Bar], list[Panel]]:
    """Return where the time of an update went; an imported run does not record it."""
    if run.imported is not None:
        return [], []
    return node_bars(run, ledger), [parts_panel(ledger)]


def drawn(panels: Sequence[Panel], span: Span) -> tuple[Drawing, ...]:
    """Draw the panels that are not empty."""
    return tuple(draw(panel, span) for panel in panels if not panel.is_empty)


def how_binned(updates: int, width: int) -> str:
    """Say what a point stands for, if not for one update."""
    if width == 1:
        return ""
    return (
        f"Each point is the mean of {width:,} consecutive updates out of {updates:,}; the "
        "shade around it reaches from the lowest to the highest of them."
    )
