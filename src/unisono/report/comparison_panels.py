"""Curves of several runs on the same paper: over the steps, and over the time they took."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unisono.diagnose.evidence.curve import bleu_curve, loss_curve
from unisono.diagnose.evidence.sessions import Session, sessions_of
from unisono.records.view import RunView
from unisono.report.axis import Span, span_of, step_ticks
from unisono.report.drawing import Drawing, draw
from unisono.report.panel import Curve, Panel, digits_for
from unisono.report.points import Point, binned, finite, thinned
from unisono.report.time_panels import ceiling

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


def over_steps(runs: Sequence[RunView], names: Sequence[str]) -> Stack:
    """Show what the runs had learnt at equal steps, and what a step took."""
    spans = [span_of(run) for run in runs]
    span = Span(min(s.low for s in spans), max(s.high for s in spans))
    validation, score = "Validation loss", "BLEU on the validation set"
    panels = [
        _panel(validation, "nats per target token, lower is better", runs, names, _losses),
        _panel("Training loss", "nats per target token", runs, names, _training_losses),
        _panel(score, "0 to 100, higher is better", runs, names, _scores, digits=1),
        _step_times(runs, names),
    ]
    return _stack(span, panels)


def over_time(runs: Sequence[RunView], names: Sequence[str]) -> Stack:
    """Show what the runs had learnt after equal time; pauses between starts do not count."""
    clocks = [Clock(sessions_of(run)) for run in runs]
    longest = max(clock.seconds for clock in clocks)
    unit, size = next((u for u in UNITS if longest >= FEWEST_UNITS * u[1]), UNITS[-1])
    span = Span(0.0, max(1.0, longest / size), unit)

    def at_times(read: Read) -> Read:
        """Return what reads the same with times in place of steps."""

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
class Clock:
    """A clock that runs only while the run does."""

    sessions: tuple[Session, ...]

    @property
    def seconds(self) -> float:
        """Return how long the run took in all."""
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
    curves = [
        _curve(place, name, read(run), digits)
        for place, (run, name) in enumerate(zip(runs, names, strict=True))
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


def _training_losses(run: RunView) -> list[Point]:
    return [(b.x, b.mean) for b in binned(finite([(s.step, s.loss) for s in run.steps]))]


def _step_times(runs: Sequence[RunView], names: Sequence[str]) -> Panel:
    seconds = [finite([(s.step, s.seconds) for s in run.steps]) for run in runs]
    top = max((ceiling([y for _, y in times]) for times in seconds if times), default=0.0)
    digits = digits_for(top)
    curves = [
        _curve(place, name, [(b.x, b.mean) for b in binned(times)], digits, "s")
        for place, (name, times) in enumerate(zip(names, seconds, strict=True))
    ]
    shown = [curve for curve in curves if curve.points]
    return Panel("Step time", "seconds", shown, bounds=(0.0, top or 1.0))
