"""The headline of an imported run, and the one finding it has: where it comes from."""

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.imported.clock import elapsed
from unisono.diagnose.imported.words import about, last_step, records
from unisono.diagnose.report import Finding
from unisono.diagnose.wording import count, listing
from unisono.units import duration


def imported_headline(case: Case) -> str:
    """Say in a sentence what was imported, how good it became, and what arithmetic says."""
    run = about(case)
    took = f" in {duration(elapsed(case))}" if elapsed(case) else ""
    came = f"Imported from {run.trainer}: {count(last_step(case), 'update')}{took}"
    parts = [came, _quality(case), _time(case)]
    return "; ".join(part for part in parts if part) + "."


def findings(case: Case) -> tuple[Finding, ...]:
    """Return the remark that this run was imported, with what one has to know to read it."""
    run = about(case)
    told = {"link": "the rate of the link"}
    given = [told.get(name, f"the number of {name}") for name in run.told]
    lines = [*run.notes]
    if given:
        lines.append(f"given by the one who imported it: {listing(given)}")
    return (
        Finding(
            id="imported",
            severity="info",
            summary=f"This run was made by {run.trainer} and read from {run.source}: what "
            f"{records(case)} did not tell is unknown.",
            evidence=tuple(lines),
        ),
    )


def _quality(case: Case) -> str:
    curve, scored = loss_curve(case.run.validations), best_scored(case.run)
    best = f", best BLEU {bleu_words(scored)}" if scored else ""
    if not curve:
        return best.removeprefix(", ") or "no validation on record"
    step, loss = lowest(curve)
    return f"best validation loss {loss:.3f} at step {step:,}{best}"


def _time(case: Case) -> str:
    if case.bottleneck.cause == "network":
        return "by arithmetic, the network set the pace"
    return "where the time went is not recorded"
