"""The whole diagnosis."""

from unisono.diagnose.answers import ANSWERS
from unisono.diagnose.case import open_case
from unisono.diagnose.headline import headline
from unisono.diagnose.report import Report
from unisono.diagnose.rules import RULES
from unisono.records.view import RunView


def diagnose(run: RunView, now: float) -> Report:
    """Answer the eleven questions about `run` as it stands at `now` (Unix time)."""
    case = open_case(run, now)
    return Report(
        run=str(run.path),
        headline=headline(case),
        bottleneck=case.bottleneck,
        answers=tuple(answer(case) for answer in ANSWERS.values()),
        findings=tuple(finding for rule in RULES.values() for finding in rule(case)),
    )
