"""Which process comes later than the others, where it runs, and why."""

from dataclasses import dataclass

from unisono.diagnose.bottleneck import late_rank
from unisono.diagnose.case import Case
from unisono.diagnose.why_late import Kind, why_late


@dataclass(frozen=True)
class Lateness:
    """Which rank is late, why, and the seconds an update that it takes longer.

    `positions` is how many times as many positions it computes as the others do.
    """

    rank: int
    host: str
    kind: Kind
    seconds: float
    positions: float


def lateness_of(case: Case) -> Lateness | None:
    """Return why the late rank is late, or None if none is, or they take turns."""
    late = late_rank(case.ledger)
    why = why_late(case.ledger, late) if late is not None else None
    if late is None or why is None:
        return None
    host = next((s.host for s in case.run.last_starts if s.rank == late), "an unknown host")
    return Lateness(late, host, why.kind, why.seconds, why.positions)
