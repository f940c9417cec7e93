"""Which cause costs the most time, and what an update would take without it."""

from unisono.diagnose.evidence.ledger import Ledger
from unisono.diagnose.evidence.straggler import late_of, lateness_of
from unisono.diagnose.report import Bottleneck, Shares

WORTH_NAMING = 0.10
IN_A_STEP = ("network", "straggler", "data", "other")


def find_bottleneck(ledger: Ledger) -> Bottleneck:
    """Name the cause whose removal would save the most; `compute` if none saves a tenth."""
    shares, late = shares_of(ledger), late_of(ledger)
    saved = _savings(ledger)
    cause = _cause(saved, ledger)
    return Bottleneck(
        cause=cause,
        share=getattr(shares, cause),
        shares=shares,
        culprit=late.rank if late and cause == "straggler" else None,
        without_it_seconds_per_step=_without(cause, saved, ledger),
    )


def shares_of(ledger: Ledger) -> Shares:
    """Return the share of the wall clock of each cause; rounding goes to the largest."""
    known = ledger.seconds
    # Clocks of several parts may add up to a little more than the wall clock.
    total = max(ledger.wall, sum(known.values()))
    if total <= 0:
        return Shares(other=1.0)
    shares = {cause: round(seconds / total, 4) for cause, seconds in known.items()}
    shares["other"] = round(max(0.0, total - sum(known.values())) / total, 4)
    largest = max(shares, key=lambda cause: shares[cause])
    shares[largest] = round(shares[largest] + 1.0 - sum(shares.values()), 4)
    return Shares(**shares)


def _savings(ledger: Ledger) -> dict[str, float]:
    """Return the seconds of the whole run that would go away with each cause."""
    rows, late = ledger.rows, late_of(ledger)
    why = lateness_of(ledger)
    # One late rank or machine can be made as quick as the others; ranks that take turns, or of
    # which one has more to do, can only be evened out.
    slow = late if why is None or why.kind != "tokens" else None
    return {
        "network": sum(row.updates * row.wire for row in rows),
        "straggler": sum(
            row.updates * (slow.cost(row) if slow else row.waiting) for row in rows
        ),
        "data": sum(row.updates * row.data_cost for row in rows),
        "evaluation": ledger.evaluation,
        "checkpoint": ledger.checkpoint,
        "other": sum(row.updates * row.parts["other"] for row in rows),
    }


def _cause(saved: dict[str, float], ledger: Ledger) -> str:
    if not ledger.rows:
        return "other"
    candidates = dict(saved)
    # Nobody can act on "other", so it is named only if it outweighs the arithmetic itself.
    if candidates["other"] <= ledger.seconds["compute"]:
        del candidates["other"]
    cause = max(candidates, key=lambda name: candidates[name])
    # One rank that waits for its data looks like both: the rank is what to look at.
    if cause == "data" and saved["straggler"] >= 0.9 * saved["data"]:
        cause = "straggler"
    total = max(ledger.wall, sum(ledger.seconds.values()))
    return cause if total > 0 and saved[cause] >= WORTH_NAMING * total else "compute"


def _without(cause: str, saved: dict[str, float], ledger: Ledger) -> float | None:
    if cause == "compute" or not ledger.rows:
        return None
    updates = ledger.updates
    per_step = sum(row.updates * row.seconds for row in ledger.rows) / updates
    if cause not in IN_A_STEP:
        per_step += (ledger.evaluation + ledger.checkpoint) / updates
    return round(max(0.0, per_step - saved[cause] / updates), 6)
