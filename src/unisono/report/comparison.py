"""Several runs side by side: their settings, their results, and their curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.diagnose.evidence.curve import bleu_curve, loss_curve
from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.evidence.sessions import RunSession, sessions_of
from unisono.diagnose.report import Report
from unisono.diagnose.wording import percent
from unisono.records.view import RunView
from unisono.report.drawing import Drawing, draw
from unisono.report.panel import (
    Bin,
    Curve,
    Panel,
    Point,
    Span,
    binned,
    digits_for,
    finite,
    span_of,
    step_ticks,
    thinned,
)
from unisono.report.panels import ceiling
from unisono.units import duration

NO_VALUE = "–"
NOT_COMPARED = ("run",)  # every run has a directory of its own


@dataclass(frozen=True)
class ComparisonRow:
    """One fact of each run, as people read it; `differs` if it is not the same for all."""

    name: str
    cells: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.cells)) > 1


@dataclass(frozen=True)
class RunComparison:
    """The runs by name, the settings in which they differ, and their results."""

    names: tuple[str, ...]
    settings: tuple[ComparisonRow, ...]
    results: tuple[ComparisonRow, ...]


def compare_runs(runs: Sequence[tuple[RunView, Report]]) -> RunComparison:
    """Put runs side by side, in the order given."""
    flat = [_flat(view.config) for view, _ in runs]
    names = dict.fromkeys(name for table in flat for name in table)
    settings = [
        ComparisonRow(name, tuple(_text(table.get(name)) for table in flat))
        for name in names
        if name not in NOT_COMPARED
    ]
    results = [dict(_results(view, report)) for view, report in runs]
    return RunComparison(
        names=tuple(str(view.path) for view, _ in runs),
        settings=tuple(row for row in settings if row.differs),
        results=tuple(
            ComparisonRow(name, tuple(found[name] for found in results)) for name in results[0]
        ),
    )


def _results(view: RunView, report: Report) -> list[tuple[str, str]]:
    """Return the results of a run, always the same facts in the same order."""
    took, step = report.answer("duration"), report.answer("step_time").values
    learnt = report.answer("overfitting").values
    best = best_scored(view)
    tokens, seconds = step.get("target_tokens_per_second"), step.get("mean_seconds")
    loss, shares = learnt.get("best_loss"), report.bottleneck.shares
    measured = report.bottleneck.measured is not False
    return [
        ("state", took.verdict),
        *_world(view),
        ("updates", f"{view.steps[-1].step:,}" if view.steps else NO_VALUE),
        ("time", duration(took.values["seconds"]) if took.values.get("seconds") else NO_VALUE),
        ("a step", duration(seconds) if seconds else NO_VALUE),
        ("target tokens/s", f"{tokens:,.0f}" if tokens else NO_VALUE),
        ("best validation loss", f"{loss:.4f}" if loss is not None else NO_VALUE),
        ("at step", f"{learnt['best_step']:,}" if loss is not None else NO_VALUE),
        ("best validation BLEU", bleu_words(best) if best else NO_VALUE),
        ("test BLEU", bleu_words(view.tests[-1]) if view.tests else NO_VALUE),
        ("signature of BLEU", _signature(view)),
        ("fully trained", report.answer("trained").verdict),
        ("overfitting", report.answer("overfitting").verdict),
        ("bottleneck", report.bottleneck.cause + ("" if measured else " (not measured)")),
        ("time in compute", percent(shares.compute) if measured else NO_VALUE),
        ("time in network", percent(shares.network) if measured else NO_VALUE),
        ("time for late ranks", percent(shares.straggler) if measured else NO_VALUE),
        ("time for data", percent(shares.data) if measured else NO_VALUE),
        ("findings", ", ".join(finding.id for finding in report.findings) or "none"),
    ]


def _signature(view: RunView) -> str:
    events = [*view.tests[-1:], best_scored(view)]
    return next((e.bleu_signature for e in events if e and e.bleu_signature), NO_VALUE)


def _world(view: RunView) -> list[tuple[str, str]]:
    starts, about = view.last_starts, view.imported
    names = ("processes", "machines", "exchange", "parameters")
    if about is not None:
        counts = (about.processes, about.machines, about.parameters)
        cells = [f"{count:,}" if count else NO_VALUE for count in counts]
        return list(zip(names, (*cells[:2], about.trainer, cells[2]), strict=True))
    if not starts:
        return [(name, NO_VALUE) for name in names]
    first = starts[0]
    world = (str(first.size), str(len(view.hosts)), first.strategy, f"{first.parameters:,}")
    return list(zip(names, world, strict=True))


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _text(value: object) -> str:
    return NO_VALUE if value is None else str(value)


HUES = ("first", "second", "third", "fourth", "fifth", "sixth")
MOST_DOTS = 60
# An axis in the largest unit of which there are this many.
UNITS = (("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
FEWEST_UNITS = 10

Read = Callable[[RunView], Sequence[Point]]


@dataclass(frozen=True)
class Stack:
    """Panels that share an axis."""

    span: Span
    ticks: tuple[float, ...]
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class Updates:
    """All updates of a run in bins: training loss and seconds; `top` is that of their chart."""

    losses: Sequence[Bin]
    seconds: Sequence[Bin]
    top: float


def updates_of(run: RunView) -> Updates:
    """Put the updates of a run into bins."""
    seconds = finite([(step.step, step.seconds) for step in run.steps])
    return Updates(
        binned(finite([(step.step, step.loss) for step in run.steps])),
        binned(seconds),
        ceiling([each for _, each in seconds]) if seconds else 0.0,
    )


def over_steps(
    runs: Sequence[RunView],
    names: Sequence[str],
    updates: Sequence[Updates] = (),
    spans: Sequence[Span] = (),
) -> Stack:
    """Show what the runs had learnt at equal steps, and what a step took.

    Pass `updates` and `spans` if the views do not hold all updates.
    """
    spans = spans or [span_of(run) for run in runs]
    updates = updates or [updates_of(run) for run in runs]
    span = Span(min(s.low for s in spans), max(s.high for s in spans))
    validation, score = "Validation loss", "BLEU on the validation set"
    losses = [[(b.x, b.mean) for b in one.losses] for one in updates]
    panels = [
        _panel(validation, "nats per target token, lower is better", runs, names, _losses),
        _panel_of("Training loss", "nats per target token", names, losses),
        _panel(score, "0 to 100, higher is better", runs, names, _scores, digits=1),
        _step_times(updates, names),
    ]
    return _stack(span, panels)


def over_time(runs: Sequence[RunView], names: Sequence[str]) -> Stack:
    """Show what the runs had learnt after equal time; pauses between starts do not count."""
    clocks = [TimeAxis(sessions_of(run)) for run in runs]
    longest = max(clock.seconds for clock in clocks)
    unit, size = next((u for u in UNITS if longest >= FEWEST_UNITS * u[1]), UNITS[-1])
    span = Span(0.0, max(1.0, longest / size), unit)

    def at_times(read: Read) -> Read:
        """Return the same panel with times in place of steps."""

        def reading(run: RunView) -> list[Point]:
            clock = clocks[next(n for n, one in enumerate(runs) if one is run)]
            times = {v.step: clock.at(v.time) / size for v in run.validations}
            return sorted((times[int(step)], value) for step, value in read(run))

        return reading

    panels = [
        _panel("Validation loss", "lower is better", runs, names, at_times(_losses)),
        _panel("BLEU", "higher is better", runs, names, at_times(_scores), digits=1),
    ]
    return _stack(span, panels)


@dataclass(frozen=True)
class TimeAxis:
    """A clock that runs only while the run does."""

    sessions: tuple[RunSession, ...]

    @property
    def seconds(self) -> float:
        return sum(session.seconds for session in self.sessions)

    def at(self, time: float) -> float:
        """Return what the clock showed at a Unix time."""
        return sum(
            min(max(0.0, time - session.began), session.seconds) for session in self.sessions
        )


def _stack(span: Span, panels: Sequence[Panel]) -> Stack:
    drawings = tuple(draw(panel, span) for panel in panels if not panel.is_empty)
    return Stack(span, tuple(step_ticks(span)), drawings)


def _panel(
    title: str,
    unit: str,
    runs: Sequence[RunView],
    names: Sequence[str],
    read: Read,
    digits: int = 3,
) -> Panel:
    return _panel_of(title, unit, names, [read(run) for run in runs], digits)


def _panel_of(
    title: str,
    unit: str,
    names: Sequence[str],
    points: Sequence[Sequence[Point]],
    digits: int = 3,
) -> Panel:
    curves = [
        _curve(place, name, known, digits)
        for place, (name, known) in enumerate(zip(names, points, strict=True))
    ]
    shown = [curve for curve in curves if curve.points]
    return Panel(title, unit, shown, height="tall")


def _curve(
    place: int, name: str, points: Sequence[Point], digits: int, unit: str = ""
) -> Curve:
    return Curve(
        name,
        points,
        HUES[place % len(HUES)],
        digits,
        unit,
        dots=len(points) <= MOST_DOTS,
        dashed=place >= len(HUES),
    )


def _losses(run: RunView) -> list[Point]:
    return thinned([(float(step), loss) for step, loss in loss_curve(run.validations)])


def _scores(run: RunView) -> list[Point]:
    return thinned([(float(step), score) for step, score in bleu_curve(run.validations)])


def _step_times(updates: Sequence[Updates], names: Sequence[str]) -> Panel:
    top = max((one.top for one in updates), default=0.0)
    digits = digits_for(top)
    curves = [
        _curve(place, name, [(b.x, b.mean) for b in one.seconds], digits, "s")
        for place, (name, one) in enumerate(zip(names, updates, strict=True))
    ]
    shown = [curve for curve in curves if curve.points]
    return Panel("Step time", "seconds", shown, bounds=(0.0, top or 1.0))
