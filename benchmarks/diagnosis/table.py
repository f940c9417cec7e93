"""The table of all judgements, as Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from diagnosis.judge import Judgement
from diagnosis.said import MOST_SECONDS, MOST_STEPS, Live
from diagnosis.scenarios import Scenario

VERDICT_GOAL, CULPRIT_GOAL, POINTS_GOAL = 0.95, 1.0, 5.0

Judged = Mapping[str, Sequence[Judgement]]


def table(judged: Judged, scenarios: Mapping[str, Scenario]) -> list[str]:
    """Return a row for each scenario."""
    lines = [
        "| scenario | what is done | verdict | culprit | share, true | share, told "
        "| points off, worst | said after | other findings |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return lines + [_row(name, scenarios[name].what, rows) for name, rows in judged.items()]


def _row(name: str, what: str, rows: Sequence[Judgement]) -> str:
    culprits = [row.culprit for row in rows if row.culprit is not None]
    cells = [
        *(name, what, _of([row.verdict for row in rows]), _of(culprits)),
        _shares([row.true for row in rows]),
        _shares([row.claimed for row in rows]),
        _worst(rows),
        ", ".join(_when(row.live) for row in rows if row.live) or "–",
        _others(rows),
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
    lives = [row.live.in_time for row in rows if row.live]
    asked = [in_time for in_time in lives if in_time is not None]
    if asked:
        lines.append(
            f"* said by the training itself within {MOST_STEPS} updates or {MOST_SECONDS:g} s: "
            f"{_of(asked)} (goal: all; runs that were over before are not counted)"
        )
    false = sum(len(row.false) for row in rows)
    lines.append(f"* findings that the fault does not explain: {false} (goal: 0)")
    return lines


def legend(names: Iterable[str], scenarios: Mapping[str, Scenario]) -> list[str]:
    """Return what the columns mean, and how faults are made that are not what they seem."""
    lines = [
        "*Said after*: updates / seconds of training after which the training itself first "
        "named the cause or the finding, for each run; *over*: the run ended before it had to. "
        "Of other findings, those in bold are false alarms; what a fault implies is not.",
    ]
    told = [(name, scenarios[name].really) for name in names if scenarios[name].really]
    return [*lines, "", *(f"* `{name}`: {words}." for name, words in told)]


def _when(live: Live) -> str:
    if live.said is not None:
        return str(live.said)
    return "over" if live.in_time is None else "never"


def _others(rows: Sequence[Judgement]) -> str:
    false = {finding for row in rows for finding in row.false}
    found = false | {finding for row in rows for finding in row.also}
    return ", ".join(f"**{f}**" if f in false else f for f in sorted(found)) or "–"


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
