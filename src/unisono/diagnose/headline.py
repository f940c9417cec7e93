"""The run in one sentence."""

from unisono.diagnose.answers.duration import elapsed
from unisono.diagnose.case import Case
from unisono.diagnose.curve import loss_curve, lowest
from unisono.diagnose.late import late_of
from unisono.diagnose.liveness import state
from unisono.diagnose.scores import best_scored, bleu_words
from unisono.diagnose.words import count, percent
from unisono.units import duration

STATES = {
    "finished": "Finished after",
    "stopped": "Stopped after",
    "failed": "Broke off after",
    "running": "Running for",
}


def headline(case: Case) -> str:
    """Say how it ended, what came out, and where the time went."""
    if not case.sessions:
        return "Nothing was recorded yet: no process has joined this run."
    updates = case.run.steps[-1].step if case.run.steps else 0
    began = f"{STATES[state(case)]} {duration(elapsed(case))} and {count(updates, 'update')}"
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
        name += " (or waiting for a late one: their records are incomplete)"
    return name


def _late(case: Case) -> str:
    late = late_of(case.ledger)
    return "late processes, which took turns" if late is None else late.words
