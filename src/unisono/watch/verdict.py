"""What holds a run up, in a line; and which findings are certain while it goes on."""

from unisono.diagnose.case import Case
from unisono.diagnose.diagnosis import exchange_name
from unisono.diagnose.evidence.straggler import Late, late_of
from unisono.diagnose.report import Finding
from unisono.diagnose.rules import RULES
from unisono.diagnose.wording import percent
from unisono.units import duration

BOTTLENECK = "bottleneck"
# On the terminal as they happen, or only of interest to the report.
SAID_OTHERWISE = {"warnings", "lost_ranks", "drifted_ranks", "skipped_steps", "missing_ranks"}
# A model that is still learning may well do this.
NEED_THE_END = {"empty_translations", "short_translations", "repeating_translations"}

WAYS_OUT = {
    "compute": "Nothing else holds it up.",
    "straggler": "See what else runs on its machine.",
    "data": "Put the corpus on a local disk, and leave a core to reading.",
    "evaluation": "Validate less often (`validation.every_steps`).",
    "checkpoint": "Save less often (`checkpoint.every_steps`).",
    "other": "See `unisono report` for what is known of it.",
}


def verdict(case: Case) -> str:
    """Say what holds the run up, with its share and what an update would take without it."""
    found = case.bottleneck
    if found.cause == "compute":
        return f"bound by arithmetic: {percent(found.shares.compute)} of the time"
    names = {
        "network": f"bound by {exchange_name(case)}",
        "straggler": f"waiting for {_late(late_of(case.ledger))}",
        "data": "waiting for data",
        "evaluation": "held up by validation",
        "checkpoint": "held up by checkpoints",
        "other": "held up by what the ledger does not explain",
    }
    without = found.without_it_seconds_per_step
    more = f"; without it a step would take {duration(without)}" if without else ""
    return f"{names[found.cause]}: {percent(found.share)} of the time{more}"


def verdict_finding(case: Case) -> Finding:
    """Return the verdict as a finding, with what to do about it."""
    cause, late = case.bottleneck.cause, late_of(case.ledger)
    known = f", {late.name}" if late and cause == "straggler" else ""
    return Finding(
        id=BOTTLENECK,
        severity="info",
        summary=f"{verdict(case)}.",
        advice=_way_out(case, cause),
        about=f"{cause}{known}",
    )


def findings_of(case: Case) -> tuple[Finding, ...]:
    """Return what is certain while the run goes on, and is not said otherwise."""
    rules = [rule for name, rule in RULES.items() if name not in SAID_OTHERWISE | NEED_THE_END]
    return tuple(finding for rule in rules for finding in rule(case))


def _late(late: Late | None) -> str:
    if late is None:
        return "a late process"
    return late.words if late.host else f"a late process ({late.words})"


def _way_out(case: Case, cause: str) -> str:
    if cause != "network":
        return WAYS_OUT[cause]
    if len(case.run.hosts) == 1:
        return "Fewer processes with more threads each exchange less."
    if case.run.last_starts[0].strategy in ("ddp", "all_reduce"):
        return 'Try `sync.strategy = "auto"`, or larger updates (`batching.tokens_per_update`).'
    return "Make updates larger (`batching.tokens_per_update`), or send less of each gradient."
