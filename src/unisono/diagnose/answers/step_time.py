"""How long does an average step take, and what is it made of?"""

from statistics import median, quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.ledger import PARTS
from unisono.diagnose.evidence.straggler import late_of
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import count, listing, percent, rounded
from unisono.units import duration

NAMES = {
    "data": "waiting for data",
    "copy": "copying batches to the device",
    "forward": "forward",
    "backward": "backward",
    "exchange": "exchange not hidden by backward",
    "agree": "agreeing on the outcome",
    "optimizer": "optimizer",
    "recording": "writing down and showing the update before",
    "other": "other",
}


def answer_step_time(case: Case) -> Answer:
    """Give mean, median and 90th percentile, and the parts of the mean."""
    rows = case.ledger.usual
    if not rows:
        return reply("step_time", "unknown", "No update was recorded.")
    seconds = sorted(row.seconds for row in rows)
    mean, middle = case.ledger.mean_step, median(seconds)
    slow = quantiles(seconds, n=10)[-1] if len(seconds) >= 10 else None
    parts = {part: case.ledger.mean(part) for part in PARTS}
    largest = sorted(parts, key=lambda part: -parts[part])[:3]
    made_of = [f"{NAMES[p]} {percent(parts[p] / mean)}" for p in largest if parts[p] > 0 < mean]
    return reply(
        "step_time",
        "answered",
        f"{duration(mean)} on average, {duration(middle)} in the middle"
        f"{f', one in ten over {duration(slow)}' if slow else ''}; made of "
        f"{listing(made_of) if made_of else 'parts that were not recorded'}.",
        values={
            "mean_seconds": rounded(mean, 6),
            "median_seconds": rounded(middle, 6),
            "p90_seconds": rounded(slow, 6),
            "updates": len(rows),
            "target_tokens_per_second": rounded(_tokens_per_second(case), 1),
            "parts_seconds": {part: rounded(value, 6) for part, value in parts.items()},
        },
        evidence=_evidence(case, parts, mean),
    )


def _tokens_per_second(case: Case) -> float | None:
    tokens = sum(step.target_tokens for step in case.run.steps)
    seconds = sum(step.seconds for step in case.run.steps)
    return tokens / seconds if seconds > 0 else None


def _evidence(case: Case, parts: dict[str, float], mean: float) -> list[str]:
    left_out = len(case.ledger.rows) - len(case.ledger.usual)
    lines = [
        f"{NAMES[part]}: {duration(value)} ({percent(value / mean)})"
        for part, value in sorted(parts.items(), key=lambda item: -item[1])
        if value > 0 < mean
    ]
    who = f"mean over {count(case.size, 'process', 'processes')} and " if case.size > 1 else ""
    first = f", without the first of each start ({left_out})" if left_out else ""
    lines.append(f"{who}{count(len(case.ledger.usual), 'update')}{first}")
    return lines + lateness(case)


def lateness(case: Case) -> list[str]:
    """Say which rank the others waited for, and what it did longer than they."""
    late, ranks = late_of(case.ledger), case.ledger.by_rank
    if late is None or case.bottleneck.shares.straggler < 0.05:
        return []
    others = [m for rank, m in ranks.items() if rank not in late.ranks and rank < case.size]
    if not others:
        return []
    excess = {
        part: ranks[late.rank][part] - sum(other[part] for other in others) / len(others)
        for part in PARTS
        if part not in ("exchange", "agree")
    }
    part = max(excess, key=lambda name: excess[name])
    host = next(
        (s.host for s in case.run.last_starts if s.rank == late.rank), "an unknown host"
    )
    often = " most often" if late.host else ""
    return [
        f"rank {late.rank} on {host} came last{often}: it spent "
        f"{duration(max(0.0, excess[part]))} an update more than the others on {NAMES[part]}"
    ]
