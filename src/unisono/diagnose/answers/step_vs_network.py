"""How does step time go with network use between the nodes?"""

from statistics import fmean

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import correlated
from unisono.diagnose.evidence.expected_bytes import arithmetic, expected_bytes
from unisono.diagnose.evidence.link_use import link_uses, slowest
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import percent, rounded
from unisono.units import duration

FEWEST = 5
STRONG, WEAK = 0.7, 0.3
NOT_SAMPLED = "bytes on the wire were not sampled, so the exchange is known by its time only"


def answer_step_vs_network(case: Case) -> Answer:
    """Split the exchange into wire and waiting, and correlate it with the step."""
    if case.sessions and max(case.sizes) <= 1:
        return reply(
            "step_vs_network",
            "answered",
            "One process made every update and exchanged nothing: no wait for a network.",
            values={"processes": case.size, "expected_bytes_per_step": 0, "correlation": None},
        )
    if not case.sessions or len(case.ledger.rows) < FEWEST:
        return reply(
            "step_vs_network", "unknown", "Too few updates were recorded to see how they go."
        )
    if not case.ledger.complete:
        return reply(
            "step_vs_network",
            "unknown",
            "Not every process left a record of its steps, so time on the wire cannot be told "
            "from waiting for a late process.",
            advice="Collect the `events` directories of all machines in one run directory.",
        )
    if len(set(case.sizes)) > 1:
        return reply(
            "step_vs_network",
            "unknown",
            f"The number of processes changed from start to start "
            f"({', '.join(map(str, case.sizes))}): steps before and after cannot be compared.",
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
        f"({percent(wire / mean if mean else 0.0)}) and waiting for the last process "
        f"{duration(waiting)}; {_relation(related)}.",
        values={
            "processes": case.size,
            "hosts": list(case.run.hosts),
            "mean_step_seconds": rounded(mean, 6),
            "exchange_seconds": rounded(wire, 6),
            "waiting_seconds": rounded(waiting, 6),
            "correlation": rounded(related, 3),
            "expected_bytes_per_step": expected_bytes(case),
            "measured_bytes_per_step": round(use.bytes.more) if use else None,
        },
        evidence=[
            "time on the wire is that of the process that waited least; what the others "
            "waited beyond that, they waited for it",
            arithmetic(case),
            *(use.lines(expected_bytes(case)) if use else [NOT_SAMPLED]),
        ],
    )


def _relation(related: float | None) -> str:
    if related is None:
        return "the two do not vary enough to compare"
    if related >= STRONG:
        return f"steps are slow when the exchange is (correlation {related:.2f})"
    if related >= WEAK:
        return f"slow steps and slow exchanges partly go together (correlation {related:.2f})"
    return f"what differs from step to step is not the exchange (correlation {related:.2f})"
