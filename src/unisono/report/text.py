"""The report as Markdown, to paste into an issue, and as plain text for a terminal."""

import re
import textwrap

from unisono.diagnose.evidence.adaptation import adaptation_words
from unisono.diagnose.evidence.spending import spending_words
from unisono.diagnose.report import Answer, Finding, Report
from unisono.printable import LAYOUT, printable
from unisono.records.view import RunView
from unisono.report.facts import about, bottleneck_words, slices, spaced

_SPECIAL = re.compile(r"([\\*_\[\]<>#|~])")
_CODE = re.compile(r"(`[^`]+`)")


def render_markdown(report: Report, run: RunView) -> str:
    """Return headline, time, findings and the eleven answers."""
    shares = [f"{part.name} {part.percent}" for part in slices(report) if part.share > 0]
    blocks = [
        f"# {plain(run.path.name or str(run.path))}",
        f"**{plain(report.headline)}**",
        plain(" · ".join(about(run))),
        plain(report.note) if report.note else "",
        "## Where the time went",
        plain(", ".join(shares) + ".") if shares else "",
        plain(bottleneck_words(report)),
        "## What it cost" if report.cost else "",
        plain(" ".join(spending_words(report.cost))) if report.cost else "",
        "## Gained and forgotten" if report.adaptation else "",
        plain(" ".join(adaptation_words(report.adaptation))) if report.adaptation else "",
        "## Findings" if report.findings else "",
        *(_finding(finding) for finding in report.findings),
        "## Eleven questions, answered",
        *(
            _answer_as_markdown(number, answer)
            for number, answer in enumerate(report.answers, start=1)
        ),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def plain(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; code in backticks stays."""
    pieces = _CODE.split(printable(" ".join(text.split())))
    return "".join(p if _CODE.fullmatch(p) else _SPECIAL.sub(r"\\\1", p) for p in pieces)


def _answer_as_markdown(number: int, answer: Answer) -> str:
    verdict = spaced(answer.verdict)
    return _block(f"### {number}. {plain(answer.question)}", verdict, answer)


def _finding(finding: Finding) -> str:
    return _block(f"### {plain(spaced(finding.id))}", finding.severity, finding)


def _block(title: str, verdict: str, entry: Answer | Finding) -> str:
    lines = [title, "", f"**{verdict}** – {plain(entry.summary)}"]
    if entry.evidence:
        lines += ["", *(f"- {plain(line)}" for line in entry.evidence)]
    if entry.advice:
        lines += ["", f"→ {plain(entry.advice)}"]
    return "\n".join(lines)


SHOWN_EVIDENCE = 2
NO_BREAK = "\u00a0"


def render_text(report: Report, width: int = 80) -> str:
    """Return headline and answers as plain text of at most `width` columns."""
    blocks = [_wrapped(report.headline, width)]
    if report.note:
        blocks.append(_wrapped(report.note, width, "  "))
    if report.cost:
        blocks.append(_wrapped(" ".join(spending_words(report.cost)), width))
    if report.adaptation:
        blocks.append(_wrapped(" ".join(adaptation_words(report.adaptation)), width))
    for finding in report.findings:
        blocks.append(_wrapped(f"{finding.severity}: {finding.summary}", width, "  "))
    for number, answer in enumerate(report.answers, start=1):
        blocks.append(_answer_as_text(number, answer, width))
    return "\n\n".join(blocks) + "\n"


def _answer_as_text(number: int, answer: Answer, width: int) -> str:
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
    kept = printable(text, LAYOUT).replace(" %", NO_BREAK + "%")
    lines = textwrap.fill(kept, width, subsequent_indent=indent, break_on_hyphens=False)
    return lines.replace(NO_BREAK, " ")
