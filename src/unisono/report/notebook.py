"""A report inside a notebook: headline, time bar, findings and answers as a piece of HTML.

A notebook has its own style sheet and may be light or dark, so every style stands in its
element, text keeps the colour of the notebook, and only bars and badges bring their own.
"""

from collections.abc import Iterator

from markupsafe import Markup

from unisono.diagnose.report import Report
from unisono.report.facts import SEVERITIES, TimeSlice, bottleneck_words, slices, spaced, tone
from unisono.report.page import coded

_SLICES = {
    "compute": "#3f6a9b",
    "network": "#c4532f",
    "straggler": "#de8f57",
    "data": "#d4b23f",
    "evaluation": "#5c9a86",
    "checkpoint": "#8a79b3",
    "other": "#b9bcc2",
}
_BADGES = {
    "good": ("#2f6f4f", "#e4f0e8"),
    "bad": ("#a63d24", "#f9e7e1"),
    "care": ("#8a6212", "#f7eed8"),
    "plain": ("#33587f", "#e6edf5"),
    "unknown": ("#5d646e", "#ecebe7"),
}
_WORTH_A_LABEL = 0.08  # of the bar
_BAR = "display:flex;height:26px;border-radius:6px;overflow:hidden;margin:.8em 0 .4em"
_LABEL = "color:#fff;font-size:12px;line-height:26px;text-align:center"
_DOT = "display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:.3em"
_BADGE = "padding:.1em .5em;border-radius:.8em;font-size:12px;white-space:nowrap"
_CELL = "text-align:left;vertical-align:top;padding:.35em .6em"


def notebook_html(report: Report) -> str:
    """Return the report as HTML for a cell. Whatever comes from the run is escaped."""
    headline = Markup('<p style="font-size:1.1em;font-weight:600">{}</p>').format(
        coded(report.headline)
    )
    findings = _table("Findings", _findings(report)) if report.findings else ""
    answers = _table("Eleven questions", _answers(report))
    whole = Markup('<div style="max-width:62em">{}{}{}{}</div>')
    return str(whole.format(headline, _time_bar(report), findings, answers))


def _time_bar(report: Report) -> Markup:
    shown = [part for part in slices(report) if part.share > 0.0005]
    bar = Markup("").join(map(_part, shown))
    keys = Markup(" &nbsp; ").join(map(_key, shown))
    return Markup(
        '<div role="img" aria-label="Where the time went" style="{}">{}</div>'
        '<p style="font-size:13px">Where the time went: {}</p><p>{}</p>'
    ).format(_BAR, bar, keys, coded(bottleneck_words(report)))


def _part(part: TimeSlice) -> Markup:
    label = part.percent if part.share > _WORTH_A_LABEL else ""
    return Markup('<span title="{}" style="flex:{:.4f};background:{};{}">{}</span>').format(
        part.label, part.share, _SLICES[part.cause], _LABEL, label
    )


def _key(part: TimeSlice) -> Markup:
    return Markup(
        '<span style="white-space:nowrap"><i style="{};background:{}"></i>{}</span>'
    ).format(_DOT, _SLICES[part.cause], part.label)


def _findings(report: Report) -> Iterator[Markup]:
    for found in report.findings:
        yield _row(
            spaced(found.id),
            _badge(found.severity, SEVERITIES[found.severity]),
            found.summary,
            found.advice,
        )


def _answers(report: Report) -> Iterator[Markup]:
    for answer in report.answers:
        badge = _badge(spaced(answer.verdict), tone(answer))
        yield _row(answer.question, badge, answer.summary, answer.advice)


def _table(title: str, rows: Iterator[Markup]) -> Markup:
    return Markup(
        '<p style="font-weight:600;margin:1em 0 .3em">{}</p>'
        '<table style="border-collapse:collapse;width:100%"><tbody>{}</tbody></table>'
    ).format(title, Markup("").join(rows))


def _row(name: str, badge: Markup, summary: str, advice: str) -> Markup:
    hint = Markup("<br><em>{}</em>").format(coded(advice)) if advice else ""
    return Markup(
        '<tr><th style="{0};font-weight:600;width:30%">{1}</th>'
        '<td style="{0}">{2}</td><td style="{0}">{3}{4}</td></tr>'
    ).format(_CELL, name, badge, coded(summary), hint)


def _badge(words: str, kind: str) -> Markup:
    ink, paper = _BADGES[kind]
    return Markup('<span style="{};color:{};background:{}">{}</span>').format(
        _BADGE, ink, paper, words
    )
