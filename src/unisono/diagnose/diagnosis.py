"""The whole diagnosis."""

import msgspec

from unisono.diagnose.answers import ANSWERS
from unisono.diagnose.case import Case, open_case
from unisono.diagnose.headline import headline
from unisono.diagnose.imported import IMPORTED_ANSWERS, findings, imported_headline
from unisono.diagnose.report import Report
from unisono.diagnose.rules import RULES
from unisono.diagnose.scores import bleu_note
from unisono.records.view import RunView


def diagnose(run: RunView, now: float) -> Report:
    """Answer the eleven questions about `run` as it stands at `now` (Unix time)."""
    return judge(open_case(run, now))


def judge(case: Case) -> Report:
    """Answer the eleven questions about a case that is open already."""
    if case.run.imported is not None:
        return _of_another_trainer(case)
    return Report(
        run=str(case.run.path),
        headline=headline(case),
        bottleneck=case.bottleneck,
        answers=tuple(answer(case) for answer in ANSWERS.values()),
        findings=tuple(finding for rule in RULES.values() for finding in rule(case)),
        note=bleu_note(case.run) or msgspec.UNSET,
    )


def _of_another_trainer(case: Case) -> Report:
    """Answer what the records of another trainer tell, and say what they do not."""
    return Report(
        run=str(case.run.path),
        headline=imported_headline(case),
        bottleneck=case.bottleneck,
        answers=tuple(IMPORTED_ANSWERS[name](case) for name in ANSWERS),
        findings=findings(case),
        note=bleu_note(case.run) or msgspec.UNSET,
    )
