"""What happened at which step: evaluations, checkpoints, new starts, findings, words."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from unisono.diagnose.evidence.curve import is_finite, number
from unisono.diagnose.evidence.scores import bleu_words
from unisono.diagnose.report import Report
from unisono.diagnose.wording import count
from unisono.records.events import Validated
from unisono.records.view import RunView
from unisono.report.facts import SEVERITIES, spaced
from unisono.units import amount_of_bytes

MOST_OF_A_KIND = 150
MOST_LINES_OF_A_KIND = 20  # drawn through all panels


@dataclass(frozen=True)
class Happening:
    """Something that happened at a step. `style` is a class of the style sheet."""

    step: int
    words: str
    style: str = ""


@dataclass(frozen=True)
class TimelineLane:
    """All that happened of one kind; `name` says how many."""

    kind: str
    name: str
    happenings: tuple[Happening, ...]


def lanes_of(run: RunView, report: Report) -> list[TimelineLane]:
    """Return what happened, kind by kind, without the kinds that did not occur."""
    return _lanes(run, _findings(report))


def lanes_while_running(run: RunView) -> list[TimelineLane]:
    """Return what happened so far, without the findings of a report."""
    return _lanes(run, ())


def _lanes(run: RunView, findings: Sequence[Happening]) -> list[TimelineLane]:
    found = [
        _lane("evaluation", "evaluation", [_evaluation(v) for v in run.validations]),
        _lane("checkpoint", "checkpoint", _checkpoints(run)),
        _lane("finding", "finding", findings),
        _lane("said", "remark while it ran", _said(run), "remarks while it ran"),
        _lane("start", "new start", _starts(run)),
    ]
    return [lane for lane in found if lane.happenings]


def lines_of(lanes: Sequence[TimelineLane]) -> list[Happening]:
    """Return the events whose line goes through all panels: findings and new starts."""
    return [
        Happening(happening.step, happening.words, happening.style or lane.kind)
        for lane in lanes
        if lane.kind in ("finding", "start")
        for happening in lane.happenings[:MOST_LINES_OF_A_KIND]
    ]


def _lane(
    kind: str, noun: str, happened: Sequence[Happening], plural: str = ""
) -> TimelineLane:
    stride = -(-len(happened) // MOST_OF_A_KIND) or 1
    # Counted from the end: the last is always among them.
    kept = tuple(happened[::-1][::stride][::-1])
    name = count(len(happened), noun, plural)
    return TimelineLane(kind, f"{name}, one in {stride} shown" if stride > 1 else name, kept)


def _evaluation(event: Validated) -> Happening:
    words = f"step {event.step:,}: validation"
    if is_finite(event.loss):
        words += f", loss {number(event.loss):.3f}"
    if event.bleu >= 0:
        words += f", BLEU {bleu_words(event)}"
    return Happening(event.step, words)


def _checkpoints(run: RunView) -> list[Happening]:
    return [
        Happening(s.step, f"step {s.step:,}: checkpoint, {amount_of_bytes(s.bytes)}")
        for s in run.saves
    ]


def _starts(run: RunView) -> list[Happening]:
    again = sorted({start.step for start in run.starts if start.rank == 0 and start.step > 0})
    return [Happening(step, f"step {step:,}: the run was started again") for step in again]


def _said(run: RunView) -> list[Happening]:
    """Return what the live diagnosis announced, and what it withdrew."""
    return [
        Happening(
            one.step,
            f"step {one.step:,}: {'no longer holds' if one.over else 'found'}: {one.summary}",
            "plain" if one.over else SEVERITIES.get(one.severity, "plain"),
        )
        for one in run.found
    ]


def _findings(report: Report) -> list[Happening]:
    found = []
    for finding in report.findings:
        if finding.steps is msgspec.UNSET:
            continue
        for step in finding.steps:
            words = f"step {step:,}: {spaced(finding.id)}. {finding.summary}"
            found.append(Happening(step, words, SEVERITIES[finding.severity]))
    overfit = report.answer("overfitting")
    if overfit.verdict == "yes" and overfit.values.get("since_step") is not None:
        since = int(overfit.values["since_step"])
        found.append(Happening(since, f"step {since:,}: overfitting begins", "bad"))
    trained = report.answer("trained")
    if trained.verdict == "diverged" and trained.values.get("began_step") is not None:
        began = int(trained.values["began_step"])
        found.append(Happening(began, f"step {began:,}: training breaks down", "bad"))
    return sorted(found, key=lambda happening: happening.step)
