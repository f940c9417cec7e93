"""Alerts: losses, findings, warnings, a stalled, failed or finished run."""

from collections.abc import Iterator

import msgspec

from unisono.diagnose.case import Case
from unisono.records.view import RunView
from unisono.units import duration


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert; `key` identifies it among those of the run.

    `kind` is one of lost, finding, finding_over, warning, stalled, failed or ended.
    """

    key: str
    kind: str
    severity: str
    summary: str
    advice: str
    step: int
    time: float


def alerts_of(case: Case) -> list[Alert]:
    """Return all alerts of a run so far, the oldest first."""
    found = [*_from_events(case.run), *_from_state(case)]
    return sorted(found, key=lambda alert: alert.time)


def _from_events(view: RunView) -> Iterator[Alert]:
    for lost in view.losses:
        yield _alert("lost", "error", lost.message, lost.step, lost.time)
    for found in view.found:
        kind, words = ("finding_over", "no longer: ") if found.over else ("finding", "")
        summary, name = f"{words}{found.summary}", f"{found.id}:{found.about}"
        severity = "info" if found.over else found.severity
        advice = "" if found.over else found.advice
        yield _alert(kind, severity, summary, found.step, found.time, advice, name)
    for warned in view.warnings:
        yield _alert("warning", "warning", warned.message, warned.step, warned.time)
    for ended in view.ends:
        summary = f"ended after {ended.step:,} updates: {ended.reason}"
        yield _alert("ended", "info", summary, ended.step, ended.time)


def _from_state(case: Case) -> Iterator[Alert]:
    if not case.run.steps:
        return
    last = case.run.steps[-1]
    if case.state == "running" and case.silence > case.patience:
        summary = f"no sign of life since step {last.step:,}, for {duration(case.patience)}"
        advice = "`unisono watch RUN` shows what its processes wait for."
        yield _alert("stalled", "error", summary, last.step, last.time, advice, "stalled")
    if case.state == "failed":
        advice = "The same command continues from its last checkpoint."
        summary = f"broke off after step {last.step:,}"
        yield _alert("failed", "error", summary, last.step, last.time, advice)


def _alert(
    kind: str,
    severity: str,
    summary: str,
    step: int,
    time: float,
    advice: str = "",
    name: str = "",
) -> Alert:
    key = f"{kind}:{name or summary}:{step}:{time:.6f}"
    return Alert(
        key=key,
        kind=kind,
        severity=severity,
        summary=summary,
        advice=advice,
        step=step,
        time=time,
    )
