"""The report for a terminal: plain text, or a table with colours for `rich`."""

import textwrap

from rich.markup import escape
from rich.table import Table

from unisono.diagnose.report import Answer, Report
from unisono.report.tones import spaced, tone

SHOWN_EVIDENCE = 2
NO_BREAK = "\u00a0"
COLOURS = {"good": "green", "bad": "red", "care": "yellow", "plain": "cyan", "unknown": "dim"}


def render_text(report: Report, width: int = 80) -> str:
    """Return headline and answers as plain text of at most `width` columns."""
    blocks = [_wrapped(report.headline, width)]
    if report.note:
        blocks.append(_wrapped(report.note, width, "  "))
    for finding in report.findings:
        blocks.append(_wrapped(f"{finding.severity}: {finding.summary}", width, "  "))
    for number, answer in enumerate(report.answers, start=1):
        blocks.append(_answer(number, answer, width))
    return "\n\n".join(blocks) + "\n"


def answers_table(report: Report) -> Table:
    """Return the eleven answers as a table: question, verdict, summary."""
    table = Table(
        title=escape(report.headline),
        title_justify="left",
        caption=escape(report.note) if report.note else None,
        caption_justify="left",
        show_lines=False,
    )
    table.add_column("question", ratio=2)
    table.add_column("verdict", no_wrap=True)
    table.add_column("answer", ratio=5)
    for answer in report.answers:
        colour = COLOURS[tone(answer)]
        verdict = f"[{colour}]{escape(spaced(answer.verdict))}[/]"
        table.add_row(escape(answer.question), verdict, escape(answer.summary))
    return table


def _answer(number: int, answer: Answer, width: int) -> str:
    lines = [
        _wrapped(f"{number:2}. {answer.question}", width, "    "),
        _wrapped(f"    [{spaced(answer.verdict)}] {answer.summary}", width, "    "),
    ]
    for line in answer.evidence[:SHOWN_EVIDENCE]:
        lines.append(_wrapped(f"    - {line}", width, "      "))
    if answer.advice:
        lines.append(_wrapped(f"    > {answer.advice}", width, "      "))
    return "\n".join(lines)


def _wrapped(text: str, width: int, indent: str = "") -> str:
    kept = text.replace(" %", NO_BREAK + "%")
    lines = textwrap.fill(kept, width, subsequent_indent=indent, break_on_hyphens=False)
    return lines.replace(NO_BREAK, " ")
