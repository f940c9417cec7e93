"""The table of all judgements, as Markdown."""

from collections.abc import Mapping, Sequence

from diagnosis.judge import Judgement
from diagnosis.scenarios import Scenario

VERDICT_GOAL, CULPRIT_GOAL, POINTS_GOAL = 0.95, 1.0, 5.0

Judged = Mapping[str, Sequence[Judgement]]


def table(judged: Judged, scenarios: Mapping[str, Scenario]) -> list[str]:
    """Return a row for each scenario."""
    lines = [
        "| scenario | what is done | verdict | culprit | share, true | share, told "
        "| points off, worst | other findings |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return lines + [_row(name, scenarios[name].what, rows) for name, rows in judged.items()]


def _row(name: str, what: str, rows: Sequence[Judgement]) -> str:
    culprits = [row.culprit for row in rows if row.culprit is not None]
    cells = [
        *(name, what, _of([row.verdict for row in rows]), _of(culprits)),
        _shares([row.true for row in rows]),
        _shares([row.claimed for row in rows]),
        _worst(rows),
        ", ".join(sorted({finding for row in rows for finding in row.also})) or "–",
    ]
    return f"| {' | '.join(cells)} |"


def summary(judged: Judged) -> list[str]:
    """Return how it stands with the goals."""
    rows = [row for scenario in judged.values() for row in scenario]
    verdicts = [row.verdict for row in rows]
    culprits = [row.culprit for row in rows if row.culprit is not None]
    points = [abs(row.points) for row in rows if row.points is not None]
    near = [point <= POINTS_GOAL for point in points]
    lines = [f"* verdict right: {_of(verdicts)} (goal: {VERDICT_GOAL:.0%})"]
    if culprits:
        lines.append(f"* culprit right: {_of(culprits)} (goal: {CULPRIT_GOAL:.0%})")
    if points:
        lines.append(
            f"* share within {POINTS_GOAL:g} points of the truth: {_of(near)}; worst "
            f"{max(points):.1f} points, mean {sum(points) / len(points):.1f}"
        )
    return lines


def _of(values: Sequence[bool]) -> str:
    if not values:
        return "–"
    return f"{sum(values)} of {len(values)}"


def _shares(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return ", ".join(f"{100 * value:.0f} %" for value in known) or "–"


def _worst(rows: Sequence[Judgement]) -> str:
    points = [row.points for row in rows if row.points is not None]
    return f"{max(points, key=abs):+.1f}" if points else "–"
