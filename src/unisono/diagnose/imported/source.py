"""Where an imported run comes from: how to name its records, its headline and its finding."""

from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import loss_curve, lowest
from unisono.diagnose.evidence.scores import best_scored, bleu_words
from unisono.diagnose.evidence.step_arithmetic import MOSTLY_SOMETHING_ELSE, imported_compute_of
from unisono.diagnose.report import Finding, finding
from unisono.diagnose.wording import count, listing, percent
from unisono.records.view import Imported
from unisono.units import duration

GIGA, MEGA = 1e9, 1e6


def about(case: Case) -> Imported:
    """Return where the run comes from."""
    return case.run.imported or Imported(trainer="", source="")


def records(case: Case) -> str:
    """Name what the run was read from: "the log" or "the event files"."""
    return "the log" if about(case).trainer == "OpenSeq2Seq" else "the event files"


def says(case: Case) -> str:
    """Return the verb that goes with it."""
    return "says" if records(case) == "the log" else "say"


def rate(bits_per_second: float) -> str:
    """Write a rate: "1.73 Gbit/s", "100 Mbit/s"."""
    if bits_per_second >= GIGA:
        return f"{bits_per_second / GIGA:.3g} Gbit/s"
    return f"{bits_per_second / MEGA:.3g} Mbit/s"


def elapsed(case: Case) -> float:
    """Return the seconds that the records cover."""
    return sum(session.seconds for session in case.sessions)


def first_upper(text: str) -> str:
    """Write a sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def last_step(case: Case) -> int:
    """Return the last update of which there is a record."""
    steps = [event.step for event in case.run.steps[-1:]]
    return max(steps + [event.step for event in case.run.validations[-1:]], default=0)


def imported_headline(case: Case) -> str:
    """Say in a sentence what was imported, how good it became, and what arithmetic says."""
    run = about(case)
    took = f" in {duration(elapsed(case))}" if elapsed(case) else ""
    came = f"Imported from {run.trainer}: {count(last_step(case), 'update')}{took}"
    parts = [came, _quality(case), _time(case)]
    return "; ".join(part for part in parts if part) + "."


def findings(case: Case) -> tuple[Finding, ...]:
    """Return the note that this run was imported, and what its readers must know."""
    run = about(case)
    told = {"link": "the rate of the link"}
    given = [told.get(name, f"the number of {name}") for name in run.told]
    lines = [*run.notes]
    if given:
        lines.append(f"given on import: {listing(given)}")
    return finding(
        "imported",
        f"{run.trainer} made this run, and it was imported from {run.source}. "
        f"Whatever {records(case)} {says(case)} nothing about is unknown.",
        *lines,
        severity="info",
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
    idle = idle_share(case)
    if idle is not None and idle > MOSTLY_SOMETHING_ELSE:
        return f"by arithmetic, computing explains {percent(1 - idle)} of a step"
    return "where the time went is not recorded"


def idle_share(case: Case) -> float | None:
    """Return the share of a step that the devices cannot have computed; None if unknown."""
    compute, rows = imported_compute_of(case.run), case.ledger.usual
    if compute is None or not rows:
        return None
    return 1 - compute.share_of(median(row.seconds for row in rows))
