"""How long does a step take, what is it made of, and how does it go with the network?"""

from statistics import fmean, median, quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import correlated
from unisono.diagnose.evidence.expected_bytes import arithmetic, expected_bytes
from unisono.diagnose.evidence.ledger import LEDGER_PARTS
from unisono.diagnose.evidence.link_use import link_uses, loopback_bytes, loopback_line, slowest
from unisono.diagnose.evidence.straggler import late_of
from unisono.diagnose.report import Answer, reply
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
    "recording": "recording and showing the previous update",
    "other": "other",
}


def answer_step_time(case: Case) -> Answer:
    """Give mean, median and 90th percentile, and the parts of the mean."""
    rows = case.ledger.usual
    if not rows:
        return reply("step_time", "unknown", "The run has not recorded an update.")
    seconds = sorted(row.seconds for row in rows)
    mean, middle = case.ledger.mean_step, median(seconds)
    slow = quantiles(seconds, n=10)[-1] if len(seconds) >= 10 else None
    parts = {part: case.ledger.mean(part) for part in LEDGER_PARTS}
    largest = sorted(parts, key=lambda part: -parts[part])[:3]
    made_of = [f"{NAMES[p]} {percent(parts[p] / mean)}" for p in largest if parts[p] > 0 < mean]
    return reply(
        "step_time",
        "answered",
        f"{duration(mean)} on average, median {duration(middle)}"
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
    """Say which rank the others waited for, and on what it spent more time."""
    late, ranks = late_of(case.ledger), case.ledger.by_rank
    if late is None or case.bottleneck.shares.straggler < 0.05:
        return []
    others = [m for rank, m in ranks.items() if rank not in late.ranks and rank < case.size]
    if not others:
        return []
    excess = {
        part: ranks[late.rank][part] - sum(other[part] for other in others) / len(others)
        for part in LEDGER_PARTS
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


FEWEST_TO_COMPARE = 5
STRONG, WEAK = 0.7, 0.3
NO_BYTES_SAMPLED = (
    "nothing sampled the bytes on the wire, so only the time of the exchange is known"
)


def answer_step_vs_network(case: Case) -> Answer:
    """Split the exchange into wire and waiting, and correlate it with the step."""
    if case.sessions and max(case.sizes) <= 1:
        return reply(
            "step_vs_network",
            "answered",
            "One process made every update and exchanged nothing, so no step waited.",
            values={"processes": case.size, "expected_bytes_per_step": 0, "correlation": None},
        )
    if not case.sessions or len(case.ledger.rows) < FEWEST_TO_COMPARE:
        return reply(
            "step_vs_network", "unknown", "The run recorded too few updates to compare them."
        )
    if not case.ledger.complete:
        return reply(
            "step_vs_network",
            "unknown",
            "Some processes left no record of their steps, so time on the wire and waiting for "
            "a straggler look the same.",
            advice="Collect the `events` directories of all machines in one run directory.",
        )
    if len(set(case.sizes)) > 1:
        return reply(
            "step_vs_network",
            "unknown",
            f"The number of processes changed from start to start "
            f"({', '.join(map(str, case.sizes))}), so its steps cannot be compared.",
        )
    return _answered(case)


def _answered(case: Case) -> Answer:
    rows = case.ledger.usual
    wire, waiting = fmean(row.wire for row in rows), fmean(row.waiting for row in rows)
    related = correlated([row.seconds for row in rows], [row.wire for row in rows])
    mean = case.ledger.mean_step
    use = slowest(link_uses(case))
    where = "over the network" if len(case.run.hosts) > 1 else "inside one machine"
    return reply(
        "step_vs_network",
        "answered",
        f"Of {duration(mean)} a step, the exchange {where} took {duration(wire)} "
        f"({percent(wire / mean if mean else 0.0)}), and the processes waited "
        f"{duration(waiting)} for the last one; {_relation(related)}.",
        values={
            "processes": case.size,
            "hosts": list(case.run.hosts),
            "mean_step_seconds": rounded(mean, 6),
            "exchange_seconds": rounded(wire, 6),
            "waiting_seconds": rounded(waiting, 6),
            "correlation": rounded(related, 3),
            "expected_bytes_per_step": expected_bytes(case),
            "measured_bytes_per_step": round(use.bytes.more) if use else None,
            "loopback_bytes_per_step": rounded(loopback_bytes(case), 0),
        },
        evidence=[
            "the process that spends least time in the exchange arrives last, so its time is "
            "time on the wire; all others spend the rest waiting for it",
            arithmetic(case),
            *_sampled(case),
        ],
    )


def _sampled(case: Case) -> list[str]:
    """Say what was sampled of the bytes."""
    if len(case.run.hosts) == 1:
        return [loopback_line(case)]
    use = slowest(link_uses(case))
    return use.lines(expected_bytes(case)) if use else [NO_BYTES_SAMPLED]


def _relation(related: float | None) -> str:
    if related is None:
        return "step and exchange vary too little to compare"
    if related >= STRONG:
        return f"slow steps are those with a slow exchange (correlation {related:.2f})"
    if related >= WEAK:
        return f"slow steps partly have a slow exchange (correlation {related:.2f})"
    return f"the exchange does not make steps slow or fast (correlation {related:.2f})"
