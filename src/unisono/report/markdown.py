"""The report as Markdown, to paste into an issue or a notebook."""

import re

from unisono.diagnose.report import Answer, Finding, Report
from unisono.records.view import RunView
from unisono.report.facts import about, bottleneck_words, slices
from unisono.report.tones import spaced

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
        "## Findings" if report.findings else "",
        *(_finding(finding) for finding in report.findings),
        "## Eleven questions, answered",
        *(_answer(number, answer) for number, answer in enumerate(report.answers, start=1)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def plain(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; code in backticks stays."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(p if _CODE.fullmatch(p) else _SPECIAL.sub(r"\\\1", p) for p in pieces)


def _answer(number: int, answer: Answer) -> str:
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
