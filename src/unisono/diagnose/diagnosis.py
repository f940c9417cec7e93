"""The diagnosis of a run: its headline, its answers and its findings."""

import msgspec

from unisono.diagnose.answers import ANSWERS
from unisono.diagnose.answers.duration import elapsed
from unisono.diagnose.case import Case, open_case
from unisono.diagnose.evidence.adaptation import adaptation_of
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.scores import best_scored, bleu_note, bleu_words
from unisono.diagnose.evidence.spending import spending_of
from unisono.diagnose.evidence.straggler import late_of
from unisono.diagnose.imported import IMPORTED_ANSWERS, findings, imported_headline
from unisono.diagnose.report import Report
from unisono.diagnose.rules import RULES
from unisono.diagnose.wording import count, percent
from unisono.records.view import RunView
from unisono.units import duration

STATE_WORDS = {
    "finished": "Finished after",
    "stopped": "Stopped after",
    "failed": "Broke off after",
    "running": "Running for",
}


def headline(case: Case) -> str:
    """Say how the run ended, how good the model is, and where the time went."""
    if not case.sessions:
        return "No process has joined this run yet."
    updates = case.run.steps[-1].step if case.run.steps else 0
    began = (
        f"{STATE_WORDS[case.state]} {duration(elapsed(case))} and {count(updates, 'update')}"
    )
    parts = [began, _quality(case), _time(case)]
    return "; ".join(part for part in parts if part) + "."


def _quality(case: Case) -> str:
    curve = loss_curve(case.run.validations)
    if not curve:
        return "never validated"
    step, loss = lowest(curve)
    text = f"best validation loss {loss:.3f} at step {step:,}"
    if case.run.tests:
        tested = case.run.tests[-1]
        return f"{text}, test BLEU {bleu_words(tested)} (step {tested.step:,})"
    if best := best_scored(case.run):
        return f"{text}, best BLEU {bleu_words(best)}"
    return text


def _time(case: Case) -> str:
    if not case.ledger.rows:
        return ""
    arithmetic = f"{percent(case.bottleneck.shares.compute)} of the time was arithmetic"
    went_into = {
        "network": exchange_name(case),
        "straggler": f"waiting for {_late(case)}",
        "data": "waiting for data",
        "evaluation": "validation and test",
        "checkpoint": "checkpoints",
        "other": "what the ledger does not explain",
    }
    if case.bottleneck.cause == "compute":
        return arithmetic
    share = percent(case.bottleneck.share)
    return f"{arithmetic}, {share} went into {went_into[case.bottleneck.cause]}"


def exchange_name(case: Case) -> str:
    """Return what the share called `network` was in this run."""
    if len(case.run.hosts) > 1:
        name = "the exchange over the network"
    else:
        name = "the exchange between processes on one machine"
    if not case.ledger.complete:
        name += " (or waiting for a straggler: some processes left no record)"
    return name


def _late(case: Case) -> str:
    late = late_of(case.ledger)
    return "processes that came late in turns" if late is None else late.words


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
        cost=spending_of(case) or msgspec.UNSET,
        adaptation=adaptation_of(case) or msgspec.UNSET,
    )


def _of_another_trainer(case: Case) -> Report:
    """Answer what the records of another trainer say, and name what they do not."""
    return Report(
        run=str(case.run.path),
        headline=imported_headline(case),
        bottleneck=case.bottleneck,
        answers=tuple(IMPORTED_ANSWERS[name](case) for name in ANSWERS),
        findings=findings(case),
        note=bleu_note(case.run) or msgspec.UNSET,
    )
