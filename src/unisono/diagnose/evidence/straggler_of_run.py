"""Which process comes later than the others, where it runs, and why."""

from dataclasses import dataclass

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.straggler import Kind, Late, late_of, why_late


@dataclass(frozen=True)
class Lateness:
    """Who is late, why, and the seconds an update that the latest takes longer.

    `positions` is how many times as many positions it computes as the others do.
    """

    who: Late
    host: str
    kind: Kind
    seconds: float
    positions: float


def lateness_of(case: Case) -> Lateness | None:
    """Return why a rank or a machine is late, or None if none is, or they take turns."""
    late = late_of(case.ledger)
    why = why_late(case.ledger, late) if late is not None else None
    if late is None or why is None:
        return None
    host = next(
        (s.host for s in case.run.last_starts if s.rank == late.rank), "an unknown host"
    )
    return Lateness(late, host, why.kind, why.seconds, why.positions)
